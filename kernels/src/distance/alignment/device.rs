//! Alignments of texts with queries on a device: constants and sizes for `device.cl`, and texts and queries as it takes them.
//!
//! Numbers are whole and have 32 bits, so those of a device are those of the processor or wrong. Numbers of 16 bits would be no faster: a
//! lane of a device computes one number at a time.

use super::edit::{EditCosts, NUMBER_MAX};
use super::local::LocalScores;
use super::matrix::LetterMatrix;
use crate::distance::levenshtein::{Alphabet, Letters};
use crate::pieces::{Pieces, collect};

/// The source of the kernel.
pub const TEXT: &str = include_str!("device.cl");
/// The kernel.
pub const KERNEL: &str = "align";

/// Work items of a group.
pub const ITEMS: usize = 128;
/// The most lanes of a pair: a warp.
const LANES_MAX: usize = 32;
const _: () = assert!(ITEMS.is_multiple_of(LANES_MAX));
/// Rows of a lane: more share the work of a step, and fewer fill up a short query less.
const ROWS: [usize; 2] = [16, 8];
/// The work of a lane's step beyond that of its rows, and that of a step of a pair whose borders are read and written, in rows. With these
/// the model follows the rates on an H200 (decision 172) for texts of 60 to 1,000 letters; shorter ones were not measured.
const STEP: usize = 4;
const BORDER: usize = 16;
/// Steps take half as long again there if the costs of letters do not fit into local memory.
const LOOKED_UP_WORK: [usize; 2] = [3, 2];
/// Lanes that keep a device busy, a guess: with fewer pairs each takes more lanes.
const LANES_BUSY: usize = 1 << 17;
/// The most letters of a text and of a query.
pub const LETTERS_MAX: usize = 1 << 14;
/// Texts whose letters are coded together.
const TOGETHER: usize = 1024;
/// Letters of a table in local memory are multiples of this number, so that most alphabets share a program.
const LETTERS_STEP: usize = 8;
/// Bytes of a table in local memory, at most: NVIDIA's OpenCL gives a group 48 KiB.
const COSTS_BYTES_MAX: usize = 32 << 10;
/// Bytes of the borders, at most: some groups share them and take several jobs each.
const BORDERS_BYTES_MAX: usize = 1 << 28;
/// A cost, added, by which no letter is replaced.
const FAR: i32 = 1 << 29;
/// Letters that pad texts and queries, and those of queries that no text has, if letters are compared: no two are equal.
const TEXT_PADDING: u32 = 0xfffe;
const QUERY_PADDING: u16 = u16::MAX;

/// The numbers that are computed.
#[derive(Clone, Debug)]
pub enum Numbers {
    /// The least cost of edits that turn the query into the text.
    Edit(EditCosts),
    /// The score of the best local alignment.
    Local(LocalScores),
}

impl Numbers {
    /// Whether all numbers of a query and a text of so many letters fit.
    pub fn fit(&self, query: usize, text: usize) -> bool {
        let most = match self {
            Self::Edit(costs) => costs.most(query, text),
            Self::Local(scores) => scores.most(query, text),
        };
        query.max(text) <= LETTERS_MAX && most < NUMBER_MAX
    }

    /// The number by its definition.
    pub fn reference(&self, query: &[char], text: &[char]) -> f64 {
        match self {
            Self::Edit(costs) => costs.reference(query, text),
            Self::Local(scores) => scores.reference(query, text),
        }
    }

    fn matrix(&self) -> Option<&LetterMatrix> {
        match self {
            Self::Edit(costs) => costs.matrix().map(|matrix| &**matrix),
            Self::Local(scores) => scores.matrix(),
        }
    }

    /// The cost that a pair of letters adds.
    fn pair(&self, a: char, b: char) -> i32 {
        match self {
            Self::Edit(costs) => costs.replaced(a, b) as i32,
            Self::Local(scores) => scores.score(a, b) as i32,
        }
    }

    /// The cost that the padding adds.
    fn far(&self) -> i32 {
        match self {
            Self::Edit(_) => FAR,
            Self::Local(_) => -FAR,
        }
    }

    /// The costs of a letter of the text alone and of the query alone; and those that equal letters and others add, if there is no matrix.
    pub fn constants(&self) -> [i32; 4] {
        let ([insert, delete], [equal, replace]) = match self {
            Self::Edit(costs) => {
                let [insert, delete, _] = costs.numbers();
                ([insert, delete], [0, costs.replace() as i32])
            }
            Self::Local(scores) => {
                let [equal, replace, insert, delete] = scores.numbers();
                ([insert, delete], [equal as i32, -(replace as i32)])
            }
        };
        [insert as i32, delete as i32, equal, replace]
    }
}

/// Some texts as a device aligns them with queries.
#[derive(Debug)]
pub struct CodedTexts {
    alphabet: Alphabet,
    /// The letters by their codes.
    by_code: Vec<char>,
    longest: usize,
    order: Vec<u32>,
    rest: Vec<u32>,
    letters: Vec<u16>,
    texts: Vec<[u32; 2]>,
}

impl CodedTexts {
    /// Prepares texts, of which there are fewer than 2^18. `None` if they have more than 512 different letters, or if the caller
    /// cancels.
    ///
    /// # Panics
    /// When there are more texts.
    pub fn new(texts: &[&[char]], pieces: &mut Pieces<'_>) -> Option<Self> {
        assert!(texts.len() < 1 << 18, "the letters of {} texts may be too many", texts.len());
        let is_short = |text: &usize| texts[*text].len() <= LETTERS_MAX;
        let (mut order, rest): (Vec<usize>, Vec<usize>) = (0..texts.len()).partition(is_short);
        order.sort_by_key(|text| texts[*text].len());
        let runs: Vec<&[usize]> = order.chunks(TOGETHER).collect();
        let of_run = |run: usize| runs[run].iter().map(|text| texts[*text]);
        let alphabet = Alphabet::of(collect(pieces, runs.len(), |run| Letters::of(of_run(run)))?)?;
        let coded = collect(pieces, runs.len(), |run| {
            of_run(run).flatten().map(|letter| alphabet.code(*letter)).collect::<Vec<u16>>()
        })?;
        let (letters, mut first) = (coded.concat(), 0);
        let mut descriptors = Vec::with_capacity(order.len());
        for text in &order {
            descriptors.push([first, texts[*text].len() as u32]);
            first += texts[*text].len() as u32;
        }
        let longest = order.last().map_or(0, |last| texts[*last].len());
        let [order, rest] = [order, rest].map(|texts| texts.into_iter().map(|text| text as u32).collect());
        Some(Self {
            by_code: alphabet.letters(),
            alphabet,
            longest,
            order,
            rest,
            letters,
            texts: descriptors,
        })
    }

    /// Letters of the longest text.
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// The number of the text at each position.
    pub fn order(&self) -> &[u32] {
        &self.order
    }

    /// Texts of more than [`LETTERS_MAX`] letters, which have no position.
    pub fn rest(&self) -> &[u32] {
        &self.rest
    }

    /// The letters of all texts, by position.
    pub fn letters(&self) -> &[u16] {
        &self.letters
    }

    /// The first letter of each text, and their number.
    pub fn texts(&self) -> &[[u32; 2]] {
        &self.texts
    }
}

/// Queries, and the costs of their letters, in the codes of some texts.
#[derive(Clone, Debug)]
pub struct AlignedQueries {
    /// All letters, one query after the other.
    pub letters: Vec<u16>,
    /// The first letter of each query, and the number of its letters.
    pub queries: Vec<[u32; 2]>,
    /// Costs by letter of a query and letter of a text, if there is a matrix.
    pub table: Vec<i32>,
    /// Letters of texts in the table.
    pub columns: usize,
    /// The letters that pad texts and queries.
    pub padding: [u32; 2],
}

impl AlignedQueries {
    /// The queries in the codes of the texts.
    pub fn new<'a>(
        numbers: &Numbers,
        texts: &CodedTexts,
        queries: impl IntoIterator<Item = &'a [char]>,
    ) -> Self {
        let (mut all, mut of_queries): (Vec<char>, Vec<[u32; 2]>) = (Vec::new(), Vec::new());
        for query in queries {
            of_queries.push([all.len() as u32, query.len() as u32]);
            all.extend(query);
        }
        let Some(matrix) = numbers.matrix() else {
            let letters = all.iter().map(|letter| texts.alphabet.code(*letter)).collect();
            let padding = [TEXT_PADDING, u32::from(QUERY_PADDING)];
            return Self { letters, queries: of_queries, table: Vec::new(), columns: 0, padding };
        };
        // Letters that neither the texts nor the matrix have cost the same: the first of them stands for all.
        let is_known = |letter: &char| {
            texts.alphabet.code(*letter) != QUERY_PADDING || matrix.number(*letter, *letter).is_some()
        };
        let mut rows: Vec<char> = all.iter().copied().filter(is_known).collect();
        rows.sort_unstable();
        rows.dedup();
        let unknown = all.iter().copied().find(|letter| !is_known(letter));
        let letters =
            all.iter().map(|letter| rows.binary_search(letter).unwrap_or(rows.len()) as u16).collect();
        let (columns, mut table) = (texts.by_code.len() + 1, Vec::new());
        for row in rows.iter().copied().chain(unknown) {
            table.extend(texts.by_code.iter().map(|column| numbers.pair(row, *column)));
            table.push(numbers.far());
        }
        let query_padding = table.len() / columns;
        table.resize(table.len() + columns, numbers.far());
        let padding = [columns as u32 - 1, query_padding as u32];
        Self { letters, queries: of_queries, table, columns, padding }
    }
}

/// The place of the costs of letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Costs {
    /// Letters are compared.
    Compared,
    /// Local memory has those of so many letters.
    Local(usize),
    /// They are looked up in global memory.
    LookedUp,
}

impl Costs {
    /// The place for stripes of so many rows.
    fn of(numbers: &Numbers, queries: &AlignedQueries, height: usize) -> Self {
        let letters = queries.columns.next_multiple_of(LETTERS_STEP);
        match numbers.matrix() {
            None => Self::Compared,
            Some(_) if letters * height * size_of::<i32>() <= COSTS_BYTES_MAX => Self::Local(letters),
            Some(_) => Self::LookedUp,
        }
    }
}

/// The sizes of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    lanes: usize,
    rows: usize,
    costs: Costs,
    are_scores: bool,
    texts: usize,
    queries: usize,
    /// Columns of a border; 0 if all queries have one stripe.
    border: usize,
}

impl Shape {
    /// The program that aligns texts with queries.
    ///
    /// # Panics
    /// When a number of theirs may not fit.
    pub fn of(numbers: &Numbers, texts: &CodedTexts, queries: &AlignedQueries) -> Self {
        let mean = texts.letters.len() / texts.texts.len().max(1);
        let pairs = texts.texts.len() * queries.queries.len();
        let work = |[lanes, rows]: &[usize; 2]| -> usize {
            let of_query = |query: &[u32; 2]| {
                let stripes = (query[1] as usize).div_ceil(lanes * rows);
                let border = if stripes > 1 { BORDER } else { 0 };
                stripes * (mean + lanes - 1) * (lanes * (rows + STEP) + border)
            };
            let all: usize = queries.queries.iter().map(of_query).sum();
            match Costs::of(numbers, queries, lanes * rows) {
                Costs::LookedUp => all * LOOKED_UP_WORK[0] / LOOKED_UP_WORK[1],
                _ => all,
            }
        };
        let is_busy = |lanes: &usize| *lanes == LANES_MAX || lanes * pairs >= LANES_BUSY;
        let lanes = [32, 16, 8, 4, 2, 1].into_iter().filter(is_busy);
        let sizes = lanes.flat_map(|lanes| ROWS.map(|rows| [lanes, rows]));
        let sizes = sizes.min_by_key(work).unwrap_or([LANES_MAX, ROWS[0]]);
        Self::with(sizes, numbers, texts, queries)
    }

    /// The program with so many lanes of a pair, a power of two up to 32, and so many rows of a lane, a multiple of 4.
    ///
    /// # Panics
    /// As [`Shape::of`], and for other numbers of lanes or rows.
    pub fn with(
        [lanes, rows]: [usize; 2],
        numbers: &Numbers,
        texts: &CodedTexts,
        queries: &AlignedQueries,
    ) -> Self {
        assert!(lanes.is_power_of_two() && lanes <= LANES_MAX, "{lanes} lanes");
        assert!(rows > 0 && rows.is_multiple_of(4), "{rows} rows");
        let longest = queries.queries.iter().map(|query| query[1] as usize).max().unwrap_or(0);
        assert!(numbers.fit(longest, texts.longest), "{longest} letters of a query");
        Self {
            lanes,
            rows,
            costs: Costs::of(numbers, queries, lanes * rows),
            are_scores: matches!(numbers, Numbers::Local(_)),
            texts: texts.texts.len(),
            queries: queries.queries.len(),
            border: if longest <= lanes * rows { 0 } else { texts.longest.max(1) },
        }
    }

    /// Lanes of a pair, and rows of a lane.
    pub fn sizes(self) -> [usize; 2] {
        [self.lanes, self.rows]
    }

    /// Work groups.
    pub fn groups(self) -> usize {
        let jobs = self.texts.div_ceil(ITEMS / self.lanes) * self.queries;
        match self.border * (ITEMS / self.lanes) * size_of::<i32>() {
            0 => jobs,
            bytes => jobs.min((BORDERS_BYTES_MAX / bytes).max(1)),
        }
    }

    /// Numbers of a border.
    pub fn border_columns(self) -> usize {
        self.border
    }

    /// Numbers of all borders.
    pub fn borders(self) -> usize {
        self.groups() * self.border * (ITEMS / self.lanes)
    }

    /// The constants to compile the source with.
    pub fn constants(self) -> Vec<(&'static str, String)> {
        let sizes = [("ITEMS", ITEMS), ("LANES", self.lanes), ("ROWS", self.rows)];
        let mut constants: Vec<_> = sizes.map(|(name, size)| (name, size.to_string())).into();
        match self.costs {
            Costs::Compared => {}
            Costs::Local(letters) => constants.push(("LETTERS", letters.to_string())),
            Costs::LookedUp => constants.push(("LOOKED_UP", "1".to_owned())),
        }
        if self.are_scores {
            constants.push(("SCORES", "1".to_owned()));
        }
        constants
    }
}

#[cfg(test)]
mod tests;
