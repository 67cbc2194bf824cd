//! The frames of a video, denoised one after the other: stacks have patches of the frames around too, and give estimates for all of them.
//!
//! With `n` frames on each side, a frame has passed a phase when the stacks of `n` more frames were filtered, and these have patches of `n`
//! frames more. So the first phase runs ahead of the second one, and a frame leaves when the 4 `n` frames after it were given, or 2 `n` if there
//! is one phase (docs/decisions/168).
//!
//! Invariants: planes keep the frames that are still needed, one below the other, each in the place of its number. So a patch is a place in
//! the planes, and patches of different frames never overlap. Sums are whole numbers, so they do not depend on the order of stacks.

use std::collections::VecDeque;

use super::aggregation::SharedSums;
use super::extents::Extents;
use super::filter::Rule;
use super::matching::pixel;
use super::parameters::{Colour, Parameters, ParametersError};
use super::phases::{Phases, Rows, Stage};
use super::picture::Picture;
use super::prediction::Around;
use super::progress::Progress;
use super::tiles::FrameTask;
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
    /// Results of the first phase.
    basic: Kept,
    first: Open,
    second: Open,
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

/// The sums of a phase for the frames to which stacks still add, each in the place of its number.
struct Open {
    /// By frame, then by plane.
    sums: Vec<Vec<SharedSums>>,
    /// The number of the frame whose stacks come next.
    next: usize,
}

impl Open {
    /// The weighted means of a frame, whose place gets empty; nothing if `pieces` was cancelled.
    fn close(&mut self, frame: usize, pieces: &mut Pieces<'_>) -> Option<Vec<Vec<f32>>> {
        let place = frame % self.sums.len();
        let means = self.sums[place].iter().map(|sums| sums.means(pieces)).collect::<Option<_>>()?;
        self.sums[place].iter_mut().for_each(SharedSums::clear);
        Some(means)
    }
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
        let places = places(&phases, frames);
        let kept = |places: usize| Kept::new(places, width * height, width, planes, matched);
        let of_frame = || (0..planes).map(|_| SharedSums::new(0, height, width)).collect();
        let open = |count: usize| Open { sums: (0..count).map(|_| of_frame()).collect(), next: 0 };
        let [basics, seconds] = if phases.second.is_some() { [places, 2 * frames + 1] } else { [0, 0] };
        Ok(Self {
            noisy: kept(places),
            basic: kept(basics),
            first: open(2 * frames + 1),
            second: open(seconds),
            phases,
            frames,
            width,
            height,
            waiting: VecDeque::new(),
            next_given: 0,
            next_basic: 0,
            next_left: 0,
            is_ended: false,
        })
    }

    /// The memory that the planes and sums of a video take, in bytes.
    pub fn bytes(&self) -> usize {
        let planes = |kept: &Kept| kept.rows.planes.iter().chain(&kept.pixels).map(Vec::len).sum::<usize>();
        let sums = (self.first.sums.len() + self.second.sums.len()) * self.noisy.rows.planes.len();
        let numbers = planes(&self.noisy) + planes(&self.basic);
        numbers * size_of::<f32>() + sums * self.noisy.size * 2 * size_of::<i64>()
    }

    /// Gives the next frame, and the deviation of its noise in grey levels; none for a frame without noise, which stays as it is.
    ///
    /// # Panics
    /// If the frame differs in size from the first one, or [`Video::is_ready`].
    pub fn give(&mut self, picture: Picture, sigma: Option<f64>) {
        assert!(!self.is_ready() && !self.is_ended, "a frame leaves before the next one is given");
        let planes = picture.planes(0..self.height, self.width, self.phases.parameters.colour);
        assert_eq!(planes[0].len(), self.noisy.size, "frames have one size");
        self.noisy.put(self.next_given % self.places(), &planes);
        self.waiting.push_back(Frame { picture, sigma });
        self.next_given += 1;
    }

    /// Says that no frame comes any more.
    pub fn end(&mut self) {
        self.is_ended = true;
    }

    /// Whether all frames that the next result depends on were given.
    pub fn is_ready(&self) -> bool {
        let is_enough = self.next_given >= self.next_left + self.places();
        !self.waiting.is_empty() && (is_enough || self.is_ended)
    }

    /// The pixels that the work of [`Video::denoise_next`] counts as.
    pub fn next_pixels(&self) -> u64 {
        let ((first, second), (firsts, seconds)) = (self.shares(), self.needed());
        (firsts - self.first.next) as u64 * first + (seconds - self.second.next) as u64 * second
    }

    /// The next frame without its noise; nothing if `pieces` was cancelled, and then no frame leaves any more. `pieces` runs tiles side
    /// by side, which tell `progress` the pixels that they have done.
    ///
    /// # Panics
    /// If the video is not [ready](Video::is_ready).
    pub fn denoise_next(
        &mut self,
        pieces: &mut Pieces<'_>,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Option<Picture> {
        assert!(self.is_ready(), "the next result needs more frames");
        let picture = self.filter(pieces, progress).and_then(|()| self.leave(pieces));
        if picture.is_none() {
            // Some stacks have added to sums, and others have not.
            self.waiting.clear();
        }
        picture
    }

    /// The next frame, all of whose stacks were filtered; nothing if `pieces` was cancelled.
    fn leave(&mut self, pieces: &mut Pieces<'_>) -> Option<Picture> {
        let last = if self.phases.second.is_some() { &mut self.second } else { &mut self.first };
        let planes = last.close(self.next_left, pieces)?;
        let Frame { mut picture, sigma } = self.waiting.pop_front()?;
        self.next_left += 1;
        let colour = self.phases.parameters.colour;
        let is_done = sigma.is_none() || picture.put(0..self.height, &planes, self.width, colour, pieces);
        is_done.then_some(picture)
    }

    /// Filters the stacks that add to the next result, and those that these depend on.
    fn filter(&mut self, pieces: &mut Pieces<'_>, progress: &(dyn Fn(u64) + Sync)) -> Option<()> {
        let (firsts, seconds) = self.needed();
        while self.first.next < firsts {
            self.first_stacks(pieces, progress)?;
            self.first.next += 1;
            if self.phases.second.is_some() {
                self.close_basics(pieces)?;
            }
        }
        while self.second.next < seconds {
            self.second_stacks(pieces, progress)?;
            self.second.next += 1;
        }
        Some(())
    }

    /// Takes over the results of the first phase to which no stack adds any more; nothing if `pieces` was cancelled.
    fn close_basics(&mut self, pieces: &mut Pieces<'_>) -> Option<()> {
        let is_last = self.is_ended && self.first.next == self.next_given;
        let end = if is_last { self.next_given } else { self.first.next.saturating_sub(self.frames) };
        for frame in self.next_basic..end {
            let (place, means) = (frame % self.places(), self.first.close(frame, pieces)?);
            // A frame without noise is its own model.
            match self.waiting[frame - self.next_left].sigma {
                Some(_) => self.basic.put(place, &means),
                None => self.basic.put(place, &self.noisy.planes(place)),
            }
        }
        self.next_basic = end.max(self.next_basic);
        Some(())
    }

    /// The numbers of the frames up to which stacks must be filtered in each phase before the next result.
    fn needed(&self) -> (usize, usize) {
        let after = |frames: usize| self.next_given.min(self.next_left + 1 + frames * self.frames);
        if self.phases.second.is_some() { (after(3), after(1)) } else { (after(1), 0) }
    }

    /// The parts of a frame's pixels that each phase counts as.
    fn shares(&self) -> (u64, u64) {
        let pixels = (self.width * self.height) as u64;
        let first = self.work(&self.phases.first);
        let all = first + self.phases.second.as_ref().map_or(0, |second| self.work(second));
        let first = (u128::from(pixels) * u128::from(first) / u128::from(all)) as u64;
        (first, pixels - first)
    }

    /// The work for a frame.
    fn work(&self, stage: &Stage) -> u64 {
        stage.work(&(0..self.height), self.width, self.height)
    }

    /// The frames around one, of those before `end`, and their numbers in the order of [`Around::tops`].
    fn around<'a>(&self, pixels: &'a [Vec<f32>], frame: usize, end: usize) -> (Around<'a>, Vec<usize>) {
        let top = |frame: &usize| frame % self.places() * self.height;
        let later: Vec<usize> = (frame + 1..end).take(self.frames).collect();
        let earlier: Vec<usize> = (0..frame).rev().take(self.frames).collect();
        let sides = [&later, &earlier].map(|side| side.iter().map(top).collect());
        let around = Around { pixels, height: self.height, own: top(&frame), sides };
        (around, [vec![frame], later, earlier].concat())
    }

    /// Filters the next frame's stacks in the first phase.
    fn first_stacks(&self, pieces: &mut Pieces<'_>, progress: &(dyn Fn(u64) + Sync)) -> Option<()> {
        let limits = |picture: &Picture, sigma: f64| self.phases.limits(picture, sigma);
        let models = (&self.noisy, self.next_given);
        self.stacks((&self.phases.first, &self.first), models, &limits, pieces, (self.shares().0, progress))
    }

    /// As [`Video::first_stacks`], in the second phase.
    fn second_stacks(&self, pieces: &mut Pieces<'_>, progress: &(dyn Fn(u64) + Sync)) -> Option<()> {
        let variances = |picture: &Picture, sigma: f64| self.phases.variances(picture, sigma);
        let (stage, models) = (self.phases.second.as_ref()?, (&self.basic, self.next_basic));
        self.stacks((stage, &self.second), models, &variances, pieces, (self.shares().1, progress))
    }

    /// Filters the next frame's stacks in a phase, which counts as some pixels, with the frames before `end` as the model.
    fn stacks(
        &self,
        (stage, open): (&Stage, &Open),
        (model, end): (&Kept, usize),
        rules: &dyn Fn(&Picture, f64) -> Vec<Rule>,
        pieces: &mut Pieces<'_>,
        (share, progress): (u64, &(dyn Fn(u64) + Sync)),
    ) -> Option<()> {
        let Frame { picture, sigma } = &self.waiting[open.next - self.next_left];
        // A frame without noise has no rule; its patches are in the stacks of the frames around.
        let Some(sigma) = sigma else {
            progress(share);
            return Some(());
        };
        let (around, numbers) = self.around(&model.pixels, open.next, end);
        let sums: Vec<_> = numbers.iter().map(|number| &*open.sums[number % open.sums.len()]).collect();
        let task = FrameTask {
            stage,
            noisy: &self.noisy.rows,
            model: &model.rows,
            rules: &rules(picture, *sigma),
            around: &around,
            sums: &sums,
            progress: &Progress::new(share, self.work(stage), progress),
        };
        task.run(&self.phases, pieces)
    }

    fn places(&self) -> usize {
        places(&self.phases, self.frames)
    }
}

/// Frames that planes keep: those between the frame that leaves next, and the last one of which it depends.
fn places(phases: &Phases, frames: usize) -> usize {
    if phases.second.is_some() { 4 * frames + 1 } else { 2 * frames + 1 }
}
