//! The frames of a video, denoised one after the other: stacks have patches of the frames around too.
//!
//! A frame's first phase needs as many frames before and after it as stacks may reach, and its second phase the first results of as
//! many. Stacks of a frame give estimates for this frame alone, so a frame depends on no other frame's sums (docs/decisions/168).
//!
//! Invariant: planes keep the frames that are still needed, one below the other, each in the place of its number. So a patch is a place in
//! the planes, and patches of different frames never overlap.

use std::collections::VecDeque;

use super::extents::Extents;
use super::matching::pixel;
use super::parameters::{Colour, Parameters, ParametersError};
use super::phases::{Phases, Rows, Stage, Task};
use super::picture::Picture;
use super::prediction::Around;
use super::progress::Progress;
use crate::CodePath;
use crate::pieces::Pieces;

/// The most frames on each side of one whose patches its stacks may have.
pub const FRAMES_MAX: usize = 8;

/// Denoises the frames of a video in their order.
pub struct Video {
    phases: Phases,
    /// Frames on each side of one whose patches its stacks may have.
    frames: usize,
    /// Pixels of a row of planes.
    width: usize,
    /// Rows of a frame in planes.
    height: usize,
    noisy: Kept,
    basic: Kept,
    /// Frames that were given and whose results were not.
    waiting: VecDeque<Frame>,
    /// Numbers of the frames that come next: to be given, to pass the first phase, and to leave.
    next_given: usize,
    next_basic: usize,
    next_left: usize,
    is_ended: bool,
}

struct Frame {
    picture: Picture,
    /// The deviation of its noise; none without any.
    sigma: Option<f64>,
}

/// Planes of the last frames, one below the other.
struct Kept {
    rows: Rows,
    /// By matched plane: pixels as they are compared.
    pixels: Vec<Vec<f32>>,
    /// Numbers of a frame in a plane.
    size: usize,
}

impl Kept {
    /// Planes for `count` frames of `planes` planes, some of which are matched.
    fn new(count: usize, size: usize, width: usize, planes: usize, matched: usize) -> Self {
        let empty = |planes: usize| (0..planes).map(|_| vec![0.0; count * size]).collect();
        Self { rows: Rows { top: 0, width, planes: empty(planes) }, pixels: empty(matched), size }
    }

    /// Replaces the frame of a place.
    fn put(&mut self, place: usize, planes: &[Vec<f32>]) {
        let at = place * self.size..(place + 1) * self.size;
        for (kept, plane) in self.rows.planes.iter_mut().zip(planes) {
            kept[at.clone()].copy_from_slice(plane);
        }
        for (pixels, plane) in self.pixels.iter_mut().zip(planes) {
            pixels[at.clone()].iter_mut().zip(plane).for_each(|(to, level)| *to = pixel(*level));
        }
    }

    /// The planes of a place.
    fn planes(&self, place: usize) -> Vec<Vec<f32>> {
        let at = place * self.size..(place + 1) * self.size;
        self.rows.planes.iter().map(|plane| plane[at.clone()].to_vec()).collect()
    }
}

impl Video {
    /// A video of frames like this one, whose stacks may have patches of `frames` frames on each side.
    ///
    /// # Errors
    /// If the settings do not fit each other.
    ///
    /// # Panics
    /// If there are more than [`FRAMES_MAX`] frames on a side, or the machine lacks the path's instructions.
    pub fn new(
        parameters: Parameters,
        path: CodePath,
        frames: usize,
        like: &Picture,
    ) -> Result<Self, ParametersError> {
        assert!(frames <= FRAMES_MAX, "{frames} frames on a side");
        let phases = Phases::new(parameters, path)?;
        let Extents { width, height, .. } =
            Extents::new(&parameters, like.width(), like.height(), 0..like.height());
        let planes = like.colours();
        let matched = if parameters.colour == Colour::Apart { planes } else { 1 };
        let kept = || Kept::new(places(frames), width * height, width, planes, matched);
        Ok(Self {
            phases,
            frames,
            width,
            height,
            noisy: kept(),
            basic: kept(),
            waiting: VecDeque::new(),
            next_given: 0,
            next_basic: 0,
            next_left: 0,
            is_ended: false,
        })
    }

    /// The memory that the planes of a long video take, in bytes.
    pub fn bytes(&self) -> usize {
        let of = |kept: &Kept| (kept.rows.planes.len() + kept.pixels.len()) * kept.size * size_of::<f32>();
        places(self.frames) * (of(&self.noisy) + of(&self.basic))
    }

    /// Gives the next frame, and the deviation of its noise in grey levels; none for a frame without noise, which stays as it is.
    ///
    /// # Panics
    /// If the frame differs in size from the first one, or [`Video::is_ready`].
    pub fn give(&mut self, picture: Picture, sigma: Option<f64>) {
        assert!(!self.is_ready() && !self.is_ended, "a frame leaves before the next one is given");
        let planes = picture.planes(0..self.height, self.width, self.phases.parameters.colour);
        assert_eq!(planes[0].len(), self.noisy.size, "frames have one size");
        self.noisy.put(self.next_given % places(self.frames), &planes);
        self.waiting.push_back(Frame { picture, sigma });
        self.next_given += 1;
    }

    /// Says that no frame comes any more.
    pub fn end(&mut self) {
        self.is_ended = true;
    }

    /// Whether all frames that the next result depends on were given.
    pub fn is_ready(&self) -> bool {
        let sides = if self.phases.second.is_some() { 2 } else { 1 };
        let is_enough = self.next_given > self.next_left + sides * self.frames;
        !self.waiting.is_empty() && (is_enough || self.is_ended)
    }

    /// The pixels that the work of [`Video::denoise_next`] counts as.
    pub fn next_pixels(&self) -> u64 {
        let (first, second) = self.shares();
        (self.basics_needed() - self.next_basic) as u64 * first + second
    }

    /// The next frame without its noise; nothing if `pieces` was cancelled. `pieces` runs bands side by side, which tell `progress`
    /// the pixels that they have done.
    ///
    /// # Panics
    /// If the video is not [ready](Video::is_ready).
    pub fn denoise_next(
        &mut self,
        pieces: &mut Pieces<'_>,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Option<Picture> {
        assert!(self.is_ready(), "the next result needs more frames");
        while self.next_basic < self.basics_needed() {
            let planes = self.first(pieces, progress)?;
            self.basic.put(self.next_basic % places(self.frames), &planes);
            self.next_basic += 1;
        }
        let planes = match &self.phases.second {
            Some(second) => self.second(second, pieces, progress)?,
            None => Some(self.basic.planes(self.next_left % places(self.frames))),
        };
        let Frame { mut picture, sigma } = self.waiting.pop_front()?;
        self.next_left += 1;
        if let (Some(planes), Some(_)) = (planes, sigma) {
            let colour = self.phases.parameters.colour;
            if !picture.put(0..self.height, &planes, self.width, colour, pieces) {
                return None;
            }
        }
        Some(picture)
    }

    /// The number of frames that must have passed the first phase before the next result.
    fn basics_needed(&self) -> usize {
        let after = if self.phases.second.is_some() { self.frames } else { 0 };
        self.next_given.min(self.next_left + 1 + after)
    }

    /// The parts of a frame's pixels that each phase counts as.
    fn shares(&self) -> (u64, u64) {
        let pixels = (self.width * self.height) as u64;
        let work = |stage: &Stage| stage.work(&(0..self.height), self.width, self.height);
        let first = work(&self.phases.first);
        let all = first + self.phases.second.as_ref().map_or(0, work);
        let first = (u128::from(pixels) * u128::from(first) / u128::from(all)) as u64;
        (first, pixels - first)
    }

    /// The frames around one, of those before `end`.
    fn around<'a>(&self, pixels: &'a [Vec<f32>], frame: usize, end: usize) -> Around<'a> {
        let top = |frame: usize| frame % places(self.frames) * self.height;
        let later = (frame + 1..end).take(self.frames).map(top).collect();
        let earlier = (0..frame).rev().take(self.frames).map(top).collect();
        Around { pixels, height: self.height, own: top(frame), sides: [later, earlier] }
    }

    /// The planes of the next frame after the first phase.
    fn first(&self, pieces: &mut Pieces<'_>, progress: &(dyn Fn(u64) + Sync)) -> Option<Vec<Vec<f32>>> {
        let (frame, share) = (self.next_basic, self.shares().0);
        let Frame { picture, sigma } = &self.waiting[frame - self.next_left];
        let Some(sigma) = sigma else {
            progress(share);
            return Some(self.noisy.planes(frame % places(self.frames)));
        };
        let stage = &self.phases.first;
        let around = self.around(&self.noisy.pixels, frame, self.next_given);
        let task = Task {
            stage,
            noisy: &self.noisy.rows,
            model: &self.noisy.rows,
            rules: &self.phases.limits(picture, *sigma),
            rows: 0..self.height,
            height: self.height,
            around: Some(&around),
            progress: &self.progress(stage, share, progress),
        };
        self.phases.run(&task, pieces).map(|done| done.planes)
    }

    /// The planes of the frame that leaves next after the second phase; none if it has no noise.
    fn second(
        &self,
        stage: &Stage,
        pieces: &mut Pieces<'_>,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Option<Option<Vec<Vec<f32>>>> {
        let (frame, share) = (self.next_left, self.shares().1);
        let Frame { picture, sigma } = &self.waiting[0];
        let Some(sigma) = sigma else {
            progress(share);
            return Some(None);
        };
        let around = self.around(&self.basic.pixels, frame, self.next_basic);
        let task = Task {
            stage,
            noisy: &self.noisy.rows,
            model: &self.basic.rows,
            rules: &self.phases.variances(picture, *sigma),
            rows: 0..self.height,
            height: self.height,
            around: Some(&around),
            progress: &self.progress(stage, share, progress),
        };
        self.phases.run(&task, pieces).map(|done| Some(done.planes))
    }

    fn progress<'a>(&self, stage: &Stage, share: u64, tell: &'a (dyn Fn(u64) + Sync)) -> Progress<'a> {
        Progress::new(share, stage.work(&(0..self.height), self.width, self.height), tell)
    }
}

/// Frames that planes keep: the second phase of one frame needs those before it, and the first phase that it waits for those after.
fn places(frames: usize) -> usize {
    3 * frames + 1
}
