//! Samples of an image in vector form: position, colour and texture of each site, transformed to fixed point.
#![allow(
    clippy::needless_range_loop,
    reason = "index loops over two arrays vectorise, chains of closures do not"
)]

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
    /// Per site: the fixed-point sample and then 1, all multiplied by the site's number of points.
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
            let mut block = [[0.0; BLOCK]; FEATURES];
            let mut bounds = [[0.0; FEATURES]; 2];
            for d in 0..FEATURES {
                let (mut low, mut high) = (i32::MAX, i32::MIN);
                for i in 0..BLOCK {
                    block[d][i] = coordinate(fixed[d][i]);
                    (low, high) = (low.min(fixed[d][i]), high.max(fixed[d][i]));
                }
                (bounds[0][d], bounds[1][d]) = (coordinate(low), coordinate(high));
            }
            self.samples.blocks.push(block);
            self.samples.bounds.push(bounds);
            for (i, site) in sites.iter().enumerate() {
                let count = i64::from(site.count);
                let mut total = [count; FEATURES + 1];
                for d in 0..FEATURES {
                    total[d] = i64::from(fixed[d][i]) * count;
                }
                self.samples.totals.push(total);
            }
        }
    }
}

impl Compute<'_> {
    /// The fixed-point samples of one block. Loops run over the block, so that they vectorise.
    #[inline(always)]
    fn fixed(&self, sites: &[Site], textures: &[[f64; 2]]) -> [[i32; BLOCK]; FEATURES] {
        let (width, height) = (self.image.width as f64, self.image.height as f64);
        let mut features = [[0.0; BLOCK]; FEATURES];
        for i in 0..BLOCK {
            let from = i.min(sites.len() - 1);
            let site = sites[from];
            let [x, y, z] = colour::xyz(self.image.pixel(site.x as usize, site.y as usize));
            let [contrast, entropy] = textures[from];
            let values = [f64::from(site.x), f64::from(site.y), x, y, z, contrast, entropy];
            for d in 0..FEATURES {
                features[d][i] = values[d];
            }
        }
        let [xs, ys, xyz_x, xyz_y, xyz_z, ..] = &mut features;
        for (x, y) in xs.iter_mut().zip(ys) {
            (*x, *y) = (*x / width, *y / height);
        }
        for ((x, y), z) in xyz_x.iter_mut().zip(xyz_y).zip(xyz_z) {
            [*x, *y, *z] = colour::lab([*x, *y, *z]);
        }
        let mut fixed = [[0; BLOCK]; FEATURES];
        for d in 0..FEATURES {
            for i in 0..BLOCK {
                fixed[d][i] = self.transform.apply_one(d, features[d][i]);
            }
        }
        fixed
    }
}
