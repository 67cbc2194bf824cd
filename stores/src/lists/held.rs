//! The content of the panels of lists, where it lies in their files.
//!
//! A batch of panels is checked when a query first looks into one of its lists: its checksum, its ids, and that its numbers are those
//! of vectors. Its columns are then slices of the map of its file, of which the system keeps in memory what it has room for. In
//! memory of our own are a few words for each batch and, where objects were removed, a bit for each vector of a batch that has some of
//! them; and what files of the first version keep in an order that no scan reads.
//!
//! Invariant: panels are used only after their batch was checked. What was found in them counts only after [`Held::confirm`]:
//! until then a file that is cut short or overwritten gives other numbers, and nothing worse.

use std::ops::Range;
use std::sync::OnceLock;

use arrow_buffer::{ArrowNativeType, Buffer, ScalarBuffer};
use boxwork_kernels::CodePath;
use boxwork_kernels::panels::{PANEL, halves_of, widen};
use boxwork_kernels::product::Scales;
use boxwork_kernels::vector::{NumberType, VectorMeasure, VectorRef};
use half::f16;

use super::super::packed_file::{MappedBatches, PackedError};
use super::layout::{Columns, beside_of};
use super::{Coding, Quantizers};
use crate::store::Store;

/// The content of all lists.
#[derive(Debug)]
pub(super) struct Held {
    dimensions: usize,
    coding: Coding,
    /// Bytes of the codes of a panel.
    code_bytes: usize,
    measure: VectorMeasure,
    files: Vec<HeldFile>,
    /// No vector is longer.
    norm_max: f64,
}

/// A file of lists.
#[derive(Debug)]
pub(super) struct HeldFile {
    /// Its first panel among those of all files.
    pub(super) first: usize,
    /// The ids that it may have.
    pub(super) ids: Range<u64>,
    pub(super) batches: MappedBatches,
    pub(super) columns: Columns,
    /// The type of its vectors' numbers.
    pub(super) numbers: NumberType,
    /// The batches that were checked.
    pub(super) checked: Vec<OnceLock<Batch>>,
}

/// The columns of a batch.
#[derive(Debug)]
pub(super) struct Batch {
    ids: ScalarBuffer<u64>,
    held: Numbers,
    /// Numbers beside each vector: half its squared norm, or 0 for ip and cosine, infinite where there is none; for a direction, its square.
    beside: ScalarBuffer<f32>,
    /// The scales of directions.
    scales: ScalarBuffer<f32>,
    /// A word for each panel, with a bit for each object that is there still; empty if none was removed.
    alive: Vec<u32>,
    norm: f64,
    /// Bytes in memory of our own.
    memory_bytes: usize,
}

/// Codes, or numbers of the type of their file.
#[derive(Debug)]
enum Numbers {
    Codes(Buffer),
    F32(ScalarBuffer<f32>),
    F16(ScalarBuffer<f16>),
    U8(ScalarBuffer<u8>),
    I8(ScalarBuffer<i8>),
}

impl Numbers {
    /// Numbers from their bytes; `None` if one is not finite.
    fn of(kind: NumberType, bytes: Buffer) -> Option<Self> {
        Some(match kind {
            NumberType::F32 => {
                let numbers = typed::<f32>(bytes);
                numbers.iter().all(|x| x.is_finite()).then_some(Self::F32(numbers))?
            }
            NumberType::F16 => {
                let numbers = typed::<f16>(bytes);
                numbers.iter().all(|x| x.is_finite()).then_some(Self::F16(numbers))?
            }
            NumberType::U8 => Self::U8(typed(bytes)),
            NumberType::I8 => Self::I8(typed(bytes)),
        })
    }

    fn all(&self) -> VectorRef<'_> {
        match self {
            Self::Codes(_) => unreachable!("lists of vectors"),
            Self::F32(numbers) => VectorRef::F32(numbers),
            Self::F16(numbers) => VectorRef::F16(numbers),
            Self::U8(numbers) => VectorRef::U8(numbers),
            Self::I8(numbers) => VectorRef::I8(numbers),
        }
    }
}

/// Bytes as numbers: where they are, unless another program's file has them at an odd place.
fn typed<T: ArrowNativeType>(bytes: Buffer) -> ScalarBuffer<T> {
    let bytes = match bytes.as_ptr().align_offset(align_of::<T>()) {
        0 => bytes,
        _ => Buffer::from_slice_ref(bytes.as_slice()),
    };
    let count = bytes.len() / size_of::<T>();
    ScalarBuffer::new(bytes, 0, count)
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

impl Held {
    /// Nothing yet of lists of some quantizers, which hold no longer vector than this.
    pub(super) fn new(
        quantizers: &Quantizers,
        code_bytes: usize,
        measure: VectorMeasure,
        norm_max: f64,
    ) -> Self {
        let (dimensions, coding) = (quantizers.dimensions(), quantizers.coding());
        Self { dimensions, coding, code_bytes, measure, files: Vec::new(), norm_max }
    }

    /// Adds a file, whose panels follow those of the files before.
    pub(super) fn push(&mut self, file: HeldFile) {
        self.files.push(file);
    }

    /// No vector is longer.
    pub(super) fn norm_max(&self) -> f64 {
        self.norm_max
    }

    /// Checks all batches of the files that `wanted` picks by their place.
    pub(super) fn check_all(
        &self,
        store: &dyn Store,
        wanted: impl Fn(usize) -> bool,
    ) -> Result<(), PackedError> {
        for file in self.files.iter().enumerate().filter(|(place, _)| wanted(*place)).map(|(_, file)| file) {
            (0..file.checked.len())
                .try_for_each(|batch| self.check(file, batch, store, self.norm_max).map(drop))?;
        }
        Ok(())
    }

    /// Checks all batches, and takes the length of the longest vector from them: files of earlier programs do not note it.
    pub(super) fn measure_all(&mut self, store: &dyn Store) -> Result<(), PackedError> {
        let mut norm_max = 0.0_f64;
        for file in &self.files {
            for batch in 0..file.checked.len() {
                norm_max = norm_max.max(self.check(file, batch, store, f64::INFINITY)?.norm);
            }
        }
        self.norm_max = norm_max;
        Ok(())
    }

    /// The file of a panel, its batch there, and the batch's first panel among all.
    fn place(&self, panel: usize) -> (&HeldFile, usize, usize) {
        let file = &self.files[self.files.partition_point(|file| file.first <= panel) - 1];
        let batch = (panel - file.first) / file.batches.rows_each();
        (file, batch, file.first + batch * file.batches.rows_each())
    }

    /// Whether the batch of some panels, which are of one, was checked.
    pub(super) fn has(&self, panels: &Range<usize>) -> bool {
        let (file, batch, _) = self.place(panels.start);
        file.checked[batch].get().is_some()
    }

    /// Checks the batch of some panels. Blocks on the disk.
    pub(super) fn bring_in(&self, panels: &Range<usize>, store: &dyn Store) -> Result<(), PackedError> {
        let (file, batch, _) = self.place(panels.start);
        self.check(file, batch, store, self.norm_max).map(drop)
    }

    fn check<'a>(
        &self,
        file: &'a HeldFile,
        batch: usize,
        store: &dyn Store,
        norm_max: f64,
    ) -> Result<&'a Batch, PackedError> {
        if let Some(checked) = file.checked[batch].get() {
            return Ok(checked);
        }
        let columns = file.batches.batch(batch, &file.columns.widths())?;
        let checked = self.checked(file, file.batches.rows(batch), columns, store);
        let mut checked =
            checked.ok_or_else(|| file.batches.damaged(batch, "they are not panels of lists"))?;
        if checked.norm > norm_max {
            return Err(file.batches.damaged(batch, "a vector is longer than its footer says"));
        }
        checked.memory_bytes += file.batches.read_bytes(batch) + size_of_val(&*checked.alive);
        // Another thread may have been first, with equal columns.
        Ok(file.checked[batch].get_or_init(|| checked))
    }

    /// A batch of so many panels from its columns; `None` if it does not hold what lists do.
    fn checked(
        &self,
        file: &HeldFile,
        panels: usize,
        columns: Vec<Buffer>,
        store: &dyn Store,
    ) -> Option<Batch> {
        let mut columns = columns.into_iter();
        let (_lists, counts) = (columns.next()?, columns.next()?);
        let counts = counts.as_chunks::<4>().0.iter().map(|count| u32::from_le_bytes(*count) as usize);
        let counts: Vec<usize> = counts.map(|count| count.min(PANEL)).collect();
        let (ids, held) = (typed::<u64>(columns.next()?), columns.next()?);
        let alive = alive(file, &ids, &counts, store)?;
        let beside: Vec<ScalarBuffer<f32>> = columns.map(typed).collect();
        let none = || ScalarBuffer::from(Vec::new());
        let mut batch = Batch {
            ids,
            held: Numbers::Codes(held.clone()),
            beside: none(),
            scales: none(),
            alive,
            norm: 0.0,
            memory_bytes: 0,
        };
        match (self.coding, beside.as_slice()) {
            (Coding::Rows, of_file) => {
                batch.held = Numbers::of(file.numbers, held)?;
                let (halves, norm) = self.halves(batch.held.all(), &counts);
                batch.norm = norm;
                batch.beside = match of_file {
                    [] => {
                        batch.memory_bytes = size_of_val(&*halves);
                        halves.into()
                    }
                    [of_file] => {
                        let is_same = |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits();
                        of_file.iter().zip(&halves).all(is_same).then(|| of_file.clone())?
                    }
                    _ => return None,
                };
            }
            (Coding::Rabitq, []) => {
                let mut codes = Vec::with_capacity(panels * self.code_bytes);
                let mut factors = [const { Vec::new() }; 2];
                for held in held.chunks_exact(file.columns.held_bytes) {
                    let (of_panel, of_rows) = held.split_at(self.code_bytes);
                    codes.extend_from_slice(of_panel);
                    for (to, bytes) in factors.iter_mut().zip(of_rows.chunks_exact(PANEL * 4)) {
                        to.extend(bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)));
                    }
                }
                if self.measure == VectorMeasure::InnerProduct {
                    factors[0].fill(0.0);
                }
                batch.memory_bytes = codes.len() + factors.iter().map(|x| size_of_val(&**x)).sum::<usize>();
                batch.held = Numbers::Codes(Buffer::from_vec(codes));
                [batch.beside, batch.scales] = factors.map(ScalarBuffer::from);
            }
            (Coding::Rabitq, [squares, scales]) => {
                (batch.beside, batch.scales) = (squares.clone(), scales.clone());
            }
            (Coding::Product | Coding::Fast, []) => {}
            _ => return None,
        }
        // Scales are factors of sums whose bounds need their sign.
        let mut factors = batch.beside.iter().chain(batch.scales.iter());
        let are_sound = self.coding == Coding::Rows || factors.all(|x| x.is_finite() && *x >= 0.0);
        are_sound.then_some(batch)
    }

    /// The numbers that a scan needs beside those of some vectors, and the length of the longest.
    fn halves(&self, numbers: VectorRef<'_>, counts: &[usize]) -> (Vec<f32>, f64) {
        let (mut halves, mut norm, mut wide) =
            (Vec::with_capacity(counts.len() * PANEL), 0.0_f64, Vec::new());
        let size = self.dimensions * PANEL;
        for (panel, count) in counts.iter().enumerate() {
            let of_panel = part_of(numbers, panel * size..(panel + 1) * size);
            let of_panel = widened(CodePath::detect(), of_panel, &mut wide);
            let (mut of_panel, longest) = halves_of(of_panel, self.dimensions, PANEL);
            beside_of(self.measure, *count, &mut of_panel);
            halves.extend(of_panel);
            norm = norm.max(longest);
        }
        (halves, norm)
    }

    /// Some panels, which are of one batch.
    ///
    /// # Panics
    /// When they were not brought in.
    pub(super) fn of(&self, panels: &Range<usize>) -> HeldPanels<'_> {
        let (file, batch, first) = self.place(panels.start);
        let batch = file.checked[batch].get().expect("lists are brought in before they are used");
        HeldPanels { held: self, batch, at: panels.start - first..panels.end - first }
    }

    /// The panels of a range that are of the batch of its first.
    pub(super) fn of_batch(&self, panels: &Range<usize>) -> Range<usize> {
        let (file, batch, first) = self.place(panels.start);
        panels.start..panels.end.min(first + file.batches.rows(batch))
    }

    /// Sets the words of panels that have removed objects: a bit for each object that is there still.
    ///
    /// # Panics
    /// When a batch was not brought in.
    pub(super) fn mark_alive(&self, words: &mut [u32]) {
        for file in &self.files {
            for (idx, batch) in file.checked.iter().enumerate() {
                let alive = &batch.get().expect("lists are brought in before they are used").alive;
                words[file.first + idx * file.batches.rows_each()..][..alive.len()].copy_from_slice(alive);
            }
        }
    }

    /// Confirms that what was read so far is of the files that were opened.
    pub(super) fn confirm(&self) -> Result<(), PackedError> {
        self.files.iter().try_for_each(|file| file.batches.confirm())
    }

    /// Bytes in memory of our own, about: pages of maps are the system's.
    pub(super) fn memory_bytes(&self) -> usize {
        let of = |file: &HeldFile| {
            let batches = file.checked.iter();
            let of_batches: usize = batches.filter_map(OnceLock::get).map(|batch| batch.memory_bytes).sum();
            file.batches.copied_bytes() + size_of_val(&*file.checked) + of_batches
        };
        self.files.iter().map(of).sum()
    }
}

/// Some panels of a batch.
#[derive(Clone)]
pub(super) struct HeldPanels<'a> {
    held: &'a Held,
    batch: &'a Batch,
    at: Range<usize>,
}

impl<'a> HeldPanels<'a> {
    fn rows(&self) -> Range<usize> {
        self.at.start * PANEL..self.at.end * PANEL
    }

    /// The ids of their objects; any numbers where there is none.
    pub(super) fn ids(&self) -> &'a [u64] {
        &self.batch.ids[self.rows()]
    }

    /// A word for each panel, with a bit for each object that is there still; `None` if none of the batch was removed.
    pub(super) fn alive(&self) -> Option<&'a [u32]> {
        self.batch.alive.get(self.at.clone())
    }

    /// The numbers of vectors, and what a scan needs beside them.
    pub(super) fn vectors(&self) -> (VectorRef<'a>, &'a [f32]) {
        let (rows, dimensions) = (self.rows(), self.held.dimensions);
        let numbers = part_of(self.batch.held.all(), rows.start * dimensions..rows.end * dimensions);
        (numbers, &self.batch.beside[rows])
    }

    /// The bytes of codes.
    pub(super) fn codes(&self) -> &'a [u8] {
        let Numbers::Codes(bytes) = &self.batch.held else { unreachable!("lists of codes") };
        let size = self.held.code_bytes;
        &bytes[self.at.start * size..self.at.end * size]
    }

    /// The squares and the scales of directions.
    pub(super) fn scales(&self) -> Scales<'a> {
        let rows = self.rows();
        Scales { squares: &self.batch.beside[rows.clone()], scales: &self.batch.scales[rows] }
    }
}

/// The words of a batch's panels, with a bit for each object that is there still; empty if all are. `None` if an id is not one of the
/// file's.
fn alive(file: &HeldFile, ids: &[u64], counts: &[usize], store: &dyn Store) -> Option<Vec<u32>> {
    let has_all = store.objects_count() == store.ids_count();
    let (mut alive, mut is_any_removed) = (Vec::new(), false);
    for (ids, count) in ids.chunks_exact(PANEL).zip(counts) {
        let ids = &ids[..*count];
        if !ids.iter().all(|id| file.ids.contains(id)) {
            return None;
        }
        if !has_all {
            let word = (0..).zip(ids).fold(0, |word, (bit, id)| word | u32::from(store.has(*id)) << bit);
            is_any_removed |= word.count_ones() as usize != *count;
            alive.push(word);
        }
    }
    Some(if is_any_removed { alive } else { Vec::new() })
}

/// Makes the halves of rows without a bit in a mask infinite: no such score is within a limit.
pub(super) fn leave_out(mask: &[u32], halves: &mut [f32]) {
    for (word, halves) in
        mask.iter().zip(halves.chunks_exact_mut(PANEL)).filter(|(word, _)| **word != u32::MAX)
    {
        let each = halves.iter_mut().enumerate().filter(|(bit, _)| word >> bit & 1 == 0);
        each.for_each(|(_, half)| *half = f32::INFINITY);
    }
}
