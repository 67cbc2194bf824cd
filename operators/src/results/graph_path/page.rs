//! The page of a path: the pictures of its objects in their order, with the length of each step.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use boxwork_runtime::operator::{BoxError, Context};
use boxwork_stores::store::Store;

use super::{Step, largest};
use crate::results::html::markup::{self, FOOT};
use crate::results::html::{paths_of, thumbnail};
use crate::results::sink::exact_text;

/// A page to which the objects of a path are added one by one.
pub(super) struct PathPage {
    text: String,
    /// The folder of the pictures.
    source: Option<PathBuf>,
    steps: Vec<Step>,
    largest: f64,
    /// The next object to add.
    next: usize,
}

impl PathPage {
    /// The start of the page, up to the list of objects. Without `steps` no path joins the two. Without `pictures` they lie
    /// below the store's source.
    pub(super) fn new(
        store: &dyn Store,
        pictures: Option<&Path>,
        ends: &[String; 2],
        steps: Option<Vec<Step>>,
    ) -> Self {
        let settings = [
            ("Store", store.path().display().to_string()),
            ("Objects", format!("{} {}", store.objects_count(), store.kind())),
            ("From", ends[0].clone()),
            ("To", ends[1].clone()),
        ];
        let mut text = markup::head("Path of the smallest largest step", &settings);
        let summary = match &steps {
            None => "No path of the graph joins the two.".to_owned(),
            Some(steps) if steps.len() == 1 => "Both ends are one object.".to_owned(),
            Some(steps) => {
                let (count, noun) = (steps.len() - 1, if steps.len() == 2 { "step" } else { "steps" });
                format!("{count} {noun}; the largest is {:.4}.", largest(steps))
            }
        };
        text.push_str(&format!("<section>\n<p class=\"summary\">{summary}</p>\n<ol>\n"));
        let steps = steps.unwrap_or_default();
        let source = pictures.or(store.source()).map(Path::to_owned);
        Self { text, source, largest: largest(&steps), steps, next: 0 }
    }

    /// Adds the next object with its picture; false if there is none.
    pub(super) fn add_next(&mut self, cx: &mut Context<'_>) -> Result<bool, BoxError> {
        let Some((_, name, distance)) = self.steps.get(self.next) else { return Ok(false) };
        // A path has each object once, so no picture occurs again.
        let picture = thumbnail(cx, &paths_of(self.source.as_deref(), name), &mut HashMap::new())?;
        let (tile, place, name) =
            (markup::tile(picture.as_ref(), name), self.next + 1, markup::breakable(name));
        let (class, mark) = match distance {
            Some(distance) if *distance == self.largest => {
                (" class=\"largest\"", "<span class=\"mark\">largest step</span>")
            }
            _ => ("", ""),
        };
        let step = distance.map_or_else(String::new, |distance| {
            let title = format!("{} from the object before", exact_text(distance));
            format!("<span class=\"distance\" title=\"{title}\">+ {distance:.4}</span>")
        });
        self.text.push_str(&format!(
            "<li{class}><figure><div class=\"picture\">{tile}{mark}</div><figcaption><b>{place}</b>{step}\
             <span class=\"name\">{name}</span></figcaption></figure></li>\n"
        ));
        self.next += 1;
        cx.progress(self.next as u64, self.steps.len() as u64);
        Ok(true)
    }

    /// The whole page.
    pub(super) fn take_text(&mut self) -> String {
        std::mem::take(&mut self.text) + "</ol>\n</section>\n" + FOOT
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Float64Array, UInt64Array};
    use boxwork_runtime::envelope::Envelope;
    use boxwork_runtime::harness::Harness;
    use boxwork_runtime::operator::Resource;
    use boxwork_runtime::parameter::Value;
    use boxwork_stores::signature_store::StoreInfo;
    use boxwork_stores::testing;

    use super::super::{EDGES, GRAPH_PATH};

    /// The edges of a graph.
    fn envelope(edges: &[(u64, u64, f64)]) -> Envelope {
        let columns: [(&str, ArrayRef); 4] = [
            ("a", Arc::new(UInt64Array::from_iter_values(edges.iter().map(|edge| edge.0)))),
            ("b", Arc::new(UInt64Array::from_iter_values(edges.iter().map(|edge| edge.1)))),
            ("distance", Arc::new(Float64Array::from_iter_values(edges.iter().map(|edge| edge.2)))),
            ("error", Arc::new(Float64Array::from(vec![0.0; edges.len()]))),
        ];
        Envelope::from_columns(columns).unwrap()
    }

    /// The page of a path from `photos/a.png` to `to` over these edges.
    fn page(edges: &[(u64, u64, f64)], to: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("photos");
        fs::create_dir_all(&source).unwrap();
        image::RgbImage::from_pixel(40, 30, image::Rgb([9, 99, 200])).save(source.join("a.png")).unwrap();
        let objects = [("a.png", 1), ("<b>.png", 2), ("c.png", 3), ("d.png", 4)];
        let info = StoreInfo { source: Some(source), ..StoreInfo::default() };
        let store = testing::store_of(folder.path(), &objects, &info);
        let out = folder.path().join("page.html");
        let given = [("store", "s"), ("from", "a.png"), ("to", to), ("format", "html")]
            .into_iter()
            .chain([("out", out.to_str().unwrap())])
            .map(|(name, value)| (name, Value::Text(value.to_owned())));
        let store: Resource = testing::shared_store(&store);
        let mut harness = Harness::with_resources(&GRAPH_PATH, given, [("s", store)]).unwrap();
        harness.give(EDGES, envelope(edges));
        harness.end(EDGES);
        harness.run().unwrap();
        assert!(harness.is_done());
        fs::read_to_string(out).unwrap()
    }

    #[test]
    fn a_page_has_the_pictures_of_a_path_and_marks_its_largest_step() {
        let text = page(&[(0, 1, 1.0), (1, 2, 2.5), (0, 2, 4.0)], "c.png");
        assert!(text.starts_with("<!doctype html>") && text.ends_with("</html>\n"));
        assert!(text.contains("2 steps; the largest is 2.5000."), "{text}");
        assert_eq!(text.matches("data:image/jpeg;base64,/9j/").count(), 1);
        assert_eq!(text.matches("no picture").count(), 2);
        let marked = text.split("<li").find(|item| item.contains(">largest step<")).unwrap();
        assert!(marked.contains("+ 2.5000") && marked.contains("c.png"), "{marked}");
        assert!(marked.starts_with(" class=\"largest\">"), "{marked}");
        assert_eq!((text.matches(">largest step<").count(), text.matches("<li").count()), (1, 3));
        assert!(text.contains("&lt;b&gt;.png") && !text.contains("<b>.png"));
    }

    #[test]
    fn without_a_path_the_page_says_so() {
        let text = page(&[(0, 1, 1.0)], "d.png");
        assert!(text.contains("No path of the graph joins the two.") && !text.contains("<li"), "{text}");
        assert!(page(&[(0, 1, 1.0)], "a.png").contains("Both ends are one object."));
    }
}
