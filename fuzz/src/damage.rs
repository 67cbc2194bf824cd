//! Damage to a sound file, as an input of the fuzzer describes it.

use arbitrary::Arbitrary;

/// One piece of damage. Places beyond the file's end count on from its start.
#[derive(Arbitrary, Clone, Debug)]
pub enum Damage<'a> {
    /// Some bits of one byte are turned.
    Flip { at: u32, mask: u8 },
    /// Bytes are written over.
    Overwrite { at: u32, bytes: &'a [u8] },
    /// Bytes are put in.
    Insert { at: u32, bytes: &'a [u8] },
    /// Bytes are left out.
    Remove { at: u32, length: u16 },
    /// A piece of the file is copied over another.
    Copy { from: u32, to: u32, length: u16 },
    /// The file ends here.
    Truncate { length: u32 },
}

impl Damage<'_> {
    /// Does it.
    pub fn apply(&self, file: &mut Vec<u8>) {
        if file.is_empty() {
            return;
        }
        let place = |at: u32| at as usize % file.len();
        let piece = |at: usize, length: usize| at..file.len().min(at + length);
        match *self {
            Self::Flip { at, mask } => {
                let at = place(at);
                file[at] ^= mask;
            }
            Self::Overwrite { at, bytes } => {
                let piece = piece(place(at), bytes.len());
                let length = piece.len();
                file[piece].copy_from_slice(&bytes[..length]);
            }
            Self::Insert { at, bytes } => {
                let at = place(at);
                file.splice(at..at, bytes.iter().copied());
            }
            Self::Remove { at, length } => {
                let piece = piece(place(at), usize::from(length));
                file.drain(piece);
            }
            Self::Copy { from, to, length } => {
                let (from, to) = (place(from), place(to));
                let length = piece(from, usize::from(length)).len().min(file.len() - to);
                file.copy_within(from..from + length, to);
            }
            Self::Truncate { length } => file.truncate(place(length)),
        }
    }
}
