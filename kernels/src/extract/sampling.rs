//! Samples of an image in vector form: position, colour and texture of each site, transformed to fixed point.

use super::lanes::{Simd, Task};
use super::sites::{BLOCK, Site};
use super::transform::{FEATURES, FeatureTransform, coordinate};
use super::{ImageRef, colour};

/// The samples of one image, in blocks; the last block is filled up with copies of the last site.
#[derive(Debug, Default)]
pub(super) struct Samples {
    /// Block by block, coordinate by coordinate.
    pub(super) blocks: Vec<[[f32; BLOCK]; FEATURES]>,
    /// The box about each block: least and largest coordinates.
    pub(super) bounds: Vec<[[f32; FEATURES]; 2]>,
    /// Of each site: the fixed-point sample and, last, 1, all times the site's points.
    pub(super) totals: Vec<[i64; FEATURES + 1]>,
}

impl Samples {
    pub(super) fn compute<S: Simd>(
        &mut self,
        simd: S,
        transform: &FeatureTransform,
        image: ImageRef<'_>,
        sites: &[Site],
        textures: &[[f64; 2]],
    ) {
        self.blocks.clear();
        self.bounds.clear();
        self.totals.clear();
        simd.vectorize(Compute { samples: self, transform, image, sites, textures });
    }

    /// The sample of a site as numbers.
    pub(super) fn point(&self, site: usize) -> [f32; FEATURES] {
        std::array::from_fn(|d| self.blocks[site / BLOCK][d][site % BLOCK])
    }
}

struct Compute<'a> {
    samples: &'a mut Samples,
    transform: &'a FeatureTransform,
    image: ImageRef<'a>,
    sites: &'a [Site],
    textures: &'a [[f64; 2]],
}

impl Task for Compute<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        for (sites, textures) in self.sites.chunks(BLOCK).zip(self.textures.chunks(BLOCK)) {
            let fixed = self.fixed(sites, textures);
            let block = fixed.map(|column| column.map(coordinate));
            let extreme = |pick: fn(f32, f32) -> f32| {
                block.map(|column| column.into_iter().reduce(pick).unwrap_or(0.0))
            };
            let bounds =
                [extreme(|a, b| if a < b { a } else { b }), extreme(|a, b| if a > b { a } else { b })];
            self.samples.blocks.push(block);
            self.samples.bounds.push(bounds);
            self.samples.totals.extend(sites.iter().enumerate().map(|(i, site)| {
                let count = i64::from(site.count);
                std::array::from_fn(|d| if d < FEATURES { i64::from(fixed[d][i]) * count } else { count })
            }));
        }
    }
}

impl Compute<'_> {
    /// The fixed-point samples of one block. Loops run over the block, so that they vectorise.
    #[inline(always)]
    fn fixed(&self, sites: &[Site], textures: &[[f64; 2]]) -> [[i32; BLOCK]; FEATURES] {
        let (width, height) = (self.image.width as f64, self.image.height as f64);
        let mut features = [[0.0; BLOCK]; FEATURES];
        (0..BLOCK).for_each(|i| {
            let from = i.min(sites.len() - 1);
            let site = sites[from];
            let [x, y, z] = colour::xyz(self.image.pixel(site.x as usize, site.y as usize));
            let [contrast, entropy] = textures[from];
            let values = [f64::from(site.x), f64::from(site.y), x, y, z, contrast, entropy];
            (0..FEATURES).for_each(|d| features[d][i] = values[d]);
        });
        let mut fixed = [[0; BLOCK]; FEATURES];
        (0..BLOCK).for_each(|i| {
            let [x, y, xyz_x, xyz_y, xyz_z, contrast, entropy] = std::array::from_fn(|d| features[d][i]);
            let [l, a, b] = colour::lab([xyz_x, xyz_y, xyz_z]);
            let values = self.transform.apply([x / width, y / height, l, a, b, contrast, entropy]);
            (0..FEATURES).for_each(|d| fixed[d][i] = values[d]);
        });
        fixed
    }
}
