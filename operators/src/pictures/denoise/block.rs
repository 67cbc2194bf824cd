//! A strip of a picture on its way to a device and back.

use std::ops::Range;
use std::sync::Arc;

use boxwork_kernels::denoise::device::{DeviceForm, DevicePhase, PIXEL_ITEMS, TEXT};
use boxwork_kernels::denoise::{Extents, Picture, Samples};
use boxwork_runtime::feeding::{
    Argument, Back, Block, DeviceError, Feed, Grid, KernelSpec, Plain, ProgramSource, Value,
};

use crate::pictures::row::Row;

/// Samples that one thread gathers at a time.
const PART_SAMPLES: usize = 1 << 20;

static CONVERSION: [KernelSpec; 2] = [
    KernelSpec {
        name: "to_planes",
        arguments: &[
            ("samples", Argument::Buffer),
            ("top", Argument::Value(4)),
            ("width", Argument::Value(4)),
            ("height", Argument::Value(4)),
            ("plane_width", Argument::Value(4)),
            ("plane_rows", Argument::Value(4)),
            ("noisy", Argument::Buffer),
            ("sums", Argument::Buffer),
            ("sums_count", Argument::Value(4)),
        ],
    },
    KernelSpec {
        name: "to_samples",
        arguments: &[
            ("estimates", Argument::Buffer),
            ("plane_width", Argument::Value(4)),
            ("plane_rows", Argument::Value(4)),
            ("samples", Argument::Buffer),
            ("skipped", Argument::Value(4)),
            ("width", Argument::Value(4)),
            ("rows", Argument::Value(4)),
            ("cleaned", Argument::Buffer),
        ],
    },
];

/// The kernel that matches planes of this name.
macro_rules! match_patches {
    ($model:literal) => {
        KernelSpec {
            name: "match_patches",
            arguments: &[
                ($model, Argument::Buffer),
                ("model_top", Argument::Value(4)),
                ("model_rows", Argument::Value(4)),
                ("width", Argument::Value(4)),
                ("columns", Argument::Value(4)),
                ("first_row", Argument::Value(4)),
                ("last_row", Argument::Value(4)),
                ("ranks", Argument::Buffer),
                ("counts", Argument::Buffer),
            ],
        }
    };
}

/// The kernel that filters stacks; its arguments after the noisy planes, then the name of the window.
macro_rules! filter_stacks {
    ([$($model:expr),*], $window:literal) => {
        KernelSpec {
            name: "filter_stacks",
            arguments: &[
                ("noisy", Argument::Buffer),
                ("noisy_top", Argument::Value(4)),
                ("noisy_rows", Argument::Value(4)),
                $($model,)*
                ("width", Argument::Value(4)),
                ("columns", Argument::Value(4)),
                ("first_row", Argument::Value(4)),
                ("last_row", Argument::Value(4)),
                ("ranks", Argument::Buffer),
                ("counts", Argument::Buffer),
                ("is_apart", Argument::Value(4)),
                ("rules", Argument::Value(16)),
                ($window, Argument::Buffer),
                ("sums", Argument::Buffer),
                ("sums_top", Argument::Value(4)),
                ("sums_rows", Argument::Value(4)),
            ],
        }
    };
}

const MEANS: KernelSpec = KernelSpec {
    name: "means",
    arguments: &[("sums", Argument::Buffer), ("pixels", Argument::Value(4)), ("estimates", Argument::Buffer)],
};

static FIRST: [KernelSpec; 3] = [match_patches!("noisy"), filter_stacks!([], "window_1"), MEANS];
static SECOND: [KernelSpec; 3] = [
    match_patches!("estimates"),
    filter_stacks!(
        [
            ("estimates", Argument::Buffer),
            ("model_top", Argument::Value(4)),
            ("model_rows", Argument::Value(4))
        ],
        "window_2"
    ),
    MEANS,
];

/// Rows of a picture.
pub(super) struct Strip {
    pub(super) row: Arc<Row>,
    pub(super) rows: Range<usize>,
    pub(super) noise: Noise,
}

impl Strip {
    pub(super) fn pixels(&self) -> u64 {
        (self.rows.len() * self.row.picture.width()) as u64
    }
}

/// The noise of a picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Noise {
    /// To be estimated.
    Unknown,
    /// There is none.
    Absent,
    /// Its deviation in grey levels.
    Of(f64),
}

/// A strip on its way.
pub(super) struct StripBlock {
    form: Arc<DeviceForm>,
    pub(super) strip: Strip,
    sigma: f64,
    extents: Extents,
    /// The samples without noise, once the device has computed them.
    pub(super) cleaned: Option<Samples>,
}

fn number(value: usize) -> Value {
    Value::of(value as u32)
}

impl StripBlock {
    pub(super) fn new(form: &Arc<DeviceForm>, strip: Strip, sigma: f64) -> Self {
        let picture = &strip.row.picture;
        let (width, height) = (picture.width(), picture.height());
        let extents = Extents::new(form.parameters(), width, height, strip.rows.clone());
        Self { form: Arc::clone(form), strip, sigma, extents, cleaned: None }
    }

    fn picture(&self) -> &Picture {
        &self.strip.row.picture
    }

    /// Numbers of a row of samples.
    fn row_samples(&self) -> usize {
        self.picture().width() * self.picture().channels()
    }

    fn conversion(&self) -> ProgramSource {
        let constants = self.form.conversion(self.picture());
        ProgramSource { name: "denoise_samples", text: TEXT, constants, kernels: &CONVERSION, exact: true }
    }

    fn feed_samples<T: Plain>(&self, feed: &mut Feed<'_>, samples: &[T]) -> Result<(), DeviceError> {
        let (picture, extents, row) = (self.picture(), &self.extents, self.row_samples());
        let (planes, width) = (picture.colours(), extents.width);
        let [noisy_rows, basic_rows] = [extents.noisy.len(), extents.basic.len()];
        let samples = &samples[extents.noisy.start * row..extents.noisy.end.min(picture.height()) * row];
        feed.write_in_parts("samples", samples.len(), PART_SAMPLES, |part, to: &mut [T]| {
            to.copy_from_slice(&samples[part * PART_SAMPLES..][..to.len()]);
            Ok(())
        })?;
        feed.output::<f32>("noisy", planes * noisy_rows * width)?;
        feed.output::<f32>("estimates", planes * basic_rows * width)?;
        let sums_count = 2 * planes * basic_rows * width;
        feed.output::<i64>("sums", sums_count)?;
        feed.output::<T>("cleaned", self.strip.rows.len() * row)?;
        let values = [
            ("top", number(extents.noisy.start)),
            ("width", number(picture.width())),
            ("height", number(picture.height())),
            ("plane_width", number(width)),
            ("plane_rows", number(noisy_rows)),
            ("sums_count", number(sums_count)),
        ];
        let grid = Grid::covering([noisy_rows * width], [PIXEL_ITEMS]);
        feed.launch(&self.conversion(), "to_planes", grid, &values)?;
        let rules = self.form.rules(picture, self.sigma);
        for (phase, rules) in self.form.phases().iter().zip(rules) {
            self.feed_phase(feed, phase, rules)?;
        }
        let values = [
            ("plane_width", number(width)),
            ("plane_rows", number(extents.rows.len())),
            ("skipped", number(extents.rows.start - extents.noisy.start)),
            ("width", number(picture.width())),
            ("rows", number(self.strip.rows.len())),
        ];
        let grid = Grid::covering([self.strip.rows.len() * picture.width()], [PIXEL_ITEMS]);
        feed.launch(&self.conversion(), "to_samples", grid, &values)?;
        feed.read::<T>("cleaned", self.strip.rows.len() * row)
    }

    fn feed_phase(
        &self,
        feed: &mut Feed<'_>,
        phase: &DevicePhase,
        rules: [f32; 4],
    ) -> Result<(), DeviceError> {
        let (extents, planes, grid) = (&self.extents, self.picture().colours(), phase.grid(&self.extents));
        let kernels = if phase.is_second() { &SECOND } else { &FIRST };
        let program = ProgramSource {
            name: "denoise",
            text: TEXT,
            constants: phase.constants().to_vec(),
            kernels,
            exact: true,
        };
        let window = if phase.is_second() { "window_2" } else { "window_1" };
        feed.replicated(window, phase.window_version(), phase.window().len(), |to: &mut [f32]| {
            to.copy_from_slice(phase.window());
            Ok(())
        })?;
        let is_apart = self.form.is_apart(self.picture());
        let matched = if is_apart { planes } else { 1 };
        let references = matched * grid.rows * grid.columns;
        feed.output::<u16>("ranks", references * phase.stack())?;
        feed.output::<u8>("counts", references)?;
        let model = if phase.is_second() { &extents.basic } else { &extents.noisy };
        let places = [
            ("width", number(extents.width)),
            ("columns", number(grid.columns)),
            ("first_row", number(grid.first_row)),
            ("last_row", number(grid.last_row)),
        ];
        let model = [("model_top", number(model.start)), ("model_rows", number(model.len()))];
        let groups = [phase.match_groups(grid.columns), grid.rows, matched];
        let group = [phase.match_items(), 1, 1];
        feed.launch(&program, "match_patches", Grid::of(groups, group), &[&places[..], &model].concat())?;
        let rows = phase.rows(extents);
        let own = [
            ("noisy_top", number(extents.noisy.start)),
            ("noisy_rows", number(extents.noisy.len())),
            ("is_apart", Value::of(u32::from(is_apart))),
            ("rules", Value::of(rules)),
            ("sums_top", number(rows.start)),
            ("sums_rows", number(rows.len())),
        ];
        let model = if phase.is_second() { &model[..] } else { &[] };
        let groups = [grid.columns, grid.rows, planes];
        let group = [phase.filter_items(), 1, 1];
        let values = [&places[..], model, &own].concat();
        feed.launch(&program, "filter_stacks", Grid::of(groups, group), &values)?;
        let pixels = rows.len() * extents.width;
        let grid = Grid::covering([pixels, planes], [PIXEL_ITEMS, 1]);
        feed.launch(&program, "means", grid, &[("pixels", number(pixels))])
    }
}

impl Block for StripBlock {
    fn size(&self) -> u64 {
        (self.strip.rows.len() * self.picture().width() * self.picture().colours()) as u64
    }

    fn kind(&self) -> &'static str {
        "denoising"
    }

    fn feed(&mut self, feed: &mut Feed<'_>) -> Result<(), DeviceError> {
        match self.picture().samples() {
            Samples::Bytes(samples) => self.feed_samples(feed, samples),
            Samples::Words(samples) => self.feed_samples(feed, samples),
            Samples::Floats(samples) => self.feed_samples(feed, samples),
        }
    }

    fn collect(&mut self, back: &Back<'_>) {
        self.cleaned = Some(match self.picture().samples() {
            Samples::Bytes(_) => Samples::Bytes(back.numbers("cleaned").to_vec()),
            Samples::Words(_) => Samples::Words(back.numbers("cleaned").to_vec()),
            Samples::Floats(_) => Samples::Floats(back.numbers("cleaned").to_vec()),
        });
    }
}
