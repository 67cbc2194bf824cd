//! The library `faer` on the whole matrix.

use boxwork_kernels::cholesky::Number;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::cholesky::llt::factor::{self, LltParams, LltRegularization};
use faer::traits::RealField;
use faer::{Mat, Par, Spec};

use super::Case;
use super::matrix::{Factor, entry};
use super::own::seconds_of;

/// Numbers that the library factorises.
pub(super) trait OfLibrary: RealField {}
impl OfLibrary for f64 {}
impl OfLibrary for f32 {}

/// The library's own factorisation of the whole matrix, and its seconds.
pub(super) fn factor<T: Number + OfLibrary>(case: Case) -> (Mat<T>, f64) {
    let Case { n, threads, .. } = case;
    let of = entry::<T>(n);
    let mut matrix = Mat::from_fn(n, n, |row, column| of(row.max(column), row.min(column)));
    let parallel = if threads == 1 { Par::Seq } else { Par::rayon(threads) };
    let parameters = Spec::<LltParams, T>::default();
    let mut memory = MemBuffer::new(factor::cholesky_in_place_scratch::<T>(n, parallel, parameters));
    let stack = MemStack::new(&mut memory);
    let of_pivots = LltRegularization::default();
    let seconds = seconds_of(threads, || {
        let factored = factor::cholesky_in_place(matrix.as_mut(), of_pivots, parallel, stack, parameters);
        factored.unwrap_or_else(|error| panic!("{error:?}"));
    });
    (matrix, seconds)
}

impl<T: Number> Factor for Mat<T> {
    fn times(&self, weights: &[f64]) -> Vec<f64> {
        let n = weights.len();
        let mut product = vec![0.0; n];
        for column in 0..n {
            for row in column..n {
                product[row] += self[(row, column)].wide() * weights[column];
            }
        }
        product
    }
}
