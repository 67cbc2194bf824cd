//! `html`: the results of a search as one page with pictures.
//!
//! Invariants: the page needs no other file; a picture that cannot be shown is a neutral tile, never an error;
//! nothing in a name is taken for markup.

use std::collections::HashMap;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, Kind, Operator, OperatorSpec, Part};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};
use image::DynamicImage;
use image::codecs::jpeg::JpegEncoder;

use crate::images::decode::decode_image;
use crate::images::read_files::read_whole;
use crate::resources;
use crate::results::sink::{
    Answer, Collected, INPUTS, OUT, OrderedWriter, QUERY, RESULTS, STORE, class_of, share_writer,
};
use boxwork_stores::store::Store;

/// The longer side of the pictures.
const THUMBNAIL_PIXELS: u32 = 160;

/// Pictures that are kept for the case that they occur again: some tens of megabytes at most.
const THUMBNAILS_KEPT: usize = 4096;

/// Writes results as a page of pictures.
///
/// For each query its picture, then the objects found by rank, with name and distance. Objects of the query's class
/// (those whose last folder has the same name) get a green frame and a tick. Pictures are found under the folder
/// that the store names as its source.
///
/// # Inputs
/// `results`: distances. `query` (side): the queries.
///
/// # Outputs
/// None.
///
/// # Parameters
/// `store`: the store that was searched. `out`: the file to write, or `-` for standard output. `title`: the page's.
pub static HTML: OperatorSpec = OperatorSpec {
    parameters: &[
        STORE,
        OUT,
        Parameter::new("title", ParameterType::Text, Default::Text("Search results"), "the page's title"),
    ],
    inputs: INPUTS,
    example: "results: {kind: html, store: signatures, out: results.html}",
    share: Some(share_writer),
    ..OperatorSpec::new("html", "Writes results as a page of pictures.", Kind::Stateful, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    Ok(Box::new(Html {
        store: resources::store(bind)?,
        writer: bind.shared(),
        part: bind.part,
        title: bind.text("title").to_owned(),
        collected: Collected::default(),
        page: None,
        thumbnails: HashMap::new(),
    }))
}

struct Html {
    store: Arc<dyn Store>,
    writer: Arc<OrderedWriter>,
    part: Part,
    title: String,
    collected: Collected,
    page: Option<Page>,
    /// By file: the picture as base64, or nothing where there is none.
    thumbnails: HashMap<PathBuf, Option<String>>,
}

/// The page so far.
struct Page {
    text: String,
    answers: Vec<Answer>,
    answer_idx: usize,
    /// The object of the answer that comes next, after the query itself at 0.
    picture_idx: usize,
    pictures: u64,
    pictures_total: u64,
}

impl Operator for Html {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while let Some(envelope) = cx.take(RESULTS) {
            self.collected.add(&envelope)?;
        }
        if !cx.is_ended(RESULTS) {
            return Ok(Flow::Wait);
        }
        let Some(page) = &mut self.page else {
            let (collected, queries) = (std::mem::take(&mut self.collected), cx.side(QUERY).to_vec());
            let answers = cx.detached("disk", || collected.answers(&queries, &*self.store))??;
            self.page = Some(Page::new(answers, self.part, &self.title));
            return Ok(Flow::More);
        };
        let Some(answer) = page.answers.get(page.answer_idx) else {
            if self.part.idx + 1 == self.part.count {
                page.text.push_str("</main>\n</body>\n</html>\n");
            }
            let text = std::mem::take(&mut page.text).into_bytes();
            let (writer, part) = (&self.writer, self.part);
            cx.detached("disk", || writer.write(part, text))??;
            return Ok(Flow::Done);
        };
        // One picture a firing: to read and scale it takes its time.
        let name = match page.picture_idx {
            0 => &answer.query,
            idx => &answer.hits[idx - 1].name,
        };
        let paths = if page.picture_idx > 0 || cx.detached("disk", || self.store.find(name))??.is_some() {
            paths_of(self.store.source(), name)
        } else {
            vec![PathBuf::from(name)]
        };
        let picture = thumbnail(cx, &paths, &mut self.thumbnails)?;
        page.add(picture.as_deref());
        cx.progress(page.pictures, page.pictures_total);
        Ok(Flow::More)
    }
}

/// The paths at which an object's image may lie.
fn paths_of(source: Option<&Path>, name: &str) -> Vec<PathBuf> {
    // A name from another's store must not lead out of the folder.
    let is_below = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
    let Some(source) = source.filter(|_| is_below) else { return Vec::new() };
    // A file directly in the folder that was listed has that folder's name before its own.
    let beside = source
        .parent()
        .filter(|_| Path::new(name).components().next().map(Component::as_os_str) == source.file_name());
    std::iter::once(source).chain(beside).map(|folder| folder.join(name)).collect()
}

/// The first of the files that is an image, scaled, as base64; nothing where none is.
fn thumbnail(
    cx: &mut Context<'_>,
    paths: &[PathBuf],
    kept: &mut HashMap<PathBuf, Option<String>>,
) -> Result<Option<String>, BoxError> {
    for path in paths {
        if let Some(known) = kept.get(path) {
            if known.is_some() {
                return Ok(known.clone());
            }
            continue;
        }
        let content = cx.detached("disk", || {
            let path = path.to_str().filter(|_| fs::metadata(path).is_ok())?;
            read_whole(path).ok()
        })?;
        let picture = content.and_then(|content| encode(&content));
        if kept.len() >= THUMBNAILS_KEPT {
            kept.clear();
        }
        kept.insert(path.clone(), picture.clone());
        if picture.is_some() {
            return Ok(picture);
        }
    }
    Ok(None)
}

fn encode(content: &[u8]) -> Option<String> {
    let image = decode_image(content).ok()?;
    let image = if image.width().max(image.height()) > THUMBNAIL_PIXELS {
        DynamicImage::from(image).thumbnail(THUMBNAIL_PIXELS, THUMBNAIL_PIXELS).into_rgb8()
    } else {
        image
    };
    let mut jpeg = Vec::new();
    JpegEncoder::new_with_quality(&mut jpeg, 82).encode_image(&image).ok()?;
    Some(base64(&jpeg))
}

impl Page {
    fn new(answers: Vec<Answer>, part: Part, title: &str) -> Self {
        let mut text = String::new();
        if part.idx == 0 {
            let (title, style) = (escaped(title), include_str!("html/page.css"));
            text = format!(
                "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
                 <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
                 <title>{title}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n"
            );
        }
        let pictures_total = answers.iter().map(|answer| 1 + answer.hits.len() as u64).sum();
        Self { text, answers, answer_idx: 0, picture_idx: 0, pictures: 0, pictures_total }
    }

    /// Adds the next picture, with what stands around it.
    fn add(&mut self, picture: Option<&str>) {
        let answer = &self.answers[self.answer_idx];
        match self.picture_idx {
            0 => self.text.push_str(&opening(answer, picture)),
            idx => self.text.push_str(&item(answer, idx - 1, picture)),
        }
        self.pictures += 1;
        self.picture_idx += 1;
        if self.picture_idx > answer.hits.len() {
            self.text.push_str("</ol>\n</div>\n</section>\n");
            self.answer_idx += 1;
            self.picture_idx = 0;
        }
    }
}

fn opening(answer: &Answer, picture: Option<&str>) -> String {
    let name = escaped(&answer.query);
    let others = answer.hits.iter().filter(|hit| hit.name != answer.query);
    let (mut right, mut count) = (0, 0);
    for hit in others {
        count += 1;
        right += usize::from(is_right(answer, &hit.name));
    }
    let summary = match class_of(&answer.query) {
        _ if answer.hits.is_empty() => "Nothing found.".to_owned(),
        Some(class) => format!("{right} of {count} other images are of its class, {}.", escaped(class)),
        None => format!("{count} other images."),
    };
    let picture = tile(picture, &answer.query);
    format!(
        "<section>\n<h2>{name}</h2>\n<p class=\"summary\">{summary}</p>\n<div class=\"answer\">\n<div class=\"query\">\
         <figure><div class=\"picture\">{picture}</div><figcaption><b>Query</b></figcaption></figure></div>\n<ol>\n"
    )
}

fn item(answer: &Answer, idx: usize, picture: Option<&str>) -> String {
    let hit = &answer.hits[idx];
    let (class, mark) = if hit.name == answer.query {
        ("", "<span class=\"mark\">itself</span>")
    } else if is_right(answer, &hit.name) {
        (" class=\"right\"", "<span class=\"mark\" title=\"same class as the query\">\u{2713}</span>")
    } else {
        ("", "")
    };
    let (rank, name, picture) = (hit.rank, escaped(&hit.name), tile(picture, &hit.name));
    format!(
        "<li{class}><figure><div class=\"picture\">{picture}{mark}</div><figcaption><b>{rank}</b>\
         <span class=\"distance\">{:.4}</span><span class=\"name\">{name}</span></figcaption></figure></li>\n",
        hit.distance
    )
}

fn tile(picture: Option<&str>, name: &str) -> String {
    match picture {
        Some(picture) => format!(
            "<img src=\"data:image/jpeg;base64,{picture}\" alt=\"{}\" loading=\"lazy\">",
            escaped(name)
        ),
        None => "<span class=\"missing\">no picture</span>".to_owned(),
    }
}

fn is_right(answer: &Answer, name: &str) -> bool {
    class_of(&answer.query).is_some_and(|class| class_of(name) == Some(class))
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

/// RFC 4648, section 4.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let bits =
            three.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for place in 0..4 {
            let sextet = (bits >> (18 - 6 * place)) as usize & 63;
            text.push(if place <= three.len() { char::from(ALPHABET[sextet]) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use boxwork_runtime::harness::Harness;
    use boxwork_runtime::operator::Resource;
    use boxwork_runtime::parameter::Value;

    use super::*;
    use boxwork_stores::signature_store::StoreInfo;
    use boxwork_stores::testing;

    #[test]
    fn base64_of_the_standards_examples() {
        let examples = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ];
        for (plain, encoded) in examples {
            assert_eq!(base64(plain.as_bytes()), encoded);
        }
        assert_eq!(base64(&[0xfb, 0xff, 0xfe]), "+//+");
    }

    #[test]
    fn a_page_with_pictures_marks_and_tiles() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("photos");
        for name in ["photos/cats/1.png", "photos/cats/2.png", "photos/9.png", "other/cat.png"] {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            image::RgbImage::from_pixel(400, 100, image::Rgb([9, 99, 200])).save(path).unwrap();
        }
        let objects = [("cats/1.png", 1), ("cats/2.png", 2), ("dogs/<b>.png", 3), ("photos/9.png", 4)];
        let info = StoreInfo { source: Some(source), parameters: None };
        let store: Resource = testing::shared_store(&testing::store_of(folder.path(), &objects, &info));
        let out = folder.path().join("page.html");
        let given = [("store", "s"), ("out", out.to_str().unwrap()), ("title", "Cats & dogs")]
            .map(|(name, value)| (name, Value::Text(value.to_owned())));
        let mut harness = Harness::with_resources(&HTML, given, [("s", store)]).unwrap();
        let file = folder.path().join("other/cat.png");
        harness.give(QUERY, testing::queries(&[("cats/1.png", 1), (file.to_str().unwrap(), 2), ("x", 3)]));
        harness.give(
            RESULTS,
            testing::distances(&[(0, 0, 0.0), (0, 1, 0.25), (0, 2, 0.5), (0, 3, 0.75), (1, 2, 0.5)]),
        );
        harness.end(RESULTS);
        harness.run().unwrap();
        assert!(harness.is_done());
        assert_eq!(harness.progress(), (8, 8));
        let page = fs::read_to_string(out).unwrap();
        assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
        assert!(page.contains("<h1>Cats &amp; dogs</h1>"));
        assert!(page.contains("1 of 3 other images are of its class, cats."), "{page}");
        assert_eq!(page.matches("data:image/jpeg;base64,/9j/").count(), 5);
        assert_eq!(page.matches("<li class=\"right\">").count(), 1);
        assert_eq!(page.matches("\u{2713}").count(), 1);
        assert_eq!(page.matches(">itself<").count(), 1);
        // The dog twice, and the query that is nowhere.
        assert_eq!(page.matches("no picture").count(), 3);
        assert!(page.contains("dogs/&lt;b&gt;.png") && !page.contains("<b>.png"));
        assert!(page.contains("Nothing found."));
    }

    #[test]
    fn names_do_not_lead_out_of_the_source() {
        let source = Some(Path::new("/photos/cats"));
        assert_eq!(paths_of(source, "a/1.png"), [Path::new("/photos/cats/a/1.png")]);
        assert_eq!(
            paths_of(source, "cats/1.png"),
            [Path::new("/photos/cats/cats/1.png"), Path::new("/photos/cats/1.png")]
        );
        assert!(paths_of(source, "../secret.png").is_empty());
        assert!(paths_of(source, "/etc/secret.png").is_empty());
        assert!(paths_of(None, "a/1.png").is_empty());
    }
}
