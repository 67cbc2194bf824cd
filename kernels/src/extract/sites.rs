//! The pixels on which the points of a point set fall, for images of one size.
//!
//! All points on one pixel share one sample, so a site is a pixel with the number of its points. Sites are sorted into blocks
//! that are small in the plane, so that the assignment can skip far means for a whole block.

use super::points::pixel;

/// Sites whose samples are assigned together: two AVX2 vectors, or one AVX-512 vector.
pub(super) const BLOCK: usize = 16;

/// A pixel that is sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Site {
    pub(super) x: u32,
    pub(super) y: u32,
    /// Points that fall on this pixel.
    pub(super) count: u32,
}

/// The sites of a point set in images of `width` x `height` pixels.
#[derive(Debug, Default)]
pub(super) struct Sites {
    width: usize,
    height: usize,
    /// In strips of columns, each strip from top to bottom.
    sites: Vec<Site>,
    /// The site of each of the first points, which seed the clusters.
    seeds: Vec<u32>,
}

impl Sites {
    /// Recomputes the sites if the size differs from the last image's.
    pub(super) fn fit(&mut self, points: &[[f32; 2]], seeds_count: usize, width: usize, height: usize) {
        if (self.width, self.height) == (width, height) {
            return;
        }
        (self.width, self.height) = (width, height);
        let place = |point: &[f32; 2]| (pixel(point[0], width) as u32, pixel(point[1], height) as u32);
        let mut places: Vec<_> = points.iter().map(place).collect();
        places.sort_unstable();
        self.sites.clear();
        for group in places.chunk_by(|a, b| a == b) {
            self.sites.push(Site { x: group[0].0, y: group[0].1, count: group.len() as u32 });
        }
        // A strip has as many blocks as there are strips.
        let blocks = self.sites.len().div_ceil(BLOCK);
        let strip = (blocks as f64).sqrt().ceil() as usize * BLOCK;
        for strip in self.sites.chunks_mut(strip) {
            strip.sort_unstable_by_key(|site| (site.y, site.x));
        }
        let mut order: Vec<(u32, u32, u32)> = Vec::with_capacity(self.sites.len());
        order.extend(self.sites.iter().enumerate().map(|(idx, site)| (site.x, site.y, idx as u32)));
        order.sort_unstable();
        self.seeds.clear();
        self.seeds.extend(points.iter().take(seeds_count).map(|point| {
            let (x, y) = place(point);
            let found = order.partition_point(|entry| (entry.0, entry.1) < (x, y));
            order[found].2
        }));
    }

    pub(super) fn as_slice(&self) -> &[Site] {
        &self.sites
    }

    pub(super) fn seeds(&self) -> &[u32] {
        &self.seeds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_is_counted_and_every_seed_found() {
        let points: Vec<[f32; 2]> = (0..500)
            .map(|i| [(i as f32 * 0.618).fract().max(0.01), (i as f32 * 0.377).fract().max(0.01)])
            .collect();
        let mut sites = Sites::default();
        for (width, height) in [(1, 1), (1, 40), (13, 7), (150, 150)] {
            sites.fit(&points, 40, width, height);
            assert_eq!(sites.as_slice().iter().map(|site| site.count).sum::<u32>(), 500);
            for (point, &seed) in points.iter().zip(sites.seeds()) {
                let site = sites.as_slice()[seed as usize];
                assert_eq!(
                    (pixel(point[0], width), pixel(point[1], height)),
                    (site.x as usize, site.y as usize)
                );
            }
        }
    }
}
