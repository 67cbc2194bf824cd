//! The fast extraction: the point set, the scratch space, and the choice of the instruction set.

use std::time::{Duration, Instant};

use super::clustering::Clustering;
use super::cooccurrence::Textures;
#[cfg(target_arch = "x86_64")]
use super::lanes::{Avx2, Avx512};
use super::lanes::{Portable, Simd};
use super::points;
use super::sampling::Samples;
use super::sites::Sites;
use super::{ExtractParameters, ImageRef, ParameterError, Signature};
use crate::CodePath;

/// The time of each stage of an extraction, summed over images.
#[derive(Clone, Copy, Debug, Default)]
pub struct StageTimes {
    /// Grey image, windows, contrast and entropy.
    pub texture: Duration,
    /// Sites, colour and the transform.
    pub sampling: Duration,
    /// Adaptive k-means.
    pub clustering: Duration,
}

/// Extracts signatures, one image after the other, with one point set and one scratch space.
///
/// ```
/// use boxwork_kernels::extract::{ExtractParameters, Extractor, ImageRef};
///
/// let mut extractor = Extractor::new(ExtractParameters::default())?;
/// let rgb = [200; 3 * 150 * 150];
/// let signature = extractor.extract(ImageRef::new(150, 150, &rgb)?);
/// assert_eq!(signature.weights.len(), signature.centroids[0].len());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Extractor {
    parameters: ExtractParameters,
    path: CodePath,
    points: Vec<[f32; 2]>,
    sites: Sites,
    textures: Textures,
    samples: Samples,
    clustering: Clustering,
}

impl Extractor {
    /// Draws the point set; the fastest path of this machine is taken.
    ///
    /// # Errors
    ///
    /// The first parameter outside its range.
    pub fn new(parameters: ExtractParameters) -> Result<Self, ParameterError> {
        Self::with_path(parameters, CodePath::detect())
    }

    /// As [`new`](Self::new) on a given path; one that this machine lacks is replaced by the portable one.
    ///
    /// # Errors
    ///
    /// The first parameter outside its range.
    pub fn with_path(parameters: ExtractParameters, path: CodePath) -> Result<Self, ParameterError> {
        parameters.validate()?;
        Ok(Self {
            path: if path.is_available() { path } else { CodePath::Portable },
            points: points::draw(parameters.points_count as usize, parameters.distribution, parameters.seed),
            sites: Sites::default(),
            textures: Textures::new(&parameters),
            samples: Samples::default(),
            clustering: Clustering::default(),
            parameters,
        })
    }

    /// The parameters of the extraction.
    pub fn parameters(&self) -> &ExtractParameters {
        &self.parameters
    }

    /// The path that is taken.
    pub fn path(&self) -> CodePath {
        self.path
    }

    /// The sampling points in (0, 1)^2 in their order, which a store keeps in its metadata.
    pub fn points(&self) -> &[[f32; 2]] {
        &self.points
    }

    /// The signature of `image`: at least one centroid, no number of it infinite or NaN.
    pub fn extract(&mut self, image: ImageRef<'_>) -> Signature {
        self.extract_timed(image, &mut StageTimes::default())
    }

    /// As [`extract`](Self::extract), adding the time of each stage to `times`.
    pub fn extract_timed(&mut self, image: ImageRef<'_>, times: &mut StageTimes) -> Signature {
        #[cfg(target_arch = "x86_64")]
        match self.path {
            CodePath::Avx512 => {
                if let Some(simd) = Avx512::detect() {
                    return self.extract_on(simd, image, times);
                }
            }
            CodePath::Avx2 | CodePath::AvxVnni => {
                if let Some(simd) = Avx2::detect() {
                    return self.extract_on(simd, image, times);
                }
            }
            CodePath::Portable => (),
        }
        self.extract_on(Portable, image, times)
    }

    fn extract_on<S: Simd>(&mut self, simd: S, image: ImageRef<'_>, times: &mut StageTimes) -> Signature {
        let start = Instant::now();
        self.sites.fit(&self.points, self.parameters.seeds_count as usize, image.width, image.height);
        let sited = Instant::now();
        let sites = self.sites.as_slice();
        let textures = self.textures.compute(simd, image, sites);
        let textured = Instant::now();
        self.samples.compute(simd, &self.parameters.transform, image, sites, textures);
        let sampled = Instant::now();
        let signature = self.clustering.compute(simd, &self.parameters, &self.samples, self.sites.seeds());
        times.texture += textured - sited;
        times.sampling += (sited - start) + (sampled - textured);
        times.clustering += sampled.elapsed();
        signature
    }
}
