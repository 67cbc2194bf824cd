//! The lists nearest to queries, and the centroids as objects that devices compare with many queries at once.

use std::path::Path;
use std::sync::Arc;

use arrow_array::types::Float32Type;
use arrow_array::{ArrayRef, ListArray, PrimitiveArray, StringArray};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field};
use boxwork_kernels::CodePath;
use boxwork_kernels::distance::l2_of_each;
use boxwork_kernels::vector::{VectorMeasure, inner_product};

use super::Lists;
use crate::kinds::Vectors;
use crate::lists::ListsError;
use crate::object_store::Rows;
use crate::space::Space;
use crate::spaces::{self, DistanceOptions};
use crate::store::Store;

impl Lists {
    /// The `probes` lists whose centroids are nearest to each of some [prepared](Lists::prepare) queries, with their distances,
    /// the nearest first; equal distances go by list.
    ///
    /// # Panics
    /// When these are no whole queries of the lists' dimensions.
    pub fn nearest(&self, queries: &[f32], probes: usize) -> Vec<Vec<(f64, u32)>> {
        let (centroids, dimensions) = (self.centroids.borrow(), self.quantizers.dimensions());
        let each = || queries.chunks_exact(dimensions);
        let mut lists: Vec<_> = each().map(|query| centroids.shortlist(query, probes)).collect();
        centroids.scan(CodePath::detect(), queries, &mut lists, 0);
        let found = each().zip(lists).map(|(query, mut list)| {
            list.tighten();
            let left = list.kept().iter().map(|(_, list)| *list).collect();
            self.nearest_among(query, Vec::new(), left, probes)
        });
        found.collect()
    }

    /// As [`Lists::nearest`], for one query among some lists, which come in any order: those whose distances are known, and the rest.
    ///
    /// # Panics
    /// When the query has other dimensions, or there is no such list.
    pub fn nearest_among(
        &self,
        query: &[f32],
        known: Vec<(f64, u32)>,
        rest: Vec<u32>,
        probes: usize,
    ) -> Vec<(f64, u32)> {
        let dimensions = self.quantizers.dimensions();
        let centroid = |list: &u32| &self.quantizers.centroids()[*list as usize * dimensions..][..dimensions];
        let centroids: Vec<&[f32]> = rest.iter().map(centroid).collect();
        let mut distances = vec![0.0; rest.len()];
        if self.measure == VectorMeasure::L2 {
            l2_of_each(CodePath::detect(), query, &centroids, &mut distances);
        } else {
            let square = inner_product(query, query);
            let each = distances.iter_mut().zip(centroids);
            each.for_each(|(distance, centroid)| {
                *distance = self.measure.with_square(query, square, centroid)
            });
        }
        let mut found = known;
        found.extend(distances.into_iter().zip(rest));
        let order = |a: &(f64, u32), b: &(f64, u32)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
        // Devices give them in order.
        if !found.is_sorted_by(|a, b| order(a, b).is_lt()) {
            found.sort_unstable_by(order);
        }
        found.truncate(probes);
        found
    }

    /// The centroids as a store in memory with the distance of the lists: the object with the id of a list is its centroid.
    ///
    /// # Errors
    /// When there is no memory for them.
    pub fn centroid_space(&self) -> Result<Arc<dyn Space>, ListsError> {
        if let Some(space) = self.centroid_space.get() {
            return Ok(Arc::clone(space));
        }
        let made =
            space_of(self.quantizers.centroids(), self.quantizers.dimensions(), self.measure, &self.path);
        let made = made.map_err(ListsError::Options)?;
        // Another thread may have been first, with equal vectors.
        Ok(Arc::clone(self.centroid_space.get_or_init(|| made)))
    }
}

fn space_of(
    numbers: &[f32],
    dimensions: usize,
    measure: VectorMeasure,
    path: &Path,
) -> Result<Arc<dyn Space>, String> {
    let count = numbers.len() / dimensions;
    let item = Arc::new(Field::new("item", DataType::Float32, false));
    let values = Arc::new(PrimitiveArray::<Float32Type>::from(numbers.to_vec()));
    let offsets = OffsetBuffer::from_repeated_length(dimensions, count);
    let vectors: ArrayRef =
        Arc::new(ListArray::try_new(item, offsets, values, None).map_err(|error| error.to_string())?);
    let names = StringArray::from_iter_values((0..count).map(|list| list.to_string()));
    let mut rows = Rows::new(Vectors::new(dimensions));
    rows.append(names, &[vectors])?;
    let store = rows.finish(path, None).map_err(|error| error.to_string())?;
    let store: Arc<dyn Store> = Arc::new(store);
    spaces::open(&DistanceOptions::named(measure.name()), store).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use boxwork_kernels::chance::Random;

    use super::*;

    #[test]
    fn the_space_of_centroids_says_the_distances_of_the_measure() {
        let (mut random, dimensions) = (Random::new(5), 6);
        let numbers: Vec<f32> = (0..40 * dimensions).map(|_| random.normal_f32()).collect();
        for measure in [VectorMeasure::L2, VectorMeasure::InnerProduct, VectorMeasure::Cosine] {
            let space = space_of(&numbers, dimensions, measure, Path::new("lists")).unwrap();
            assert_eq!((space.store().ids_count(), space.measure()), (40, measure.name().to_owned()));
            let vector = |row: usize| &numbers[row * dimensions..][..dimensions];
            let mut distance = [0.0];
            for pair in [[0, 0], [3, 39], [39, 7]] {
                space.between(&[pair], &mut distance).unwrap();
                let wanted = measure.between(vector(pair[0] as usize), vector(pair[1] as usize));
                assert_eq!(distance[0].to_bits(), wanted.to_bits());
            }
        }
    }
}
