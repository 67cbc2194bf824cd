//! `before_after`: noisy pictures and their results on one page, the one over the other.
//!
//! Invariants: the page needs no other file; no text from outside is taken for markup.

use std::sync::Arc;

use boxwork_kernels::denoise::{Picture, Samples};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, In, Kind, Operator, OperatorSpec, Part};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};
use image::ImageFormat;

use crate::columns;
use crate::pictures::encode::encoded;
use crate::pictures::row::Row;
use crate::results::html::base64;
use crate::results::html::markup::{breakable, escaped, head};
use crate::results::sink::{OUT, OrderedWriter, share_writer};

const NOISY: In = In::stream(0, "noisy", columns::whole_pictures, "the pictures before");
const DENOISED: In =
    In::stream(1, "denoised", columns::whole_pictures, "the same pictures after, in the same order");

/// The quality of the pictures on the page.
const QUALITY: u8 = 92;

/// Writes a page on which each picture is shown before and after, with a handle that moves the border between the two.
///
/// The page shows the middle of a large picture, pixel by pixel. Transparency is not shown.
///
/// # Inputs
/// `noisy`, `denoised`: the same pictures in the same order.
///
/// # Outputs
/// None.
///
/// # Parameters
/// `out`: the file to write, or `-` for standard output. `most`: the most pictures on the page; a note counts the others.
/// `side`: the longest side that is shown.
pub static BEFORE_AFTER: OperatorSpec = OperatorSpec {
    parameters: &[
        OUT,
        Parameter::new(
            "most",
            ParameterType::Integer { minimum: 1, maximum: 10_000 },
            Default::Integer(100),
            "the most pictures that the page shows",
        )
        .unit("pictures"),
        Parameter::new(
            "side",
            ParameterType::Integer { minimum: 16, maximum: 4096 },
            Default::Integer(512),
            "the longest side that is shown of a picture, from its middle",
        )
        .unit("pixels"),
    ],
    inputs: &[NOISY, DENOISED],
    example: "page: {kind: before_after, out: page.html}",
    share: Some(share_writer),
    ..OperatorSpec::new(
        "before_after",
        "Writes a page that shows pictures before and after.",
        Kind::Stateful,
        make,
    )
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    Ok(Box::new(BeforeAfter {
        writer: bind.shared(),
        part: bind.part,
        most: bind.count("most"),
        side: bind.count("side"),
        waiting: [None, None],
        figures: Vec::new(),
        seen: 0,
    }))
}

struct BeforeAfter {
    writer: Arc<OrderedWriter>,
    part: Part,
    most: usize,
    side: usize,
    /// The next picture of each input.
    waiting: [Option<Envelope>; 2],
    figures: Vec<String>,
    seen: usize,
}

impl Operator for BeforeAfter {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        loop {
            if cx.is_cancelled() {
                return Ok(Flow::Done);
            }
            for (waiting, input) in self.waiting.iter_mut().zip([NOISY, DENOISED]) {
                if waiting.is_none() {
                    *waiting = cx.take(input);
                }
            }
            if let [Some(noisy), Some(denoised)] = &self.waiting {
                self.seen += 1;
                if self.figures.len() < self.most {
                    self.figures.push(figure(Row::read(noisy, 0)?, Row::read(denoised, 0)?, self.side)?);
                }
                self.waiting = [None, None];
                continue;
            }
            if !cx.is_ended(NOISY) || !cx.is_ended(DENOISED) {
                return Ok(Flow::Wait);
            }
            break;
        }
        if self.seen > self.most {
            let left = self.seen - self.most;
            cx.note(format!(
                "the page shows {} pictures and leaves out {left}: raise `most` for more",
                self.most
            ));
        }
        let (text, writer, part) = (page(&self.figures, self.seen), &self.writer, self.part);
        cx.detached("disk", || writer.write(part, text.into_bytes()))??;
        Ok(Flow::Done)
    }
}

/// The page of these figures.
fn page(figures: &[String], seen: usize) -> String {
    let counted =
        if figures.len() == seen { format!("{seen}") } else { format!("{} of {seen}", figures.len()) };
    let style = include_str!("before_after/page.css");
    // One handler for all handles. Without scripts each picture shows half of each.
    let script = "document.addEventListener('input', event => \
                  event.target.parentElement.style.setProperty('--at', event.target.value + '%'));";
    let head = head("Before and after", &[("Pictures", counted)]);
    let figures = figures.concat();
    format!(
        "{head}<style>\n{style}</style>\n<div class=\"pairs\">\n{figures}</div>\n</main>\n<script>{script}</script>\n</body>\n</html>\n"
    )
}

fn figure(noisy: Row, denoised: Row, side: usize) -> Result<String, BoxError> {
    let (before, after) = (jpeg(&noisy.picture, side)?, jpeg(&denoised.picture, side)?);
    let deviation = match denoised.sigma {
        sigma if sigma > 0.0 => format!("noise of {sigma:.1} grey levels"),
        _ => "no noise was found".to_owned(),
    };
    let (name, caption) = (escaped(&noisy.name), breakable(&noisy.name));
    let (width, height) = (noisy.picture.width().min(side), noisy.picture.height().min(side));
    let image = |content: &str, when: &str| {
        format!(
            "<img src=\"data:image/jpeg;base64,{content}\" width=\"{width}\" height=\"{height}\" loading=\"lazy\" \
             alt=\"{name} {when}\">"
        )
    };
    Ok(format!(
        "<figure class=\"pair\"><div class=\"views\">{}{}<span class=\"label before\">before</span><span class=\"label \
         after\">after</span><input type=\"range\" min=\"0\" max=\"100\" value=\"50\" aria-label=\"Border between before \
         and after: {name}\"></div><figcaption><b>{caption}</b><span class=\"name\">{deviation}</span></figcaption>\
         </figure>\n",
        image(&before, "before"),
        image(&after, "after"),
    ))
}

/// The middle of a picture as JPEG in base64.
fn jpeg(picture: &Picture, side: usize) -> Result<String, BoxError> {
    let (width, height) = (picture.width().min(side), picture.height().min(side));
    let (left, top) = ((picture.width() - width) / 2, (picture.height() - height) / 2);
    let (channels, colours) = (picture.channels(), picture.colours());
    let mut bytes = Vec::with_capacity(width * height * colours);
    for y in top..top + height {
        for x in left..left + width {
            let at = (y * picture.width() + x) * channels;
            bytes.extend(
                (at..at + colours).map(|idx| picture.samples().level(idx).clamp(0.0, 255.0).round() as u8),
            );
        }
    }
    let middle = Picture::new(width, height, colours, Samples::Bytes(bytes))?;
    Ok(base64(&encoded(middle, ImageFormat::Jpeg, QUALITY)?))
}

#[cfg(test)]
mod tests {
    use boxwork_runtime::harness::Harness;
    use boxwork_runtime::parameter::Value;

    use super::*;

    #[test]
    fn the_page_shows_each_picture_twice_and_escapes_names() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("page.html");
        let settings = [("out", Value::Text(out.to_str().unwrap().into())), ("most", Value::Integer(2))];
        let mut harness = Harness::new(&BEFORE_AFTER, settings).unwrap();
        for (name, sigma) in [("a<b>\".png", 12.5), ("c.png", 0.0), ("d.png", 1.0)] {
            let picture = Picture::new(40, 30, 3, Samples::Bytes(vec![77; 3600])).unwrap();
            let row = Row { name: name.into(), picture, sigma };
            harness.give(NOISY, row.clone().envelope().unwrap());
            harness.give(DENOISED, row.envelope().unwrap());
        }
        harness.end(NOISY);
        harness.end(DENOISED);
        harness.run().unwrap();
        assert!(harness.is_done());
        let page = std::fs::read_to_string(out).unwrap();
        assert_eq!(page.matches("data:image/jpeg;base64,/9j/").count(), 4);
        assert!(page.contains("noise of 12.5 grey levels") && page.contains("no noise was found"));
        assert!(page.contains("2 of 3") && !page.contains("a<b>"), "names are text");
        assert!(harness.notes()[0].contains("leaves out 1"), "{:?}", harness.notes());
    }
}
