//! Inputs of the kernel `pass.cl`: its constants and the numbers of the marks.
//!
//! The kernel's errors are within [`Pass::error`]: its multiply-adds are rounded once, its `rsqrt` is off by 2 units in the
//! last place, `sqrt` by 3, and `exp2` by 3, which is less than the error that the other paths declare.

use super::super::Form;
use super::{Pass, TILE};
use crate::sketch::COORDINATES;

/// The kernel's source.
pub const TEXT: &str = include_str!("../pass.cl");

/// Work items of a group.
pub const ITEMS: usize = 128;
const _: () = assert!(ITEMS.is_multiple_of(TILE));

/// Objects of a work item: each number of a mark is read once for all of them.
pub const HELD: usize = 2;

/// Objects of a group.
pub const GROUP: usize = ITEMS * HELD;

/// Marks whose numbers a group holds in local memory at once.
const LOCAL_MARKS: usize = 32;

/// The constants to compile the source with, for a form of covariance.
pub fn constants(form: Form) -> Vec<(&'static str, String)> {
    let numbers = [
        ("COORDINATES", COORDINATES),
        ("TILE", TILE),
        ("ITEMS", ITEMS),
        ("HELD", HELD),
        ("LOCAL_MARKS", LOCAL_MARKS),
    ];
    let name = match form {
        Form::InverseMultiquadric => "INVERSE_MULTIQUADRIC",
        Form::Gaussian => "GAUSSIAN",
        Form::Exponential | Form::Laplacian => "EXPONENTIAL",
    };
    numbers.into_iter().chain([(name, 1)]).map(|(name, value)| (name, value.to_string())).collect()
}

/// Work groups for this many tiles.
pub fn groups(tiles: usize) -> usize {
    (tiles * TILE).div_ceil(GROUP)
}

/// A pass in the layout of the kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct DevicePass {
    /// Mark after mark: its numbers for the product with an object's coordinates.
    pub numbers: Vec<f32>,
    /// Mark after mark: its squared norm with the base, its weight, its share, and 0.
    pub terms: Vec<f32>,
    /// The factor of squared norms.
    pub scale: f32,
    /// The factor of the deviation.
    pub explore: f32,
}

impl DevicePass {
    /// Lays out a pass.
    pub fn new(pass: &Pass) -> Self {
        let (base, scale) = (pass.base(), pass.scale());
        let expands = !matches!(pass.covariance.form(), Form::Exponential | Form::Laplacian);
        let factor = if expands { -2.0 * scale } else { 1.0 };
        let numbers = pass.marks.iter().flat_map(|mark| mark.coordinates.map(|x| (factor * x) as f32));
        let terms = pass.marks.iter().flat_map(|mark| {
            let norm = base + scale * mark.norm * mark.norm;
            [norm as f32, mark.weight as f32, mark.share as f32, 0.0]
        });
        Self {
            numbers: numbers.collect(),
            terms: terms.collect(),
            scale: scale as f32,
            explore: pass.explore as f32,
        }
    }
}
