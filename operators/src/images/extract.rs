//! `extract`: small pictures become feature signatures of position, colour and texture, on slots or on devices.
//!
//! Invariants: a signature depends on the pixels and the parameters alone and has equal bits on slots and on devices;
//! signatures leave in the order of their pictures; the parameters go into the store as [`parameters_json`], so that a
//! query image is treated like the store's images.
//!
//! One box without copies: devices return their blocks after the firing that took the pictures, and this box restores
//! the order. On slots it extracts the pictures of its envelopes side by side.

mod block;
mod parameters;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_array::{ArrayRef, StringArray, UInt32Array};
use boxwork_kernels::extract::device::DeviceExtraction;
use boxwork_kernels::extract::{ExtractParameters, Extractor, FEATURES, ImageRef, Signature};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::feeding::{LazyDevices, Picked};
use boxwork_runtime::inside::Inside;
use boxwork_runtime::operator::{Bind, BoxError, Context, In, Kind, Operator, OperatorSpec, Out, Pushed};
use boxwork_runtime::parameter::{Arguments, DeviceChoice};
use boxwork_stores::signature::{PCT_COORDINATES, SignatureBuilder};

use self::block::{Common, Pictures};
use self::parameters::{Note, PARAMETERS, parameters_of, preset};
pub(crate) use self::parameters::{PARAMETERS_NOTE, alpha_of, noted_alpha, scaled_size, with_alpha};
pub use self::parameters::{parameters, parameters_from_json, parameters_json};
use crate::columns;
use crate::devices::code_path;
use crate::devices::stage::{BlockOutcome, DeviceStage, DeviceTask, Sizes, Taken};

const PIXELS: In = In::stream(0, "pixels", columns::pixels, "small RGB pictures");
const SIGNATURES: Out =
    Out::new(0, "signatures", columns::signatures, "one signature per picture, in the order of the input");

/// Extracts signatures.
///
/// # Inputs
/// `pixels`: small RGB pictures.
///
/// # Outputs
/// `signatures`: name, signature, and the original's width and height, in the order of the pictures.
///
/// # Parameters
/// The parameters of the extraction. `transform` names a preset, which decides all parameters that are not given, and the
/// alpha with which a store of the signatures is searched: `balanced` has a good order for short signatures; `practical`
/// and `best` are the settings of the thesis, of which `practical` indexes best and `best` is more precise. More `points`,
/// `seeds` and `iterations` cost time and give finer signatures. `as_in`: a store whose parameters replace all others. `device`: where to
/// compute; the bits are equal everywhere. The slots extract pictures that devices cannot take, and all pictures if the
/// matrices of many grey levels, or many seeds, do not fit a device.
pub static EXTRACT: OperatorSpec = OperatorSpec {
    parameters: PARAMETERS,
    inputs: &[PIXELS],
    outputs: &[SIGNATURES],
    example: "extract: {kind: extract, transform: balanced}",
    code_path: Some(code_path),
    ..OperatorSpec::new("extract", "Extracts feature signatures from pictures.", Kind::Stateful, make)
};

fn code_path(arguments: &Arguments, devices: &LazyDevices) -> String {
    code_path::of_device(arguments, devices, 0)
}

/// The most pictures of a block, and bytes of their pixels: some milliseconds of a fast device, so that all its units
/// have work to the end.
const BLOCK_PICTURES: u64 = 1024;
const BLOCK_BYTES: u64 = 96 << 20;

/// For `auto`, a block is worth submitting from this many pictures on: fewer take a few slots some milliseconds.
const BLOCK_PICTURES_MIN: u64 = 32;

/// Blocks under way for each device: those that its end points hold, and as many waiting.
const BLOCKS_PER_DEVICE: usize = 6;

/// The approximate number of pictures per slot and firing: some tens of milliseconds.
const PICTURES_PER_SLOT: usize = 16;

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    let (parameters, alpha) = match crate::resources::get_signatures(bind, "as_in")? {
        Some(store) => (parameters_of(&store)?, store.alpha()),
        None => (parameters(bind)?, Some(preset(bind).alpha)),
    };
    let picked = bind.pick_devices("device", None, 0)?;
    let pictures_min = if bind.device("device") == DeviceChoice::Auto { BLOCK_PICTURES_MIN } else { 0 };
    Ok(Box::new(stage(parameters, alpha, picked, pictures_min, bind.slots())?))
}

/// An `extract` box on the picked devices.
fn stage(
    parameters: ExtractParameters,
    alpha: Option<f64>,
    picked: Picked,
    pictures_min: u64,
    slots: usize,
) -> Result<DeviceStage<Extract>, BoxError> {
    let form = DeviceExtraction::new(&parameters)?;
    let devices = picked.devices.filter(|_| form.is_some());
    let sizes = Sizes {
        block: [BLOCK_PICTURES, BLOCK_BYTES],
        block_min: [pictures_min, BLOCK_BYTES],
        slots: [(PICTURES_PER_SLOT * slots) as u64, BLOCK_BYTES],
        blocks_per_device: BLOCKS_PER_DEVICE,
    };
    let task = Extract {
        note: Note::new(parameters.clone(), alpha),
        lanes: vec![Lane::new(&parameters)?],
        parameters,
        common: form.map(|form| Arc::new(Common::new(form))),
        slots,
    };
    Ok(DeviceStage::new(task, sizes, devices))
}

struct Extract {
    parameters: ExtractParameters,
    note: Note,
    /// `None` if the extraction does not fit a device.
    common: Option<Arc<Common>>,
    slots: usize,
    /// One for each slot used so far.
    lanes: Vec<Lane>,
}

/// Pictures that slots extract.
struct Work<'a> {
    pictures: &'a [ImageRef<'a>],
    /// The index of the next picture.
    next: &'a AtomicUsize,
    parameters: &'a ExtractParameters,
}

/// Pictures that one slot extracts.
#[derive(Default)]
struct Lane {
    /// Set by the first picture: making an extractor takes as long as a picture, so each slot makes its own.
    extractor: Option<Extractor>,
    /// Each with the index of its picture.
    made: Vec<(usize, Signature)>,
}

impl Lane {
    fn new(parameters: &ExtractParameters) -> Result<Self, BoxError> {
        Ok(Self { extractor: Some(Extractor::new(parameters.clone())?), made: Vec::new() })
    }
}

/// Extracts pictures on as many slots as there are lanes, if they are free: each lane repeatedly takes the next
/// picture.
fn extract(inside: &mut Inside<'_>, lanes: &mut [Lane], work: &Work<'_>) {
    if lanes.len() > 1 {
        let (left, right) = lanes.split_at_mut(lanes.len() / 2);
        inside.join(|inside| extract(inside, left, work), |inside| extract(inside, right, work));
        return;
    }
    let Some(lane) = lanes.first_mut() else { return };
    let Work { pictures, next, parameters } = work;
    while !inside.is_cancelled() {
        let place = next.fetch_add(1, Ordering::Relaxed);
        let Some(picture) = pictures.get(place) else { return };
        let extractor = lane.extractor.get_or_insert_with(|| {
            Extractor::new((*parameters).clone()).expect("the first lane was made of these parameters")
        });
        lane.made.push((place, extractor.extract(*picture)));
    }
}

impl Extract {
    /// The signatures of pictures, on slots; too few if the request is cancelled.
    fn extract(&mut self, cx: &mut Context<'_>, envelopes: &[Envelope]) -> Result<Vec<Signature>, BoxError> {
        let mut pictures = Vec::new();
        for pixels in envelopes {
            for row in 0..pixels.rows() {
                pictures.extend(picture(pixels, row)?.ok());
            }
        }
        let lanes = self.slots.min(pictures.len());
        if self.lanes.len() < lanes {
            self.lanes.resize_with(lanes, Lane::default);
        }
        let next = AtomicUsize::new(0);
        let work = Work { pictures: &pictures, next: &next, parameters: &self.parameters };
        cx.inside(|inside| extract(inside, &mut self.lanes[..lanes], &work));
        let mut made: Vec<_> = self.lanes.iter_mut().flat_map(|lane| lane.made.drain(..)).collect();
        made.sort_unstable_by_key(|(place, _)| *place);
        Ok(made.into_iter().map(|(_, signature)| signature).collect())
    }

    /// Turns envelopes of pictures into envelopes of signatures; reports rows that hold no valid picture.
    fn envelopes(
        &mut self,
        cx: &mut Context<'_>,
        envelopes: &[Envelope],
        signatures: &mut dyn Iterator<Item = Signature>,
    ) -> Result<Vec<Envelope>, BoxError> {
        let mut made = Vec::with_capacity(envelopes.len());
        for pixels in envelopes {
            let mut builder = SignatureBuilder::new(&PCT_COORDINATES)?;
            let mut kept = Vec::with_capacity(pixels.rows());
            for row in 0..pixels.rows() {
                let extracted = picture(pixels, row)?.and_then(|_| {
                    let signature = signatures.next().ok_or("its signature did not come back")?;
                    push_signature(&signature, &mut builder)
                });
                keep(cx, pixels, row, extracted, &mut kept)?;
            }
            made.extend(envelope_of(pixels, &kept, builder, &mut self.note)?);
        }
        Ok(made)
    }
}

impl DeviceTask for Extract {
    type Item = Envelope;
    type Block = Pictures;
    type Made = Envelope;

    const IS_ORDERED: bool = true;

    fn take(&mut self, cx: &mut Context<'_>, _: bool) -> Result<Option<Taken<Envelope>>, BoxError> {
        Ok(Taken::next(cx, PIXELS, |pixels| [pixels.rows() as u64, pixels.bytes() as u64]))
    }

    fn is_ended(&self, cx: &Context<'_>) -> bool {
        cx.is_ended(PIXELS)
    }

    fn block(&mut self, _: &mut Context<'_>, envelopes: Vec<Envelope>) -> Result<Pictures, BoxError> {
        let common =
            self.common.as_ref().ok_or("the extraction does not fit a device").map_err(BoxError::new)?;
        Pictures::new(common, envelopes)
    }

    fn finish(&mut self, cx: &mut Context<'_>, block: Pictures) -> Result<BlockOutcome<Self>, BoxError> {
        let Pictures { envelopes, mut signatures, .. } = block;
        Ok(BlockOutcome::Made(self.envelopes(cx, &envelopes, &mut signatures)?))
    }

    fn failed(&mut self, block: Pictures, _: bool) -> BlockOutcome<Self> {
        BlockOutcome::Fallback(block.envelopes)
    }

    fn compute(
        &mut self,
        cx: &mut Context<'_>,
        left: &mut VecDeque<Envelope>,
    ) -> Result<Vec<Envelope>, BoxError> {
        let (mut envelopes, mut pictures) = (Vec::new(), 0);
        while pictures < PICTURES_PER_SLOT * self.slots
            && let Some(pixels) = left.pop_front()
        {
            pictures += pixels.rows();
            envelopes.push(pixels);
        }
        // The producer continues while the slots compute.
        cx.announce();
        let signatures = self.extract(cx, &envelopes)?;
        if cx.is_cancelled() {
            return Ok(Vec::new());
        }
        self.envelopes(cx, &envelopes, &mut signatures.into_iter())
    }

    fn has_room(&self, cx: &Context<'_>) -> bool {
        cx.has_room(SIGNATURES)
    }

    fn push(&mut self, cx: &mut Context<'_>, made: Envelope) -> Result<Pushed, BoxError> {
        cx.push(SIGNATURES, made)
    }
}

// One column for each feature of the kernel.
const _: () = assert!(PCT_COORDINATES.len() == FEATURES);

/// A picture of an envelope, or the reason why it is invalid.
fn picture(pixels: &Envelope, row: usize) -> Result<Result<ImageRef<'_>, String>, BoxError> {
    let (width, height) = (pixels.u32s("scaled_width")?[row], pixels.u32s("scaled_height")?[row]);
    let rgb = pixels.binaries("rgb")?.value(row);
    Ok(ImageRef::new(width as usize, height as usize, rgb).map_err(|error| error.to_string()))
}

/// Keeps a row that has a signature, and reports any other.
fn keep(
    cx: &mut Context<'_>,
    pixels: &Envelope,
    row: usize,
    extracted: Result<(), String>,
    kept: &mut Vec<usize>,
) -> Result<(), BoxError> {
    match extracted {
        Ok(()) => kept.push(row),
        Err(message) => cx.report(pixels.texts("name")?.value(row), message),
    }
    Ok(())
}

/// The kept rows of an envelope of pictures with their signatures; `None` if no row was kept.
fn envelope_of(
    pixels: &Envelope,
    kept: &[usize],
    mut signatures: SignatureBuilder,
    note: &mut Note,
) -> Result<Option<Envelope>, BoxError> {
    let Some(first) = kept.first() else { return Ok(None) };
    let names = pixels.texts("name")?;
    let (widths, heights) = (pixels.u32s("width")?, pixels.u32s("height")?);
    let columns: [(&str, ArrayRef); 4] = [
        ("name", Arc::new(StringArray::from_iter_values(kept.iter().map(|row| names.value(*row))))),
        ("signature", Arc::new(signatures.finish())),
        ("width", Arc::new(UInt32Array::from_iter_values(kept.iter().map(|row| widths[*row])))),
        ("height", Arc::new(UInt32Array::from_iter_values(kept.iter().map(|row| heights[*row])))),
    ];
    Ok(Some(note.put_on(Envelope::from_columns(columns)?, pixels.u32s("scaled_width")?[*first])))
}

/// Extracts an image's signature and appends it.
pub(crate) fn push(
    extractor: &mut Extractor,
    image: ImageRef<'_>,
    signatures: &mut SignatureBuilder,
) -> Result<(), String> {
    push_signature(&extractor.extract(image), signatures)
}

/// Appends a signature.
fn push_signature(signature: &Signature, signatures: &mut SignatureBuilder) -> Result<(), String> {
    let coordinates: Vec<&[f32]> = signature.centroids.iter().map(Vec::as_slice).collect();
    signatures.push(&coordinates, &signature.weights).map_err(|error| error.to_string())
}
