//! `read_query`: gets the queries' objects by name from the store, as text, or from image files.
//!
//! Invariant: an image file is decoded and extracted with the parameters that the store keeps of its own images.

use std::path::Path;
use std::sync::Arc;

use arrow_array::ArrayRef;
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{Bind, BoxError, CALLER, Context, Flow, Kind, Operator, OperatorSpec, Out};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType, Value};
use boxwork_stores::any_kind;
use boxwork_stores::store::Store;
use boxwork_stores::store_error::StoreError;
use boxwork_stores::vector_file::VectorFile;

use super::query_objects::{Found, Images, batch, look_up};
use crate::columns;
use crate::images::read_files::read_whole;
use crate::records::read_arrow;
use crate::records::read_vectors::{DIMENSIONS, TYPE, bare, column};
use crate::resources::{self, store_parameter};

const QUERIES: Out = Out::new(0, "queries", columns::queries, "the queries with their objects");

/// Finds or makes the objects of the queries.
///
/// A query is the name of an object in the store; or the end of a name from a `/` on, if only one name has this end
/// (`001.jpg` for `cats/001.jpg`); or the path of an image file, for a store that was extracted from images; or the
/// object itself: a text, or a vector or set as a JSON list such as `[0.5, 1]`. With a `file` of vectors a query is the
/// number of a row in it, from 0; without queries all rows are asked. If the only query is a file of vectors and no object has
/// its name, its rows are asked. The `file` may be a store of vectors, too: a row is an object, by its id, and gives the
/// query its name. If the only query is the word of `all`, and no object has this name, each object of the store is a query; the pipeline
/// needs a parameter `file` for it.
///
/// # Inputs
/// None. A request's caller may give the queries with their objects ([`query_objects`](super::query_objects)); the
/// parameter `queries` then has no effect.
///
/// # Outputs
/// `queries`: one envelope, numbered from 0 in the given order; `name` is the object's full name, the path or the text.
///
/// # Parameters
/// `queries`: names, paths or objects; or rows of `file`. `store`: the store that is searched. `file`: a file of vectors as
/// `read_vectors` takes it, or a store of vectors, or the store that is searched. `type`, `dimensions`: what a file of nothing but
/// numbers holds. `all`: a word that asks for all objects.
pub static READ_QUERY: OperatorSpec = OperatorSpec {
    parameters: &[
        Parameter::new(
            "queries",
            ParameterType::List(&ParameterType::Text),
            Default::Required,
            "names of objects in the store, image files, texts, lists of numbers such as [0.5, 1], or one file of vectors",
        )
        .batched(),
        store_parameter("the store that is searched"),
        Parameter::new(
            "file",
            ParameterType::Path,
            Default::Absent,
            "a file or a store of vectors, of which the queries are rows",
        ),
        TYPE,
        DIMENSIONS,
        Parameter::new(
            "all",
            ParameterType::Text,
            Default::Absent,
            "a word in place of the queries for all objects of the store, such as all",
        ),
    ],
    outputs: &[QUERIES],
    expand: Some(rows_of_file),
    example: "query: {kind: read_query, queries: [cats/001.jpg], store: signatures}",
    ..OperatorSpec::new("read_query", "Finds, reads or extracts the queries' objects.", Kind::Stateful, make)
};

/// The rows of a file of vectors as queries: of `file` if no queries are given, or of the only query if it is such a file; or all
/// objects of the store.
fn rows_of_file(bind: &Bind<'_>) -> Result<Vec<(&'static str, Value)>, BoxError> {
    let (given, store) = (bind.texts("queries"), resources::store(bind)?);
    let path = match (bind.get_text("file"), &given[..]) {
        (Some(file), []) => file,
        (None, [only]) if bind.get_text("all") == Some(only) && store.find(only)?.is_none() => {
            let ids = store.among(0..store.ids_count()).map(|id| Value::Text(id.to_string())).collect();
            let path = store.path().to_str().ok_or_else(|| {
                BoxError::new(format!(
                    "the path `{}` is not in UTF-8: rename the file",
                    store.path().display()
                ))
            })?;
            return Ok(vec![("queries", Value::List(ids)), ("file", Value::Text(path.to_owned()))]);
        }
        (None, [only]) if is_file(only, bind) && store.kind() == "vectors" && store.find(only)?.is_none() => {
            only
        }
        _ => return Ok(Vec::new()),
    };
    let rows: Vec<u64> = match Rows::open(path, bind)? {
        Rows::File(file) => (0..file.len()).collect(),
        Rows::Store(store) => store.among(0..store.ids_count()).collect(),
    };
    let rows = rows.into_iter().map(|row| Value::Text(row.to_string())).collect();
    Ok(vec![("queries", Value::List(rows)), ("file", Value::Text(path.to_owned()))])
}

/// Whether a query is a file, and its name or the parameters say its form.
fn is_file(query: &str, bind: &Bind<'_>) -> bool {
    let path = Path::new(query);
    (VectorFile::is_named(path) || bind.get_text(TYPE.name).is_some()) && path.is_file()
}

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    if let Some(input) = bind.take_input()? {
        return read_arrow::reading(input, CALLER, columns::queries(bind.arguments));
    }
    let (given, store) = (bind.texts("queries"), resources::store(bind)?);
    if let Some(path) = bind.get_text("file") {
        // The store that is searched is open already, with its column.
        let rows = match store.path() == Path::new(path) {
            true => Rows::Store(store),
            false => Rows::open(path, bind)?,
        };
        return Ok(Box::new(ReadRows { path: path.to_owned(), rows, given }));
    }
    let images = Images::new(Arc::clone(&store));
    Ok(Box::new(ReadQuery { given, store, found: None, names: Vec::new(), objects: Vec::new(), images }))
}

/// The vectors of which queries are rows.
enum Rows {
    File(VectorFile),
    Store(Arc<dyn Store>),
}

impl Rows {
    /// Opens a file of another program, if its name or the parameters say its form, or a store.
    fn open(path: &str, bind: &Bind<'_>) -> Result<Self, BoxError> {
        let (file, bare) = (Path::new(path), bare(bind)?);
        if VectorFile::is_named(file) || bare.is_some() {
            return Ok(Self::File(VectorFile::open(file, bare)?));
        }
        match any_kind::open_by(file, resources::store::access(bind), None) {
            Ok(store) if store.kind() == "vectors" => Ok(Self::Store(store)),
            Ok(store) => Err(BoxError::new(format!(
                "`{path}` holds {}, and queries are rows of vectors",
                store.kind()
            ))),
            // Its error says what a file of vectors is.
            Err(StoreError::NotAStore { is_foreign: false, .. }) => {
                Ok(Self::File(VectorFile::open(file, bare)?))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The last row that may be asked.
    fn last(&self) -> u64 {
        match self {
            Self::File(file) => file.len() - 1,
            Self::Store(store) => store.ids_count() - 1,
        }
    }

    fn has(&self, row: u64) -> bool {
        match self {
            Self::File(file) => row < file.len(),
            Self::Store(store) => store.has(row),
        }
    }

    /// The name and the vector of a row. Blocks on the disk.
    fn read(&mut self, row: u64) -> Result<(String, ArrayRef), BoxError> {
        match self {
            Self::File(file) => Ok((row.to_string(), column(file.read(row, 1)?.all(), file.dimensions()))),
            Self::Store(store) => {
                store.bring_in(&[row])?;
                Ok((store.name(row)?, store.objects(&[row])?))
            }
        }
    }
}

/// Queries that are rows of a file.
struct ReadRows {
    path: String,
    rows: Rows,
    given: Vec<String>,
}

impl Operator for ReadRows {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        if self.given.is_empty() {
            return Ok(Flow::Done);
        }
        let (path, rows, given) = (&self.path, &mut self.rows, &self.given);
        let mut read = || {
            let each = given.iter().map(|given| {
                let row = given.parse().ok().filter(|row| rows.has(*row)).ok_or_else(|| {
                    let last = rows.last();
                    BoxError::new(format!("`{given}` is no row of `{path}`, whose rows are 0 to {last}"))
                })?;
                rows.read(row)
            });
            each.collect::<Result<(Vec<String>, Vec<ArrayRef>), BoxError>>()
        };
        let (names, objects) = cx.detached("disk", &mut read)??;
        cx.push(QUERIES, Envelope::new(batch(names, &objects)?)?)?;
        Ok(Flow::Done)
    }
}

struct ReadQuery {
    given: Vec<String>,
    store: Arc<dyn Store>,
    /// The source of each query's object, after the look-up.
    found: Option<Vec<Found>>,
    names: Vec<String>,
    /// One object per array, for each query so far.
    objects: Vec<ArrayRef>,
    images: Images,
}

impl Operator for ReadQuery {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let Some(found) = &self.found else {
            let (given, store, cancelled) = (&self.given, &*self.store, cx.cancelled());
            self.found = Some(cx.detached("disk", || look_up(given, store, &cancelled))??);
            return Ok(Flow::More);
        };
        let at = self.names.len();
        let Some(found) = found.get(at).cloned() else {
            if at > 0 {
                let queries = batch(std::mem::take(&mut self.names), &self.objects)?;
                cx.push(QUERIES, Envelope::new(queries)?)?;
            }
            return Ok(Flow::Done);
        };
        // One query per firing: an image takes long, and other boxes wait for the slot.
        let (name, object) = match found {
            Found::Object(id) => (self.store.name(id)?, self.store.objects(&[id])?),
            Found::File => {
                let path = self.given[at].clone();
                let content = cx.detached("disk", || read_whole(&path))?;
                let extracted = content.and_then(|content| self.images.of_file(&content));
                let object =
                    extracted.map_err(|message| BoxError::new(format!("query `{path}`: {message}")))?;
                (path, object)
            }
            Found::Spelt(object) => (self.given[at].clone(), object),
        };
        self.names.push(name);
        self.objects.push(object);
        cx.progress(self.names.len() as u64, self.given.len() as u64);
        Ok(Flow::More)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::images::decode::Scaler;
    use crate::images::extract::{parameters_json, push};
    use crate::search::query_objects::{Asked, query_objects};
    use boxwork_kernels::extract::{ExtractParameters, Extractor, ImageRef};
    use boxwork_runtime::harness::Harness;
    use boxwork_runtime::operator::Resource;
    use boxwork_stores::signature::{PCT_COORDINATES, SignatureBuilder, SignatureColumns};
    use boxwork_stores::signature_store::{Objects, SignatureStore, StoreError, StoreInfo, StoreWriter};
    use boxwork_stores::testing;

    fn harness(store: &Arc<SignatureStore>, queries: &[&str]) -> Harness {
        let queries = queries.iter().map(|query| Value::Text((*query).to_owned())).collect();
        let given = [("queries", Value::List(queries)), ("store", Value::Text("s".into()))];
        let store: Resource = testing::shared_store(store);
        Harness::with_resources(&READ_QUERY, given, [("s", store)]).unwrap()
    }

    fn check(store: &Arc<SignatureStore>, queries: &[&str]) -> Envelope {
        let mut harness = harness(store, queries);
        harness.run().unwrap();
        assert!(harness.is_done());
        assert_eq!(harness.progress(), (queries.len() as u64, queries.len() as u64));
        harness.taken(QUERIES).remove(0)
    }

    fn check_error(store: &Arc<SignatureStore>, query: &str, words: &[&str]) {
        let error = harness(store, &[query]).run().unwrap_err().to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    }

    fn names(envelope: &Envelope) -> Vec<&str> {
        envelope.texts("name").unwrap().iter().flatten().collect()
    }

    #[test]
    fn finds_objects_by_name_and_by_the_end_of_one() {
        let folder = tempfile::tempdir().unwrap();
        let store = testing::store(folder.path(), 9);
        let queries = check(&store, &["dogs/004.png", "008.png", "dogs/004.png"]);
        assert_eq!(names(&queries), ["dogs/004.png", "owls/008.png", "dogs/004.png"]);
        assert_eq!(queries.u32s("query").unwrap(), [0, 1, 2]);
        let columns = SignatureColumns::new(queries.lists("object").unwrap()).unwrap();
        let found = columns.signature(1);
        let is_object = |objects: Objects<'_>| {
            let object = objects.signature(8)?;
            Ok::<_, StoreError>(
                found.coordinate(0) == object.coordinate(0) && found.weights() == object.weights(),
            )
        };
        assert!(store.read(is_object).unwrap());
        assert!(harness(&store, &[]).run().is_ok());
    }

    #[test]
    fn what_is_nothing_is_an_error_that_helps() {
        let folder = tempfile::tempdir().unwrap();
        let objects = [("a/cats/1.png", 1), ("b/cats/1.png", 2), ("b/dogs/2.png", 3)];
        let store = testing::store_of(folder.path(), &objects, &StoreInfo::default());
        check_error(&store, "b/dogs/3.png", &["neither", "nor an image file", "did you mean `b/dogs/2.png`"]);
        check_error(&store, "cats/1.png", &["more than one", "`a/cats/1.png`", "`b/cats/1.png`"]);
        check_error(&store, "ts/1.png", &["neither"]);
        check_error(&store, "", &["neither"]);
        let image = folder.path().join("cat.png");
        image::RgbImage::new(4, 4).save(&image).unwrap();
        check_error(&store, image.to_str().unwrap(), &["cat.png", "imported", "name instead"]);
    }

    #[test]
    fn an_image_is_extracted_as_the_store_was() {
        let folder = tempfile::tempdir().unwrap();
        let parameters = ExtractParameters { points_count: 200, seed: 5, ..ExtractParameters::default() };
        let json = parameters_json(&parameters);
        let path = folder.path().join("photos.signatures.arrow");
        let info = StoreInfo { parameters: Some(json), ..StoreInfo::default() };
        let mut writer = StoreWriter::create(&path, &PCT_COORDINATES, &info).unwrap();
        let image = image::RgbImage::from_fn(300, 200, |x, y| image::Rgb([x as u8, y as u8, (x * y) as u8]));
        let rgb = Scaler::new(150, true).scale(&image).unwrap();
        let mut signatures = SignatureBuilder::new(&PCT_COORDINATES).unwrap();
        let mut extractor = Extractor::new(parameters).unwrap();
        push(&mut extractor, ImageRef::new(150, 150, &rgb).unwrap(), &mut signatures).unwrap();
        let signatures = signatures.finish();
        let expected = SignatureColumns::new(&signatures).unwrap();
        writer.push("cats/1.png", expected.signature(0), 300, 200).unwrap();
        writer.finish().unwrap();
        let store = Arc::new(SignatureStore::open(&path).unwrap());

        let file = folder.path().join("query.png");
        image.save(&file).unwrap();
        let queries = check(&store, &[file.to_str().unwrap(), "cats/1.png"]);
        let found = SignatureColumns::new(queries.lists("object").unwrap()).unwrap();
        for row in 0..2 {
            assert_eq!(found.signature(row).weights(), expected.signature(0).weights());
            assert_eq!(found.signature(row).coordinate(6), expected.signature(0).coordinate(6));
        }
        // Queries from memory, by name and by id, give the same objects.
        let shared: Arc<dyn Store> = Arc::clone(&store) as Arc<dyn Store>;
        let (width, height) = image.dimensions();
        let picture = Asked::Picture { width, height, rgb: image.into_raw() };
        let asked = vec![picture, Asked::Text("1.png".to_owned()), Asked::Id(0)];
        let given = query_objects(&shared, asked, &|| false).unwrap();
        let given = Envelope::new(given).unwrap();
        assert_eq!(names(&given), ["picture 0", "cats/1.png", "cats/1.png"]);
        let found = SignatureColumns::new(given.lists("object").unwrap()).unwrap();
        for row in 0..3 {
            assert_eq!(found.signature(row).weights(), expected.signature(0).weights());
        }
        let refused = |asked: Asked| query_objects(&shared, vec![asked], &|| false).unwrap_err().to_string();
        assert!(refused(Asked::Id(1)).contains("query 0: object 1 of"), "{}", refused(Asked::Id(1)));
        let short = Asked::Picture { width: 2, height: 2, rgb: vec![0; 3] };
        assert!(refused(short).contains("2 x 2 pixels"));
        let cancelled = query_objects(&shared, vec![Asked::Id(0)], &|| true).unwrap_err().to_string();
        assert!(cancelled.contains("cancelled"), "{cancelled}");
        fs::write(&file, b"no image").unwrap();
        check_error(&store, file.to_str().unwrap(), &["query `", "query.png", "no image of a known format"]);
    }
}
