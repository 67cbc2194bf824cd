//! Dynamic time warping of vectors as series.

use boxwork_kernels::CodePath;
use boxwork_kernels::distance::{Distance, DistanceError, Dtw, Properties, Slack};
use boxwork_kernels::interrupt::{Interrupt, Interrupted};
use boxwork_kernels::vector::VectorRef;

use crate::kinds::{Kind, Vectors};
use crate::spaces::Constants;
use crate::spaces::column_space::{ColumnDistance, ColumnDistanceSpec};

/// The least sum of differences when numbers may be held.
pub(in crate::spaces) static DTW: ColumnDistanceSpec<Dtw> = ColumnDistanceSpec {
    name: "dtw",
    constants: Constants::Band,
    make: |options| Ok(Dtw::new(options.band)),
};

/// Series that are compared with a query at once.
const AT_ONCE: usize = 256;

impl ColumnDistance for Dtw {
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
        self.distance(query, &object.widened())
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
            let series: Vec<_> = rows.iter().map(|row| Vectors::item(batch, *row).widened()).collect();
            let series: Vec<&[f32]> = series.iter().map(|series| &series[..]).collect();
            self.to_each(CodePath::detect(), query, &series, out, interrupt)?;
        }
        Ok(())
    }

    fn between(&self, a: VectorRef<'_>, b: VectorRef<'_>) -> f64 {
        self.distance(&a.widened(), &b.widened())
    }
}
