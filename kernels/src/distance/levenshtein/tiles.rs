//! The edit distance of two texts that are so long that their table is cut into tiles, which several threads compute.
//!
//! A tile depends on the one above it and the one to its left, and hands on two bits for each cell of its border. So the memory is
//! proportional to the letters of both texts, and the distance is the same in whatever order the tiles are computed.

use std::sync::Mutex;

use super::similar::{Similar, similar};
use super::wavefront::{Numbered, RISES, below, part};
use super::{Pattern, WORD};
use crate::CodePath;

/// Texts of more letters, both of them, are worth tiles.
pub const TILED_LETTERS_MIN: usize = 20_000;
/// Rows and columns of a tile.
const TILE: usize = 4096;
const _: () = assert!(TILE.is_multiple_of(WORD));

/// The table of two texts, in tiles.
#[derive(Debug)]
pub struct Tiles {
    texts: Numbered,
    tile: usize,
    /// By column of tiles: the differences along the row below the last tile that was computed.
    above: Vec<Mutex<Vec<u8>>>,
    /// By row of tiles: the differences along the column to the right of it.
    left: Vec<Mutex<Vec<[u64; 2]>>>,
}

/// How the distance of two long texts is found.
#[derive(Debug)]
pub enum Long {
    /// It is found already: the texts are similar, or the pattern has too many different letters for tiles.
    Known(usize),
    /// By these tiles.
    Tiles(Tiles),
}

impl Pattern {
    /// Whether the table of this text and one of so many letters is worth tiles.
    pub fn is_long(&self, letters: usize) -> bool {
        self.length.min(letters) > TILED_LETTERS_MIN
    }

    /// The distance to another long text, or the tiles that give it.
    pub fn long(&self, text: &[char]) -> Long {
        if self.is_long(text.len()) {
            if let Similar::Found(distance) = similar(self, text, usize::MAX) {
                return Long::Known(distance);
            }
            if let Some(tiles) = Tiles::new(self, text, TILE) {
                return Long::Tiles(tiles);
            }
        }
        Long::Known(self.distance(text))
    }
}

impl Tiles {
    /// The table of two texts, neither of them empty, in tiles of so many rows and columns, a multiple of 64.
    fn new(pattern: &Pattern, text: &[char], tile: usize) -> Option<Self> {
        let texts = Numbered::new(pattern, text)?;
        let above = texts.columns.chunks(tile).map(|columns| Mutex::new(vec![RISES; columns.len()]));
        let left =
            texts.rows.chunks(tile).map(|rows| Mutex::new(vec![[u64::MAX, 0]; rows.len().div_ceil(WORD)]));
        let (above, left) = (above.collect(), left.collect());
        Some(Self { texts, tile, above, left })
    }

    /// Rows and columns of tiles.
    pub fn size(&self) -> [usize; 2] {
        [self.left.len(), self.above.len()]
    }

    /// Computes the tile in a row and a column. Those above it and to its left must be computed.
    ///
    /// # Panics
    /// When there is no such tile.
    pub fn compute(&self, path: CodePath, [row, column]: [usize; 2]) {
        let rows = &self.texts.rows[row * self.tile..];
        let columns = &self.texts.columns[column * self.tile..];
        let [rows, columns] = [rows, columns].map(|letters| &letters[..self.tile.min(letters.len())]);
        // Only this tile has these borders now, so no thread waits.
        let lock = "a tile panicked, and its panic ends the computation";
        let (mut above, mut left) =
            (self.above[column].lock().expect(lock), self.left[row].lock().expect(lock));
        part(path, rows, columns, self.texts.planes, &mut above, &mut left);
    }

    /// The distance, once all tiles are computed.
    pub fn distance(&self) -> usize {
        let last: Vec<u8> =
            self.above.iter().flat_map(|above| above.lock().expect("no tile panicked").clone()).collect();
        below(self.texts.rows.len(), &last)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Levenshtein;
    use super::*;
    use crate::chance::Random;
    use crate::distance::Distance;

    /// Computes all tiles along the diagonals, on several threads.
    fn distance(tiles: &Tiles, path: CodePath) -> usize {
        let [rows, columns] = tiles.size();
        for diagonal in 0..rows + columns - 1 {
            std::thread::scope(|scope| {
                for row in diagonal.saturating_sub(columns - 1)..rows.min(diagonal + 1) {
                    scope.spawn(move || tiles.compute(path, [row, diagonal - row]));
                }
            });
        }
        tiles.distance()
    }

    #[test]
    fn tiles_give_the_distance_of_the_definition() {
        let mut random = Random::new(2);
        for (rows, columns, letters) in
            [(1, 1, 4), (64, 300, 4), (700, 650, 2), (1000, 129, 60), (129, 1000, 200)]
        {
            let alphabet: Vec<char> = ('!'..).take(letters).collect();
            let mut text =
                |count: usize| (0..count).map(|_| alphabet[random.idx(letters)]).collect::<Vec<char>>();
            let (a, b) = (text(rows), text(columns));
            let expected = Levenshtein.reference(&a, &b) as usize;
            for path in CodePath::available() {
                for tile in [64, 192, 4096] {
                    let tiles = Tiles::new(&Pattern::new(&a), &b, tile).expect("few letters");
                    assert_eq!(tiles.size(), [rows.div_ceil(tile), columns.div_ceil(tile)]);
                    assert_eq!(distance(&tiles, path), expected, "{path}, tiles of {tile}");
                }
            }
        }
    }

    #[test]
    fn long_texts_are_cut_unless_they_are_similar() {
        let mut random = Random::new(4);
        let mut text =
            |count: usize| (0..count).map(|_| ['A', 'C', 'G', 'T'][random.idx(4)]).collect::<Vec<char>>();
        let (a, b) = (text(TILED_LETTERS_MIN + 1), text(TILED_LETTERS_MIN + 1));
        let pattern = Pattern::new(&a);
        let Long::Tiles(tiles) = pattern.long(&b) else { panic!("random texts are not similar") };
        assert_eq!(tiles.size(), [5, 5]);
        assert_eq!(distance(&tiles, CodePath::detect()), pattern.distance(&b));
        assert!(matches!(pattern.long(&a[3..]), Long::Known(3)));
        assert!(
            matches!(pattern.long(&b[..2000]), Long::Known(found) if found == pattern.distance(&b[..2000]))
        );
        assert!(pattern.is_long(b.len()) && !pattern.is_long(TILED_LETTERS_MIN));
    }
}
