//! Operations on vectors of bits, for kernels that give each of many problems one bit of a vector.
//!
//! Invariant: every path has the same bits. Bits do not mix, except within a word where an operation says so: bit `k` of a result
//! depends only on bit `k` of the operands.

/// Words of 64 bits that are processed together, whatever the path: one vector of AVX-512, two of AVX2.
pub(crate) const WORDS: usize = 8;

/// The most planes of a bit-sliced number.
pub(crate) const PLANES: usize = 12;

/// The operations on bits of one instruction set.
pub(crate) trait Bits: Copy {
    /// Words of a vector; divides [`WORDS`].
    const BIT_WORDS: usize;
    /// Rows of a table whose state fits into the registers: 4 or 8.
    const BIT_ROWS: usize;
    /// A vector.
    type B: Copy;

    /// The first `BIT_WORDS` words of a slice.
    fn bits(self, from: &[u64]) -> Self::B;
    /// Stores the words of a vector.
    fn store_bits(self, x: Self::B, to: &mut [u64]);
    fn and(self, a: Self::B, b: Self::B) -> Self::B;
    fn or(self, a: Self::B, b: Self::B) -> Self::B;
    fn xor(self, a: Self::B, b: Self::B) -> Self::B;
    /// `b & !a`.
    fn and_not(self, a: Self::B, b: Self::B) -> Self::B;
    /// `a + b` of the words, which wrap around.
    fn add_words(self, a: Self::B, b: Self::B) -> Self::B;
    /// The highest bit of each word, as the word's lowest.
    fn top_bits(self, a: Self::B) -> Self::B;
    /// A bit for each word, the first word's in the lowest: the word's highest.
    fn tops(self, a: Self::B) -> u32;
    /// Each word in the place of the next one, and the last word of `before` in the first place.
    fn next_lane(self, a: Self::B, before: Self::B) -> Self::B;
    /// A word in all places.
    fn word(self, word: &u64) -> Self::B;
    /// A bit for each of 64 bytes: whether it is `code`.
    fn equal(self, bytes: &[u8; 64], code: u8) -> u64;
    /// Adds 64 numbers whose bits are spread over planes, the lowest plane first.
    fn add_planes(self, planes: &[u64], to: &mut [u32; 64]);

    /// All bits set or none.
    #[inline(always)]
    fn all(self, is_set: bool) -> Self::B {
        self.bits(&[if is_set { u64::MAX } else { 0 }; WORDS])
    }

    /// `a + b + c` of single bits: the sum, and the carry.
    #[inline(always)]
    fn full_add(self, a: Self::B, b: Self::B, c: Self::B) -> [Self::B; 2] {
        let half = self.xor(a, b);
        [self.xor(half, c), self.or(self.and(a, b), self.and(half, c))]
    }

    /// One cell of a table of edit distances, for a bit each of many tables: `differ` where the letters differ; the vertical and
    /// horizontal differences above and to the left, each as the bits that rise and the bits that fall. Returns the
    /// differences on the other two sides of the cell.
    #[inline(always)]
    fn cell(
        self,
        differ: Self::B,
        [rise, fall]: [Self::B; 2],
        [right, back]: [Self::B; 2],
    ) -> ([Self::B; 2], [Self::B; 2]) {
        let costly = self.and_not(self.or(fall, back), differ);
        let vertical = [self.or(back, self.and_not(right, costly)), self.and_not(costly, right)];
        let horizontal = [self.or(fall, self.and_not(rise, costly)), self.and_not(costly, rise)];
        (vertical, horizontal)
    }
}
