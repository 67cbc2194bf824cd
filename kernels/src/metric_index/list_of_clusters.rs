//! The list of clusters: balls of objects, each made from the objects that earlier balls left (E. Chávez, G. Navarro, "A compact
//! space decomposition for effective metric indexing", Pattern Recognition Letters 26(9), 2005; Algorithm 4.5 of the
//! source).
//!
//! The next centre is the object with the largest sum of distances to all earlier centres. The objects that a ball leaves lie
//! outside it. So if the ball of a query lies inside a ball of the list, the rest of the list has no answers.

use super::search::Ranked;
use super::{IndexedObjects, MetricIndex, MetricIndexError, Search, Slack, bytes_of};

/// The size of a cluster.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ClusterSize {
    /// This many objects besides the centre.
    Objects(usize),
    /// All objects within this distance of the centre.
    Radius(f64),
}

/// The list of clusters, in the order in which they were made.
#[derive(Debug)]
pub struct ListOfClusters {
    clusters: Vec<Cluster>,
    /// The objects of all clusters without the centres, with their distances to their centres, the nearest first.
    members: Vec<(f64, u32)>,
    objects: usize,
}

#[derive(Debug)]
struct Cluster {
    centre: u32,
    /// The largest distance of a member.
    radius: f64,
    /// The least distance of the centre to an object of a later cluster.
    beyond: f64,
    start: usize,
    end: usize,
}

impl ListOfClusters {
    /// Makes the list. Computes the distances of each centre to all objects that earlier clusters left.
    ///
    /// # Errors
    /// If a computed number is no distance, or the caller interrupts.
    ///
    /// # Panics
    /// If `size` is 0 objects.
    pub fn build(objects: &IndexedObjects<'_>, size: ClusterSize) -> Result<Self, MetricIndexError> {
        assert!(size != ClusterSize::Objects(0), "a cluster has objects");
        // The objects that are left, with the sums of their distances to all centres so far.
        let mut left: Vec<Ranked> = objects.all().map(|object| Ranked { distance: 0.0, object }).collect();
        let (mut clusters, mut members) = (Vec::new(), Vec::new());
        while let Some(farthest) = (0..left.len()).reduce(|a, b| match left[b].distance > left[a].distance {
            true => b,
            false => a,
        }) {
            let centre = left.swap_remove(farthest).object;
            let mut found = Vec::with_capacity(left.len());
            for left in &left {
                found.push((objects.distance(centre, left.object)?, left.object, left.distance));
            }
            let order = |a: &(f64, u32, f64), b: &(f64, u32, f64)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
            let taken = match size {
                ClusterSize::Objects(count) if count < found.len() => {
                    found.select_nth_unstable_by(count, order);
                    count
                }
                ClusterSize::Objects(_) => found.len(),
                ClusterSize::Radius(radius) => {
                    found.sort_unstable_by(order);
                    found.partition_point(|found| found.0 <= radius)
                }
            };
            let (inside, outside) = found.split_at_mut(taken);
            inside.sort_unstable_by(order);
            let start = members.len();
            members.extend(inside.iter().map(|member| (member.0, member.1)));
            let beyond = outside.iter().fold(f64::INFINITY, |least, left| least.min(left.0));
            let radius = inside.last().map_or(0.0, |last| last.0);
            clusters.push(Cluster { centre, radius, beyond, start, end: members.len() });
            left.clear();
            let sums = outside.iter().map(|(distance, object, sum)| (sum + distance, *object));
            left.extend(sums.map(|(distance, object)| Ranked { distance, object }));
        }
        members.shrink_to_fit();
        Ok(Self { clusters, members, objects: objects.count() })
    }

    /// The number of clusters.
    pub fn clusters(&self) -> usize {
        self.clusters.len()
    }

    /// Computes the distances of the objects of a cluster that may be part of the answer.
    fn visit(
        &self,
        search: &mut Search<'_>,
        slack: Slack,
        cluster: &Cluster,
        distance: f64,
    ) -> Result<(), MetricIndexError> {
        let members = &self.members[cluster.start..cluster.end];
        // Starts with the objects whose distances to the centre are nearest to the query's: they lower the range soonest.
        let middle = members.partition_point(|member| member.0 < distance);
        let (mut below, mut above) = (middle, middle);
        loop {
            let apart = |place: usize| slack.apart(distance, members[place].0);
            let low = below.checked_sub(1).map(|place| (apart(place), place));
            let high = (above < members.len()).then(|| (apart(above), above));
            let (bound, place) = match (low, high) {
                (Some(low), Some(high)) if low.0 <= high.0 => low,
                (Some(low), None) => low,
                (_, Some(high)) => high,
                (None, None) => return Ok(()),
            };
            if search.rules_out(bound) {
                return Ok(());
            }
            search.compute(members[place].1)?;
            if place < middle {
                below = place;
            } else {
                above = place + 1;
            }
        }
    }
}

impl MetricIndex for ListOfClusters {
    fn objects(&self) -> usize {
        self.objects
    }

    fn bytes(&self) -> usize {
        bytes_of(&self.members) + bytes_of(&self.clusters)
    }

    fn answer(&self, search: &mut Search<'_>) -> Result<(), MetricIndexError> {
        let slack = search.slack();
        // The centres, which are objects too, in the order of the list, until the rest can have no answers.
        let mut distances = Vec::new();
        let mut later = 0.0_f64;
        let mut found = Vec::new();
        for (idx, cluster) in self.clusters.iter().enumerate() {
            if search.rules_out(later) {
                break;
            }
            let distance = search.compute(cluster.centre)?;
            let lower = later.max(slack.outside(distance, cluster.radius));
            found.push(Ranked { distance: lower, object: idx as u32 });
            distances.push(distance);
            if cluster.beyond.is_finite() {
                later = later.max(slack.inside(distance, cluster.beyond));
            }
        }
        // Then the clusters, those with the least bounds first.
        found.sort_unstable();
        for Ranked { distance: lower, object: idx } in found {
            if search.rules_out(lower) {
                break;
            }
            let idx = idx as usize;
            self.visit(search, slack, &self.clusters[idx], distances[idx])?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric_index::testing::check;

    #[test]
    fn answers_are_those_of_a_scan() {
        for size in [1, 3, 10, 1000] {
            check(|objects| ListOfClusters::build(objects, ClusterSize::Objects(size)));
        }
        for radius in [0.0, 0.3, 2.0, 1e9] {
            check(|objects| ListOfClusters::build(objects, ClusterSize::Radius(radius)));
        }
    }
}
