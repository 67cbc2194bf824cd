//! Vectors that stay in registers while others pass by, on matrix units: the sizes for `held.cl`, which follows `tile.cl`.

use super::tile::constants;

/// Numbers of a vector as halves, with zeros that fill the last words of an instruction.
pub fn padded(dimensions: usize) -> usize {
    dimensions.next_multiple_of(HALVES_OF_BLOCK)
}

/// Halves of a vector that two instructions take.
const HALVES_OF_BLOCK: usize = 32;
/// Items that share an instruction of matrix units.
const WARP: usize = 32;
/// Vectors of a warp that share an instruction.
const BAND: usize = 16;

/// Vectors that stay in the registers of a work group while others pass by (`held.cl`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    blocks: usize,
    bands: usize,
    warps: usize,
    passing: usize,
}

impl Held {
    /// The sizes for vectors of so many numbers, if these fit in registers.
    pub fn of(dimensions: usize) -> Option<Self> {
        let blocks = padded(dimensions) / HALVES_OF_BLOCK;
        // Sixty-four registers of an item hold vectors, which leaves enough warps to hide what an instruction takes.
        match blocks {
            1..=4 => Some(Self { blocks, bands: 2, warps: 4, passing: 64 }),
            5..=8 => Some(Self { blocks, bands: 1, warps: 8, passing: 32 }),
            _ => None,
        }
    }

    /// Work items of a group.
    pub fn items(&self) -> usize {
        self.warps * WARP
    }

    /// Vectors that stay.
    pub fn vectors(&self) -> usize {
        self.warps * self.bands * BAND
    }

    /// Vectors that pass by at a time.
    pub fn passing(&self) -> usize {
        self.passing
    }

    fn constants(&self) -> Vec<(&'static str, String)> {
        let sizes = [
            ("HELD", 1),
            ("BLOCKS", self.blocks),
            ("BANDS", self.bands),
            ("WARPS", self.warps),
            ("PASSING", self.passing),
        ];
        sizes.map(|(name, size)| (name, size.to_string())).into()
    }
}

/// The constants for matrix units and vectors of so many numbers.
pub(crate) fn constants_of_units(dimensions: usize) -> Vec<(&'static str, String)> {
    let mut constants = constants();
    constants.push(("UNITS", "1".to_owned()));
    constants.extend(Held::of(dimensions).iter().flat_map(Held::constants));
    constants
}

#[cfg(test)]
mod tests {
    use super::super::tile::GROUP;
    use super::*;

    /// The local memory that NVIDIA's OpenCL gives a group, in bytes, and what the kernels need besides vectors that pass by.
    const LOCAL_BYTES: usize = 48 << 10;
    const BESIDE_BYTES: usize = 13 << 10;

    #[test]
    fn vectors_that_pass_by_fit_twice_in_local_memory() {
        let mut held = 0;
        for dimensions in 1..=300 {
            let Some(sizes) = Held::of(dimensions) else {
                assert!(dimensions > 256, "{dimensions} numbers fit");
                continue;
            };
            held += 1;
            let bytes = 2 * sizes.passing() * padded(dimensions) * size_of::<u16>();
            assert!(bytes + BESIDE_BYTES <= LOCAL_BYTES, "{dimensions}: {bytes} bytes");
            assert!(sizes.passing() / 2 <= sizes.items() && sizes.vectors() <= sizes.items(), "{sizes:?}");
            assert!(GROUP.is_multiple_of(sizes.passing()), "stages begin with a group");
        }
        assert_eq!(held, 256);
    }
}
