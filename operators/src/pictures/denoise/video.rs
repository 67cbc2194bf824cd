//! Pictures as the frames of one video, in the order in which they come, denoised on slots.
//!
//! Invariant: the box takes a picture only when the next result depends on one, so that it keeps a bounded number of them.

use std::collections::VecDeque;

use boxwork_kernels::CodePath;
use boxwork_kernels::denoise::{Picture, Samples, Video};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{BoxError, Context, Flow, Operator, Pushed};

use super::{NOISY, PICTURES, Settings, pieces};
use crate::pictures::row::Row;

/// The code of the box with `frames` above 0.
pub(super) struct Frames {
    settings: Settings,
    /// Frames on each side of one whose patches its stacks may have.
    sides: usize,
    path: CodePath,
    /// The video, and the name and the form of its first frame, once that has come.
    begun: Option<(Video, String, Form)>,
    /// The names of the frames that have not left, and the deviations of their noise.
    waiting: VecDeque<(String, Option<f64>)>,
}

/// The form of a picture, which all frames have.
#[derive(Clone, Copy, PartialEq)]
struct Form {
    width: usize,
    height: usize,
    channels: usize,
    bits: usize,
}

impl Form {
    fn of(picture: &Picture) -> Self {
        let bits = match picture.samples() {
            Samples::Bytes(_) => 8,
            Samples::Words(_) => 16,
            Samples::Floats(_) => 32,
        };
        Self { width: picture.width(), height: picture.height(), channels: picture.channels(), bits }
    }
}

impl std::fmt::Display for Form {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { width, height, channels, bits } = self;
        write!(f, "{width} by {height} pixels of {channels} x {bits} bits")
    }
}

impl Frames {
    pub(super) fn new(settings: Settings, sides: usize) -> Self {
        Self { settings, sides, path: CodePath::detect(), begun: None, waiting: VecDeque::new() }
    }

    fn is_ready(&self) -> bool {
        self.begun.as_ref().is_some_and(|(video, ..)| video.is_ready())
    }

    /// Adds a frame.
    fn add(&mut self, cx: &mut Context<'_>, envelope: &Envelope) -> Result<(), BoxError> {
        let row = Row::read(envelope, 0)?;
        let (sigma, form) = (self.settings.deviation(&row), Form::of(&row.picture));
        if self.begun.is_none() {
            // Only the strong settings depend on the deviation, and a video has one of them.
            let parameters = self.settings.parameters(sigma.unwrap_or(1.0));
            let video = Video::new(parameters, self.path, self.sides, &row.picture)?;
            cx.figure("MiB of frames", video.bytes() as f64 / f64::from(1 << 20));
            self.begun = Some((video, row.name.clone(), form));
        }
        let Some((video, first, like)) = &mut self.begun else { unreachable!("it was just begun") };
        if form != *like {
            return Err(BoxError::new(format!(
                "{} has {form}, and {first} has {like}: frames of a video have one size and depth; leave it out, or denoise \
                 pictures one by one (`frames: 0`)",
                row.name
            )));
        }
        if sigma.is_none() {
            cx.note(format!("no noise was found in {}: it stays as it is", row.name));
        }
        self.waiting.push_back((row.name, sigma));
        video.give(row.picture, sigma);
        Ok(())
    }

    /// The next result; none if the request is being cancelled.
    fn denoise(&mut self, cx: &mut Context<'_>) -> Option<Row> {
        // The producer continues while the slots compute.
        cx.announce();
        let ((video, ..), work) = (self.begun.as_mut()?, cx.work());
        work.expect(video.next_pixels());
        let picture =
            cx.inside(|inside| video.denoise_next(&mut pieces(inside), &|pixels| work.add(pixels)))?;
        let (name, sigma) = self.waiting.pop_front()?;
        Some(Row { name, picture, sigma: sigma.unwrap_or(0.0) })
    }
}

impl Operator for Frames {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        if !cx.has_room(PICTURES) {
            return Ok(Flow::Wait);
        }
        while !self.is_ready() {
            if let Some(envelope) = cx.take(NOISY) {
                self.add(cx, &envelope)?;
            } else if !cx.is_ended(NOISY) {
                return Ok(Flow::Wait);
            } else if self.waiting.is_empty() {
                return Ok(Flow::Done);
            } else if let Some((video, ..)) = &mut self.begun {
                video.end();
            }
        }
        let Some(row) = self.denoise(cx) else { return Ok(Flow::Done) };
        Ok(match cx.push(PICTURES, row.envelope()?)? {
            Pushed::Closed => Flow::Done,
            _ => Flow::More,
        })
    }
}
