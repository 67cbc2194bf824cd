//! `read_query`: what a person asks for, as signatures: names of objects in the store, or image files.
//!
//! Invariant: an image file goes through the same decoding and extraction as the store's images did, by the
//! parameters that the store keeps.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, StringArray, UInt32Array};
use boxwork_kernels::extract::{Extractor, ImageRef};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{Bind, BoxError, Context, Flow, Kind, Operator, OperatorSpec, Output};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType, did_you_mean};

use crate::columns;
use crate::images::decode::{Scaler, decode_image};
use crate::images::extract::{parameters_from_json, push, scaled_size};
use crate::images::read_files::read_whole;
use boxwork_stores::signature::{PCT_COORDINATES, SignatureBuilder};
use boxwork_stores::signature_store::SignatureStore;

/// Names that a misspelt query is compared with at most.
const SUGGESTIONS_FROM: usize = 100_000;

/// Finds or makes the signatures of the queries.
///
/// A query is the name of an object in the store; or the end of one, from a `/` on, if only one object's name ends so
/// (`001.jpg` for `cats/001.jpg`); or else the path of an image file.
///
/// # Inputs
/// None.
///
/// # Outputs
/// `queries`: one envelope, numbered from 0 in the order given; `name` is the object's full name, or the path.
///
/// # Parameters
/// `queries`: names or paths. `store`: the store that is searched.
pub static READ_QUERY: OperatorSpec = OperatorSpec {
    parameters: &[
        Parameter::new(
            "queries",
            ParameterType::List(&ParameterType::Text),
            Default::Required,
            "names of objects in the store, or image files",
        )
        .batched(),
        Parameter::new(
            "store",
            ParameterType::Resource("signature_store"),
            Default::Required,
            "the store that is searched",
        ),
    ],
    outputs: &[Output::new("queries", columns::queries, "the queries with their signatures")],
    example: "query: {kind: read_query, queries: [cats/001.jpg], store: signatures}",
    ..OperatorSpec::new("read_query", "Finds or extracts the queries' signatures.", Kind::Stateful, make)
};

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let store: Arc<SignatureStore> = bind.resource("store")?;
    let signatures = SignatureBuilder::new(store.coordinates())?;
    let given = bind.texts("queries");
    Ok(Box::new(ReadQuery { given, store, found: None, names: Vec::new(), signatures, images: None }))
}

struct ReadQuery {
    given: Vec<String>,
    store: Arc<SignatureStore>,
    /// Where each query's signature comes from, once they have been looked up.
    found: Option<Vec<Found>>,
    names: Vec<String>,
    signatures: SignatureBuilder,
    images: Option<(Scaler, Extractor)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Object(u64),
    File,
}

impl Operator for ReadQuery {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        let Some(found) = &self.found else {
            let (given, store) = (&self.given, &self.store);
            self.found = Some(cx.detached("disk", || look_up(given, store))??);
            return Ok(Flow::More);
        };
        let at = self.names.len();
        let Some(found) = found.get(at).copied() else {
            let count = self.names.len() as u32;
            let columns: [(&str, ArrayRef); 3] = [
                ("query", Arc::new(UInt32Array::from_iter_values(0..count))),
                ("name", Arc::new(StringArray::from(std::mem::take(&mut self.names)))),
                ("signature", Arc::new(self.signatures.finish())),
            ];
            if count > 0 {
                cx.push("queries", Envelope::from_columns(columns)?)?;
            }
            return Ok(Flow::Done);
        };
        // One a firing: an image takes its time, and others wait for the slot.
        let name = match found {
            Found::Object(id) => {
                let signatures = &mut self.signatures;
                self.store.read::<_, BoxError>(|objects| {
                    signatures.push_signature(objects.signature(id)?)?;
                    Ok(objects.name(id)?.to_owned())
                })?
            }
            Found::File => {
                let path = self.given[at].clone();
                let content = cx.detached("disk", || read_whole(&path))?;
                let extracted = content.and_then(|content| self.extract(&content));
                extracted.map_err(|message| BoxError::new(format!("query `{path}`: {message}")))?;
                path
            }
        };
        self.names.push(name);
        cx.progress(self.names.len() as u64, self.given.len() as u64);
        Ok(Flow::More)
    }
}

impl ReadQuery {
    /// Extracts an image as the store's were.
    fn extract(&mut self, content: &[u8]) -> Result<(), String> {
        let (scaler, extractor) = match &mut self.images {
            Some(images) => images,
            None => self.images.insert(images_as_in(&self.store)?),
        };
        let image = decode_image(content)?;
        let rgb = scaler.scale(&image).map_err(|error| error.to_string())?;
        let side = scaler.size() as usize;
        let image = ImageRef::new(side, side, &rgb).map_err(|error| error.to_string())?;
        push(extractor, image, &mut self.signatures)
    }
}

/// What makes signatures as those of the store were made.
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
        format!("the extraction parameters in `{}` are not clear: {reason}", store.path().display())
    };
    let parameters = parameters_from_json(json).map_err(unclear)?;
    let extractor = Extractor::new(parameters).map_err(|error| unclear(error.to_string()))?;
    Ok((Scaler::new(scaled_size(json), true), extractor))
}

/// Finds all queries, and brings the signatures of those that are objects into memory.
fn look_up(given: &[String], store: &SignatureStore) -> Result<Vec<Found>, BoxError> {
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
            let file = Path::new(query).is_file();
            found[idx] = Some(match ends[..] {
                [only] => Found::Object(only),
                _ if file => Found::File,
                [] => return Err(not_found(query, store)?),
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
        Found::File => None,
    });
    store.bring_in(objects)?;
    Ok(found)
}

/// By query that is not found yet: the first two objects whose names end so.
fn look_up_ends(
    given: &[String],
    found: &[Option<Found>],
    store: &SignatureStore,
) -> Result<Vec<Vec<u64>>, BoxError> {
    let missing: Vec<(usize, String)> = (0..given.len())
        .filter(|idx| found[*idx].is_none() && !given[*idx].is_empty())
        .map(|idx| (idx, format!("/{}", given[idx].trim_start_matches("./"))))
        .collect();
    let mut ends = vec![Vec::new(); given.len()];
    store.read(|objects| {
        for batch in 0..store.batches() {
            for (name, id) in objects.names(batch)?.zip(store.ids(batch)) {
                for (idx, end) in &missing {
                    if ends[*idx].len() < 2 && name.ends_with(end) && store.has(id) {
                        ends[*idx].push(id);
                    }
                }
            }
        }
        Ok(ends)
    })
}

/// The error for a query that is nothing, with the name that may be meant.
fn not_found(query: &str, store: &SignatureStore) -> Result<BoxError, BoxError> {
    let (near, was_removed) = store.read::<_, BoxError>(|objects| {
        let (mut names, mut was_removed) = (Vec::new(), false);
        for batch in 0..store.batches() {
            let left = SUGGESTIONS_FROM - names.len();
            let named = || Ok::<_, BoxError>(objects.names(batch)?.zip(store.ids(batch)));
            names.extend(named()?.filter(|(_, id)| store.has(*id)).map(|(name, _)| name).take(left));
            was_removed = was_removed || named()?.any(|(name, id)| name == query && !store.has(id));
        }
        Ok((did_you_mean(query, names), was_removed))
    })?;
    if was_removed {
        return Ok(BoxError::new(format!(
            "`{query}` was removed from `{}`: ask for an object that is there, or add it again with `boxwork add`",
            store.path().display()
        )));
    }
    Ok(BoxError::new(format!(
        "`{query}` is neither the name of an object in `{}` nor an image file{near}",
        store.path().display()
    )))
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
        let store: Resource = Arc::clone(store) as Resource;
        Harness::with_resources(&READ_QUERY, given, [("s", store)]).unwrap()
    }

    fn check(store: &Arc<SignatureStore>, queries: &[&str]) -> Envelope {
        let mut harness = harness(store, queries);
        harness.run().unwrap();
        assert!(harness.is_done());
        assert_eq!(harness.progress(), (queries.len() as u64, queries.len() as u64));
        harness.taken("queries").remove(0)
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
        let columns = SignatureColumns::new(queries.lists("signature").unwrap()).unwrap();
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
        let info = StoreInfo { parameters: Some(json), source: None };
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
        let found = SignatureColumns::new(queries.lists("signature").unwrap()).unwrap();
        for row in 0..2 {
            assert_eq!(found.signature(row).weights(), expected.signature(0).weights());
            assert_eq!(found.signature(row).coordinate(6), expected.signature(0).coordinate(6));
        }
        fs::write(&file, b"no image").unwrap();
        check_error(&store, file.to_str().unwrap(), &["query `", "query.png", "no image of a known format"]);
    }
}
