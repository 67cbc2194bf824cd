//! What the checks ask of a plan's graph: cycles, and diamonds that bounded edges can stall.

use std::collections::BTreeSet;

/// A cycle of edges, as the boxes along it, or nothing.
pub(super) fn cycle(boxes: usize, edges: &[(usize, usize)]) -> Option<Vec<usize>> {
    #[derive(Clone, Copy, PartialEq)]
    enum Mark {
        New,
        Open,
        Closed,
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
            let next = edges.iter().enumerate().skip(*next_edge).find(|(_, (from, _))| *from == at);
            match next {
                None => {
                    marks[at] = Mark::Closed;
                    path.pop();
                }
                Some((edge, (_, to))) => {
                    *next_edge = edge + 1;
                    match marks[*to] {
                        Mark::New => {
                            marks[*to] = Mark::Open;
                            path.push((*to, 0));
                        }
                        Mark::Open => {
                            let from = path.iter().position(|(at, _)| at == to).unwrap_or(0);
                            return Some(path[from..].iter().map(|(at, _)| *at).collect());
                        }
                        Mark::Closed => {}
                    }
                }
            }
        }
    }
    None
}

/// All boxes from which a box can be reached, itself included.
pub(super) fn ancestors(of: usize, edges: &[(usize, usize)]) -> BTreeSet<usize> {
    let (mut found, mut open) = (BTreeSet::from([of]), vec![of]);
    while let Some(at) = open.pop() {
        for (from, _) in edges.iter().filter(|(_, to)| *to == at) {
            if found.insert(*from) {
                open.push(*from);
            }
        }
    }
    found
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
        assert_eq!(ancestors(3, &[(0, 1), (1, 3), (2, 3), (3, 4)]), BTreeSet::from([0, 1, 2, 3]));
    }
}
