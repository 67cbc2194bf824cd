//! Inner products of bytes with signed bytes, of a block of queries and many rows, with selection in the same loop.
//!
//! As in `flat`, the lanes are queries and a word of a row is broadcast. Sums are integers of 32 bits without an error. They
//! are compared in f32: a row passes unless `base - factor * scale * sum - reach * height` is above the query's limit,
//! where base, factor and height are the row's, scale and reach the query's. What passes is given out as an integer.
//!
//! With VNNI a word is four bytes of a row. Without it, two numbers of 16 bits: `maddubs`, which takes bytes, would saturate; or four
//! bytes of which the highest bits come first (`coarse`).

#[cfg(target_arch = "x86_64")]
mod coarse;
#[cfg(target_arch = "x86_64")]
mod x86;
#[cfg(test)]
mod tests;

use crate::CodePath;

/// The unit roundoff of f32.
pub(crate) const UNIT: f64 = 1.0 / (1 << 24) as f64;
/// Rows that all panels take while they are in the cache.
pub(crate) const BLOCK_ROWS: usize = 96;
/// Numbers of a row at most: sums of their products with bytes fit 32 bits.
pub(crate) const NUMBERS_MAX: usize = 1 << 16;
const _: () = assert!(NUMBERS_MAX as u64 * 255 * 128 <= i32::MAX as u64 + 1);
/// Lanes of the plain loops.
const PORTABLE_LANES: usize = 8;

/// The instructions of integer products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IntegerPath {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX2 with bytes, which lose so many bits in a first step.
    #[cfg(target_arch = "x86_64")]
    Coarse {
        dropped: u32,
    },
    #[cfg(target_arch = "x86_64")]
    AvxVnni,
    #[cfg(target_arch = "x86_64")]
    Vnni,
}

impl IntegerPath {
    /// The best of a code path.
    pub(crate) fn of(path: CodePath) -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            let has_vnni = || {
                is_x86_feature_detected!("avx512vnni")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512vl")
            };
            if path == CodePath::Avx512 && path.is_available() && has_vnni() {
                return Self::Vnni;
            }
            if path == CodePath::AvxVnni && path.is_available() {
                return Self::AvxVnni;
            }
            if path != CodePath::Portable && CodePath::Avx2.is_available() {
                return Self::Avx2;
            }
        }
        let _ = path;
        Self::Portable
    }

    /// The best for bytes up to `most` whose highest bits say about how near rows are. Offsets are at most 128 times the sizes of the
    /// weights in all.
    pub(crate) fn of_bytes(path: CodePath, most: u8) -> Self {
        let _ = most;
        match Self::of(path) {
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => Self::Coarse { dropped: coarse::dropped(most) },
            other => other,
        }
    }

    /// Queries of a full panel, and of a narrow one.
    pub(crate) fn widths(self) -> [usize; 2] {
        match self {
            Self::Portable => [PORTABLE_LANES; 2],
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 | Self::AvxVnni => [16, 8],
            #[cfg(target_arch = "x86_64")]
            Self::Coarse { .. } => [coarse::LANES; 2],
            #[cfg(target_arch = "x86_64")]
            Self::Vnni => [64, 16],
        }
    }

    /// Numbers of a row in a word.
    fn numbers_per_word(self) -> usize {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Coarse { .. } | Self::AvxVnni | Self::Vnni => 4,
            _ => 2,
        }
    }

    /// Words of a row of bytes.
    fn words(self, numbers: usize) -> usize {
        let words = numbers.div_ceil(self.numbers_per_word());
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Coarse { .. } => words.next_multiple_of(coarse::WORDS_AT_ONCE),
            _ => words,
        }
    }

    /// Appends a row of bytes as words.
    fn pack(self, bytes: &[u8], words: &mut Vec<i32>) {
        let upto = words.len() + self.words(bytes.len());
        if self.numbers_per_word() == 4 {
            let (whole, rest) = bytes.as_chunks::<4>();
            words.extend(whole.iter().map(|bytes| i32::from_le_bytes(*bytes)));
            if !rest.is_empty() {
                let mut last = [0; 4];
                last[..rest.len()].copy_from_slice(rest);
                words.push(i32::from_le_bytes(last));
            }
        } else {
            let pair =
                |pair: &[u8]| i32::from(pair[0]) | i32::from(pair.get(1).copied().unwrap_or_default()) << 16;
            words.extend(bytes.chunks(2).map(pair));
        }
        words.resize(upto, 0);
    }

    /// The word of a query at a place.
    fn query_word(self, weights: &[i8], place: usize) -> i32 {
        let at = |idx: usize| weights.get(idx).copied().unwrap_or_default();
        match self.numbers_per_word() {
            4 => i32::from_le_bytes([0, 1, 2, 3].map(|byte| at(4 * place + byte).cast_unsigned())),
            _ => {
                let pair = [0, 1].map(|half| i16::from(at(2 * place + half)).to_le_bytes());
                i32::from_le_bytes([pair[0][0], pair[0][1], pair[1][0], pair[1][1]])
            }
        }
    }
}

/// Queries side by side.
#[derive(Debug)]
pub(crate) struct Panel {
    pub(crate) first: usize,
    pub(crate) count: usize,
    width: usize,
    /// Word by word, one for each query.
    words: Vec<i32>,
    /// Subtracted from each sum.
    offsets: Vec<i32>,
    scales: Vec<f32>,
    reaches: Vec<f32>,
    #[cfg(target_arch = "x86_64")]
    coarse: coarse::CoarsePanel,
}

/// A query of weights of a byte.
pub(crate) struct Weights<'a> {
    pub(crate) weights: &'a [i8],
    pub(crate) offset: i32,
    pub(crate) scale: f32,
    pub(crate) reach: f32,
}

/// Packs queries of this many numbers.
pub(crate) fn panels(path: IntegerPath, numbers: usize, queries: &[Weights<'_>]) -> Vec<Panel> {
    let [full, narrow] = path.widths();
    let mut first = 0;
    let group = |group: &[Weights<'_>]| {
        let width = if group.len() <= narrow { narrow } else { full };
        let mut words = vec![0; path.words(numbers) * width];
        for (lane, query) in group.iter().enumerate() {
            for place in 0..path.words(numbers) {
                words[place * width + lane] = path.query_word(query.weights, place);
            }
        }
        let mut panel = Panel {
            first,
            count: group.len(),
            width,
            words,
            offsets: group.iter().map(|query| query.offset).collect(),
            scales: group.iter().map(|query| query.scale).collect(),
            reaches: group.iter().map(|query| query.reach).collect(),
            #[cfg(target_arch = "x86_64")]
            coarse: coarse::CoarsePanel::default(),
        };
        #[cfg(target_arch = "x86_64")]
        if let IntegerPath::Coarse { dropped } = path {
            let each = group.iter();
            each.for_each(|query| panel.coarse.push(dropped, query.weights, query.offset, query.scale));
            panel.coarse.resize(width);
        }
        first += group.len();
        panel.offsets.resize(width, 0);
        panel.scales.resize(width, 0.0);
        panel.reaches.resize(width, 0.0);
        panel
    };
    queries.chunks(full).map(group).collect()
}

/// A block of rows.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    /// Row after row.
    words: Vec<i32>,
    bases: Vec<f32>,
    factors: Vec<f32>,
    heights: Vec<f32>,
    #[cfg(target_arch = "x86_64")]
    coarse: coarse::CoarseRows,
}

impl Rows {
    pub(crate) fn clear(&mut self) {
        self.words.clear();
        self.bases.clear();
        self.factors.clear();
        self.heights.clear();
        #[cfg(target_arch = "x86_64")]
        self.coarse.clear();
    }

    /// Adds a row of bytes, and its base, factor and height.
    pub(crate) fn push(&mut self, path: IntegerPath, bytes: &[u8], row: [f32; 3]) {
        #[cfg(target_arch = "x86_64")]
        let first = self.words.len();
        path.pack(bytes, &mut self.words);
        #[cfg(target_arch = "x86_64")]
        if let IntegerPath::Coarse { dropped } = path {
            self.coarse.push(dropped, bytes, &self.words[first..], row);
        }
        let [base, factor, height] = row;
        self.bases.push(base);
        self.factors.push(factor);
        self.heights.push(height);
    }

    fn len(&self) -> usize {
        self.bases.len()
    }
}

/// The place of the sums. `limits` has a number for each lane of the panel; those without a query are negative infinity.
pub(crate) trait Sink {
    fn take(&mut self, query: usize, row: usize, sum: i32, limits: &mut [f32]);
}

/// Gives out the sums that pass. `limits` are those of the panel's queries, and are kept up to date by the sink.
pub(crate) fn scan(
    path: IntegerPath,
    panel: &Panel,
    rows: &Rows,
    limits: &mut Vec<f32>,
    sink: &mut dyn Sink,
) {
    if rows.len() == 0 {
        return;
    }
    limits.resize(panel.width, f32::NEG_INFINITY);
    assert!(rows.words.len().is_multiple_of(rows.len()), "whole rows");
    assert_eq!(
        panel.words.len(),
        rows.words.len() / rows.len() * panel.width,
        "rows and queries of one length"
    );
    match path {
        IntegerPath::Portable => portable(panel, rows, limits, sink),
        #[cfg(target_arch = "x86_64")]
        IntegerPath::Avx2 => x86::scan_avx2(panel, rows, limits, sink),
        #[cfg(target_arch = "x86_64")]
        IntegerPath::Coarse { .. } => coarse::scan(panel, rows, limits, sink),
        #[cfg(target_arch = "x86_64")]
        IntegerPath::AvxVnni => x86::scan_avx_vnni(panel, rows, limits, sink),
        #[cfg(target_arch = "x86_64")]
        IntegerPath::Vnni => x86::scan_vnni(panel, rows, limits, sink),
    }
}

fn portable(panel: &Panel, rows: &Rows, limits: &mut [f32], sink: &mut dyn Sink) {
    let per_row = rows.words.len() / rows.len();
    for row in 0..rows.len() {
        let mut sums = [0_i32; PORTABLE_LANES];
        let words = &rows.words[row * per_row..(row + 1) * per_row];
        for (word, queries) in words.iter().zip(panel.words.chunks_exact(PORTABLE_LANES)) {
            let (low, high) = (word & 0xffff, word >> 16 & 0xffff);
            for (sum, query) in sums.iter_mut().zip(queries) {
                *sum += low * i32::from(*query as i16) + high * (query >> 16);
            }
        }
        let mut mask = 0_u32;
        for lane in 0..PORTABLE_LANES {
            sums[lane] = sums[lane].wrapping_sub(panel.offsets[lane]);
            let value = rows.bases[row]
                - rows.factors[row] * (panel.scales[lane] * sums[lane] as f32)
                - panel.reaches[lane] * rows.heights[row];
            mask |= u32::from(!(value > limits[lane])) << lane;
        }
        give(panel, 0, row, mask, &sums, limits, sink);
    }
}

/// Gives the sums of a vector to the sink.
#[inline(always)]
fn give(
    panel: &Panel,
    from: usize,
    row: usize,
    mut mask: u32,
    sums: &[i32],
    limits: &mut [f32],
    sink: &mut dyn Sink,
) {
    while mask != 0 {
        let lane = mask.trailing_zeros() as usize;
        mask &= mask - 1;
        if from + lane < panel.count {
            sink.take(from + lane, row, sums[lane], limits);
        }
    }
}
