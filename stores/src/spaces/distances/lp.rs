//! Lp distances of vectors.

use boxwork_kernels::CodePath;
use boxwork_kernels::distance::{Distance, DistanceError, Lp, Properties, Slack, l2_of_each};
use boxwork_kernels::interrupt::{Interrupt, Interrupted, ask};
use boxwork_kernels::vector::VectorRef;
use boxwork_kernels::with_numbers;

use crate::kinds::{Kind, Vectors};
use crate::spaces::Constants;
use crate::spaces::column_space::{ColumnDistance, ColumnDistanceSpec};

/// The sum of absolute differences.
pub(in crate::spaces) static L1: ColumnDistanceSpec<Lp> =
    ColumnDistanceSpec { name: "l1", constants: Constants::None, make: |_| Ok(Lp::L1) };

/// The Euclidean distance.
pub(in crate::spaces) static L2: ColumnDistanceSpec<Lp> =
    ColumnDistanceSpec { name: "l2", constants: Constants::None, make: |_| Ok(Lp::L2) };

/// The largest absolute difference.
pub(in crate::spaces) static LINF: ColumnDistanceSpec<Lp> =
    ColumnDistanceSpec { name: "linf", constants: Constants::None, make: |_| Ok(Lp::LINF) };

/// Lp for any exponent.
pub(in crate::spaces) static LP: ColumnDistanceSpec<Lp> =
    ColumnDistanceSpec { name: "lp", constants: Constants::Exponent, make: |options| options.exponent() };

/// Vectors whose distances are computed between two looks at an interrupt.
const AT_ONCE: usize = 32;

impl ColumnDistance for Lp {
    type Kind = Vectors;
    type Query = Vec<f32>;

    fn properties(&self) -> Properties {
        Distance::properties(self)
    }

    fn slack(&self, dimensions: usize) -> Slack {
        Distance::slack(self, dimensions, 0.0)
    }

    fn query(&self, object: VectorRef<'_>) -> Result<Vec<f32>, DistanceError> {
        let object = object.widened();
        self.check(&object)?;
        Ok(object)
    }

    fn to(&self, query: &Vec<f32>, object: VectorRef<'_>) -> f64 {
        with_numbers!(object, numbers => Lp::between(*self, query, numbers))
    }

    fn to_rows(
        &self,
        query: &Vec<f32>,
        batch: &<Vectors as Kind>::Batch,
        rows: &[usize],
        out: &mut [f64],
        interrupt: Interrupt<'_>,
    ) -> Result<(), Interrupted> {
        assert_eq!(rows.len(), out.len(), "a distance a row");
        for (rows, out) in rows.chunks(AT_ONCE).zip(out.chunks_mut(AT_ONCE)) {
            ask(interrupt)?;
            let mut numbers: [&[f32]; AT_ONCE] = [&[]; AT_ONCE];
            let mut are_f32 = *self == Lp::L2;
            for (to, row) in numbers.iter_mut().zip(rows) {
                match Vectors::item(batch, *row) {
                    VectorRef::F32(numbers) => *to = numbers,
                    _ => are_f32 = false,
                }
            }
            if are_f32 {
                l2_of_each(CodePath::detect(), query, &numbers[..rows.len()], out);
            } else {
                let each = out.iter_mut().zip(rows);
                each.for_each(|(out, row)| *out = self.to(query, Vectors::item(batch, *row)));
            }
        }
        Ok(())
    }

    const HAS_EACH: bool = true;

    fn to_each(&self, query: &Vec<f32>, objects: &[VectorRef<'_>], out: &mut [f64]) -> bool {
        assert_eq!(objects.len(), out.len(), "a distance an object");
        if *self != Lp::L2 {
            return false;
        }
        for (objects, out) in objects.chunks(AT_ONCE).zip(out.chunks_mut(AT_ONCE)) {
            let mut numbers: [&[f32]; AT_ONCE] = [&[]; AT_ONCE];
            for (to, object) in numbers.iter_mut().zip(objects) {
                let VectorRef::F32(of_object) = object else { return false };
                *to = of_object;
            }
            l2_of_each(CodePath::detect(), query, &numbers[..objects.len()], out);
        }
        true
    }

    fn between(&self, a: VectorRef<'_>, b: VectorRef<'_>) -> f64 {
        match (a, b) {
            (VectorRef::F32(a), VectorRef::F32(b)) => self.distance(a, b),
            (a, b) => with_numbers!(a, a => with_numbers!(b, b => Lp::between(*self, a, b))),
        }
    }
}
