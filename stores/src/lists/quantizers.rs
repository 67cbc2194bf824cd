//! The centroids of lists and the codebook of their codes, and how they come about.

use std::borrow::Cow;
use std::sync::Arc;

use boxwork_kernels::CodePath;
use boxwork_kernels::chance::Random;
use boxwork_kernels::directions::{self, Factors};
use boxwork_kernels::kmeans::{self, Assigner, ROWS_A_CLUSTER_MAX, ROWS_A_CLUSTER_MIN, Rounds};
use boxwork_kernels::pieces::Pieces;
use boxwork_kernels::product::{self, Bits, Codebook, PARTS_MAX};
use boxwork_kernels::rotation::{self, Rotation, Start};
use boxwork_kernels::vector::VectorMeasure;

use super::{ListsError, dimensions, measure, vectors_for};
use crate::space::Space;

/// The names of [`Coding`], in their order.
pub const CODINGS: &[&str] = &["rows", "product", "fast", "rabitq"];

/// Bits of a number in codes of directions by default.
const BITS: usize = 2;
/// Bytes of the factors of a code of a direction.
pub(super) const FACTORS_BYTES: usize = 8;

/// What lists hold of each vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// All its numbers.
    Rows,
    /// A code of 8 bits a part.
    Product,
    /// A code of 4 bits a part, which is scanned faster.
    Fast,
    /// A code of its direction, of 1 to 4 bits a number, which needs no codebook.
    Rabitq,
}

impl Coding {
    /// The coding of a name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Rows, Self::Product, Self::Fast, Self::Rabitq].into_iter().find(|coding| coding.name() == name)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        CODINGS[self as usize]
    }

    /// The bits of a part; `None` if there are no codes.
    pub fn bits(self) -> Option<Bits> {
        match self {
            Self::Rows => None,
            Self::Product => Some(Bits::Eight),
            Self::Fast | Self::Rabitq => Some(Bits::Four),
        }
    }
}

/// How lists are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListsOptions {
    /// Their number; by default about the square root of the number of objects.
    pub lists: Option<usize>,
    /// What they hold.
    pub coding: Coding,
    /// Parts of a code; by default one for 8 numbers (product) or 4 (fast).
    pub parts: Option<usize>,
    /// Bits of a number in codes of directions; 2 by default.
    pub bits: Option<usize>,
    /// The most rounds of k-means.
    pub iterations: usize,
    /// The seed of all random choices.
    pub seed: u64,
    /// Numbers of the vectors that codes are made of, which a rotation turns before: 0 for as many as vectors have.
    pub rotate: Option<usize>,
    /// The rotation with which the training of one begins.
    pub rotate_start: Start,
    /// Whether k-means starts with vectors that are far from each other, in place of random ones.
    pub spread: bool,
    /// Whether centroids are scaled to length 1 in each round, as they always are for the cosine.
    pub spherical: bool,
}

impl ListsOptions {
    /// The options of `boxwork lists` for lists of some coding, where the user gives no others.
    pub const fn of(coding: Coding) -> Self {
        Self {
            lists: None,
            coding,
            parts: None,
            bits: None,
            iterations: 10,
            seed: 1234,
            rotate: None,
            rotate_start: Start::Principal,
            spread: false,
            spherical: false,
        }
    }
}

/// Centroids, and the codebook of the differences from them.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantizers {
    dimensions: usize,
    centroids: Vec<f32>,
    coding: Coding,
    parts: usize,
    codebook: Option<Codebook>,
    /// Turns differences from centroids before they are coded.
    rotation: Option<Rotation>,
}

impl Quantizers {
    /// Quantizers of their parts; `None` if these do not fit together.
    pub fn of_parts(
        dimensions: usize,
        centroids: Vec<f32>,
        coding: Coding,
        parts: usize,
        codebook: Vec<f32>,
        rotation: Vec<f32>,
    ) -> Option<Self> {
        let fits = dimensions > 0
            && !centroids.is_empty()
            && centroids.len().is_multiple_of(dimensions)
            && centroids.len() / dimensions < u32::MAX as usize
            && centroids.iter().all(|x| x.is_finite());
        let rotation = match rotation.is_empty() {
            true => None,
            false => Some(Rotation::of_numbers(dimensions, rotation.len() / dimensions.max(1), rotation)?),
        };
        let turned = rotation.as_ref().map_or(dimensions, Rotation::to);
        let codebook = match coding {
            Coding::Rows => (codebook.is_empty() && rotation.is_none() && parts == 0).then_some(None),
            Coding::Rabitq => {
                let has_bits = bits_of(dimensions, parts).is_some();
                (codebook.is_empty() && rotation.is_some() && turned == dimensions && has_bits)
                    .then_some(None)
            }
            Coding::Product | Coding::Fast => {
                let bits = coding.bits()?;
                Codebook::of_numbers(turned, parts, bits, codebook).map(Some)
            }
        };
        fits.then_some(Self { dimensions, centroids, coding, parts, codebook: codebook?, rotation })
    }

    /// Numbers of a vector.
    pub fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// Number of lists.
    pub fn lists(&self) -> usize {
        self.centroids.len() / self.dimensions
    }

    /// The centroid of each list, one after the other.
    pub fn centroids(&self) -> &[f32] {
        &self.centroids
    }

    /// What lists hold.
    pub fn coding(&self) -> Coding {
        self.coding
    }

    /// The codebook, if lists hold codes.
    pub fn codebook(&self) -> Option<&Codebook> {
        self.codebook.as_ref()
    }

    /// The rotation of what is coded, if there is one.
    pub fn rotation(&self) -> Option<&Rotation> {
        self.rotation.as_ref()
    }

    /// Vectors as the codebook takes them.
    pub(super) fn turned<'a>(&self, vectors: &'a [f32]) -> Cow<'a, [f32]> {
        match &self.rotation {
            None => Cow::Borrowed(vectors),
            Some(rotation) => Cow::Owned(rotation.turn(CodePath::detect(), vectors)),
        }
    }

    /// Parts of a code; 0 if there are none.
    pub fn parts(&self) -> usize {
        self.parts
    }

    /// Bytes of the code of a vector as [`Quantizers::assign`] gives it: one for each part, and the factors of a direction.
    pub fn code_bytes(&self) -> usize {
        self.parts + if self.coding == Coding::Rabitq { FACTORS_BYTES } else { 0 }
    }

    /// Bits of a number, if codes are those of directions.
    pub(super) fn direction_bits(&self) -> Option<usize> {
        bits_of(self.dimensions, self.parts).filter(|_| self.coding == Coding::Rabitq)
    }

    /// The list of each of some vectors, and their codes of [`Quantizers::code_bytes`] each.
    pub fn assign(&self, vectors: &[f32]) -> (Vec<u32>, Vec<u8>) {
        let (path, dimensions) = (CodePath::detect(), self.dimensions);
        let assigned = Assigner::new(&self.centroids, dimensions, None).assign(path, vectors);
        let lists: Vec<u32> = assigned.into_iter().map(|(list, _)| list).collect();
        if self.coding == Coding::Rows {
            return (lists, Vec::new());
        }
        let residuals = residuals(vectors, &lists, &self.centroids, dimensions);
        let Some(codebook) = &self.codebook else {
            let (turned, bits) = (self.turned(&residuals), self.direction_bits().unwrap_or(BITS));
            let mut codes = Vec::with_capacity(lists.len() * self.code_bytes());
            for vector in turned.chunks_exact(dimensions) {
                let Factors { square, scale } = directions::encode(vector, bits, &mut codes);
                codes.extend([square, scale].into_iter().flat_map(f32::to_le_bytes));
            }
            return (lists, codes);
        };
        let codes = codebook.encoder().encode(path, &self.turned(&residuals));
        (lists, codes)
    }
}

/// The differences of vectors from the centroids of their lists.
fn residuals(vectors: &[f32], lists: &[u32], centroids: &[f32], dimensions: usize) -> Vec<f32> {
    let mut residuals = vectors.to_vec();
    for (residual, list) in residuals.chunks_exact_mut(dimensions).zip(lists) {
        let centroid = &centroids[*list as usize * dimensions..][..dimensions];
        residual.iter_mut().zip(centroid).for_each(|(x, y)| *x -= y);
    }
    residuals
}

/// A search for centroids under way.
#[derive(Clone, Debug)]
pub struct Clustering {
    /// All rows of the sample.
    pub sample: Arc<Vec<f32>>,
    /// The rows that are clustered.
    pub rows: Arc<Vec<f32>>,
    /// The rounds of k-means.
    pub rounds: Rounds,
}

/// Quantizers to be trained on a sample of a store.
#[derive(Debug)]
pub struct Training {
    space: Arc<dyn Space>,
    options: ListsOptions,
    dimensions: usize,
    lists: usize,
    parts: usize,
    /// Numbers of a turned vector, if codes are made of such.
    turned: Option<usize>,
    /// Centroids that come first and stay.
    kept: Vec<f32>,
    ids: Vec<u64>,
}

impl Training {
    /// Chooses the sample: at most 256 objects a list.
    ///
    /// # Errors
    /// When the space has no lists, or the options do not fit its store.
    pub fn new(space: &Arc<dyn Space>, options: ListsOptions) -> Result<Self, ListsError> {
        let dimensions = dimensions(&**space)?;
        let (store, objects) = (space.store(), space.store().objects_count());
        let lists = options.lists.unwrap_or_else(|| (objects as f64).sqrt() as usize).max(1);
        if lists as u64 > objects {
            let path = store.path().display();
            return Err(ListsError::Options(format!(
                "{lists} lists for the {objects} objects of `{path}`: ask for fewer lists than objects"
            )));
        }
        let numbers = match options.coding {
            Coding::Rows | Coding::Rabitq => 0,
            Coding::Product => 8,
            Coding::Fast => 4,
        };
        let turned = options.rotate.map(|to| if to == 0 { dimensions } else { to });
        check_rotation(turned, dimensions, options.coding)?;
        let coded = turned.unwrap_or(dimensions);
        let usual = if numbers == 0 { 0 } else { coded.div_ceil(numbers).min(PARTS_MAX) };
        let parts = if numbers == 0 { 0 } else { options.parts.unwrap_or(usual) };
        if parts > PARTS_MAX.min(coded) || (numbers > 0 && parts == 0) {
            let most = PARTS_MAX.min(coded);
            return Err(ListsError::Options(format!(
                "codes of {parts} parts for vectors of {coded} numbers: ask for 1 to {most} parts"
            )));
        }
        let parts = directions_of(options, dimensions)?.unwrap_or(parts);
        let sample = lists.saturating_mul(ROWS_A_CLUSTER_MAX).max(product::SAMPLE_MAX);
        let mut ids = Random::mixed(options.seed).distinct(objects, sample);
        // In the order of the store, so that the order of sums does not depend on the choice.
        ids.sort_unstable();
        ids.iter_mut().for_each(|id| *id = store.nth(*id));
        Ok(Self {
            space: Arc::clone(space),
            options,
            dimensions,
            lists,
            parts,
            turned,
            kept: Vec::new(),
            ids,
        })
    }

    /// Keeps the centroids of other lists: they come first and stay as they are, and k-means finds the others.
    ///
    /// # Errors
    /// When these are of another number of dimensions, or more than the lists to make.
    pub fn keeping(mut self, others: &Quantizers) -> Result<Self, ListsError> {
        let (dimensions, lists) = (self.dimensions, self.lists);
        if others.dimensions() != dimensions {
            let found = others.dimensions();
            let fault = format!("the centroids to keep have {found} numbers, and the vectors {dimensions}");
            return Err(ListsError::Options(format!(
                "{fault}: keep those of lists of this store, or of one like it"
            )));
        }
        if others.lists() > lists {
            let kept = others.lists();
            return Err(ListsError::Options(format!(
                "{lists} lists are fewer than the {kept} to keep: ask for {kept} at least"
            )));
        }
        self.kept = others.centroids().to_vec();
        Ok(self)
    }

    /// A word to the user if the sample is small for so many lists.
    pub fn warning(&self) -> Option<String> {
        let (rows, lists) = (self.ids.len(), self.lists);
        let is_small = rows < lists.saturating_mul(ROWS_A_CLUSTER_MIN);
        is_small.then(|| {
            format!("{rows} vectors are few for {lists} lists: with fewer than {ROWS_A_CLUSTER_MIN} a list, centroids follow single vectors")
        })
    }

    /// Numbers of a vector.
    pub fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// The objects of the sample.
    pub fn ids(&self) -> &[u64] {
        &self.ids
    }

    /// The rows of which centroids are made, about.
    pub fn rows_count(&self) -> usize {
        self.ids.len().min(self.lists.saturating_mul(ROWS_A_CLUSTER_MAX))
    }

    /// Trains on the sample, whose objects have been brought in. `None` if the caller cancelled it.
    ///
    /// # Errors
    /// When an object cannot be read, or the system has no memory.
    pub fn train(&self, pieces: &mut Pieces<'_>) -> Result<Option<Quantizers>, ListsError> {
        let Some(mut clustering) = self.begin(pieces)? else { return Ok(None) };
        while !clustering.rounds.is_over() {
            if !clustering.rounds.compute(CodePath::detect(), &clustering.rows, pieces) {
                return Ok(None);
            }
        }
        self.finish(clustering, pieces)
    }

    /// Begins the search for centroids among the sample, whose objects have been brought in. `None` if the caller cancelled it.
    ///
    /// # Errors
    /// As [`Training::train`].
    pub fn begin(&self, pieces: &mut Pieces<'_>) -> Result<Option<Clustering>, ListsError> {
        let (dimensions, options) = (self.dimensions, self.options);
        let measure = measure(&*self.space)?;
        let sample = Arc::new(vectors_for(measure, &**self.space.store(), &self.ids, dimensions)?);
        self.space.store().confirm()?;
        // The sample is larger where codes need more rows than centroids do.
        let rows = every_row(&sample, dimensions, self.rows_count());
        let Some(start) = self.start(&rows, pieces)? else { return Ok(None) };
        let frozen = self.kept.len() / dimensions;
        let spherical = options.spherical || measure == VectorMeasure::Cosine;
        let options =
            kmeans::Options { iterations: options.iterations, seed: options.seed, spherical, frozen };
        let rounds = Rounds::new(&rows, dimensions, start, options)?;
        Ok(Some(Clustering { sample, rows, rounds }))
    }

    /// Makes quantizers of centroids, once their rounds are over. `None` if the caller cancelled it.
    ///
    /// # Errors
    /// When the system has no memory.
    pub fn finish(
        &self,
        clustering: Clustering,
        pieces: &mut Pieces<'_>,
    ) -> Result<Option<Quantizers>, ListsError> {
        let (dimensions, options, path) = (self.dimensions, self.options, CodePath::detect());
        let centroids = clustering.rounds.into_clustering().centroids;
        let (mut codebook, mut rotation) = (None, None);
        if options.coding == Coding::Rabitq {
            rotation = Some(Rotation::random(dimensions, options.seed));
        } else if let Some(bits) = options.coding.bits() {
            let count = self.ids.len().min(product::SAMPLE_MAX);
            let rows = every_row(&clustering.sample, dimensions, count);
            let assigned = Assigner::new(&centroids, dimensions, None).assign(path, &rows);
            let lists: Vec<u32> = assigned.into_iter().map(|(list, _)| list).collect();
            let rows = residuals(&rows, &lists, &centroids, dimensions);
            let (parts, seed) = (self.parts, options.seed);
            if let Some(to) = self.turned {
                let start = options.rotate_start;
                let options = rotation::Options { to, parts, bits, seed, start };
                let trained = rotation::train(&rows, dimensions, options, path, pieces)?;
                let Some((turns, trained)) = trained else { return Ok(None) };
                (rotation, codebook) = (Some(turns), Some(trained));
            } else {
                let trained = Codebook::train(&rows, dimensions, parts, bits, seed, path, pieces)?;
                let Some(trained) = trained else { return Ok(None) };
                codebook = Some(trained);
            }
        }
        let (coding, parts) = (options.coding, self.parts);
        Ok(Some(Quantizers { dimensions, centroids, coding, parts, codebook, rotation }))
    }

    /// The centroids of the first round. `None` if the caller cancelled it.
    fn start(&self, rows: &[f32], pieces: &mut Pieces<'_>) -> Result<Option<Vec<f32>>, ListsError> {
        let (dimensions, seed) = (self.dimensions, self.options.seed);
        if self.options.spread {
            let path = CodePath::detect();
            return Ok(kmeans::spread(rows, dimensions, &self.kept, self.lists, seed, path, pieces)?);
        }
        let count = self.lists - self.kept.len() / dimensions;
        let chosen = kmeans::start((rows.len() / dimensions) as u64, count, seed).into_iter();
        let chosen = chosen.flat_map(|row| rows[row as usize * dimensions..][..dimensions].iter().copied());
        Ok(Some(self.kept.iter().copied().chain(chosen).collect()))
    }
}

/// Bits of a number of codes of directions with so many parts.
fn bits_of(dimensions: usize, parts: usize) -> Option<usize> {
    (1..=directions::BITS_MAX)
        .find(|bits| directions::fits(dimensions, *bits) && directions::parts(dimensions, *bits) == parts)
}

/// The parts of codes of directions; `None` for other codes.
fn directions_of(options: ListsOptions, dimensions: usize) -> Result<Option<usize>, ListsError> {
    let fault = |fault: String| Err(ListsError::Options(fault));
    if options.coding != Coding::Rabitq {
        let text = "bits are those of a number of codes `rabitq`: leave them out, or ask for these";
        return options.bits.map_or(Ok(None), |_| fault(text.to_owned()));
    }
    let (bits, most) = (options.bits.unwrap_or(BITS), directions::BITS_MAX);
    if options.parts.is_some() {
        return fault(format!(
            "codes `rabitq` have bits for each number, not parts: ask for 1 to {most} bits"
        ));
    }
    if !directions::fits(dimensions, bits) {
        let numbers = PARTS_MAX * 4;
        return fault(format!(
            "codes of {bits} bits for vectors of {dimensions} numbers: ask for 1 to {most} bits, and for {numbers} bits of a vector at most"
        ));
    }
    Ok(Some(directions::parts(dimensions, bits)))
}

/// Whether vectors can be turned to so many numbers before they are coded.
fn check_rotation(turned: Option<usize>, dimensions: usize, coding: Coding) -> Result<(), ListsError> {
    let Some(to) = turned else { return Ok(()) };
    let fault = if coding == Coding::Rabitq {
        "codes `rabitq` turn vectors by a rotation of their own: leave yours out".to_owned()
    } else if coding == Coding::Rows {
        "lists of rows have no codes to turn vectors for: ask for codes, or for no rotation".to_owned()
    } else if to > dimensions {
        format!("a rotation of vectors of {dimensions} numbers to {to}: ask for {dimensions} at most")
    } else if dimensions > rotation::DIMENSIONS_MAX {
        let most = rotation::DIMENSIONS_MAX;
        format!(
            "a rotation is for vectors of {most} numbers at most, and these have {dimensions}: leave it out"
        )
    } else {
        return Ok(());
    };
    Err(ListsError::Options(fault))
}

/// `count` of some rows, evenly spread.
fn every_row(rows: &Arc<Vec<f32>>, dimensions: usize, count: usize) -> Arc<Vec<f32>> {
    let len = rows.len() / dimensions;
    if count == len {
        return Arc::clone(rows);
    }
    let places = (0..count).map(|place| (place as u128 * len as u128 / count.max(1) as u128) as usize);
    Arc::new(places.flat_map(|row| rows[row * dimensions..][..dimensions].iter().copied()).collect())
}
