//! Long texts: the table of a pair is a graph of tiles, on the slots that are free.

use std::convert::Infallible;

use boxwork_kernels::CodePath;
use boxwork_kernels::distance::{Long, Tiles};
use boxwork_runtime::inside::{Inside, TaskGraph};
use boxwork_runtime::operator::{BoxError, Context};

use super::search::{Piece, Search};

/// The tiles of a table; each waits for the one above it and the one to its left.
struct Graph<'t>(&'t Tiles);

impl Graph<'_> {
    fn place(&self, task: usize) -> [usize; 2] {
        let [_, columns] = self.0.size();
        [task / columns, task % columns]
    }
}

impl TaskGraph for Graph<'_> {
    type Error = Infallible;

    fn tasks(&self) -> usize {
        self.0.size().iter().product()
    }

    fn predecessors(&self, task: usize) -> u32 {
        self.place(task).into_iter().map(|place| u32::from(place > 0)).sum()
    }

    fn successors(&self, task: usize, mut each: impl FnMut(usize)) {
        let ([row, column], [rows, columns]) = (self.place(task), self.0.size());
        if column + 1 < columns {
            each(task + 1);
        }
        if row + 1 < rows {
            each(task + columns);
        }
    }

    fn priority(&self, task: usize) -> u32 {
        // Tiles that are left on a path to the last one.
        let ([row, column], [rows, columns]) = (self.place(task), self.0.size());
        (rows - row + columns - column) as u32
    }

    fn run(&self, task: usize, _: &mut Inside<'_>) -> Result<(), Infallible> {
        self.0.compute(CodePath::detect(), self.place(task));
        Ok(())
    }
}

impl Search<'_> {
    /// Computes the distances of the long texts of some pieces, which wait for it.
    pub(super) fn find_long(&self, cx: &mut Context<'_>, pieces: &mut [Piece]) -> Result<(), BoxError> {
        for piece in pieces {
            for (query, id) in std::mem::take(&mut piece.long) {
                let distance = match self.asked.prepared.long(query, id)? {
                    Some(Long::Tiles(tiles)) => {
                        let found = cx.inside(|inside| inside.graph(&Graph(&tiles)));
                        found.map_err(|error| BoxError::new(error.to_string()))?;
                        tiles.distance()
                    }
                    Some(Long::Known(distance)) => distance,
                    None => continue,
                };
                self.select(query, id, &[distance as f64], &mut piece.rows);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use boxwork_kernels::chance::Random;
    use boxwork_kernels::distance::{Distance, Levenshtein};

    use super::super::tests::check_by;

    #[test]
    fn long_texts_have_the_distances_of_short_ones() {
        let mut random = Random::new(6);
        let mut text =
            |count: usize| (0..count).map(|_| ['A', 'C', 'G', 'T'][random.idx(4)]).collect::<String>();
        let long = [text(20_100), text(24_700), text(20_001)];
        // Similar to the first, shorter than long ones, and empty.
        let similar = format!("{}T{}", &long[0][..9_000], &long[0][9_001..]);
        let texts = [long[0].clone(), text(300), long[1].clone(), similar, String::new()];
        let queries = ["ACGT", &long[2], "", &long[0]];
        check_by(&|a, b| Levenshtein.distance(a, b), &texts, &queries, None, None);
        check_by(&|a, b| Levenshtein.distance(a, b), &texts, &queries, Some(2), None);
        check_by(&|a, b| Levenshtein.distance(a, b), &texts, &queries, None, Some(400.0));
    }
}
