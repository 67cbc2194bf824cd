//! `html`: the results of a search as one page with pictures.
//!
//! Invariants: the page needs no other file; a picture that cannot be shown is a neutral tile, never an error.

pub(crate) mod markup;

use std::collections::HashMap;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, Kind, Operator, OperatorSpec, Part};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};
use image::DynamicImage;
use image::codecs::jpeg::JpegEncoder;

use crate::columns;
use crate::images::decode::decode_image;
use crate::images::read_files::read_whole;
use crate::resources;
use crate::results::html::markup::Picture;
use crate::results::looked::{CANDIDATES, EXPANSION, LISTS, Looked, PROBES, REFINE};
use crate::results::rows::RowSink;
use crate::results::sink::{
    Answer, Collected, INPUTS, K, OUT, OrderedWriter, QUERY, RANGE, RESULTS, SPACE, STORE, TRUTH, exact_text,
    share_writer,
};
use boxwork_stores::space::SharedSpace;
use boxwork_stores::spaces;
use boxwork_stores::store::Store;

/// The longer side of the pictures.
const THUMBNAIL_PIXELS: u32 = 160;

/// Pictures that are kept for the case that they occur again: some tens of megabytes at most.
const THUMBNAILS_KEPT: usize = 4096;

/// Writes results as a page of pictures.
///
/// The settings of the search, and with several queries a table of contents. For each query its picture, then the
/// objects found by rank, with name and distance. Objects of the query's class (those whose last folder has the same
/// name) get a green frame and a tick, if the store's objects lie in several folders. Pictures are found under the folder
/// that the store names as its source, and lead to their files.
///
/// # Inputs
/// `results`: distances. `query` (side): the queries.
///
/// # Outputs
/// None. A request's caller may take the results as rows (`Submission::outputs`); nothing is written then.
///
/// # Parameters
/// `store`: the store that was searched. `out`: the file to write, or `-` for standard output. `space`, `k`, `range`: the
/// settings of the search, to show. `probes`, `refine`, `lists`, `candidates`, `expansion`: what an approximate search looked at.
/// `truth`: of no effect here. `title`: the page's.
pub static HTML: OperatorSpec = OperatorSpec {
    parameters: &[
        STORE,
        OUT,
        SPACE,
        K,
        RANGE,
        PROBES,
        REFINE,
        LISTS,
        CANDIDATES,
        EXPANSION,
        TRUTH,
        Parameter::new("title", ParameterType::Text, Default::Text("Search results"), "the page's title"),
    ],
    inputs: INPUTS,
    gives: Some(columns::answers),
    example: "results: {kind: html, store: signatures, out: results.html, space: space, k: 10}",
    share: Some(share_writer),
    ..OperatorSpec::new("html", "Writes results as a page of pictures.", Kind::Stateful, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    if let Some(rows) = RowSink::make(bind)? {
        return Ok(rows);
    }
    let store = resources::store(bind)?;
    let settings = settings(bind, &*store)?;
    Ok(Box::new(Html {
        store,
        writer: bind.shared(),
        part: bind.part,
        title: bind.text("title").to_owned(),
        settings,
        collected: Collected::default(),
        page: None,
        thumbnails: HashMap::new(),
    }))
}

/// The settings of the search by name, as far as they are given.
fn settings(bind: &Bind<'_>, store: &dyn Store) -> Result<Vec<(&'static str, String)>, BoxError> {
    let objects = format!("{} {}", store.objects_count(), store.kind());
    let mut settings = vec![("Store", store.path().display().to_string()), ("Objects", objects)];
    let space = bind.get_resource::<SharedSpace>("space")?;
    settings.extend(space.map(|space| ("Distance", spaces::in_words(&*space.0))));
    settings.extend(bind.get_integer("k").map(|k| ("k", k.to_string())));
    settings.extend(bind.get_number("range").map(|range| ("Range", exact_text(range))));
    settings.extend(Looked::of(bind)?.map(|looked| ("Approximate", looked.in_words())));
    Ok(settings)
}

struct Html {
    store: Arc<dyn Store>,
    writer: Arc<OrderedWriter>,
    part: Part,
    title: String,
    settings: Vec<(&'static str, String)>,
    collected: Collected,
    page: Option<Page>,
    /// By file: the picture, or nothing where there is none.
    thumbnails: HashMap<PathBuf, Option<Picture>>,
}

/// The page so far.
struct Page {
    text: String,
    answers: Vec<Answer>,
    has_classes: bool,
    /// The place of the request in its run.
    part: usize,
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
            let (answers, has_classes) = cx.detached("disk", || {
                let answers = collected.answers(&queries, &*self.store)?;
                Ok::<_, BoxError>((answers, markup::has_classes(&*self.store)))
            })??;
            let head = (self.part.idx == 0).then(|| markup::head(&self.title, &self.settings));
            self.page = Some(Page::new(answers, self.part, head, has_classes));
            return Ok(Flow::More);
        };
        let Some(answer) = page.answers.get(page.answer_idx) else {
            if self.part.idx + 1 == self.part.count {
                page.text.push_str(markup::FOOT);
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
        page.add(picture.as_ref());
        cx.progress(page.pictures, page.pictures_total);
        Ok(Flow::More)
    }
}

/// The paths at which an object's image may lie.
pub(crate) fn paths_of(source: Option<&Path>, name: &str) -> Vec<PathBuf> {
    // A name from another's store must not lead out of the folder.
    let is_below = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
    let Some(source) = source.filter(|_| is_below) else { return Vec::new() };
    // A file directly in the folder that was listed has that folder's name before its own.
    let beside = source
        .parent()
        .filter(|_| Path::new(name).components().next().map(Component::as_os_str) == source.file_name());
    std::iter::once(source).chain(beside).map(|folder| folder.join(name)).collect()
}

/// The first of the files that is an image, scaled; nothing where none is.
pub(crate) fn thumbnail(
    cx: &mut Context<'_>,
    paths: &[PathBuf],
    kept: &mut HashMap<PathBuf, Option<Picture>>,
) -> Result<Option<Picture>, BoxError> {
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
        let picture = picture.map(|jpeg| Picture { jpeg, address: markup::address_of(path) });
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
    /// The page of one of a run's requests, of which the first begins it.
    fn new(answers: Vec<Answer>, part: Part, head: Option<String>, has_classes: bool) -> Self {
        let mut text = head.unwrap_or_default();
        if part.count > 1 || answers.len() > 1 {
            text.push_str(&markup::contents(&answers, part.idx));
        }
        let pictures_total = answers.iter().map(|answer| 1 + answer.hits.len() as u64).sum();
        Self {
            text,
            answers,
            has_classes,
            part: part.idx,
            answer_idx: 0,
            picture_idx: 0,
            pictures: 0,
            pictures_total,
        }
    }

    /// Adds the next picture, with what stands around it.
    fn add(&mut self, picture: Option<&Picture>) {
        let answer = &self.answers[self.answer_idx];
        let at = (self.part, self.answer_idx);
        self.text.push_str(&match self.picture_idx {
            0 => markup::opening(answer, at, self.has_classes, picture),
            idx => markup::item(answer, &answer.hits[idx - 1], self.has_classes, picture),
        });
        self.pictures += 1;
        self.picture_idx += 1;
        if self.picture_idx > answer.hits.len() {
            self.text.push_str(markup::CLOSING);
            self.answer_idx += 1;
            self.picture_idx = 0;
        }
    }
}

/// RFC 4648, section 4.
pub(crate) fn base64(bytes: &[u8]) -> String {
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
        let info = StoreInfo { source: Some(source), ..StoreInfo::default() };
        let space = testing::space(testing::store_of(folder.path(), &objects, &info));
        let resources: [(&str, Resource); 2] =
            [("s", testing::shared_store(space.store())), ("space", testing::shared_space(&space))];
        let out = folder.path().join("page.html");
        let given =
            [("store", "s"), ("space", "space"), ("out", out.to_str().unwrap()), ("title", "Cats & dogs")]
                .map(|(name, value)| (name, Value::Text(value.to_owned())));
        let given = given.into_iter().chain([("k", Value::Integer(4)), ("range", Value::Number(0.75))]);
        let mut harness = Harness::with_resources(&HTML, given, resources).unwrap();
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
        assert!(page.contains("dogs/<wbr>&lt;b&gt;.png") && !page.contains("<b>.png"));
        assert!(page.contains("Nothing found."));
        structure(&page, &folder.path().join("photos"));
        let measure = spaces::in_words(&*testing::any_space(&space));
        for (name, value) in
            [("Objects", "4 signatures"), ("Distance", &*measure), ("k", "4"), ("Range", "0.75")]
        {
            assert!(page.contains(&format!("<dt>{name}</dt><dd>{value}</dd>")), "{name} {value}: {page}");
        }
    }

    /// Each query has an entry of the contents that leads to it; each picture stands before its own caption and leads to
    /// its file; the style gives every picture its tile's height.
    fn structure(page: &str, photos: &Path) {
        let entries: Vec<&str> =
            page.split("<a href=\"#").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
        assert_eq!(entries.len(), 3);
        for entry in entries {
            assert_eq!(page.matches(&format!("<section id=\"{entry}\">")).count(), 1, "{entry}");
        }
        assert_eq!(page.matches("<a href=\"file:///").count(), 5);
        let address = markup::address_of(&photos.join("cats/2.png"));
        assert_eq!(page.matches(&format!("<a href=\"{address}\"><img ")).count(), 1, "{address}");
        for figure in page.split("<figure>").skip(1) {
            let (picture, caption) =
                figure.split_once("</div><figcaption><b>").expect("a picture, then its caption");
            assert!(
                picture.starts_with("<div class=\"picture\">") && caption.contains("</figcaption></figure>")
            );
        }
        let rule =
            page.split_once(".picture img {").expect("a rule for pictures").1.split('}').next().unwrap();
        assert!(rule.contains("height: 100%") && rule.contains("object-fit: scale-down"), "{rule}");
    }

    #[test]
    fn in_a_folder_without_classes_no_answer_is_ticked() {
        let folder = tempfile::tempdir().unwrap();
        let objects = [("flat/1.png", 1), ("flat/2.png", 2), ("flat/3.png", 3)];
        let store: Resource =
            testing::shared_store(&testing::store_of(folder.path(), &objects, &StoreInfo::default()));
        let out = folder.path().join("page.html");
        let given = [("store", "s"), ("out", out.to_str().unwrap())]
            .map(|(name, value)| (name, Value::Text(value.to_owned())));
        let mut harness = Harness::with_resources(&HTML, given, [("s", store)]).unwrap();
        harness.give(QUERY, testing::queries(&[("flat/1.png", 1)]));
        harness.give(RESULTS, testing::distances(&[(0, 0, 0.0), (0, 1, 0.25), (0, 2, 0.5)]));
        harness.end(RESULTS);
        harness.run().unwrap();
        let page = fs::read_to_string(out).unwrap();
        assert!(
            page.contains(">itself<") && page.contains("<p class=\"summary\">2 other images.</p>"),
            "{page}"
        );
        assert!(!page.contains('\u{2713}') && !page.contains("<li class=\"right\">"));
        assert!(!page.contains("<nav"), "one query needs no contents");
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
