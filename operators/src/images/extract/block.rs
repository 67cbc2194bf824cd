//! A block of pictures on its way to a device and back.

use std::sync::Arc;
use std::vec;

use boxwork_kernels::extract::Signature;
use boxwork_kernels::extract::device::{DeviceExtraction, ITEMS, KERNEL, TEXT};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::feeding::{
    Argument, Back, Block, DeviceError, Feed, Grid, KernelSpec, ProgramSource, Value,
};
use boxwork_runtime::operator::BoxError;
use boxwork_stores::new_number;

use super::picture;

static KERNELS: [KernelSpec; 1] = [KernelSpec {
    name: KERNEL,
    arguments: &[
        ("pixels", Argument::Buffer),
        ("pictures", Argument::Buffer),
        ("sampling_points", Argument::Buffer),
        ("feature_numbers", Argument::Buffer),
        ("entropy_terms", Argument::Buffer),
        ("grey_max", Argument::Value(4)),
        ("greys", Argument::Buffer),
        ("samples", Argument::Buffer),
        ("centroids", Argument::Buffer),
        ("counts", Argument::Buffer),
    ],
}];

/// Shared by all blocks of a box.
pub(super) struct Common {
    form: DeviceExtraction,
    program: ProgramSource,
    /// Unique to this extraction within the process.
    version: u64,
}

impl Common {
    pub(super) fn new(form: DeviceExtraction) -> Self {
        let constants = form.constants().to_vec();
        let program =
            ProgramSource { name: "extract", text: TEXT, constants, kernels: &KERNELS, exact: true };
        Self { form, program, version: new_number() }
    }
}

/// Pictures on their way to a device and back.
pub(super) struct Pictures {
    common: Arc<Common>,
    pub(super) envelopes: Vec<Envelope>,
    /// Envelope and row of each valid picture.
    rows: Vec<(usize, usize)>,
    /// As the kernel reads them: first byte, width, height and first pixel.
    places: Vec<[u32; 4]>,
    bytes: usize,
    /// In the order of the pictures, once the block has come back.
    pub(super) signatures: vec::IntoIter<Signature>,
}

impl Pictures {
    pub(super) fn new(common: &Arc<Common>, envelopes: Vec<Envelope>) -> Result<Self, BoxError> {
        let (mut rows, mut places, mut bytes) = (Vec::new(), Vec::new(), 0);
        for (nth, pixels) in envelopes.iter().enumerate() {
            for row in 0..pixels.rows() {
                // The box reports invalid pictures when the envelope leaves.
                let Ok(picture) = picture(pixels, row)? else { continue };
                rows.push((nth, row));
                let (width, height) = (picture.width() as u32, picture.height() as u32);
                places.push([bytes as u32, width, height, bytes as u32 / 3]);
                bytes += picture.rgb().len();
            }
        }
        let (common, signatures) = (Arc::clone(common), Vec::new().into_iter());
        Ok(Self { common, envelopes, rows, places, bytes, signatures })
    }

    fn gather(&self, to: &mut [u8]) -> Result<(), BoxError> {
        let mut at = 0;
        for (nth, row) in &self.rows {
            let rgb = self.envelopes[*nth].binaries("rgb")?.value(*row);
            to[at..at + rgb.len()].copy_from_slice(rgb);
            at += rgb.len();
        }
        Ok(())
    }
}

impl Block for Pictures {
    fn size(&self) -> u64 {
        self.rows.len() as u64
    }

    fn kind(&self) -> &'static str {
        "pictures"
    }

    fn feed(&mut self, feed: &mut Feed<'_>) -> Result<(), DeviceError> {
        let count = self.rows.len();
        if count == 0 {
            return Ok(());
        }
        let (form, version) = (&self.common.form, self.common.version);
        fn copy<T: Copy>(from: &[T]) -> impl FnOnce(&mut [T]) -> Result<(), DeviceError> + '_ {
            |to| {
                to.copy_from_slice(from);
                Ok(())
            }
        }
        feed.replicated("sampling_points", version, form.points().len(), copy(form.points()))?;
        feed.replicated("feature_numbers", version, form.numbers().len(), copy(form.numbers()))?;
        feed.replicated("entropy_terms", version, form.terms().len(), copy(form.terms()))?;
        feed.write::<u8>("pixels", self.bytes, |to| {
            self.gather(to).map_err(|error| DeviceError::Block(error.to_string()))
        })?;
        feed.write("pictures", count, copy(&self.places))?;
        feed.output::<u8>("greys", self.bytes / 3)?;
        feed.output::<i32>("samples", count * form.sample_numbers())?;
        feed.output::<f32>("centroids", count * form.centroid_numbers())?;
        feed.output::<u32>("counts", count)?;
        let values = [("grey_max", Value::of(form.grey_max()))];
        feed.launch(&self.common.program, KERNEL, Grid::of([count], [ITEMS]), &values)?;
        feed.read::<f32>("centroids", count * form.centroid_numbers())?;
        feed.read::<u32>("counts", count)
    }

    fn collect(&mut self, back: &Back<'_>) {
        let mut signatures = Vec::with_capacity(self.rows.len());
        if !self.rows.is_empty() {
            let form = &self.common.form;
            let centroids = back.numbers::<f32>("centroids").chunks_exact(form.centroid_numbers());
            let counts = back.numbers::<u32>("counts");
            signatures.extend(centroids.zip(counts).map(|(of_one, count)| form.signature(of_one, *count)));
        }
        self.signatures = signatures.into_iter();
    }
}
