//! Finds or makes the objects that queries ask for: objects of the store, texts, image files and pictures in memory.
//!
//! Invariant: an image is scaled and extracted with the parameters that the store keeps of its own images, wherever it
//! comes from, so a file and its decoded pixels give equal signatures.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray, UInt32Array};
use boxwork_kernels::extract::{Extractor, ImageRef};
use boxwork_kernels::interrupt::{Interrupt, ask};
use boxwork_runtime::operator::BoxError;
use boxwork_runtime::parameter::did_you_mean;
use boxwork_stores::kinds::as_f32;
use boxwork_stores::signature::{PCT_COORDINATES, SignatureBuilder};
use boxwork_stores::signature_store::SignatureStore;
use boxwork_stores::store::{Store, concatenated};
use image::RgbImage;

use crate::images::decode::{Scaler, decode_image};
use crate::images::extract::{parameters_from_json, push, scaled_size};
use crate::images::read_files::read_whole;

/// At most this many names are compared with a misspelt query.
const SUGGESTIONS_FROM: usize = 100_000;

/// A query as a program gives it.
#[derive(Clone, Debug)]
pub enum Asked {
    /// As `read_query` takes it: a name, the end of one, an image file, or an object as text.
    Text(String),
    /// An object of the store.
    Id(u64),
    /// An upright picture in memory.
    Picture {
        /// In pixels.
        width: u32,
        /// In pixels.
        height: u32,
        /// Three bytes a pixel, row by row from the top.
        rgb: Vec<u8>,
    },
    /// The object itself: an array of one object.
    Object(ArrayRef),
}

/// The queries as a batch for box `read_query`: its columns are `query`, `name` and `object`, and the
/// queries are numbered from 0. Blocks on the disk. It checks `cancelled` before each query, and as it reads names.
///
/// # Errors
/// When an object is not there, a file is no image, or the store does not say how to extract one; and when the caller
/// cancels it.
///
/// # Panics
/// When there is no query.
pub fn query_objects(
    store: &Arc<dyn Store>,
    queries: Vec<Asked>,
    cancelled: &dyn Fn() -> bool,
) -> Result<RecordBatch, BoxError> {
    assert!(!queries.is_empty(), "a batch of no queries has no columns");
    let texts: Vec<String> = queries
        .iter()
        .filter_map(|query| match query {
            Asked::Text(text) => Some(text.clone()),
            _ => None,
        })
        .collect();
    let mut found = look_up(&texts, &**store, cancelled)?.into_iter();
    let (mut names, mut objects, mut images) = (Vec::new(), Vec::new(), Images::new(Arc::clone(store)));
    for (idx, query) in queries.into_iter().enumerate() {
        if cancelled() {
            return Err(BoxError::new("the search was cancelled"));
        }
        let at = |message: String| BoxError::new(format!("query {idx}: {message}"));
        let (name, object) = match query {
            Asked::Text(text) => match found.next() {
                Some(Found::Object(id)) => of_store(&**store, id)?,
                Some(Found::Spelt(object)) => (text, object),
                Some(Found::File) => {
                    let object = read_whole(&text).and_then(|content| images.of_file(&content));
                    let object =
                        object.map_err(|message| BoxError::new(format!("query `{text}`: {message}")))?;
                    (text, object)
                }
                None => return Err(at("it was not looked up".to_owned())),
            },
            Asked::Id(id) if !store.has(id) => {
                let path = store.path().display();
                let what = if id < store.ids_count() { "was removed" } else { "is not there" };
                return Err(at(format!(
                    "object {id} of `{path}` {what}: its ids are below {}",
                    store.ids_count()
                )));
            }
            Asked::Id(id) => of_store(&**store, id)?,
            Asked::Picture { width, height, rgb } => {
                let picture = RgbImage::from_raw(width, height, rgb)
                    .filter(|picture| picture.width() > 0 && picture.height() > 0)
                    .ok_or_else(|| at(format!("the picture has not {width} x {height} pixels of 3 bytes")))?;
                (format!("picture {idx}"), images.of_picture(&picture).map_err(at)?)
            }
            Asked::Object(object) => (format!("object {idx}"), object),
        };
        names.push(name);
        objects.push(object);
    }
    batch(names, &objects)
}

fn of_store(store: &dyn Store, id: u64) -> Result<(String, ArrayRef), BoxError> {
    Ok((store.name(id)?, store.objects(&[id])?))
}

/// A batch of queries, numbered from 0.
pub(super) fn batch(names: Vec<String>, objects: &[ArrayRef]) -> Result<RecordBatch, BoxError> {
    // A vector of a text has numbers of 32 bits, whatever the store's are.
    let is_one_type = objects.windows(2).all(|pair| pair[0].data_type() == pair[1].data_type());
    let widened: Option<Vec<ArrayRef>> =
        if is_one_type { None } else { objects.iter().map(as_f32).collect() };
    let objects = widened.as_deref().unwrap_or(objects);
    let columns: [(&str, ArrayRef); 3] = [
        ("query", Arc::new(UInt32Array::from_iter_values(0..names.len() as u32))),
        ("name", Arc::new(StringArray::from(names))),
        ("object", concatenated(objects)?),
    ];
    Ok(RecordBatch::try_from_iter(columns)?)
}

/// The source of a query's object.
#[derive(Clone, Debug)]
pub(crate) enum Found {
    /// An object of the store.
    Object(u64),
    /// An image file.
    File,
    /// The text itself.
    Spelt(ArrayRef),
}

/// Extracts images as a store's images were.
pub(crate) struct Images {
    store: Arc<dyn Store>,
    /// Made for the first image.
    tools: Option<(Scaler, Extractor)>,
}

impl Images {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, tools: None }
    }

    /// The signature of an image file with this content.
    pub(crate) fn of_file(&mut self, content: &[u8]) -> Result<ArrayRef, String> {
        // Made first: where no image can be extracted, none needs to be decoded.
        self.tools()?;
        self.of_picture(&decode_image(content)?)
    }

    /// The signature of an upright picture.
    fn of_picture(&mut self, picture: &RgbImage) -> Result<ArrayRef, String> {
        let (scaler, extractor) = self.tools()?;
        let rgb = scaler.scale(picture).map_err(|error| error.to_string())?;
        let side = scaler.size() as usize;
        let image = ImageRef::new(side, side, &rgb).map_err(|error| error.to_string())?;
        // The store's coordinates are these, as `images_as_in` has checked.
        let mut signature = SignatureBuilder::new(&PCT_COORDINATES).map_err(|error| error.to_string())?;
        push(extractor, image, &mut signature)?;
        Ok(Arc::new(signature.finish()))
    }

    fn tools(&mut self) -> Result<&mut (Scaler, Extractor), String> {
        if self.tools.is_none() {
            let Some(store) = Arc::clone(&self.store).as_signatures() else {
                return Err("it is an image, and the store does not hold signatures of images".to_owned());
            };
            self.tools = Some(images_as_in(&store)?);
        }
        self.tools.as_mut().ok_or_else(|| unreachable!("the tools were just made"))
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
pub(crate) fn look_up(
    given: &[String],
    store: &dyn Store,
    interrupt: Interrupt<'_>,
) -> Result<Vec<Found>, BoxError> {
    let mut found: Vec<Option<Found>> = Vec::with_capacity(given.len());
    for query in given {
        found.push(store.find_until(query, interrupt)?.map(Found::Object));
    }
    if found.iter().any(Option::is_none) {
        let by_end = look_up_ends(given, &found, store, interrupt)?;
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
    store.bring_in_until(&objects.collect::<Vec<u64>>(), interrupt)?;
    Ok(found)
}

/// For each query not found yet: the first two objects whose names end with it, after a slash.
fn look_up_ends(
    given: &[String],
    found: &[Option<Found>],
    store: &dyn Store,
    interrupt: Interrupt<'_>,
) -> Result<Vec<Vec<u64>>, BoxError> {
    // Ends are looked up by their lengths: to compare each name with each query would take longer than the search.
    let mut missing: HashMap<&str, Vec<usize>> = HashMap::new();
    for (idx, query) in
        given.iter().enumerate().filter(|(idx, query)| found[*idx].is_none() && !query.is_empty())
    {
        missing.entry(query.trim_start_matches("./")).or_default().push(idx);
    }
    let lengths: BTreeSet<usize> = missing.keys().map(|end| end.len()).collect();
    let mut ends = vec![Vec::new(); given.len()];
    if missing.is_empty() {
        return Ok(ends);
    }
    for batch in 0..store.batches() {
        ask(interrupt)?;
        store.each_name(batch, &mut |id, name| {
            let starts = lengths.iter().map_while(|length| name.len().checked_sub(*length));
            for start in starts.filter(|start| name.as_bytes()[..*start].ends_with(b"/")) {
                for idx in missing.get(&name[start..]).into_iter().flatten() {
                    if ends[*idx].len() < 2 && store.has(id) {
                        ends[*idx].push(id);
                    }
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
    use boxwork_kernels::interrupt::never;
    use boxwork_stores::kinds::{Kind as _, Texts};
    use boxwork_stores::object_store::Rows;

    use super::*;

    #[test]
    fn objects_are_found_by_the_ends_of_their_names() {
        let mut rows = Rows::new(Texts);
        for name in [
            "p/cats/1.jpg",
            "p/dogs/1.jpg",
            "p/dogs/2.jpg",
            "q/dogs/2.jpg",
            "p/mydogs/3.jpg",
            "3.jpg",
            "p/\u{732b}/\u{e9}.jpg",
        ] {
            rows.push(name, |builder| Texts::push(builder, &['a'])).unwrap();
        }
        let store = rows.finish_without(vec![3], Path::new("texts"), None).unwrap();
        let found = |given: &[&str]| {
            let given: Vec<String> = given.iter().map(|query| (*query).to_owned()).collect();
            look_up(&given, &store, &never)
        };
        // Equal queries, a slash within, a beginning of the folder, an object that was removed, and a whole name.
        let given = [
            "cats/1.jpg",
            "./cats/1.jpg",
            "cats/1.jpg",
            "2.jpg",
            "mydogs/3.jpg",
            "3.jpg",
            "p/dogs/1.jpg",
            "\u{e9}.jpg",
        ];
        let ids: Vec<Option<u64>> = found(&given)
            .unwrap()
            .into_iter()
            .map(|found| if let Found::Object(id) = found { Some(id) } else { None })
            .collect();
        assert_eq!(ids, [0, 0, 0, 2, 4, 5, 1, 6].map(Some));
        let message = found(&["2.jpg", "1.jpg"]).map(drop).expect_err("two names end so").to_string();
        assert!(message.contains("p/cats/1.jpg") && message.contains("p/dogs/1.jpg"), "{message}");
        // The end of a name begins after a slash: this is a text of its own.
        assert!(matches!(found(&["jpg"]).unwrap()[..], [Found::Spelt(_)]));
    }
}
