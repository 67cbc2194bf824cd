//! The pipelines that the server runs: the shipped ones, or a person's own under the same names.
//!
//! A pipeline that a person can run from a file becomes one of requests in memory: its box `read_query` or `read_marks`
//! takes envelopes, and its last box gives them.

use std::collections::BTreeMap;
use std::path::Path;

use boxwork_runtime::operator::Catalog;
use boxwork_runtime::parameter::Value;
use boxwork_runtime::plan::{BoxDeclaration, Declaration, Setting};

use crate::diagnostic::Diagnostic;
use crate::pipeline::{self, Loaded};
use crate::shipped::{self, Shipped};

/// A picture's file to its signature, as the store's were extracted.
const PICTURE: &str = "\
boxwork: 1
about: The signature of one picture.
parameters:
  store: {type: path, about: the store}
resources:
  signatures: {kind: store, path: \"${store}\"}
boxes:
  bytes:     {kind: read_arrow, columns: bytes}
  pixels:    {kind: decode, as_in: signatures}
  signature: {kind: extract, as_in: signatures}
  results:   {kind: write_arrow, columns: signatures}
edges:
  - bytes -> pixels -> signature -> results
";

/// Names of objects to small pictures.
const THUMBNAIL: &str = "\
boxwork: 1
about: Small pictures of objects.
parameters:
  images:      {type: path, about: the folder of the pictures}
  cache:       {type: path, optional: true, about: the folder that keeps small pictures}
  cache_bytes: {type: integer, default: 268435456, about: the most bytes of that folder}
  size:        {type: integer, default: 192, about: the longest side}
boxes:
  pictures: {kind: read_arrow, columns: pictures}
  small:    {kind: thumbnail, images: \"${images}\", size: \"${size}\", cache: \"${cache}\", cache_bytes: \"${cache_bytes}\"}
  results:  {kind: write_arrow, columns: thumbnails}
edges:
  - pictures -> small -> results
";

/// A pipeline of requests in memory.
#[derive(Clone, Debug)]
pub(super) struct InMemory {
    /// The pipeline.
    pub(super) loaded: Loaded,
    /// The box that takes envelopes.
    pub(super) input: String,
    /// The box that gives them.
    pub(super) output: String,
}

/// The pipelines of a server.
#[derive(Clone, Debug)]
pub struct Pipelines {
    pub(super) search: InMemory,
    /// The search among some objects of a store of vectors.
    pub(super) vectors: InMemory,
    /// The search of a store of vectors through lists.
    pub(super) lists: InMemory,
    pub(super) round: InMemory,
    pub(super) ranking: InMemory,
    pub(super) why: InMemory,
    pub(super) picture: InMemory,
    pub(super) thumbnail: InMemory,
}

impl Pipelines {
    /// The shipped pipelines, except those that a folder has under their names: `search.yaml`, or `auto.yaml` with an
    /// index; `feedback.yaml`, `feedback_ranking.yaml` and `feedback_why.yaml`.
    ///
    /// # Errors
    /// The faults of a person's pipeline, or what it lacks.
    pub fn load(folder: Option<&Path>, catalog: &Catalog, has_pivots: bool) -> Result<Self, Vec<Diagnostic>> {
        let search = if has_pivots { shipped::AUTO } else { shipped::SEARCH };
        let load = |shipped: &Shipped| own_or_shipped(folder, shipped, catalog);
        Ok(Self {
            search: in_memory(load(&search)?, "read_query", "distances")?,
            vectors: in_memory(shipped::VECTOR_SEARCH.load(), "read_query", "distances")?,
            lists: in_memory(shipped::VECTOR_PROBE.load(), "read_query", "distances")?,
            round: in_memory(load(&shipped::FEEDBACK)?, "read_marks", "rounds")?,
            ranking: in_memory(load(&shipped::FEEDBACK_RANKING)?, "read_marks", "rounds")?,
            why: in_memory(load(&shipped::FEEDBACK_WHY)?, "read_marks", "reasons")?,
            picture: written(PICTURE, "bytes"),
            thumbnail: written(THUMBNAIL, "pictures"),
        })
    }
}

fn written(text: &str, input: &str) -> InMemory {
    let loaded = pipeline::load_text("serving", text);
    let loaded = loaded.unwrap_or_else(|flaws| panic!("a pipeline of the server: {flaws:?}"));
    InMemory { loaded, input: input.to_owned(), output: "results".to_owned() }
}

/// A person's pipeline of the shipped one's name, if the folder has one: with the same parameters.
fn own_or_shipped(
    folder: Option<&Path>,
    shipped: &Shipped,
    catalog: &Catalog,
) -> Result<Loaded, Vec<Diagnostic>> {
    let usual = shipped.load();
    let path = folder.map(|folder| folder.join(format!("{}.yaml", shipped.name())));
    let Some(path) = path.filter(|path| path.exists()) else { return Ok(usual) };
    let own = pipeline::load(&path)?;
    let (plan, faults) = own.check(catalog, &own.declaration.defaults());
    if plan.is_none() {
        return Err(faults);
    }
    let has = |name: &str| own.declaration.parameters.iter().any(|declared| declared.name == name);
    let missing: Vec<&str> = usual
        .declaration
        .parameters
        .iter()
        .map(|declared| declared.name.as_str())
        .filter(|name| !has(name))
        .collect();
    if missing.is_empty() {
        return Ok(own);
    }
    let message = format!(
        "a server gives `{}` to a pipeline of this name, which it does not declare: start from `boxwork pipelines show {}`",
        missing.join("`, `"),
        shipped.name()
    );
    Err(vec![refused(&own, message)])
}

fn refused(loaded: &Loaded, message: String) -> Diagnostic {
    Diagnostic::of_file(loaded.name(), "not-servable", message, None)
}

/// Lets a pipeline take and give envelopes in memory: its box of this kind takes them, its last gives these columns. A
/// `read_marks` takes envelopes as it is; a `read_query` leaves its place to a `read_arrow`.
fn in_memory(mut loaded: Loaded, first: &str, columns: &str) -> Result<InMemory, Vec<Diagnostic>> {
    let lacks = |loaded: &Loaded, what: &str| Err(vec![refused(loaded, format!("a server needs {what}"))]);
    let declaration = &mut loaded.declaration;
    let kind = Setting::Value(Value::Text(first.to_owned()));
    let Some(place) = declaration.boxes.iter().position(|of_box| of_box.kind == kind) else {
        return lacks(&loaded, &format!("a box of the kind `{first}`, which takes what the client gives"));
    };
    if first == "read_query" {
        replace(&mut declaration.boxes[place], "read_arrow", "queries");
    }
    let input = declaration.boxes[place].name.clone();
    let ends = last_boxes(declaration);
    let [last] = ends[..] else {
        return lacks(&loaded, "one box without outputs, whose place the answer takes");
    };
    let declaration = &mut loaded.declaration;
    let output = declaration.boxes[last].name.clone();
    replace(&mut declaration.boxes[last], "write_arrow", columns);
    // The sinks that show results take the queries too.
    declaration.edges.retain(|edge| edge.to.name != output || edge.from.name != input);
    let mut into_last = declaration.edges.iter_mut().filter(|edge| edge.to.name == output);
    let (Some(edge), None) = (into_last.next(), into_last.next()) else {
        return lacks(&loaded, "one stream into its last box");
    };
    edge.to.port = None;
    Ok(InMemory { loaded, input, output })
}

fn replace(of_box: &mut BoxDeclaration, kind: &str, columns: &str) {
    let text = |text: &str| Setting::Value(Value::Text(text.to_owned()));
    of_box.kind = text(kind);
    of_box.settings = vec![("columns".to_owned(), text(columns))];
    (of_box.copies, of_box.blocking) = (None, None);
}

/// The places of boxes that no edge leaves.
fn last_boxes(declaration: &Declaration) -> Vec<usize> {
    let leaves = |name: &str| declaration.edges.iter().any(|edge| edge.from.name == name);
    let boxes = declaration.boxes.iter().enumerate();
    boxes.filter(|(_, of_box)| !leaves(&of_box.name)).map(|(place, _)| place).collect()
}

/// The values that a pipeline declares, of those that the server has.
pub(super) fn declared(
    loaded: &Loaded,
    values: impl IntoIterator<Item = (&'static str, Value)>,
) -> BTreeMap<String, Value> {
    let has = |name: &str| loaded.declaration.parameters.iter().any(|declared| declared.name == name);
    values.into_iter().filter(|(name, _)| has(name)).map(|(name, value)| (name.to_owned(), value)).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn shipped_pipelines_take_and_give_envelopes() {
        let catalog = boxwork_operators::catalog();
        for has_pivots in [false, true] {
            let pipelines = Pipelines::load(None, &catalog, has_pivots).expect("shipped");
            let Pipelines { search, vectors, lists, round, ranking, why, picture, thumbnail } = &pipelines;
            for InMemory { loaded, input, output } in
                [search, vectors, lists, round, ranking, why, picture, thumbnail]
            {
                let (plan, faults) = loaded.check(&catalog, &loaded.declaration.defaults());
                assert!(plan.is_some(), "{faults:?}");
                let plan = plan.expect("checked above");
                assert!(plan.box_idx(input).is_some() && plan.box_idx(output).is_some());
            }
        }
    }

    #[test]
    fn a_persons_pipeline_is_checked() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("search.yaml");
        let load = || Pipelines::load(Some(folder.path()), &boxwork_operators::catalog(), false);
        fs::write(&file, shipped::SEARCH.text.replace("copies: auto", "copies: 2")).expect("written");
        assert_eq!(load().expect("it fits").search.output, "results");
        for (text, words) in [
            ("boxwork: 1\nboxes: {}\n".to_owned(), ""),
            (shipped::SEARCH.text.replace("kind: scan", "kind: scam"), "scam"),
            (shipped::RANGE.text.to_owned(), "`k`"),
        ] {
            fs::write(&file, text).expect("written");
            let faults = load().expect_err("it does not fit");
            let message = format!("{faults:?}");
            assert!(message.contains(words), "{message}");
        }
    }
}
