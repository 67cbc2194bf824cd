//! Long texts: the table of a pair, or a band of it, is a graph of tiles, on the slots that are free. Devices compute the tables of texts that
//! differ in much.

use std::convert::Infallible;

use boxwork_kernels::distance::{Long, Tiles};
use boxwork_runtime::inside::{Inside, TaskGraph};
use boxwork_runtime::operator::{BoxError, Context, Work};

use super::long_devices::LongDevices;
use super::search::{Piece, Search};

/// The tiles of a table, and their count; each waits for the one above it and the one to its left.
struct Graph<'t>(&'t Tiles, Work<'t>);

impl TaskGraph for Graph<'_> {
    type Error = Infallible;

    fn tasks(&self) -> usize {
        self.0.count()
    }

    fn predecessors(&self, task: usize) -> u32 {
        self.0.before(task).map(|_| 1).sum()
    }

    fn successors(&self, task: usize, each: impl FnMut(usize)) {
        self.0.after(task).for_each(each);
    }

    fn priority(&self, task: usize) -> u32 {
        self.0.left(task) as u32
    }

    fn run(&self, task: usize, _: &mut Inside<'_>) -> Result<(), Infallible> {
        self.0.compute(task);
        self.1.add(1);
        Ok(())
    }
}

/// A long query and text of a piece, and their distance once it is known.
struct Pair {
    piece: usize,
    query: usize,
    id: u64,
    distance: Option<usize>,
}

impl Search<'_> {
    /// Computes the distances of the long texts of some pieces, which wait for it.
    pub(super) fn find_long(
        &self,
        cx: &mut Context<'_>,
        pieces: &mut [Piece],
        devices: &mut LongDevices,
    ) -> Result<(), BoxError> {
        let mut pairs = Vec::new();
        for (piece, of_piece) in pieces.iter_mut().enumerate() {
            let long = std::mem::take(&mut of_piece.long).into_iter();
            pairs.extend(long.map(|(query, id)| Pair { piece, query, id, distance: None }));
        }
        // Pairs that wait for a device, by their places.
        let mut waiting: Vec<(usize, Box<Tiles>)> = Vec::new();
        for place in 0..pairs.len() {
            let Pair { query, id, .. } = pairs[place];
            match self.asked.prepared.long(query, id)? {
                Some(Long::Tiles(tiles)) if devices.want(&tiles) => waiting.push((place, tiles)),
                Some(long) => pairs[place].distance = Some(by_slots(cx, long)?),
                None => {}
            }
            if LongDevices::are_many(waiting.iter().map(|(_, tiles)| &**tiles)) {
                by_devices(cx, devices, &mut waiting, &mut pairs)?;
            }
        }
        by_devices(cx, devices, &mut waiting, &mut pairs)?;
        for Pair { piece, query, id, distance } in pairs {
            if let Some(distance) = distance {
                self.select(query, id, &[distance as f64], &mut pieces[piece].rows);
            }
        }
        Ok(())
    }
}

/// The distance by slots.
fn by_slots(cx: &mut Context<'_>, mut long: Long) -> Result<usize, BoxError> {
    loop {
        match long {
            Long::Known(distance) => return Ok(distance),
            Long::Tiles(tiles) => {
                let work = cx.work();
                work.expect(tiles.count() as u64);
                let found = cx.inside(|inside| inside.graph(&Graph(&tiles, work)));
                found.map_err(|error| BoxError::new(error.to_string()))?;
                long = tiles.end();
            }
        }
    }
}

/// Computes the tables that wait for a device there, or else by slots.
fn by_devices(
    cx: &mut Context<'_>,
    devices: &mut LongDevices,
    waiting: &mut Vec<(usize, Box<Tiles>)>,
    pairs: &mut [Pair],
) -> Result<(), BoxError> {
    if waiting.is_empty() {
        return Ok(());
    }
    let tables: Vec<&Tiles> = waiting.iter().map(|(_, tiles)| &**tiles).collect();
    let found = devices.distances(cx, &tables)?;
    for (nth, (place, tiles)) in waiting.drain(..).enumerate() {
        pairs[place].distance = Some(match &found {
            Some(found) => found[nth],
            None => by_slots(cx, Long::Tiles(tiles))?,
        });
    }
    Ok(())
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
