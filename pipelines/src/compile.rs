//! Turns a document into a declaration for the runtime's check, and a fault's place back into a place in the text.

use boxwork_runtime::parameter::Value;
use boxwork_runtime::plan::declaration::{BLOCKING, COPIES, KIND};
use boxwork_runtime::plan::{
    BoxDeclaration, Declaration, EdgeDeclaration, Fault, FaultKind, HintDeclaration, Place,
    ResourceDeclaration, Setting,
};

use crate::document::span::{Marked, Span};
use crate::document::{Document, Entry};

/// The places of a declaration's parts in the text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    spots: Vec<(Place, Spot)>,
    head: Span,
}

#[derive(Clone, Copy, Debug)]
struct Spot {
    key: Span,
    value: Span,
}

impl Spot {
    fn one(span: Span) -> Self {
        Self { key: span, value: span }
    }
}

impl Places {
    fn put(&mut self, place: Place, spot: Spot) {
        self.spots.push((place, spot));
    }

    fn spot(&self, place: &Place) -> Option<Spot> {
        self.spots.iter().find(|(known, _)| known == place).map(|(_, spot)| *spot)
    }

    /// The place of a fault: the key if the key is wrong, else the value; if that is not written, its parent.
    pub(crate) fn span(&self, fault: &Fault, text: &str) -> Span {
        let spot = self.spot(&fault.place).or_else(|| self.spot(&holder(&fault.place)?));
        let Some(spot) = spot else { return self.head };
        match &fault.kind {
            FaultKind::UnknownParameter => spot.key,
            FaultKind::UnknownPipelineParameter(name) => {
                // The text may contain several parameters.
                let name = format!("${{{name}}}");
                let at = spot.value.of(text).and_then(|written| written.find(&name));
                at.map_or(spot.value, |at| {
                    Span::new(spot.value.start + at, spot.value.start + at + name.len())
                })
            }
            _ => spot.value,
        }
    }
}

fn holder(place: &Place) -> Option<Place> {
    match place {
        Place::BoxKind(name) | Place::BoxSetting(name, _) => Some(Place::Box(name.clone())),
        Place::ResourceKind(name) | Place::ResourceSetting(name, _) => Some(Place::Resource(name.clone())),
        Place::EdgeFrom(idx) | Place::EdgeTo(idx) => Some(Place::Edge(*idx)),
        Place::HintFrom(idx) | Place::HintTo(idx) => Some(Place::Hint(*idx)),
        _ => None,
    }
}

/// Makes the declaration and the map of its places.
pub(crate) fn compile(document: &Document) -> (Declaration, Places) {
    let mut places = Places { spots: Vec::new(), head: document.head };
    let mut declaration = Declaration::default();
    if let Some(queries) = &document.queries {
        places.put(Place::Queries, Spot::one(queries.span));
        declaration.queries = Some(queries.value);
    }
    for entry in &document.parameters {
        let place = Place::Parameter(entry.name.value.clone());
        places.put(place, Spot { key: entry.name.span, value: entry.name.span });
        declaration.parameters.push(entry.declaration.clone());
    }
    for entry in &document.resources {
        let name = entry.name.value.clone();
        places.put(Place::Resource(name.clone()), Spot::one(entry.name.span));
        let (kind, settings) = split(entry, &[KIND]);
        if let Some(kind) = kind.first() {
            places.put(Place::ResourceKind(name.clone()), Spot { key: kind.0.span, value: kind.1.span });
        }
        for (key, setting) in &settings {
            let place = Place::ResourceSetting(name.clone(), key.value.clone());
            places.put(place, Spot { key: key.span, value: setting.span });
        }
        let kind = kind.first().map_or_else(no_kind, |(_, kind)| kind.value.clone());
        declaration.resources.push(ResourceDeclaration { name, kind, settings: plain(&settings) });
    }
    for entry in &document.boxes {
        declaration.boxes.push(compile_box(entry, &mut places));
    }
    for (idx, edge) in document.edges.iter().enumerate() {
        places.put(Place::Edge(idx), Spot::one(edge.span));
        places.put(Place::EdgeFrom(idx), Spot::one(edge.from.span));
        places.put(Place::EdgeTo(idx), Spot::one(edge.to.span));
        declaration.edges.push(EdgeDeclaration {
            from: edge.from.value.clone(),
            to: edge.to.value.clone(),
            envelopes: edge.envelopes,
            bytes: edge.bytes,
        });
    }
    for (idx, hint) in document.hints.iter().enumerate() {
        places.put(Place::Hint(idx), Spot::one(hint.span));
        places.put(Place::HintFrom(idx), Spot::one(hint.from.span));
        places.put(Place::HintTo(idx), Spot::one(hint.to.span));
        let (from, to) = (hint.from.value.clone(), hint.to.value.clone());
        declaration.hints.push(HintDeclaration { from, to });
    }
    // A wrong default is shown at its own place, which the name's place would hide.
    for entry in &document.parameters {
        if let Some(Err(_)) = entry.declaration.default.as_ref().map(|value| entry.declaration.admit(value)) {
            let place = Place::Parameter(entry.name.value.clone());
            if let Some((_, spot)) = places.spots.iter_mut().find(|(known, _)| *known == place) {
                spot.value = entry.default;
            }
        }
    }
    (declaration, places)
}

fn compile_box(entry: &Entry, places: &mut Places) -> BoxDeclaration {
    let name = entry.name.value.clone();
    places.put(Place::Box(name.clone()), Spot::one(entry.name.span));
    let (own, settings) = split(entry, &[KIND, COPIES, BLOCKING]);
    let find = |wanted: &str| own.iter().find(|(key, _)| key.value == wanted);
    for (key, setting) in own.iter().chain(&settings) {
        let place = if key.value == KIND {
            Place::BoxKind(name.clone())
        } else {
            Place::BoxSetting(name.clone(), key.value.clone())
        };
        places.put(place, Spot { key: key.span, value: setting.span });
    }
    let blocking = find(BLOCKING).and_then(|(_, setting)| match &setting.value {
        Setting::Value(Value::Text(class)) => Some(class.clone()),
        _ => None,
    });
    BoxDeclaration {
        kind: find(KIND).map_or_else(no_kind, |(_, kind)| kind.value.clone()),
        copies: find(COPIES).map(|(_, copies)| copies.value.clone()),
        blocking,
        settings: plain(&settings),
        name,
    }
}

type Settings<'d> = Vec<&'d (Marked<String>, Marked<Setting>)>;

/// The settings with these keys, and the others.
fn split<'d>(entry: &'d Entry, own: &[&str]) -> (Settings<'d>, Settings<'d>) {
    entry.settings.iter().partition(|(key, _)| own.contains(&key.value.as_str()))
}

fn plain(settings: &Settings<'_>) -> Vec<(String, Setting)> {
    settings.iter().map(|(key, setting)| (key.value.clone(), setting.value.clone())).collect()
}

/// The kind of a box that names none; the document already has a flaw for it.
fn no_kind() -> Setting {
    Setting::Value(Value::Text(String::new()))
}
