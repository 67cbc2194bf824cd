//! `read_query`: gets the queries' objects by name from the store, as text, or from image files.
//!
//! Invariant: an image file is decoded and extracted with the parameters that the store keeps of its own images.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, StringArray, UInt32Array};
use boxwork_kernels::extract::{Extractor, ImageRef};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, Kind, Operator, OperatorSpec, Out};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType, did_you_mean};
use boxwork_stores::signature::{PCT_COORDINATES, SignatureBuilder};
use boxwork_stores::signature_store::SignatureStore;
use boxwork_stores::store::{Store, concatenated};

use crate::columns;
use crate::images::decode::{Scaler, decode_image};
use crate::images::extract::{parameters_from_json, push, scaled_size};
use crate::images::read_files::read_whole;
use crate::resources::{self, store_parameter};

/// At most this many names are compared with a misspelt query.
const SUGGESTIONS_FROM: usize = 100_000;

const QUERIES: Out = Out::new(0, "queries", columns::queries, "the queries with their objects");

/// Finds or makes the objects of the queries.
///
/// A query is the name of an object in the store; or the end of a name from a `/` on, if only one name has this end
/// (`001.jpg` for `cats/001.jpg`); or the path of an image file, for a store that was extracted from images; or the
/// object itself: a text, or a vector or set as a JSON list such as `[0.5, 1]`.
///
/// # Inputs
/// None.
///
/// # Outputs
/// `queries`: one envelope, numbered from 0 in the given order; `name` is the object's full name, the path or the text.
///
/// # Parameters
/// `queries`: names, paths or objects. `store`: the store that is searched.
pub static READ_QUERY: OperatorSpec = OperatorSpec {
    parameters: &[
        Parameter::new(
            "queries",
            ParameterType::List(&ParameterType::Text),
            Default::Required,
            "names of objects in the store, image files, texts, or lists of numbers such as [0.5, 1]",
        )
        .batched(),
        store_parameter("the store that is searched"),
    ],
    outputs: &[QUERIES],
    example: "query: {kind: read_query, queries: [cats/001.jpg], store: signatures}",
    ..OperatorSpec::new("read_query", "Finds, reads or extracts the queries' objects.", Kind::Stateful, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let (given, store) = (bind.texts("queries"), resources::store(bind)?);
    Ok(Box::new(ReadQuery {
        given,
        store,
        found: None,
        names: Vec::new(),
        objects: Vec::new(),
        images: None,
    }))
}

struct ReadQuery {
    given: Vec<String>,
    store: Arc<dyn Store>,
    /// The source of each query's object, after the look-up.
    found: Option<Vec<Found>>,
    names: Vec<String>,
    /// One object per array, for each query so far.
    objects: Vec<ArrayRef>,
    images: Option<(Scaler, Extractor)>,
}

#[derive(Clone, Debug)]
enum Found {
    Object(u64),
    File,
    Spelt(ArrayRef),
}

impl Operator for ReadQuery {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let Some(found) = &self.found else {
            let (given, store) = (&self.given, &*self.store);
            self.found = Some(cx.detached("disk", || look_up(given, store))??);
            return Ok(Flow::More);
        };
        let at = self.names.len();
        let Some(found) = found.get(at).cloned() else {
            let count = self.names.len() as u32;
            if count > 0 {
                let columns: [(&str, ArrayRef); 3] = [
                    ("query", Arc::new(UInt32Array::from_iter_values(0..count))),
                    ("name", Arc::new(StringArray::from(std::mem::take(&mut self.names)))),
                    ("object", concatenated(&self.objects)?),
                ];
                cx.push(QUERIES, Envelope::from_columns(columns)?)?;
            }
            return Ok(Flow::Done);
        };
        // One query per firing: an image takes long, and other boxes wait for the slot.
        let (name, object) = match found {
            Found::Object(id) => (self.store.name(id)?, self.store.objects(&[id])?),
            Found::File => {
                let path = self.given[at].clone();
                let content = cx.detached("disk", || read_whole(&path))?;
                let extracted = content.and_then(|content| self.extract(&content));
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

impl ReadQuery {
    /// Extracts an image as the store's images were.
    fn extract(&mut self, content: &[u8]) -> Result<ArrayRef, String> {
        let Some(store) = Arc::clone(&self.store).as_signatures() else {
            return Err("it is an image, and the store does not hold signatures of images".to_owned());
        };
        let (scaler, extractor) = match &mut self.images {
            Some(images) => images,
            None => self.images.insert(images_as_in(&store)?),
        };
        let image = decode_image(content)?;
        let rgb = scaler.scale(&image).map_err(|error| error.to_string())?;
        let side = scaler.size() as usize;
        let image = ImageRef::new(side, side, &rgb).map_err(|error| error.to_string())?;
        let mut signature = SignatureBuilder::new(store.coordinates()).map_err(|error| error.to_string())?;
        push(extractor, image, &mut signature)?;
        Ok(Arc::new(signature.finish()))
    }
}

/// A scaler and an extractor with the store's parameters.
fn images_as_in(store: &SignatureStore) -> Result<(Scaler, Extractor), String> {
    let Some(json) = store.parameters() else {
        return Err(format!(
            "it is an image, but the store `{}` does not say how its signatures were extracted (it was imported): \
             ask for an object's name instead",
            store.path().display()
        ));
    };
    store.check_coordinates(&PCT_COORDINATES).map_err(|error| error.to_string())?;
    let unclear = |reason: String| {
        format!("the extraction parameters in `{}` cannot be read: {reason}", store.path().display())
    };
    let parameters = parameters_from_json(json).map_err(unclear)?;
    let extractor = Extractor::new(parameters).map_err(|error| unclear(error.to_string()))?;
    Ok((Scaler::new(scaled_size(json), true), extractor))
}

/// Looks up all queries, and brings those that are objects into memory.
fn look_up(given: &[String], store: &dyn Store) -> Result<Vec<Found>, BoxError> {
    let mut found: Vec<Option<Found>> = Vec::with_capacity(given.len());
    for query in given {
        found.push(store.find(query)?.map(Found::Object));
    }
    if found.iter().any(Option::is_none) {
        let by_end = look_up_ends(given, &found, store)?;
        for (idx, ends) in by_end.into_iter().enumerate() {
            if found[idx].is_some() {
                continue;
            }
            let query = &given[idx];
            found[idx] = Some(match ends[..] {
                [only] => Found::Object(only),
                _ if Path::new(query).is_file() => Found::File,
                [] => match store.parse(query) {
                    Ok(Some(object)) => Found::Spelt(object),
                    Ok(None) => return Err(not_found(query, store, "nor an image file")?),
                    Err(reason) => return Err(not_found(query, store, &format!("nor an object: {reason}"))?),
                },
                [first, second, ..] => {
                    return Err(BoxError::new(format!(
                        "`{query}` is the end of more than one name in the store (`{}`, `{}`): give more of the name",
                        store.name(first)?,
                        store.name(second)?
                    )));
                }
            });
        }
    }
    let found: Vec<Found> = found.into_iter().flatten().collect();
    let objects = found.iter().filter_map(|found| match found {
        Found::Object(id) => Some(*id),
        Found::File | Found::Spelt(_) => None,
    });
    store.bring_in(&objects.collect::<Vec<u64>>())?;
    Ok(found)
}

/// For each query not found yet: the first two objects whose names end with it.
fn look_up_ends(
    given: &[String],
    found: &[Option<Found>],
    store: &dyn Store,
) -> Result<Vec<Vec<u64>>, BoxError> {
    let missing: Vec<(usize, String)> = (0..given.len())
        .filter(|idx| found[*idx].is_none() && !given[*idx].is_empty())
        .map(|idx| (idx, format!("/{}", given[idx].trim_start_matches("./"))))
        .collect();
    let mut ends = vec![Vec::new(); given.len()];
    for batch in 0..store.batches() {
        store.each_name(batch, &mut |id, name| {
            for (idx, end) in &missing {
                if ends[*idx].len() < 2 && name.ends_with(end) && store.has(id) {
                    ends[*idx].push(id);
                }
            }
        })?;
    }
    Ok(ends)
}

/// The error for a query that was not found, with a similar name if there is one.
fn not_found(query: &str, store: &dyn Store, nor: &str) -> Result<BoxError, BoxError> {
    let (mut names, mut was_removed) = (Vec::new(), false);
    for batch in 0..store.batches() {
        store.each_name(batch, &mut |id, name| {
            if !store.has(id) {
                was_removed |= name == query;
            } else if names.len() < SUGGESTIONS_FROM {
                names.push(name.to_owned());
            }
        })?;
    }
    let near = did_you_mean(query, names.iter().map(String::as_str));
    let path = store.path().display();
    if was_removed {
        return Ok(BoxError::new(format!(
            "`{query}` was removed from `{path}`: ask for an object that is there, or add it again with `boxwork add`"
        )));
    }
    Ok(BoxError::new(format!("`{query}` is neither the name of an object in `{path}` {nor}{near}")))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use boxwork_kernels::extract::ExtractParameters;
    use boxwork_runtime::harness::Harness;
    use boxwork_runtime::operator::Resource;
    use boxwork_runtime::parameter::Value;

    use super::*;
    use crate::images::extract::parameters_json;
    use boxwork_stores::signature::SignatureColumns;
    use boxwork_stores::signature_store::{Objects, StoreError, StoreInfo, StoreWriter};
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
        fs::write(&file, b"no image").unwrap();
        check_error(&store, file.to_str().unwrap(), &["query `", "query.png", "no image of a known format"]);
    }
}
