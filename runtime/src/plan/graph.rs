//! Searches in a plan's graph for the checks: cycles, and diamonds that bounded edges can stall.

use std::collections::BTreeSet;

/// A cycle of edges, as the boxes along it, or nothing.
pub(super) fn cycle(boxes: usize, edges: &[(usize, usize)]) -> Option<Vec<usize>> {
    #[derive(Clone, Copy, PartialEq)]
    enum Mark {
        New,
        Open,
        Closed,
    }
    let mut out: Vec<Vec<usize>> = vec![Vec::new(); boxes];
    debug_assert!(
        edges.iter().all(|(from, to)| *from < boxes && *to < boxes),
        "an edge ends at a box that is not there"
    );
    for (from, to) in edges {
        out[*from].push(*to);
    }
    let mut marks = vec![Mark::New; boxes];
    for start in 0..boxes {
        // An explicit stack: a pipeline of 100,000 boxes in a row must not overflow the thread's.
        let mut path: Vec<(usize, usize)> = Vec::new();
        if marks[start] == Mark::New {
            marks[start] = Mark::Open;
            path.push((start, 0));
        }
        while let Some((at, next_edge)) = path.last_mut() {
            let at = *at;
            match out[at].get(*next_edge) {
                None => {
                    marks[at] = Mark::Closed;
                    path.pop();
                }
                Some(to) => {
                    *next_edge += 1;
                    match marks[*to] {
                        Mark::New => {
                            marks[*to] = Mark::Open;
                            path.push((*to, 0));
                        }
                        Mark::Open => {
                            let from = path.iter().position(|(at, _)| at == to);
                            debug_assert!(from.is_some(), "a box on the path is missing in the path's list");
                            return Some(path[from.unwrap_or(0)..].iter().map(|(at, _)| *at).collect());
                        }
                        Mark::Closed => {}
                    }
                }
            }
        }
    }
    None
}

/// For each box the boxes that feed it.
pub(super) fn feeding(boxes: usize, edges: &[(usize, usize)]) -> Vec<Vec<usize>> {
    let mut feeding = vec![Vec::new(); boxes];
    for (from, to) in edges {
        feeding[*to].push(*from);
    }
    feeding
}

/// All boxes from which a box can be reached, itself included.
pub(super) fn ancestors(of: usize, feeding: &[Vec<usize>]) -> BTreeSet<usize> {
    let (mut found, mut open) = (BTreeSet::from([of]), vec![of]);
    while let Some(at) = open.pop() {
        open.extend(feeding[at].iter().filter(|from| found.insert(**from)));
    }
    found
}

/// The places, ordered so that each follows the places that it needs; of several the first comes next. If none can come
/// next, the first that is left comes with a mark: it is in a circle.
pub(super) fn order(needs: &[Vec<usize>]) -> Vec<(usize, bool)> {
    let mut needed_by: Vec<Vec<usize>> = vec![Vec::new(); needs.len()];
    let mut missing: Vec<usize> = needs.iter().map(Vec::len).collect();
    for (idx, needs) in needs.iter().enumerate() {
        for need in needs {
            needed_by[*need].push(idx);
        }
    }
    let mut ready: BTreeSet<usize> = (0..needs.len()).filter(|idx| missing[*idx] == 0).collect();
    let mut left: BTreeSet<usize> = (0..needs.len()).collect();
    let mut order = Vec::with_capacity(needs.len());
    while let Some(first_left) = left.first().copied() {
        let next = ready.pop_first();
        let idx = next.unwrap_or(first_left);
        left.remove(&idx);
        order.push((idx, next.is_none()));
        for other in &needed_by[idx] {
            missing[*other] -= 1;
            if missing[*other] == 0 && left.contains(other) {
                ready.insert(*other);
            }
        }
    }
    debug_assert_eq!(order.len(), needs.len(), "a place is missing in the order, or is there twice");
    debug_assert!(ready.is_empty(), "a place could have come and did not");
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_boxes_of_a_cycle_and_no_others() {
        assert_eq!(cycle(4, &[(0, 1), (1, 2), (2, 1), (2, 3)]), Some(vec![1, 2]));
        assert_eq!(cycle(4, &[(0, 1), (0, 2), (1, 3), (2, 3)]), None);
        assert_eq!(cycle(1, &[(0, 0)]), Some(vec![0]));
    }

    #[test]
    fn ancestors_include_the_box_itself() {
        let feeding = feeding(5, &[(0, 1), (1, 3), (2, 3), (3, 4)]);
        assert_eq!(ancestors(3, &feeding), BTreeSet::from([0, 1, 2, 3]));
    }

    #[test]
    fn needed_places_come_first_and_a_circle_is_marked() {
        let places = |order: Vec<(usize, bool)>| order.into_iter().map(|(idx, _)| idx).collect::<Vec<_>>();
        assert_eq!(places(order(&[vec![2], vec![], vec![1]])), [1, 2, 0]);
        assert_eq!(order(&[vec![1], vec![0, 0], vec![]]), [(2, false), (0, true), (1, false)]);
        assert_eq!(order(&[vec![0]]), [(0, true)]);
    }

    #[test]
    fn a_long_row_in_the_wrong_order_is_no_trouble() {
        const COUNT: usize = 100_000;
        let needs: Vec<Vec<usize>> =
            (0..COUNT).map(|idx| if idx + 1 < COUNT { vec![idx + 1] } else { Vec::new() }).collect();
        let edges: Vec<(usize, usize)> = (1..COUNT).map(|idx| (idx, idx - 1)).collect();
        assert_eq!(order(&needs)[0], (COUNT - 1, false));
        assert_eq!(cycle(COUNT, &edges), None);
        assert_eq!(ancestors(0, &feeding(COUNT, &edges)).len(), COUNT);
    }
}
