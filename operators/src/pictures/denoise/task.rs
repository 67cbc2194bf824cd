//! Pictures cut into strips for devices, denoised on slots otherwise, and put together again in their order.

use std::collections::VecDeque;
use std::sync::Arc;

use boxwork_kernels::CodePath;
use boxwork_kernels::denoise::device::{DeviceForm, GroupLimits};
use boxwork_kernels::denoise::{Denoiser, Parameters, Picture, Samples};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::feeding::{DeviceClass, Devices, Picked};
use boxwork_runtime::inside::Inside;
use boxwork_runtime::operator::{BoxError, Context, Pushed, Work};

use super::block::{Noise, Strip, StripBlock};
use super::{NOISY, PICTURES, Settings, pieces};
use crate::devices::stage::{BlockOutcome, DeviceStage, DeviceTask, Sizes, Taken};
use crate::pictures::row::Row;

/// Strips under way for each device: two that it computes or transfers, and as many that wait for it or for the box.
const BLOCKS_PER_DEVICE: usize = 4;
/// The part of a device's memory that a strip may take: more strips than those under way fit.
const MEMORY_SHARE: u64 = 8;
/// The most memory of a device that a strip takes. Its halo is a few percent of such a strip.
const STRIP_BYTES_MAX: u64 = 1 << 30;
/// The most bytes of a strip on a device that is the processor: a strip must end within the time that a block may take.
const STRIP_BYTES_OF_CPU: u64 = 16 << 20;
/// The fewest rows of a strip, so that it is larger than its halo.
const STRIP_ROWS_MIN: usize = 64;
/// From this many samples on, a picture is cut into a strip for each device at least.
const SHARED_SAMPLES_MIN: usize = 4 << 20;
/// Pictures that a slot denoises in one firing, so that slots seldom wait for the last picture.
const PICTURES_PER_SLOT: usize = 2;

/// Devices, and the numbers of those that may be used.
type Chosen = (Arc<Devices>, Arc<[usize]>);

/// A `denoise` box on the picked devices.
pub(super) fn stage(settings: Settings, picked: Picked, slots: usize) -> DeviceStage<Cleaning> {
    stage_of(settings, picked, slots, STRIP_BYTES_MAX)
}

/// A `denoise` box whose strips take so much memory of a device at most.
pub(super) fn stage_of(
    settings: Settings,
    picked: Picked,
    slots: usize,
    strip_bytes_max: u64,
) -> DeviceStage<Cleaning> {
    let (devices, notes) = usable(picked);
    let sizes = Sizes {
        block: [1, u64::MAX],
        block_min: [0; 2],
        slots: [(PICTURES_PER_SLOT * slots) as u64, u64::MAX],
        blocks_per_device: BLOCKS_PER_DEVICE,
    };
    let limits = devices.as_ref().map(|(devices, allowed)| Limits::of(devices, allowed, strip_bytes_max));
    let task = Cleaning {
        settings,
        path: CodePath::detect(),
        limits,
        forms: Vec::new(),
        notes,
        waiting: VecDeque::new(),
        begun: None,
    };
    DeviceStage::new(task, sizes, devices)
}

/// The devices that add to numbers of 64 bits, and notes on the others.
fn usable(picked: Picked) -> (Option<Chosen>, Vec<String>) {
    let Some((devices, allowed)) = picked.devices else { return (None, Vec::new()) };
    let (mut kept, mut notes) = (Vec::new(), Vec::new());
    for device in allowed.iter().copied() {
        let info = devices.list()[device].info();
        let lacking = match (info.has_doubles, info.has_wide_atomics) {
            (true, true) => {
                kept.push(device);
                continue;
            }
            (false, _) => "doubles",
            _ => "atomic additions of 64 bits (cl_khr_int64_base_atomics)",
        };
        notes.push(format!("{info} denoises no pictures: it has no {lacking}"));
    }
    ((!kept.is_empty()).then(|| (devices, kept.into())), notes)
}

/// The limits that all devices of a box keep to.
struct Limits {
    group: GroupLimits,
    strip_bytes: u64,
    devices: usize,
}

impl Limits {
    fn of(devices: &Devices, allowed: &[usize], strip_bytes_max: u64) -> Self {
        let least = |of: &dyn Fn(usize) -> u64| allowed.iter().map(|device| of(*device)).min().unwrap_or(0);
        let list = devices.list();
        let strip_bytes = least(&|device| {
            let (info, share) = (list[device].info(), list[device].memory_budget_bytes() / MEMORY_SHARE);
            let most = match info.class {
                DeviceClass::Gpu => STRIP_BYTES_MAX,
                DeviceClass::Cpu => STRIP_BYTES_OF_CPU,
            };
            share.min(info.buffer_bytes_max).min(most)
        });
        Self {
            group: GroupLimits {
                local_bytes: least(&|device| list[device].info().local_bytes),
                items_max: least(&|device| list[device].info().group_items_max as u64) as usize,
            },
            strip_bytes: strip_bytes.min(strip_bytes_max),
            devices: allowed.len(),
        }
    }

    /// Rows of a picture's strips.
    fn rows(&self, form: &DeviceForm, picture: &Picture) -> usize {
        let row_bytes = (form.pixel_bytes(picture) * picture.width()) as u64;
        let most = ((self.strip_bytes / row_bytes) as usize).max(STRIP_ROWS_MIN);
        let is_shared = picture.samples().len() >= SHARED_SAMPLES_MIN;
        let strips = picture.height().div_ceil(most).max(if is_shared { self.devices } else { 1 });
        picture.height().div_ceil(strips)
    }
}

/// The task of the box.
pub(super) struct Cleaning {
    settings: Settings,
    path: CodePath,
    /// None if the slots compute everything.
    limits: Option<Limits>,
    /// The forms of the settings so far; none for settings that devices do not take.
    forms: Vec<(Parameters, Option<Arc<DeviceForm>>)>,
    /// Notes for the run.
    notes: Vec<String>,
    /// Strips of the last picture that was taken.
    waiting: VecDeque<Strip>,
    /// The first samples of the picture whose strips leave.
    begun: Option<Samples>,
}

/// A strip that slots denoise.
struct Job {
    strip: Strip,
    cleaned: Option<Picture>,
}

impl Cleaning {
    /// The form of settings for devices, if they take them; a note says why they do not.
    fn form(&mut self, cx: &mut Context<'_>, parameters: Parameters) -> Option<Arc<DeviceForm>> {
        if let Some((_, form)) = self.forms.iter().find(|(known, _)| *known == parameters) {
            return form.clone();
        }
        let form = match DeviceForm::new(&parameters, self.limits.as_ref()?.group) {
            Ok(form) => Some(Arc::new(form)),
            Err(reason) => {
                cx.note(format!("pictures are denoised by slots: {reason}"));
                None
            }
        };
        self.forms.push((parameters, form.clone()));
        form
    }

    /// Cuts a picture into strips for devices.
    fn cut(&mut self, cx: &mut Context<'_>, row: Row) -> Taken<Strip> {
        let rows = 0..row.picture.height();
        let Some(sigma) = self.settings.deviation(&row) else {
            return Taken::ForSlots(Strip { row: Arc::new(row), rows, noise: Noise::Absent });
        };
        let (row, noise) = (Arc::new(row), Noise::Of(sigma));
        let form = self.form(cx, self.settings.parameters(sigma));
        let (Some(form), Some(limits)) = (form, &self.limits) else {
            return Taken::ForSlots(Strip { row, rows, noise });
        };
        let step = limits.rows(&form, &row.picture);
        let strip = |top: usize| Strip { row: Arc::clone(&row), rows: top..rows.end.min(top + step), noise };
        self.waiting.extend(rows.clone().step_by(step).map(strip));
        let first = self.waiting.pop_front();
        Taken::Whole(first.unwrap_or_else(|| unreachable!("a picture has rows")))
    }

    /// Adds the samples of a strip to its picture, and makes the picture's envelope if it is whole.
    fn put_together(
        &mut self,
        cx: &mut Context<'_>,
        strip: &Strip,
        cleaned: Samples,
    ) -> Result<Option<Envelope>, BoxError> {
        match &mut self.begun {
            Some(samples) => samples.append(cleaned),
            None => self.begun = Some(cleaned),
        }
        let (row, picture) = (&strip.row, &strip.row.picture);
        if strip.rows.end < picture.height() {
            return Ok(None);
        }
        let samples = self.begun.take().unwrap_or_else(|| unreachable!("a strip was just added"));
        let sigma = match strip.noise {
            Noise::Of(sigma) => sigma,
            _ => {
                cx.note(format!("no noise was found in {}: it stays as it is", row.name));
                row.sigma
            }
        };
        let picture = Picture::new(picture.width(), picture.height(), picture.channels(), samples)
            .map_err(|error| BoxError::new(format!("{}: {error}", row.name)))?;
        Row { name: row.name.clone(), picture, sigma }.envelope().map(Some)
    }
}

/// Denoises strips beside each other, and the bands of each beside each other, which count their pixels.
fn clean(inside: &mut Inside<'_>, jobs: &mut [Job], settings: &Settings, path: CodePath, work: Work<'_>) {
    if jobs.len() > 1 {
        let (left, right) = jobs.split_at_mut(jobs.len() / 2);
        inside.join(
            |inside| clean(inside, left, settings, path, work),
            |inside| clean(inside, right, settings, path, work),
        );
        return;
    }
    let Some(Job { strip, cleaned }) = jobs.first_mut() else { return };
    if strip.noise == Noise::Unknown {
        strip.noise = settings.deviation(&strip.row).map_or(Noise::Absent, Noise::Of);
    }
    let Noise::Of(sigma) = strip.noise else {
        *cleaned = Some(strip.row.picture.cut(strip.rows.clone()));
        work.add(strip.pixels());
        return;
    };
    let denoiser = Denoiser::new(settings.parameters(sigma), sigma, path).expect("the box has checked them");
    let progress = |pixels| work.add(pixels);
    *cleaned = denoiser.denoise_rows(&strip.row.picture, strip.rows.clone(), &mut pieces(inside), &progress);
}

impl DeviceTask for Cleaning {
    type Item = Strip;
    type Block = StripBlock;
    type Made = Envelope;

    const IS_ORDERED: bool = true;

    fn begin(&mut self, cx: &mut Context<'_>) -> Result<(), BoxError> {
        self.notes.drain(..).for_each(|note| cx.note(note));
        Ok(())
    }

    fn take(&mut self, cx: &mut Context<'_>, device: bool) -> Result<Option<Taken<Strip>>, BoxError> {
        let whole = |strip: Strip| if device { Taken::Whole(strip) } else { Taken::Piece(strip, [1, 0]) };
        if let Some(strip) = self.waiting.pop_front() {
            return Ok(Some(whole(strip)));
        }
        let Some(envelope) = cx.take(NOISY) else { return Ok(None) };
        let row = Row::read(&envelope, 0)?;
        drop(envelope);
        cx.work().expect((row.picture.width() * row.picture.height()) as u64);
        if device {
            return Ok(Some(self.cut(cx, row)));
        }
        let rows = 0..row.picture.height();
        Ok(Some(whole(Strip { row: Arc::new(row), rows, noise: Noise::Unknown })))
    }

    fn is_ended(&self, cx: &Context<'_>) -> bool {
        self.waiting.is_empty() && cx.is_ended(NOISY)
    }

    fn has_items(&self) -> bool {
        !self.waiting.is_empty()
    }

    fn block(&mut self, cx: &mut Context<'_>, items: Vec<Strip>) -> Result<StripBlock, BoxError> {
        // The producer continues while the device computes.
        cx.announce();
        let strip = items.into_iter().next().ok_or("a block without a strip").map_err(BoxError::new)?;
        let Noise::Of(sigma) = strip.noise else {
            return Err(BoxError::new("a strip without noise goes to no device"));
        };
        let form = self.form(cx, self.settings.parameters(sigma));
        let form = form.ok_or("the settings do not fit a device").map_err(BoxError::new)?;
        Ok(StripBlock::new(&form, strip, sigma))
    }

    fn finish(&mut self, cx: &mut Context<'_>, block: StripBlock) -> Result<BlockOutcome<Self>, BoxError> {
        let StripBlock { strip, cleaned, .. } = block;
        let Some(cleaned) = cleaned else { return Ok(BlockOutcome::Fallback(vec![strip])) };
        cx.work().add(strip.pixels());
        Ok(BlockOutcome::Made(self.put_together(cx, &strip, cleaned)?.into_iter().collect()))
    }

    fn failed(&mut self, block: StripBlock, _: bool) -> BlockOutcome<Self> {
        BlockOutcome::Fallback(vec![block.strip])
    }

    fn compute(
        &mut self,
        cx: &mut Context<'_>,
        left: &mut VecDeque<Strip>,
    ) -> Result<Vec<Envelope>, BoxError> {
        // The producer continues while the slots compute.
        cx.announce();
        let mut jobs: Vec<Job> = left.drain(..).map(|strip| Job { strip, cleaned: None }).collect();
        let (settings, path, work) = (&self.settings, self.path, cx.work());
        cx.inside(|inside| clean(inside, &mut jobs, settings, path, work));
        if cx.is_cancelled() {
            return Ok(Vec::new());
        }
        let mut made = Vec::new();
        for Job { strip, cleaned } in jobs {
            let cleaned = cleaned.ok_or("a strip was not denoised").map_err(BoxError::new)?;
            made.extend(self.put_together(cx, &strip, cleaned.into_samples())?);
        }
        Ok(made)
    }

    fn has_room(&self, cx: &Context<'_>) -> bool {
        cx.has_room(PICTURES)
    }

    fn push(&mut self, cx: &mut Context<'_>, made: Envelope) -> Result<Pushed, BoxError> {
        cx.push(PICTURES, made)
    }
}
