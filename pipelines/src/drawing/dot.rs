//! Graphviz's dot.

use std::fmt::Write as _;

use super::{ArrowKind, Drawing, State};

/// The drawing in dot.
pub fn dot(drawing: &Drawing) -> String {
    let mut text = format!("digraph {} {{\n", quoted(&drawing.title));
    text += "  rankdir=LR;\n  node [shape=box, style=rounded, fontname=\"sans-serif\", fontsize=11];\n";
    text += "  edge [fontname=\"sans-serif\", fontsize=9];\n";
    for (idx, drawn) in drawing.boxes.iter().enumerate() {
        let mut label = format!("{}\n{}", drawn.name, drawn.kind);
        for note in &drawn.notes {
            let _ = write!(label, "\n{note}");
        }
        for line in drawn.measured.iter().flat_map(|measured| &measured.lines) {
            let _ = write!(label, "\n{line}");
        }
        let style = match drawn.state {
            State::Right if drawn.is_busiest() => {
                ", color=\"#c05621\", penwidth=2, style=\"rounded,filled\", fillcolor=\"#fbd38d\""
            }
            State::Right => "",
            State::Wrong => ", color=\"#c53030\", penwidth=2",
            State::Missing => ", color=\"#c53030\", style=\"rounded,dashed\"",
        };
        let _ = writeln!(text, "  b{idx} [label={}{style}];", quoted(&label));
    }
    for arrow in &drawing.arrows {
        let mut attributes = vec![format!("label={}", quoted(&drawing.lines(arrow).join("\n")))];
        match arrow.kind {
            ArrowKind::Stream => {}
            ArrowKind::Side => attributes.push("penwidth=2".to_owned()),
            ArrowKind::Hint(_) => {
                attributes.push("style=dashed, constraint=false, color=\"#805ad5\"".to_owned())
            }
        }
        if arrow.was_full() && !arrow.wrong {
            attributes.push("penwidth=3, color=\"#dd6b20\"".to_owned());
        }
        if arrow.wrong {
            attributes.push("style=dashed, color=\"#c53030\"".to_owned());
        }
        let _ = writeln!(text, "  b{} -> b{} [{}];", arrow.from, arrow.to, attributes.join(", "));
    }
    text + "}\n"
}

fn quoted(text: &str) -> String {
    let mut quoted = "\"".to_owned();
    for c in text.chars() {
        match c {
            '"' => quoted += "\\\"",
            '\\' => quoted += "\\\\",
            '\n' => quoted += "\\n",
            c if c.is_control() => quoted.push(' '),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}
