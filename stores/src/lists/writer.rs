//! Writes lists, whole or not at all.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_array::{ArrayRef, FixedSizeBinaryArray, UInt32Array};
use arrow_buffer::Buffer;
use arrow_schema::Metadata;
use boxwork_kernels::interrupt::Interrupt;
use boxwork_kernels::panels::{PANEL, halves_of};
use boxwork_kernels::product::pack;
use boxwork_kernels::vector::{NumberType, VectorMeasure};
use half::f16;

use super::super::object_store::real_path;
use super::super::packed_file::{PackedError, PackedWriter, remove_parts};
use super::{Coding, ListsError, Quantizers, layout, measure, number_type, vectors_for};
use crate::space::Space;
use crate::store::Store;

/// All objects of a store with their lists, in the order of the store.
#[derive(Clone, Debug, Default)]
pub struct Assigned {
    /// Their ids.
    pub ids: Vec<u64>,
    /// The list of each.
    pub lists: Vec<u32>,
    /// The codes, if lists hold these, as [`Quantizers::assign`] gives them.
    pub codes: Vec<u8>,
}

/// Writes the lists of all objects of a space, and returns the number of objects. Asks `interrupt` for each batch.
///
/// # Errors
/// When not all objects came, one cannot be read, the file cannot be written, or the caller interrupts.
pub fn write(
    path: &Path,
    space: &Arc<dyn Space>,
    quantizers: &Quantizers,
    assigned: &Assigned,
    interrupt: Interrupt<'_>,
) -> Result<u64, ListsError> {
    let whole = real_path(path);
    let file =
        Target { whole: &whole, path: whole.clone(), format: layout::FORMAT.whole, link: None, panels: 0 };
    let written = file.write((&**space, 0), quantizers, assigned, interrupt)?;
    remove_parts(&whole, layout::FORMAT);
    Ok(written)
}

/// A file to write.
pub(super) struct Target<'a> {
    /// The first file of its chain.
    pub(super) whole: &'a Path,
    pub(super) path: PathBuf,
    pub(super) format: &'static str,
    /// Which file it follows or replaces.
    pub(super) link: Option<(&'static str, String)>,
    /// Panels of the files before it.
    pub(super) panels: u64,
}

impl Target<'_> {
    /// Writes the lists of the objects of a space from an id on, and returns their number.
    pub(super) fn write(
        self,
        (space, first): (&dyn Space, u64),
        quantizers: &Quantizers,
        assigned: &Assigned,
        interrupt: Interrupt<'_>,
    ) -> Result<u64, ListsError> {
        let (store, measure) = (space.store(), measure(space)?);
        let (found, objects) = (assigned.ids.len() as u64, store.count(first..store.ids_count()));
        let is_whole = store.among(first..store.ids_count()).eq(assigned.ids.iter().copied())
            && assigned.lists.len() == assigned.ids.len()
            && assigned.codes.len() == assigned.ids.len() * quantizers.code_bytes();
        if !is_whole {
            return Err(ListsError::Incomplete { path: self.whole.to_owned(), found, objects });
        }
        let of = |error: PackedError| ListsError::of(error, measure, store.path(), self.whole);
        let (dimensions, coding, parts) = (quantizers.dimensions(), quantizers.coding(), quantizers.parts());
        let numbers = number_type(space, measure)?;
        let version = layout::Columns::version(coding);
        let columns = layout::Columns::new(quantizers, numbers, version);
        let head = [
            (layout::FORMAT_KEY, self.format.to_owned()),
            (layout::VERSION_KEY, version.to_owned()),
            (layout::STORE_KEY, store.fingerprint().to_owned()),
            (layout::MEASURE_KEY, space.measure()),
            (layout::DIMENSIONS_KEY, dimensions.to_string()),
            (layout::CODING_KEY, coding.name().to_owned()),
            (layout::PARTS_KEY, parts.to_string()),
            (layout::NUMBERS_KEY, numbers.name().to_owned()),
            (layout::OBJECTS_KEY, objects.to_string()),
            (layout::CREATOR_KEY, layout::CREATOR.to_owned()),
        ];
        let has_quantizers = self.format == layout::FORMAT.whole;
        let head = head.into_iter().chain(self.link);
        let metadata = Metadata::from_iter(head.map(|(key, value)| (key.to_owned(), value)));
        let schema = columns.schema(metadata);
        let panels = panels(assigned, quantizers.lists());
        layout::check_panels(self.panels + panels.len() as u64, self.whole)?;
        let mut file = PackedWriter::create(self.whole, &self.path, &schema).map_err(of)?;
        let (mut norm_max, mut places) = (0.0, crc32fast::Hasher::new());
        for panels in panels.chunks(columns.panels_of_batch()) {
            if interrupt() {
                return Err(ListsError::Cancelled);
            }
            let of_store = (&**store, measure, numbers);
            let arrays = batch(of_store, quantizers, assigned, panels, columns, &mut norm_max)?;
            arrays[..2]
                .iter()
                .for_each(|words| places.update(words.as_primitive::<UInt32Type>().values().inner()));
            file.write(arrays).map_err(of)?;
        }
        store.confirm()?;
        let mut notes = if has_quantizers { layout::notes(quantizers) } else { Vec::new() };
        notes.push(layout::places_note(places.finalize()));
        if coding == Coding::Rows {
            notes.push(layout::norm_note(norm_max));
        }
        file.finish(notes).map_err(of)?;
        Ok(objects)
    }
}

/// Adds numbers that are of a narrower type without an error.
fn push_numbers(to: &mut Vec<u8>, numbers: &[f32], kind: NumberType) {
    match kind {
        NumberType::F32 => to.extend(numbers.iter().flat_map(|x| x.to_le_bytes())),
        NumberType::F16 => to.extend(numbers.iter().flat_map(|x| f16::from_f32(*x).to_le_bytes())),
        NumberType::U8 => to.extend(numbers.iter().map(|x| *x as u8)),
        NumberType::I8 => to.extend(numbers.iter().map(|x| *x as i8 as u8)),
    }
}

/// Panels of at most [`PANEL`] objects of one list, by their places.
fn panels(assigned: &Assigned, lists: usize) -> Vec<(u32, Vec<usize>)> {
    let mut of_list = vec![Vec::new(); lists];
    for (place, list) in assigned.lists.iter().enumerate() {
        of_list[*list as usize].push(place);
    }
    let each = of_list.iter().enumerate();
    each.flat_map(|(list, places)| places.chunks(PANEL).map(move |places| (list as u32, places.to_vec())))
        .collect()
}

/// The columns of some panels; raises `norm_max` to the length of the longest vector, if lists hold vectors.
fn batch(
    (store, measure, numbers): (&dyn Store, VectorMeasure, NumberType),
    quantizers: &Quantizers,
    assigned: &Assigned,
    panels: &[(u32, Vec<usize>)],
    columns: layout::Columns,
    norm_max: &mut f64,
) -> Result<Vec<ArrayRef>, ListsError> {
    let (dimensions, parts) = (quantizers.dimensions(), quantizers.parts());
    let mut ids_bytes = Vec::with_capacity(panels.len() * layout::IDS_BYTES);
    let mut held = Vec::with_capacity(panels.len() * columns.held_bytes);
    // The numbers beside what is held, a column each.
    let mut beside = vec![Vec::with_capacity(panels.len() * PANEL); columns.beside()];
    for (_, places) in panels {
        let ids: Vec<u64> = places.iter().map(|place| assigned.ids[*place]).collect();
        let padded = ids.iter().copied().chain(std::iter::repeat_n(0, PANEL - ids.len()));
        ids_bytes.extend(padded.flat_map(u64::to_le_bytes));
        match quantizers.coding().bits() {
            None => {
                store.bring_in(&ids)?;
                let rows = vectors_for(measure, store, &ids, dimensions)?;
                let mut panel = vec![0.0f32; dimensions * PANEL];
                for (row, numbers) in rows.chunks_exact(dimensions).enumerate() {
                    numbers.iter().enumerate().for_each(|(j, x)| panel[j * PANEL + row] = *x);
                }
                let (mut halves, longest) = halves_of(&panel, dimensions, PANEL);
                *norm_max = norm_max.max(longest);
                layout::beside_of(measure, places.len(), &mut halves);
                beside[0].extend(halves);
                push_numbers(&mut held, &panel, numbers);
            }
            Some(bits) => {
                let size = quantizers.code_bytes();
                let each =
                    || places.iter().map(|place| assigned.codes[place * size..][..size].split_at(parts));
                held.extend(pack(
                    &each().flat_map(|(code, _)| code).copied().collect::<Vec<u8>>(),
                    parts,
                    bits,
                ));
                for (factor, column) in beside.iter_mut().enumerate() {
                    // Inner products take no square.
                    let is_left_out = factor == 0 && measure == VectorMeasure::InnerProduct;
                    let number = |(_, factors): (&[u8], &[u8])| match factors[factor * 4..].first_chunk() {
                        Some(bytes) if !is_left_out => f32::from_le_bytes(*bytes),
                        _ => 0.0,
                    };
                    column.extend(each().map(number).chain(std::iter::repeat_n(0.0, PANEL - places.len())));
                }
            }
        }
    }
    let binary = |bytes: Vec<u8>, width: usize| -> ArrayRef {
        let array = FixedSizeBinaryArray::try_new(width as i32, Buffer::from_vec(bytes), None);
        Arc::new(array.expect("whole panels"))
    };
    let mut arrays: Vec<ArrayRef> = vec![
        Arc::new(UInt32Array::from_iter_values(panels.iter().map(|(list, _)| *list))),
        Arc::new(UInt32Array::from_iter_values(panels.iter().map(|(_, places)| places.len() as u32))),
        binary(ids_bytes, layout::IDS_BYTES),
        binary(held, columns.held_bytes),
    ];
    let bytes = |numbers: Vec<f32>| numbers.into_iter().flat_map(f32::to_le_bytes).collect();
    arrays.extend(beside.into_iter().map(|numbers| binary(bytes(numbers), layout::BESIDE_BYTES)));
    Ok(arrays)
}
