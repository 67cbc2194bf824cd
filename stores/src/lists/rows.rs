//! The vectors of lists, which come into memory when a query first looks into their list.
//!
//! Invariant: vectors are used only after the checksum of their batch was verified, and stay as they were then.

use std::ops::Range;
use std::sync::OnceLock;

use boxwork_kernels::CodePath;
use boxwork_kernels::memory::{MemoryRefused, filled};
use boxwork_kernels::panels::{PANEL, halves_of, widen};
use boxwork_kernels::vector::{NumberType, VectorMeasure, VectorRef};
use half::f16;

use super::super::packed_file::{PackedBatch, PackedBatches, PackedError};
use super::filling::fill;
use super::layout;

/// Why vectors do not come.
#[derive(Debug)]
pub(super) enum Fault {
    /// The file is damaged, or cannot be read.
    File(PackedError),
    /// The system has no memory for them.
    Memory(MemoryRefused),
}

impl From<PackedError> for Fault {
    fn from(error: PackedError) -> Self {
        Self::File(error)
    }
}

impl From<MemoryRefused> for Fault {
    fn from(refused: MemoryRefused) -> Self {
        Self::Memory(refused)
    }
}

/// The vectors of all lists.
#[derive(Debug)]
pub(super) struct Rows {
    dimensions: usize,
    measure: VectorMeasure,
    files: Vec<RowsFile>,
    /// No vector is longer.
    norm_max: f64,
}

/// A file of lists.
#[derive(Debug)]
struct RowsFile {
    /// Its first panel among those of all files.
    first: usize,
    batches: PackedBatches,
    numbers: NumberType,
    loaded: Vec<OnceLock<Loaded>>,
}

/// The vectors of a batch.
#[derive(Debug)]
struct Loaded {
    /// In the order of `Panels`.
    numbers: Numbers,
    /// Half the squared norm of each, or 0 for inner products; infinite where there is no vector that counts.
    halves: Vec<f32>,
    norm: f64,
}

/// Numbers of the type of their file.
#[derive(Debug)]
enum Numbers {
    F32(Vec<f32>),
    F16(Vec<f16>),
    U8(Vec<u8>),
    I8(Vec<i8>),
}

impl Numbers {
    /// Numbers from their bytes; `None` if one is not finite.
    fn of(
        kind: NumberType,
        bytes: &[u8],
        what: impl Fn() -> String + Copy,
    ) -> Result<Option<Self>, MemoryRefused> {
        let count = bytes.len() / kind.bytes();
        let advice = "free memory";
        Ok(match kind {
            NumberType::F32 => {
                let mut numbers = filled(count, 0.0, what, advice)?;
                fill(&mut numbers, bytes, f32::MIN).map(|()| Self::F32(numbers))
            }
            NumberType::F16 => {
                let mut numbers = filled(count, f16::ZERO, what, advice)?;
                let each = numbers.iter_mut().zip(bytes.as_chunks::<2>().0);
                each.for_each(|(to, bytes)| *to = f16::from_le_bytes(*bytes));
                numbers.iter().all(|x| x.is_finite()).then_some(Self::F16(numbers))
            }
            NumberType::U8 => {
                let mut numbers = filled(count, 0, what, advice)?;
                numbers.copy_from_slice(bytes);
                Some(Self::U8(numbers))
            }
            NumberType::I8 => {
                let mut numbers = filled(count, 0, what, advice)?;
                numbers.iter_mut().zip(bytes).for_each(|(to, byte)| *to = *byte as i8);
                Some(Self::I8(numbers))
            }
        })
    }

    fn all(&self) -> VectorRef<'_> {
        match self {
            Self::F32(numbers) => VectorRef::F32(numbers),
            Self::F16(numbers) => VectorRef::F16(numbers),
            Self::U8(numbers) => VectorRef::U8(numbers),
            Self::I8(numbers) => VectorRef::I8(numbers),
        }
    }
}

/// Some of the numbers.
pub(super) fn part_of(numbers: VectorRef<'_>, at: Range<usize>) -> VectorRef<'_> {
    match numbers {
        VectorRef::F32(numbers) => VectorRef::F32(&numbers[at]),
        VectorRef::F16(numbers) => VectorRef::F16(&numbers[at]),
        VectorRef::U8(numbers) => VectorRef::U8(&numbers[at]),
        VectorRef::I8(numbers) => VectorRef::I8(&numbers[at]),
    }
}

/// Numbers as f32: where they are, or widened to a place that is kept for the next ones.
pub(super) fn widened<'a>(path: CodePath, numbers: VectorRef<'a>, to: &'a mut Vec<f32>) -> &'a [f32] {
    if let VectorRef::F32(numbers) = numbers {
        return numbers;
    }
    to.resize(numbers.len(), 0.0);
    widen(path, numbers, to);
    to
}

impl Rows {
    /// No vectors yet, none of which is longer than this.
    pub(super) fn new(dimensions: usize, measure: VectorMeasure, norm_max: f64) -> Self {
        Self { dimensions, measure, files: Vec::new(), norm_max }
    }

    /// Adds the batches of a file, whose first panel is this one among all.
    pub(super) fn push(&mut self, first: usize, batches: PackedBatches, numbers: NumberType) {
        let loaded = (0..batches.len()).map(|_| OnceLock::new()).collect();
        self.files.push(RowsFile { first, batches, numbers, loaded });
    }

    /// No vector is longer.
    pub(super) fn norm_max(&self) -> f64 {
        self.norm_max
    }

    /// Brings all vectors in, and takes the length of the longest from them: files of earlier programs do not note it.
    pub(super) fn measure_all(&mut self, alive: &[u32]) -> Result<(), Fault> {
        let mut norm_max = 0.0_f64;
        for file in &self.files {
            for batch in 0..file.loaded.len() {
                norm_max = norm_max.max(self.load(file, batch, alive, f64::INFINITY)?.norm);
            }
        }
        self.norm_max = norm_max;
        Ok(())
    }

    /// The file of a panel, its batch there, and the batch's first panel among all.
    fn place(&self, panel: usize) -> (&RowsFile, usize, usize) {
        let file = &self.files[self.files.partition_point(|file| file.first <= panel) - 1];
        let batch = (panel - file.first) / file.batches.rows_each();
        (file, batch, file.first + batch * file.batches.rows_each())
    }

    /// Whether the vectors of some panels, which are of one batch, are in memory.
    pub(super) fn has(&self, panels: &Range<usize>) -> bool {
        let (file, batch, _) = self.place(panels.start);
        file.loaded[batch].get().is_some()
    }

    /// Brings in the batch of some panels. A bit of `alive` for each vector says whether its object is there still; it is
    /// empty if none was removed. Blocks on the disk.
    pub(super) fn bring_in(&self, panels: &Range<usize>, alive: &[u32]) -> Result<(), Fault> {
        let (file, batch, _) = self.place(panels.start);
        self.load(file, batch, alive, self.norm_max).map(drop)
    }

    fn load<'a>(
        &self,
        file: &'a RowsFile,
        batch: usize,
        alive: &[u32],
        norm_max: f64,
    ) -> Result<&'a Loaded, Fault> {
        if let Some(loaded) = file.loaded[batch].get() {
            return Ok(loaded);
        }
        let first = file.first + batch * file.batches.rows_each();
        let of_batch =
            |content: PackedBatch<'_>| self.loaded(content, file.numbers, first, alive).transpose();
        let loaded = file.batches.batch(batch, of_batch)??;
        if loaded.norm > norm_max {
            return Err(file.batches.damaged(batch, "a vector is longer than its footer says").into());
        }
        // Another thread may have been first, with equal vectors.
        Ok(file.loaded[batch].get_or_init(|| loaded))
    }

    /// The vectors of a batch; `None` if it does not hold what lists do.
    fn loaded(
        &self,
        batch: PackedBatch<'_>,
        numbers: NumberType,
        first: usize,
        alive: &[u32],
    ) -> Result<Option<Loaded>, MemoryRefused> {
        let (dimensions, rows) = (self.dimensions, batch.rows);
        let widths = layout::widths(dimensions * PANEL * numbers.bytes());
        let Some(columns) = batch.columns_of(&widths) else { return Ok(None) };
        let what = || format!("{} vectors of lists", rows * PANEL);
        let Some(numbers) = Numbers::of(numbers, columns[3], what)? else { return Ok(None) };
        let (mut halves, mut norm, mut wide) = (Vec::with_capacity(rows * PANEL), 0.0_f64, Vec::new());
        let panel = dimensions * PANEL;
        for row in 0..rows {
            let of_panel = part_of(numbers.all(), row * panel..(row + 1) * panel);
            let (of_panel, longest) =
                halves_of(widened(CodePath::detect(), of_panel, &mut wide), dimensions, PANEL);
            halves.extend(of_panel);
            norm = norm.max(longest);
        }
        if self.measure != VectorMeasure::L2 {
            halves.fill(0.0);
        }
        // No infinite score is within a limit.
        for (halves, count) in halves.chunks_exact_mut(PANEL).zip(columns[1].as_chunks::<4>().0) {
            let count = u32::from_le_bytes(*count) as usize;
            halves[count.min(PANEL)..].fill(f32::INFINITY);
        }
        if !alive.is_empty() {
            leave_out(&alive[first..first + rows], &mut halves);
        }
        Ok(Some(Loaded { numbers, halves, norm }))
    }

    /// The numbers and the halves of the vectors of some panels, which are of one batch.
    ///
    /// # Panics
    /// When they were not brought in.
    pub(super) fn of(&self, panels: &Range<usize>) -> (VectorRef<'_>, &[f32]) {
        let (file, batch, first) = self.place(panels.start);
        let loaded = file.loaded[batch].get().expect("lists are brought in before they are scanned");
        let (from, to) = ((panels.start - first) * PANEL, (panels.end - first) * PANEL);
        let numbers = part_of(loaded.numbers.all(), from * self.dimensions..to * self.dimensions);
        (numbers, &loaded.halves[from..to])
    }
}

/// Makes the halves of rows without a bit in a mask infinite: no such score is within a limit.
pub(super) fn leave_out(mask: &[u32], halves: &mut [f32]) {
    let each = mask.iter().flat_map(|word| (0..PANEL).map(move |bit| word >> bit & 1 != 0));
    halves.iter_mut().zip(each).filter(|(_, passes)| !passes).for_each(|(half, _)| *half = f32::INFINITY);
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Float32Array, ListArray, StringArray};
    use arrow_buffer::OffsetBuffer;
    use arrow_schema::{DataType, Field};
    use boxwork_kernels::chance::Random;
    use boxwork_kernels::pieces::one_by_one;
    use boxwork_kernels::rotation::Start;

    use super::super::{Assigned, Coding, Lists, ListsOptions, Training, vectors, write};
    use crate::arrow_file::{tail_checksum, tail_digits};
    use crate::kinds::Vectors;
    use crate::object_store;
    use crate::space::Space;
    use crate::spaces::{self, DistanceOptions};
    use crate::store::Store;

    const DIMENSIONS: usize = 300;
    const COUNT: usize = 9000;

    /// A space of vectors in clusters, which take several batches.
    fn space() -> Arc<dyn Space> {
        let mut random = Random::new(117);
        let centres: Vec<f32> = (0..12 * DIMENSIONS).map(|_| 9.0 * random.normal_f32()).collect();
        let mut rows = object_store::Rows::new(Vectors::new(DIMENSIONS));
        for first in (0..COUNT).step_by(1000) {
            let numbers: Vec<f32> = (0..1000)
                .flat_map(|_| {
                    let centre = random.idx(12) * DIMENSIONS;
                    (0..DIMENSIONS).map(|j| centres[centre + j] + random.normal_f32()).collect::<Vec<_>>()
                })
                .collect();
            let item = Arc::new(Field::new("item", DataType::Float32, false));
            let offsets = OffsetBuffer::from_repeated_length(DIMENSIONS, 1000);
            let lists: ArrayRef =
                Arc::new(ListArray::new(item, offsets, Arc::new(Float32Array::from(numbers)), None));
            let names = (first..first + 1000).map(|row| row.to_string());
            rows.append(StringArray::from_iter_values(names), &[lists]).unwrap();
        }
        let store = rows.finish_without(vec![7, 8000], Path::new("rows"), None).unwrap();
        spaces::open(&DistanceOptions::named("l2"), Arc::new(store) as Arc<dyn Store>).unwrap()
    }

    fn write_lists(space: &Arc<dyn Space>, path: &Path) {
        let options = ListsOptions {
            lists: Some(24),
            coding: Coding::Rows,
            parts: None,
            bits: None,
            iterations: 3,
            seed: 1,
            rotate: None,
            rotate_start: Start::Principal,
            spread: false,
            spherical: false,
        };
        let training = Training::new(space, options).unwrap();
        let quantizers = training.train(&mut one_by_one()).unwrap().unwrap();
        let ids: Vec<u64> = space.store().among(0..space.store().ids_count()).collect();
        let (lists, codes) = quantizers.assign(&vectors(&**space.store(), &ids).unwrap());
        write(path, space, &quantizers, &Assigned { ids, lists, codes }, &|| false).unwrap();
    }

    /// The ids of a list that a query of an object keeps, with their scores.
    fn found(lists: &Lists, list: u32, id: u64) -> Result<Vec<(u64, f32)>, crate::lists::ListsError> {
        lists.bring_in(&[list], &|| false)?;
        assert!(lists.has(&[list]));
        let query = vectors(&**lists.space().store(), &[id]).unwrap();
        let mut kept = vec![lists.shortlist(&query, 20, f64::INFINITY)];
        lists.scan(list, &lists.queries(query), &[0], None, &mut kept);
        let mut kept: Vec<(u64, f32)> =
            kept[0].kept().iter().map(|(score, place)| (lists.id(*place), *score)).collect();
        kept.sort_by_key(|(id, _)| *id);
        Ok(kept)
    }

    #[test]
    fn lists_are_read_when_they_are_looked_into_and_each_batch_is_checked() {
        let folder = tempfile::tempdir().unwrap();
        let (space, path) = (space(), folder.path().join("v.lists.arrow"));
        write_lists(&space, &path);
        let lists = Lists::open(&path, &space).unwrap();
        let every: Vec<u32> = (0..24).collect();
        assert!(!lists.has(&every));
        let sound: Vec<_> = every.iter().map(|list| found(&lists, *list, 3).unwrap()).collect();
        assert!(lists.has(&every) && sound.iter().flatten().all(|(id, _)| ![7, 8000].contains(id)));

        // A file of an earlier program notes no length: all of it is read.
        let whole = fs::read(&path).unwrap();
        let mut old = whole.clone();
        let key = b"boxwork.lists.norm";
        let at = old.windows(key.len()).position(|bytes| bytes == key).unwrap();
        old[at..at + key.len()].copy_from_slice(b"boxwork.lists.none");
        let length = old.len();
        let footer = u32::from_le_bytes(*old[length - 10..].first_chunk().unwrap()) as usize;
        let tail = &mut old[length - footer - 18..];
        let digits = tail_digits(tail).unwrap();
        let checksum = tail_checksum(tail, &digits);
        tail[digits].copy_from_slice(checksum.as_bytes());
        fs::write(&path, &old).unwrap();
        let lists = Lists::open(&path, &space).unwrap();
        assert!(lists.has(&every));
        for (list, sound) in every.iter().zip(&sound) {
            assert_eq!(found(&lists, *list, 3).unwrap(), *sound);
        }

        // Damage is met by those queries alone that look into it.
        let mut damaged = whole;
        let late = damaged.len() / 10 * 8;
        damaged[late] ^= 16;
        fs::write(&path, damaged).unwrap();
        let lists = Lists::open(&path, &space).unwrap();
        let (mut served, mut refused) = (0, 0);
        for (list, sound) in every.iter().zip(&sound) {
            match found(&lists, *list, 3) {
                Ok(found) => {
                    assert_eq!(found, *sound);
                    served += 1;
                }
                Err(error) => {
                    let said = error.to_string();
                    assert!(
                        said.contains("is damaged in block") && said.contains("boxwork lists "),
                        "{said}"
                    );
                    refused += 1;
                }
            }
        }
        assert!(served > 2 && refused > 2, "{served} lists are served, {refused} are not");
    }
}
