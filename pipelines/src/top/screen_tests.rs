//! The screen at many sizes, drawn into a terminal of memory.

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::super::reading::Reading;
use super::super::table::{Subject, cells};
use super::super::view::{Key, View};
use super::super::{Figures, text};
use super::draw;

const BOXES: [(&str, &str); 4] = [
    ("distance_of_a_long_name", "signature_distance"),
    ("lazy", "scan"),
    ("wide東京", "top_k"),
    ("es\u{1b}[2Jcape", "html"),
];

fn page(uptime: f64, tasks: u64, rest: f64, busy: f64, rows: u64) -> Reading {
    let mut page = format!(
        "# TYPE boxwork_uptime_seconds gauge\nboxwork_uptime_seconds {uptime}\nboxwork_requests 1\n\
         boxwork_threads 3\nboxwork_queued_tasks{{node=\"0\"}} 4\n\
         boxwork_slot_rest_seconds_total{{slot=\"0\",node=\"0\"}} {rest}\n\
         boxwork_slot_rest_seconds_total{{slot=\"1\",node=\"0\"}} {uptime}\n\
         boxwork_tasks_total{{slot=\"0\",node=\"0\"}} {tasks}\nboxwork_tasks_total{{slot=\"1\",node=\"0\"}} 0\n\
         boxwork_steals_total{{slot=\"0\",distance=\"shared_cache\"}} {tasks}\n\
         boxwork_class_limit{{class=\"disk\"}} 4\nboxwork_class_in_flight{{class=\"disk\"}} 2\n\
         boxwork_class_limit{{class=\"net\"}} 8\nboxwork_class_auto{{class=\"net\"}} 1\n"
    );
    for (nth, (name, kind)) in BOXES.into_iter().enumerate() {
        for request in ["1", "2"] {
            let labels = format!("{{request=\"{request}\",box=\"{name}\",operator=\"{kind}\"}}");
            let part = busy / 2.0 / (nth + 1) as f64;
            page += &format!(
                "boxwork_box_copies{labels} 3\nboxwork_box_firings_total{labels} {tasks}\n\
                 boxwork_box_busy_seconds_total{labels} {part}\nboxwork_box_output_rows_total{labels} {rows}\n"
            );
        }
        page += &format!(
            "boxwork_edge_envelopes_total{{request=\"1\",from=\"{name}.rows\",to=\"sink.in\"}} {tasks}\n\
             boxwork_edge_rows_total{{request=\"1\",from=\"{name}.rows\",to=\"sink.in\"}} {rows}\n\
             boxwork_edge_envelopes{{request=\"1\",from=\"{name}.rows\",to=\"sink.in\"}} {nth}\n"
        );
    }
    Reading::new(&page).expect("a page")
}

/// A view after readings of a run whose rate of rows rises.
fn view() -> View {
    let mut view = View::new("127.0.0.1:9184".to_owned());
    let mut rows = 0;
    for nth in 0..8_u64 {
        rows += nth * 15_000;
        let at = 10.0 + 2.0 * nth as f64;
        view.take(Ok(page(at, 100 + 5_000 * nth, 5.0 + 0.5 * nth as f64, 1.0 + 1.5 * nth as f64, rows)));
    }
    view
}

/// The lines of a screen of this size.
fn screen(view: &View, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal of memory");
    terminal.draw(|frame| draw(view, frame)).expect("drawn");
    let buffer = terminal.backend().buffer();
    let line = |y: u16| {
        let mut line = String::new();
        let mut x = 0;
        while x < width {
            let symbol = buffer[(x, y)].symbol();
            line += symbol;
            // A wide character takes two cells.
            x += cells(symbol).max(1) as u16;
        }
        line.trim_end().to_owned()
    };
    (0..height).map(line).collect()
}

fn press(view: &mut View, code: KeyCode) -> bool {
    Key::of(KeyEvent::new(code, KeyModifiers::NONE)).is_none_or(|key| view.press(key))
}

fn at(lines: &[String], text: &str) -> usize {
    lines.iter().position(|line| line.contains(text)).unwrap_or_else(|| panic!("{text} is not in {lines:#?}"))
}

#[test]
fn important_columns_stay_at_each_width() {
    let mut view = view();
    let kept: [&[(u16, &str)]; 4] = [
        &[
            (20, "box"),
            (20, "busy"),
            (29, "rows out/s"),
            (60, "rows in/s"),
            (100, "firings/s"),
            (120, "copies"),
        ],
        &[(20, "edge"), (20, "rows/s"), (29, "waiting"), (60, "full/s"), (120, "waiting bytes")],
        &[(20, "slot"), (20, "busy"), (29, "tasks/s"), (60, "other node"), (150, "hand-overs/s")],
        &[(20, "blockin"), (20, "in flight"), (37, "operations/s"), (60, "waiting")],
    ];
    for (subject, kept) in Subject::ALL.into_iter().zip(kept) {
        assert_eq!(view.subject, subject);
        for width in 20..=300 {
            let lines = screen(&view, width, 12);
            // State, history, titles.
            let titles = &lines[2];
            for (from, title) in kept {
                assert!(width < *from || titles.contains(title), "{title} at {width}: {titles}");
            }
            let first = &lines[3];
            assert!(cells(titles) <= usize::from(width) && cells(first) <= usize::from(width));
        }
        press(&mut view, KeyCode::Tab);
    }
}

#[test]
fn a_screen_of_any_size_shows_the_selected_row() {
    let mut view = view();
    press(&mut view, KeyCode::End);
    for (width, height) in [(20, 3), (20, 4), (33, 5), (80, 8), (300, 60)] {
        let lines = screen(&view, width, height);
        assert!(lines[0].starts_with("boxes"), "{lines:#?}");
        assert!(
            lines.iter().any(|line| line.starts_with("es\u{fffd}[2J")),
            "{width} by {height}: {lines:#?}"
        );
        assert!(!lines.concat().contains('\u{1b}'), "{lines:#?}");
    }
    // A window may shrink to nothing; nothing panics.
    for (width, height) in [(0, 0), (1, 1), (2, 9), (9, 2), (19, 3)] {
        screen(&view, width, height);
        press(&mut view, KeyCode::Char('?'));
        screen(&view, width, height);
        press(&mut view, KeyCode::Char('?'));
    }
}

#[test]
fn rates_and_their_history_are_shown() {
    let mut view = view();
    let lines = screen(&view, 120, 20);
    assert!(
        lines[0].starts_with("boxes   busy 38 %   up 24 s   requests 1   slots 2   queued 4   threads 3")
    );
    assert!(lines[1].contains("105 k rows/s ▂▃▄▅▆▇█"), "{}", lines[1]);
    let row: Vec<&str> = lines[3].split_whitespace().collect();
    assert_eq!(row[..5], ["distance_of_a_long_name", "38", "%", "105", "k"], "two requests are one box");
    assert!(at(&lines, "distance_of") < at(&lines, "lazy"), "the busiest box leads");
    assert!(lines[19].starts_with("q quit   ? help"), "{lines:#?}");

    press(&mut view, KeyCode::Char('p'));
    view.take(Ok(page(30.0, 1, 1.0, 1.0, 1)));
    assert!(screen(&view, 120, 20)[0].starts_with("boxes   paused   busy 38 %"));
    view.take(Err("refused".to_owned()));
    assert_eq!(screen(&view, 120, 20)[1], "no answer: refused; trying again");
    let low = screen(&view, 60, 3);
    assert!(low[0].starts_with("no answer") && low[2].starts_with("distance"), "a row is left: {low:#?}");
    view.take(Ok(page(40.0, 1, 1.0, 1.0, 1)));
    assert!(!screen(&view, 120, 20).concat().contains("no answer"));
}

#[test]
fn a_new_run_at_the_address_is_read_from_its_beginning() {
    let figures = Figures::between(&page(10.0, 100, 5.0, 1.0, 0), &page(4.0, 8, 0.0, 4.0, 4));
    let of_box = figures.boxes.iter().find(|of_box| of_box.operator == "signature_distance").expect("a box");
    assert_eq!(
        (of_box.busy, of_box.firings_per_s, of_box.rows_out_per_s, of_box.copies),
        (0.5, 4.0, 2.0, 3.0)
    );
}

#[test]
fn keys_change_the_view() {
    let mut view = view();
    let selected = |view: &View| view.selected(&view.table());
    assert!(press(&mut view, KeyCode::Down) && press(&mut view, KeyCode::Char('j')));
    assert_eq!(selected(&view), 2);
    let key = view.table().rows[2].key.clone();
    press(&mut view, KeyCode::Char('1'));
    assert!(view.table().rows[0].key.starts_with("distance"), "names are sorted from A");
    assert_eq!(view.table().rows[selected(&view)].key, key, "the selection follows its row");
    press(&mut view, KeyCode::Char('1'));
    assert!(view.table().rows[0].key.starts_with("wide"), "the second press reverses");
    press(&mut view, KeyCode::Char('s'));
    assert!((view.sort().column, view.sort().descends) == (1, true));
    assert!(screen(&view, 60, 9)[2].contains("busy▾"));
    press(&mut view, KeyCode::PageDown);
    assert_eq!(selected(&view), 3);
    press(&mut view, KeyCode::Up);
    press(&mut view, KeyCode::Char('k'));
    press(&mut view, KeyCode::Char('9'));
    assert_eq!(view.sort().column, 8);
    press(&mut view, KeyCode::BackTab);
    assert_eq!(view.subject, Subject::Classes);
    press(&mut view, KeyCode::Char('9'));
    assert_eq!(view.sort().column, 0, "there is no such column");
    press(&mut view, KeyCode::Char('?'));
    assert!(screen(&view, 60, 20).concat().contains("this help"));
    assert!(press(&mut view, KeyCode::Esc) && !view.help, "Esc closes the help first");
    assert!(!press(&mut view, KeyCode::Esc) && !press(&mut view, KeyCode::Char('q')));
    let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(Key::of(interrupt), Some(Key::Quit), "raw terminals send no signal");
    assert!(press(&mut view, KeyCode::Char('x')), "other keys do nothing");
}

#[test]
fn a_pipe_gets_all_columns_and_counts_what_is_left_out() {
    let figures = Figures::between(&page(10.0, 100, 5.0, 1.0, 0), &page(12.0, 5_100, 5.5, 2.5, 30_000));
    let shown = text(&figures, 300);
    assert!(shown.starts_with("up 12.0 s   requests 1   threads 3   queued tasks 4\n"), "{shown}");
    for expected in ["shared cache", "firings/s", "lazy.rows -> sink.in", "blocking class", "auto 8"] {
        assert!(shown.contains(expected), "{expected} is not in {shown}");
    }
    assert!(!shown.contains('\u{1b}'));
    assert!(text(&figures, 60).lines().all(|line| cells(line) <= 60));
    let many: String = (0..40).map(|slot| format!("boxwork_tasks_total{{slot=\"{slot}\"}} 1\n")).collect();
    let many = Reading::new(&format!("boxwork_uptime_seconds 1\n{many}")).expect("a page");
    let shown = text(&Figures::between(&Reading::default(), &many), 80);
    assert!(shown.contains("... and 24 more") && shown.contains("no request is under way"), "{shown}");
}
