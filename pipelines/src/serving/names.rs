//! The names and classes of a store's objects, in memory: by id, by name, by class.

use std::collections::HashMap;

use boxwork_runtime::operator::BoxError;
use boxwork_runtime::parameter::nearest;
use boxwork_server::backend::{Class, Filter};
use boxwork_stores::store::Store;
use boxwork_stores::subset::class_of;

/// Names that a misspelt one is compared with.
const COMPARED_MAX: usize = 20_000;
/// Classes that a summary lists.
const CLASSES_MAX: usize = 1000;

/// No class.
const NONE: u32 = u32::MAX;

/// The names of a store.
#[derive(Debug)]
pub(super) struct Names {
    /// All names, one after the other.
    text: String,
    /// By id: where its name ends.
    ends: Vec<usize>,
    /// The ids of objects that are there, by name.
    by_name: Vec<u32>,
    /// By id: its class in `classes`.
    class: Vec<u32>,
    classes: Vec<Class>,
}

impl Names {
    /// Reads the names of a store; blocks on the disk.
    pub(super) fn new(store: &dyn Store) -> Result<Self, BoxError> {
        let count = store.ids_count();
        if count >= u64::from(u32::MAX) {
            return Err(BoxError::new("the store has more objects than a server takes: 4 billion"));
        }
        let (mut text, mut ends) = (String::new(), Vec::with_capacity(count as usize));
        for batch in 0..store.batches() {
            store.each_name(batch, &mut |_, name| {
                text.push_str(name);
                ends.push(text.len());
            })?;
        }
        let mut names = Self { text, ends, by_name: Vec::new(), class: Vec::new(), classes: Vec::new() };
        let mut by_name: Vec<u32> = (0..count as u32).filter(|id| store.has(u64::from(*id))).collect();
        by_name.sort_by(|a, b| names.name(u64::from(*a)).cmp(names.name(u64::from(*b))));
        names.by_name = by_name;
        names.classify(store);
        Ok(names)
    }

    fn classify(&mut self, store: &dyn Store) {
        let mut counts = std::collections::BTreeMap::<String, u64>::new();
        let of = |id: usize| class_of(self.name(id as u64)).map(str::to_owned);
        let classes: Vec<Option<String>> =
            (0..self.ends.len()).map(|id| of(id).filter(|_| store.has(id as u64))).collect();
        for class in classes.iter().flatten() {
            *counts.entry(class.clone()).or_default() += 1;
        }
        let places: HashMap<&str, u32> = counts.keys().map(String::as_str).zip(0..).collect();
        let place = |class: &Option<String>| places.get(class.as_deref()?).copied();
        self.class = classes.iter().map(|class| place(class).unwrap_or(NONE)).collect();
        self.classes = counts.into_iter().map(|(name, objects)| Class { name, objects }).collect();
    }

    /// The name of an id, whether its object is there or was removed.
    pub(super) fn name(&self, id: u64) -> &str {
        let id = id as usize;
        let start = if id == 0 { 0 } else { self.ends[id - 1] };
        &self.text[start..self.ends[id]]
    }

    /// The class of an id.
    pub(super) fn class(&self, id: u64) -> Option<&str> {
        let class = *self.class.get(id as usize)?;
        self.classes.get(class as usize).map(|class| class.name.as_str())
    }

    /// The object of a name.
    pub(super) fn find(&self, name: &str) -> Option<u64> {
        let found = self.by_name.binary_search_by(|id| self.name(u64::from(*id)).cmp(name));
        found.ok().map(|place| u64::from(self.by_name[place]))
    }

    /// A name that resembles this one.
    pub(super) fn similar(&self, name: &str) -> Option<String> {
        let known = self.by_name.iter().take(COMPARED_MAX).map(|id| self.name(u64::from(*id)));
        nearest(name, known).map(str::to_owned)
    }

    /// The number of objects of a class.
    pub(super) fn objects_of(&self, class: &str) -> u64 {
        self.classes.iter().find(|known| known.name == class).map_or(0, |known| known.objects)
    }

    /// The first classes by name.
    pub(super) fn classes(&self) -> Vec<Class> {
        self.classes.iter().take(CLASSES_MAX).cloned().collect()
    }

    /// The ids after an id that a filter lets through, removed objects included.
    pub(super) fn filtered<'a>(
        &'a self,
        filter: &'a Filter,
        after: Option<u64>,
    ) -> impl Iterator<Item = u64> + 'a {
        let class =
            filter.class.as_ref().map(|class| self.classes.iter().position(|known| known.name == *class));
        let start = after.map_or(0, |after| after.saturating_add(1)).min(self.ends.len() as u64);
        (start..self.ends.len() as u64).filter(move |id| {
            let of_class = match class {
                None => true,
                Some(None) => false,
                Some(Some(class)) => self.class[*id as usize] == class as u32,
            };
            of_class
                && filter.prefix.as_ref().is_none_or(|prefix| self.name(*id).starts_with(prefix.as_str()))
        })
    }
}

#[cfg(test)]
mod tests {
    use boxwork_stores::object_store::Access;

    use super::*;

    #[test]
    fn names_and_classes_are_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("words.jsonl");
        let line = |nth: usize| {
            let class = ["cats", "a/dogs", ""][nth % 3];
            format!(
                "{{\"name\": \"{class}{}w{nth}\", \"object\": \"w\"}}\n",
                if class.is_empty() { "" } else { "/" }
            )
        };
        std::fs::write(&path, (0..9).map(line).collect::<String>()).expect("written");
        let opened = boxwork_operators::open_store(&path, None, "name", None, Access::Read, None);
        let store = opened.expect("a store");
        let names = Names::new(&*store).expect("names");
        for id in 0..9 {
            assert_eq!(names.find(names.name(id)), Some(id));
        }
        assert_eq!(names.find("nothing"), None);
        let classes = names.classes();
        assert_eq!(classes.iter().map(|class| class.name.as_str()).collect::<Vec<_>>(), ["cats", "dogs"]);
        assert!(classes.iter().all(|class| class.objects == 3) && names.class(2).is_none());
        let first = classes[0].name.clone();
        let filter = Filter { class: Some(first.clone()), prefix: None };
        let found: Vec<u64> = names.filtered(&filter, None).collect();
        assert_eq!(found.len() as u64, classes[0].objects);
        assert!(found.iter().all(|id| names.class(*id) == Some(first.as_str())));
        assert_eq!(names.filtered(&filter, Some(found[0])).next(), found.get(1).copied());
        let nothing = Filter { class: Some("nothing".to_owned()), prefix: None };
        assert_eq!(names.filtered(&nothing, None).count(), 0);
        let prefix = Filter { class: None, prefix: Some(names.name(3).to_owned()) };
        assert_eq!(names.filtered(&prefix, None).collect::<Vec<_>>(), [3]);
        assert_eq!(names.filtered(&Filter::default(), Some(u64::MAX)).count(), 0);
    }
}
