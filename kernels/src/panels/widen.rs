//! Numbers of fewer bits as f32, without an error.

use half::slice::HalfFloatSliceExt;

use crate::CodePath;
use crate::lanes::{Lanes, Work, run};
use crate::numbers::VectorRef;

/// Widens numbers, with the instructions of a path: panels of bytes and halves are scanned as those of f32.
///
/// # Panics
/// If there are not as many places, or this machine lacks the instructions.
pub fn widen(path: CodePath, from: VectorRef<'_>, to: &mut [f32]) {
    assert_eq!(from.len(), to.len(), "a place for each number");
    run(path, Widen { from, to });
}

struct Widen<'a> {
    from: VectorRef<'a>,
    to: &'a mut [f32],
}

impl Work for Widen<'_> {
    type Done = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let Self { from, to } = self;
        match from {
            VectorRef::F32(from) => to.copy_from_slice(from),
            VectorRef::F16(from) => {
                let (whole, rest) = (from.chunks_exact(L::COUNT), from.len() / L::COUNT * L::COUNT);
                for (from, to) in whole.zip(to.chunks_exact_mut(L::COUNT)) {
                    lanes.store(lanes.load_halves(from.reinterpret_cast()), to);
                }
                to[rest..].iter_mut().zip(&from[rest..]).for_each(|(to, x)| *to = x.to_f32());
            }
            // Compiled for the path's instructions, these loops convert a vector at a time.
            VectorRef::U8(from) => to.iter_mut().zip(from).for_each(|(to, x)| *to = f32::from(*x)),
            VectorRef::I8(from) => to.iter_mut().zip(from).for_each(|(to, x)| *to = f32::from(*x)),
        }
    }
}

#[cfg(test)]
mod tests {
    use half::f16;

    use super::*;

    #[test]
    fn every_number_widens_as_it_does_alone() {
        let halves: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).filter(|x| x.is_finite()).collect();
        let (bytes, signed): (Vec<u8>, Vec<i8>) = (0..=u8::MAX).map(|x| (x, x as i8)).unzip();
        let floats = [0.1, -0.0, f32::MIN_POSITIVE];
        for path in CodePath::available() {
            for skipped in [0, 1, 31] {
                let all = [
                    VectorRef::F16(&halves[skipped..]),
                    VectorRef::U8(&bytes[skipped..]),
                    VectorRef::I8(&signed[skipped..]),
                    VectorRef::F32(&floats),
                ];
                for from in all {
                    let mut to = vec![f32::NAN; from.len()];
                    widen(path, from, &mut to);
                    let bits = |numbers: &[f32]| numbers.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                    assert_eq!(bits(&to), bits(&from.widened()), "{path}, {}", from.number_type());
                }
            }
        }
    }
}
