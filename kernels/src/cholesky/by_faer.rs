//! The operations on tiles by the library `faer`, on the calling thread alone (docs/decisions/115).

use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::cholesky::llt::factor::{
    LltError, LltParams, LltRegularization, cholesky_in_place, cholesky_in_place_scratch,
};
use faer::linalg::matmul::matmul;
use faer::linalg::matmul::triangular::{self, BlockStructure};
use faer::linalg::triangular_solve::solve_lower_triangular_in_place;
use faer::{Accum, MatMut, MatRef, Par};

use super::TileKernels;

/// The vector units of this processor, by `faer`. The factor has the same bits on any number of threads of one kind of
/// processor; another kind may round otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faer;

fn view(tile: &[f64], size: usize) -> MatRef<'_, f64> {
    MatRef::from_column_major_slice(tile, tile.len() / size, size)
}

fn view_mut(tile: &mut [f64], size: usize) -> MatMut<'_, f64> {
    let rows = tile.len() / size;
    MatMut::from_column_major_slice_mut(tile, rows, size)
}

impl TileKernels for Faer {
    fn factor(&self, tile: &mut [f64], size: usize) -> Result<(), usize> {
        let parameters = faer::Spec::<LltParams, f64>::default();
        let mut memory = MemBuffer::new(cholesky_in_place_scratch::<f64>(size, Par::Seq, parameters));
        let factored = cholesky_in_place(
            view_mut(tile, size),
            LltRegularization::default(),
            Par::Seq,
            MemStack::new(&mut memory),
            parameters,
        );
        let failed = factored.err().map(|LltError::NonPositivePivot { index }| index);
        // An infinite pivot, and one that is not a number, may pass, and fail a later row.
        let is_finite = |row: &usize| tile[row * size + row].is_finite();
        (0..failed.unwrap_or(size)).find(|row| !is_finite(row)).or(failed).map_or(Ok(()), Err)
    }

    fn solve(&self, triangle: &[f64], tile: &mut [f64], size: usize) {
        let tile = view_mut(tile, size).transpose_mut();
        solve_lower_triangular_in_place(view(triangle, size), tile, Par::Seq);
    }

    fn square(&self, factor: &[f64], tile: &mut [f64], size: usize) {
        let factor = view(factor, size);
        triangular::matmul(
            view_mut(tile, size),
            BlockStructure::TriangularLower,
            Accum::Add,
            factor,
            BlockStructure::Rectangular,
            factor.transpose(),
            BlockStructure::Rectangular,
            -1.0,
            Par::Seq,
        );
    }

    fn product(&self, left: &[f64], right: &[f64], tile: &mut [f64], size: usize) {
        let right = view(right, size).transpose();
        matmul(view_mut(tile, size), Accum::Add, view(left, size), right, -1.0, Par::Seq);
    }
}
