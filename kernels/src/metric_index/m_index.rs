//! The M-index: sorts the objects by keys that name their nearest pivots (D. Novak, M. Batko, P. Zezula,
//! "Metric index: an efficient and scalable solution for precise and approximate similarity search", Information
//! Systems 36(4), 2011; section 4.2.5 of the source).
//!
//! The objects nearest to one pivot are a cluster. A cluster that is too large is divided by the next nearest pivot, and so
//! on. The key of an object is the list of pivots of its cluster, and then its distance to the first of them. The source
//! writes both as one number: `c` times the number of the cluster plus the distance, with `c` above every distance. Here the
//! two parts are compared one after the other, which gives the same order without `c` and without losing digits.
//!
//! All keys are in one sorted column, cluster by cluster, as in the leaves of a B+ tree, and the tree of clusters stands
//! above it. The index never changes after it is made, so it needs no room for insertions.

use super::search::Ranked;
use super::{IndexedObjects, MetricIndex, MetricIndexError, Search, Slack, bytes_of, kept, room_of_pivots};
use crate::interrupt::Interrupted;

/// The parameters of an M-index.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MIndexParameters {
    /// A cluster of more objects is divided, if levels are left.
    pub capacity: usize,
    /// The most pivots of a key; 1 makes the one-level index.
    pub levels: usize,
    /// Whether the distance has the four-point property. Then the borders of clusters rule out more objects.
    pub four_point: bool,
}

/// The M-index: the objects in the order of their keys.
#[derive(Debug)]
pub struct MIndex {
    pivots: Vec<u32>,
    /// The distances of the pivots among themselves, row by row.
    between: Vec<f64>,
    /// The largest distance of an object to a pivot.
    largest: f64,
    four_point: bool,
    clusters: Vec<Cluster>,
    /// The last parts of the keys (the distances to the first pivots), in the order of the keys.
    keys: Vec<f64>,
    /// The objects in the order of the keys.
    objects: Vec<u32>,
    /// One row of the pivots per object, in the order of the keys.
    distances: Vec<f32>,
}

/// A cluster, which may consist of smaller clusters.
#[derive(Debug)]
struct Cluster {
    /// The last pivot of its key.
    pivot: u16,
    /// The clusters that it was divided into, if it was.
    children: Vec<u32>,
    /// The range of its objects in the order of keys.
    start: usize,
    end: usize,
    /// The least and the largest distance of its objects to the first pivot.
    ring: [f64; 2],
}

/// The inputs of the division into clusters.
struct Dividing<'a> {
    objects: &'a IndexedObjects<'a>,
    /// The distances of all objects to the pivots, one row per object.
    all: &'a [f64],
    levels: usize,
    capacity: usize,
}

impl MIndex {
    /// Makes the index with these pivots, which must be different.
    ///
    /// # Errors
    /// If a computed number is no distance, there are no pivots or more than 65,535, the system refuses memory, or the caller
    /// interrupts.
    pub fn build(
        objects: &IndexedObjects<'_>,
        pivots: &[u32],
        parameters: MIndexParameters,
    ) -> Result<Self, MetricIndexError> {
        let (count, most) = (pivots.len(), usize::from(u16::MAX));
        if pivots.is_empty() {
            return Err(MetricIndexError::NoObjects);
        }
        if count > most {
            return Err(MetricIndexError::TooManyObjects {
                index: "the pivots of m_index",
                objects: count,
                most,
            });
        }
        let mut all = room_of_pivots("m_index", objects.count(), count)?;
        for object in objects.all() {
            for &pivot in pivots {
                all.push(if object == pivot { 0.0 } else { objects.distance(pivot, object)? });
            }
        }
        let between =
            pivots.iter().flat_map(|pivot| all[*pivot as usize * count..][..count].to_vec()).collect();
        let mut largest = 0.0_f64;
        for row in all.chunks_exact(count) {
            objects.go_on()?;
            largest = row.iter().fold(largest, |largest, distance| largest.max(*distance));
        }
        let mut index = Self {
            pivots: pivots.to_vec(),
            between,
            largest,
            four_point: parameters.four_point,
            clusters: Vec::new(),
            keys: Vec::with_capacity(objects.count()),
            objects: Vec::with_capacity(objects.count()),
            distances: room_of_pivots("m_index", objects.count(), count)?,
        };
        let mut members: Vec<u32> = objects.all().collect();
        let levels = parameters.levels.clamp(1, count);
        let root = Cluster { pivot: 0, children: Vec::new(), start: 0, end: members.len(), ring: [0.0; 2] };
        index.clusters.push(root);
        let dividing = Dividing { objects, all: &all, levels, capacity: parameters.capacity.max(1) };
        index.divide(&dividing, 0, &mut members, &mut Vec::new())?;
        for object in &index.objects {
            objects.go_on()?;
            for distance in &all[*object as usize * count..][..count] {
                index.distances.push(kept(*distance)?);
            }
        }
        Ok(index)
    }

    /// Appends the members of a cluster in the order of their keys.
    fn divide(
        &mut self,
        by: &Dividing<'_>,
        cluster: u32,
        members: &mut [u32],
        prefix: &mut Vec<u16>,
    ) -> Result<(), Interrupted> {
        let &Dividing { objects, all, levels, capacity } = by;
        let count = self.pivots.len();
        let row = |object: u32| &all[object as usize * count..][..count];
        let start = self.keys.len();
        let is_divided = prefix.is_empty() || (prefix.len() < levels && members.len() > capacity);
        if is_divided {
            // The first one among equally near pivots.
            let nearest = |object: u32, prefix: &[u16]| {
                let row = row(object);
                let left = (0..count as u16).filter(|pivot| !prefix.contains(pivot));
                left.reduce(|a, b| if row[usize::from(b)] < row[usize::from(a)] { b } else { a }).unwrap_or(0)
            };
            let mut keyed = Vec::with_capacity(members.len());
            for object in &*members {
                objects.go_on()?;
                keyed.push((nearest(*object, prefix), *object));
            }
            keyed.sort_unstable();
            members.iter_mut().zip(&keyed).for_each(|(member, keyed)| *member = keyed.1);
            let mut rest = members;
            for own in keyed.chunk_by(|a, b| a.0 == b.0) {
                let pivot = own[0].0;
                let (own, others) = rest.split_at_mut(own.len());
                let child = self.clusters.len() as u32;
                let ring = [0.0; 2];
                self.clusters.push(Cluster { pivot, children: Vec::new(), start: 0, end: 0, ring });
                self.clusters[cluster as usize].children.push(child);
                prefix.push(pivot);
                self.divide(by, child, own, prefix)?;
                prefix.pop();
                rest = others;
            }
        } else {
            let first = usize::from(prefix[0]);
            let mut keyed: Vec<Ranked> = members
                .iter()
                .map(|object| Ranked { distance: row(*object)[first], object: *object })
                .collect();
            keyed.sort_unstable();
            self.keys.extend(keyed.iter().map(|keyed| keyed.distance));
            self.objects.extend(keyed.iter().map(|keyed| keyed.object));
        }
        let keys = &self.keys[start..];
        let ring =
            keys.iter().fold([f64::INFINITY, 0.0_f64], |ring, key| [ring[0].min(*key), ring[1].max(*key)]);
        let end = self.keys.len();
        let made = &mut self.clusters[cluster as usize];
        (made.start, made.end, made.ring) = (start, end, ring);
        Ok(())
    }

    /// The number of clusters that were not divided.
    pub fn leaves(&self) -> usize {
        self.clusters.iter().filter(|cluster| cluster.children.is_empty()).count()
    }

    /// The keys in their order: for each object, the pivots of its cluster, its distance to the first pivot, and its number.
    pub fn keys(&self) -> Vec<(Vec<u16>, f64, u32)> {
        let mut keys = Vec::with_capacity(self.keys.len());
        let mut stack = vec![(0, Vec::new())];
        while let Some((cluster, prefix)) = stack.pop() {
            let cluster: &Cluster = &self.clusters[cluster as usize];
            if cluster.children.is_empty() {
                let places = cluster.start..cluster.end;
                keys.extend(places.map(|place| (prefix.clone(), self.keys[place], self.objects[place])));
            }
            for child in cluster.children.iter().rev() {
                let mut prefix = prefix.clone();
                prefix.push(self.clusters[*child as usize].pivot);
                stack.push((*child, prefix));
            }
        }
        keys
    }

    /// A lower bound of the distances of objects that are nearer to `pivot` than to all other pivots outside the prefix.
    fn border(&self, slack: Slack, query: &[f64], pivot: u16, prefix: &[u16]) -> f64 {
        let own = usize::from(pivot);
        let mut lower = 0.0_f64;
        for (other, distance) in query.iter().enumerate() {
            if *distance >= query[own] || prefix.contains(&(other as u16)) {
                continue;
            }
            lower = lower.max(slack.beyond_border(query[own], *distance, self.largest));
            if self.four_point {
                let apart = self.between[own * query.len() + other];
                lower = lower.max(slack.beyond_plane(query[own], *distance, apart, self.largest));
            }
        }
        lower
    }

    /// Computes the distances of the objects of a cluster that may be part of the answer.
    fn visit(
        &self,
        search: &mut Search<'_>,
        query: &[f64],
        cluster: &Cluster,
        first: u16,
    ) -> Result<(), MetricIndexError> {
        let slack = search.slack();
        let distance = query[usize::from(first)];
        let keys = &self.keys[cluster.start..cluster.end];
        // The interval of keys that the range does not rule out.
        let from = keys.partition_point(|key| search.rules_out(slack.outside(distance, *key)));
        let upto = keys.partition_point(|key| !search.rules_out(slack.inside(distance, *key)));
        let stored = slack.stored();
        for place in cluster.start + from..(cluster.start + upto).max(cluster.start + from) {
            let row = &self.distances[place * query.len()..][..query.len()];
            let is_out = |(query, own): (&f64, &f32)| search.rules_out(stored.apart(*query, f64::from(*own)));
            let object = self.objects[place];
            if !query.iter().zip(row).any(is_out) && !self.pivots.contains(&object) {
                search.compute(object)?;
            }
        }
        Ok(())
    }
}

impl MetricIndex for MIndex {
    fn objects(&self) -> usize {
        self.objects.len()
    }

    fn bytes(&self) -> usize {
        let children: usize = self.clusters.iter().map(|cluster| bytes_of(&cluster.children)).sum();
        let columns = bytes_of(&self.keys) + bytes_of(&self.objects) + bytes_of(&self.distances);
        columns + children + bytes_of(&self.clusters) + bytes_of(&self.between) + bytes_of(&self.pivots)
    }

    fn answer(&self, search: &mut Search<'_>) -> Result<(), MetricIndexError> {
        let slack = search.slack();
        let mut query = Vec::with_capacity(self.pivots.len());
        for &pivot in &self.pivots {
            query.push(search.compute(pivot)?);
        }
        // The undivided clusters with their bounds.
        let mut leaves = Vec::new();
        let mut stack = vec![(0_u32, 0.0_f64, Vec::<u16>::new())];
        while let Some((idx, lower, prefix)) = stack.pop() {
            if search.rules_out(lower) {
                continue;
            }
            for &child in &self.clusters[idx as usize].children {
                let cluster = &self.clusters[child as usize];
                let first = query[usize::from(*prefix.first().unwrap_or(&cluster.pivot))];
                let [least, largest] = cluster.ring;
                let lower = lower
                    .max(self.border(slack, &query, cluster.pivot, &prefix))
                    .max(slack.inside(first, least))
                    .max(slack.outside(first, largest));
                let mut prefix = prefix.clone();
                prefix.push(cluster.pivot);
                if cluster.children.is_empty() {
                    leaves.push((Ranked { distance: lower, object: child }, prefix[0]));
                } else {
                    stack.push((child, lower, prefix));
                }
            }
        }
        leaves.sort_unstable();
        for (leaf, first) in leaves {
            if search.rules_out(leaf.distance) {
                break;
            }
            self.visit(search, &query, &self.clusters[leaf.object as usize], first)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric_index::testing::{check, check_supermetric, clustered};

    fn build(
        objects: &IndexedObjects<'_>,
        pivots: usize,
        levels: usize,
        capacity: usize,
    ) -> Result<MIndex, MetricIndexError> {
        let parameters = MIndexParameters { capacity, levels, four_point: false };
        MIndex::build(objects, &objects.pivots(pivots, 5)?, parameters)
    }

    #[test]
    fn answers_are_those_of_a_scan() {
        for (pivots, levels, capacity) in [(1, 1, 1), (4, 1, 10), (6, 2, 8), (9, 3, 2), (1000, 4, 1)] {
            check(|objects| build(objects, pivots, levels, capacity));
            check_supermetric(|objects| {
                let parameters = MIndexParameters { capacity, levels, four_point: true };
                MIndex::build(objects, &objects.pivots(pivots, 5)?, parameters)
            });
        }
    }

    #[test]
    fn keys_ascend_and_every_object_has_one() {
        clustered(|objects| {
            let index = build(objects, 7, 3, 4).unwrap();
            let keys = index.keys();
            assert!(keys.is_sorted_by(|a, b| (&a.0, a.1, a.2) < (&b.0, b.1, b.2)));
            assert!(keys.iter().any(|key| key.0.len() == 3) && keys.iter().all(|key| !key.0.is_empty()));
            assert!(index.leaves() >= 6);
            let mut found: Vec<u32> = keys.iter().map(|key| key.2).collect();
            found.sort_unstable();
            assert!(found.into_iter().eq(objects.all()));
            for (prefix, key, object) in keys {
                let distance =
                    |pivot: u16| objects.distance(index.pivots[usize::from(pivot)], object).unwrap();
                assert_eq!(key, distance(prefix[0]));
                // The pivots of a key are the nearest ones, in order.
                assert!(prefix.windows(2).all(|pair| distance(pair[0]) <= distance(pair[1])));
                let rest = (0..7).filter(|pivot| !prefix.contains(pivot));
                let farthest = distance(prefix[prefix.len() - 1]);
                assert!(rest.into_iter().all(|pivot| distance(pivot) >= farthest));
            }
        });
    }
}
