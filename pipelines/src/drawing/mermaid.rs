//! Mermaid, which GitHub and many editors draw from a Markdown file.

use std::fmt::Write as _;

use super::{ArrowKind, Drawing, DrawnBox, State};

/// The drawing in mermaid's language.
pub fn mermaid(drawing: &Drawing) -> String {
    let mut text = "flowchart LR\n".to_owned();
    for (idx, drawn) in drawing.boxes.iter().enumerate() {
        let measured = drawn.measured.iter().flat_map(|measured| &measured.lines);
        let notes: String =
            drawn.notes.iter().chain(measured).map(|note| format!("<br/>{}", escape(note))).collect();
        let class = match drawn.state {
            State::Right if drawn.is_busiest() => ":::busiest",
            State::Right => "",
            State::Wrong => ":::wrong",
            State::Missing => ":::missing",
        };
        let (name, kind) = (escape(&drawn.name), escape(&drawn.kind));
        let _ = writeln!(text, "  b{idx}[\"<b>{name}</b><br/><i>{kind}</i>{notes}\"]{class}");
    }
    for arrow in &drawing.arrows {
        let line = match arrow.kind {
            ArrowKind::Stream => "-->",
            ArrowKind::Side => "==>",
            ArrowKind::Hint(_) => "-.->",
        };
        let label = drawing.lines(arrow).iter().map(|line| escape(line)).collect::<Vec<_>>().join("<br/>");
        let label = if label.is_empty() { String::new() } else { format!("|\"{label}\"|") };
        let _ = writeln!(text, "  b{} {line}{label} b{}", arrow.from, arrow.to);
    }
    for (idx, _) in drawing.arrows.iter().enumerate().filter(|(_, arrow)| arrow.wrong) {
        let _ = writeln!(text, "  linkStyle {idx} stroke:#c53030,stroke-dasharray:5");
    }
    let full = drawing.arrows.iter().enumerate().filter(|(_, arrow)| arrow.was_full() && !arrow.wrong);
    for (idx, _) in full {
        let _ = writeln!(text, "  linkStyle {idx} stroke:#dd6b20,stroke-width:4px");
    }
    if drawing.boxes.iter().any(DrawnBox::is_busiest) {
        text += "  classDef busiest stroke:#c05621,stroke-width:2px,fill:#fbd38d\n";
    }
    if drawing.boxes.iter().any(|drawn| drawn.state == State::Wrong) {
        text += "  classDef wrong stroke:#c53030,stroke-width:2px\n";
    }
    if drawing.boxes.iter().any(|drawn| drawn.state == State::Missing) {
        text += "  classDef missing stroke:#c53030,stroke-dasharray:5,fill:#fff5f5\n";
    }
    text
}

fn escape(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '"' => "#quot;".to_owned(),
            '<' => "#lt;".to_owned(),
            '>' => "#gt;".to_owned(),
            '&' => "#amp;".to_owned(),
            '#' => "#35;".to_owned(),
            '`' => "#96;".to_owned(),
            c if c.is_control() => " ".to_owned(),
            c => c.to_string(),
        })
        .collect()
}
