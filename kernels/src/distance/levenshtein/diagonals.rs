//! Few edits between two texts, by diagonals of their table (E. W. Myers 1986; G. M. Landau and U. Vishkin 1989): for each number of edits and
//! each diagonal, the farthest row that so many edits reach; O(n + d^2) for distance d.

use super::numbered::Numbered;

/// Edits after which it is looked how far they have reached.
const LOOK: usize = 24;
/// Diagonals take longer than a band if the square of the edits is above the letters times this.
const LETTERS_SHARE: f64 = 0.5;
/// Letters that are compared at once.
const RUN: usize = 16;

/// The end of the search by diagonals.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reached {
    /// The last cell: the distance.
    Last(usize),
    /// The last cell is not reached by so many edits as are allowed.
    Beyond,
    /// So many edits reach only this row, and the search is given up.
    Row { edits: usize, row: usize },
}

/// Searches for a distance of at most `limit`, while that takes less time than a band.
pub(super) fn by_diagonals(texts: &Numbered, limit: usize) -> Reached {
    let [rows, columns] = texts.size();
    let few = (LETTERS_SHARE * rows.max(columns) as f64).sqrt() as usize;
    search(texts, limit, few.max(LOOK))
}

/// Searches for a distance of at most `limit`, and gives up if it seems to be above `few`.
fn search(texts: &Numbered, limit: usize, few: usize) -> Reached {
    let [rows, columns] = texts.size().map(|letters| letters as isize);
    let last = columns - rows;
    if last.unsigned_abs() > limit {
        return Reached::Beyond;
    }
    let most = limit.min(few);
    let middle = most as isize + 1;
    // A diagonal is a column less a row. Diagonals that nothing reaches have a row before the first.
    const NOWHERE: isize = isize::MIN / 2;
    let mut reached = vec![NOWHERE; 2 * middle as usize + 1];
    let mut next = reached.clone();
    let mut farthest = 0;
    for edits in 0..=most {
        let around = edits as isize;
        for diagonal in (-around).max(-rows)..=around.min(columns) {
            let at = (middle + diagonal) as usize;
            let row = match edits {
                0 => 0,
                _ => (reached[at] + 1).max(reached[at - 1]).max(reached[at + 1] + 1),
            };
            let row = row.min(rows).min(columns - diagonal);
            next[at] = match row < 0 || row + diagonal < 0 {
                true => NOWHERE,
                false => {
                    let (rows, columns) =
                        (&texts.rows[row as usize..], &texts.columns[(row + diagonal) as usize..]);
                    row + equal(rows, columns) as isize
                }
            };
            farthest = farthest.max(next[at]);
        }
        std::mem::swap(&mut reached, &mut next);
        let of_last = (middle + last) as usize;
        if reached.get(of_last).is_some_and(|row| *row == rows) {
            return Reached::Last(edits);
        }
        // As many edits for each row that is left as for those so far.
        let is_hopeless = edits.is_multiple_of(LOOK) && edits as isize * rows > farthest * few as isize;
        if edits == most && most < limit || edits > 0 && is_hopeless {
            return Reached::Row { edits, row: farthest.max(1) as usize };
        }
    }
    Reached::Beyond
}

/// Letters with which both texts begin.
fn equal(a: &[u16], b: &[u16]) -> usize {
    let ((a_runs, _), (b_runs, _)) = (a.as_chunks::<RUN>(), b.as_chunks::<RUN>());
    // Most runs end at once.
    if a.first() != b.first() {
        return 0;
    }
    let runs = a_runs.iter().zip(b_runs).take_while(|(a, b)| a == b).count();
    let (a, b) = (&a[runs * RUN..], &b[runs * RUN..]);
    runs * RUN + a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::super::{Levenshtein, Pattern};
    use super::*;
    use crate::chance::Random;
    use crate::distance::Distance;

    #[test]
    fn diagonals_find_few_edits_and_give_up_at_many() {
        let mut random = Random::new(3);
        for (letters, edits, alphabet) in
            [(1, 0, 2), (40, 5, 2), (40, 30, 3), (700, 3, 4), (700, 60, 4), (700, 400, 4), (90, 90, 1)]
        {
            let alphabet: Vec<char> = ('a'..).take(alphabet).collect();
            let a: Vec<char> = (0..letters).map(|_| alphabet[random.idx(alphabet.len())]).collect();
            let mut b = a.clone();
            for _ in 0..edits {
                let at = random.idx(b.len());
                match random.below(3) {
                    0 => b[at] = 'x',
                    1 => b.insert(at, alphabet[0]),
                    _ if b.len() > 1 => drop(b.remove(at)),
                    _ => {}
                }
            }
            let distance = Levenshtein.reference(&a, &b) as usize;
            for [a, b] in [[&a, &b], [&b, &a]] {
                let texts = Numbered::new(&Pattern::new(a), b).expect("few letters");
                for limit in [0, distance.saturating_sub(1), distance, distance + 1, usize::MAX] {
                    for few in [1, LOOK, 200, 2000] {
                        match search(&texts, limit, few) {
                            Reached::Last(found) => assert_eq!(found, distance),
                            Reached::Beyond => assert!(distance > limit, "{distance} within {limit}"),
                            Reached::Row { edits, row } => {
                                assert!(edits <= few && edits < distance && row <= a.len() && row > 0);
                            }
                        }
                    }
                }
            }
        }
    }
}
