//! A device as what makes the factor of a fit, perhaps together with the slots, and the derivatives of a likelihood.
//!
//! Invariant: where the device fails, has no room or no numbers of f64, the slots make the factor, and a note says so.

use std::sync::Arc;

use boxwork_kernels::cholesky::{Packed, TiledMatrix};
use boxwork_kernels::gaussian_process::{Made, Outcome, Sloped, SlopedOutcome, Stopped, TILE, Wanted};
use boxwork_kernels::pieces::Pieces;
use boxwork_runtime::feeding::{DeviceError, Devices, DirectStatistics, Picked};

use crate::devices::factor::{self, Choices, DeviceMatrix, DeviceNumber, Slots, Unfactored};

/// Samples from which on `auto` takes a device: fewer are factored before it has answered.
pub(super) const DEVICE_ROWS_MIN: usize = 1024;

/// How tiles come to a device and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Memory {
    /// In place where the device shares the host's memory and measurements do not prefer copies; else by copies.
    Auto,
    /// In place: the device computes in memory of the host.
    Map,
    /// By copies to memory of the device.
    Copy,
}

impl Memory {
    pub(super) fn named(name: &str) -> Self {
        match name {
            "map" => Self::Map,
            "copy" => Self::Copy,
            _ => Self::Auto,
        }
    }
}

/// A device for the factors of one box.
pub(super) struct OnDevice {
    devices: Arc<Devices>,
    /// The devices that were picked; the first one makes small factors alone.
    places: Vec<usize>,
    memory: Memory,
    /// The fewest rows that are worth it.
    rows_min: usize,
    /// The slots that may take columns of a factor.
    slots: Slots,
    /// Why the slots make all further factors.
    over: Option<String>,
    pub(super) factors: u64,
    /// Factors that were inverted for derivatives.
    pub(super) slopes: u64,
    /// Factors of matrices that stayed in the host's memory.
    pub(super) streamed: u64,
    /// Factors that slots and devices made together.
    pub(super) together: u64,
    /// Columns of the last one, those of slots first.
    columns: (usize, usize),
    pub(super) done: DirectStatistics,
}

impl OnDevice {
    /// The devices that were picked.
    pub(super) fn of(picked: &Picked, memory: Memory, rows_min: usize) -> Option<Self> {
        let (devices, allowed) = picked.devices.as_ref()?;
        Some(Self {
            devices: Arc::clone(devices),
            places: (!allowed.is_empty()).then(|| allowed.to_vec())?,
            memory,
            rows_min,
            slots: Slots::default(),
            over: None,
            factors: 0,
            slopes: 0,
            streamed: 0,
            together: 0,
            columns: (0, 0),
            done: DirectStatistics::default(),
        })
    }

    /// Slots may take columns of factors.
    pub(super) fn with_slots(self, slots: Slots) -> Self {
        Self { slots, ..self }
    }

    /// Sentences for the user about the factors.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes: Vec<String> =
            self.over.iter().map(|over| format!("{over}: slots made the factor")).collect();
        if self.factors > 0 {
            let names: Vec<String> = self.places.iter().map(|place| self.name(*place)).collect();
            let inverted = match self.slopes {
                0 => String::new(),
                count => format!(", {count} of them inverted for derivatives"),
            };
            let streamed = match self.streamed {
                0 => String::new(),
                count => format!(", {count} of them of matrices in the host's memory"),
            };
            let (of_slots, all) = self.columns;
            let together = match self.together {
                0 => String::new(),
                count => {
                    format!(
                        ", {count} of them with slots, which took {of_slots} of {all} columns of the last one"
                    )
                }
            };
            let made = format!("{} factors{inverted}{streamed}{together}, {}", self.factors, self.done);
            notes.push(format!("{}: {made}", names.join(", ")));
        }
        notes
    }

    /// Makes a factor, perhaps together with slots; asks between blocks of columns whether to end.
    pub(super) fn make<T: DeviceNumber>(
        &mut self,
        wanted: &Wanted<'_>,
        tiles: Packed<T>,
        slots: &mut Pieces<'_>,
        cancelled: &dyn Fn() -> bool,
    ) -> Outcome<T> {
        let (n, places) = (wanted.points.len(), self.places_for(wanted.points.len(), size_of::<T>()));
        let mut choices = Choices::default();
        if factor::fits::<T>(&self.devices, places, n, 1).is_err() {
            choices.resident = factor::resident::<T>(&self.devices, self.places[0], n).ok();
        } else if factor::fits_with_slots::<T>(&self.devices, places, n).is_ok() {
            choices.slots = factor::share::<T>(&self.devices, places, n, self.slots);
        }
        let places = if choices.resident.is_some() { &self.places[..1] } else { places };
        let opened = DeviceMatrix::open(&self.devices, places, n, choices);
        self.streamed += u64::from(choices.resident.is_some());
        let made = opened.map_err(Unfactored::Device).and_then(|mut matrix| {
            let made = if matrix.is_with_slots() {
                self.together += 1;
                self.columns = (matrix.columns_of_slots(), n);
                make_with_slots(&mut matrix, wanted, tiles, slots)
            } else {
                self.run(&mut matrix, wanted, tiles, cancelled)
            };
            self.done.add(&matrix.statistics());
            made
        });
        self.outcome(made)
    }

    /// The weights and the derivatives of a likelihood; asks between blocks of columns whether to end. Nothing of the matrix leaves the
    /// device, which needs no memory of the host for it.
    pub(super) fn slopes<T: DeviceNumber>(
        &mut self,
        wanted: &Wanted<'_>,
        weights: Option<&[f64]>,
        cancelled: &dyn Fn() -> bool,
    ) -> SlopedOutcome {
        let n = wanted.points.len();
        let opened = DeviceMatrix::<T>::open(&self.devices, &self.places[..1], n, Choices::default());
        let made = opened.map_err(Unfactored::Device).and_then(|mut matrix| {
            let made = slopes_of(&mut matrix, wanted, weights, cancelled);
            self.done.add(&matrix.statistics());
            made
        });
        self.slopes += u64::from(made.is_ok());
        self.outcome(made)
    }

    /// The result for a fit: nothing if the device has failed, and then slots do all further work.
    fn outcome<M>(&mut self, made: Result<M, Unfactored>) -> Option<Result<M, Stopped>> {
        match made {
            Ok(made) => {
                self.factors += 1;
                Some(Ok(made))
            }
            Err(Unfactored::NotPositiveDefinite { row }) => {
                self.factors += 1;
                Some(Err(Stopped::NotPositiveDefinite { row }))
            }
            Err(Unfactored::Cancelled) => Some(Err(Stopped::Interrupted)),
            Err(Unfactored::Device(error)) => {
                self.over = Some(self.failed(&error));
                None
            }
        }
    }

    /// Whether the device takes so many matrices at once, of n rows of numbers of so many bytes.
    pub(super) fn takes(&mut self, n: usize, bytes: usize, matrices: u64) -> bool {
        if self.over.is_some() || n < self.rows_min {
            return false;
        }
        let places = if matrices > 1 { &self.places[..1] } else { self.places_for(n, bytes) };
        let fits = match bytes {
            8 => factor::fits::<f64>(&self.devices, places, n, matrices),
            _ => factor::fits::<f32>(&self.devices, places, n, matrices),
        };
        // A matrix that no device has room for stays in the host's memory.
        let fits = match (fits, matrices, bytes) {
            (Err(_), 1, 8) => factor::resident::<f64>(&self.devices, self.places[0], n).map(|_| ()),
            (Err(_), 1, _) => factor::resident::<f32>(&self.devices, self.places[0], n).map(|_| ()),
            (fits, ..) => fits,
        };
        // The device still makes factors where a matrix fits and its inverse does not.
        if let (Err(reason), 1) = (&fits, matrices) {
            self.over = Some(reason.clone());
        }
        fits.is_ok()
    }

    fn failed(&self, error: &DeviceError) -> String {
        let names: Vec<String> = self.places.iter().map(|place| self.name(*place)).collect();
        format!("{} failed, {error}", names.join(" or "))
    }

    fn name(&self, place: usize) -> String {
        format!("device {place} ({})", self.devices.list()[place].info().name)
    }

    /// The devices that share a matrix of n rows of numbers of so many bytes: all of them where the user names them, or where one has no
    /// room. Panels that go from device to device through the host take longer than one device needs for all products.
    fn places_for(&self, n: usize, bytes: usize) -> &[usize] {
        let one = &self.places[..1];
        let fits_one = match bytes {
            8 => factor::fits::<f64>(&self.devices, one, n, 1),
            _ => factor::fits::<f32>(&self.devices, one, n, 1),
        };
        if self.rows_min == 0 || fits_one.is_err() { &self.places } else { one }
    }

    fn run<T: DeviceNumber>(
        &self,
        matrix: &mut DeviceMatrix<T>,
        wanted: &Wanted<'_>,
        mut tiles: Packed<T>,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Made<T>, Unfactored> {
        if matrix.is_streamed() {
            let covariances = (wanted.expression, wanted.points, wanted.added);
            let covariances = (!wanted.is_filled).then_some(covariances);
            matrix.factor_of_host(tiles.numbers_mut(), covariances, cancelled)?;
            let factor = TiledMatrix::of_packed(wanted.points.len(), TILE, tiles);
            return Ok(Made { factor, weights: None });
        }
        let is_mapped = matrix.is_whole()
            && match self.memory {
                Memory::Auto => factor::maps(&self.devices, self.places[0], size_of_val(tiles.numbers())),
                memory => memory == Memory::Map,
            };
        // Memory that is lent is gone until it comes back.
        let own = if is_mapped {
            matrix.lend(tiles)?;
            None
        } else {
            matrix.allocate()?;
            if wanted.is_filled {
                matrix.write(tiles.numbers())?;
            }
            Some(tiles)
        };
        if !wanted.is_filled {
            matrix.fill(wanted.expression, wanted.points, wanted.added)?;
        }
        matrix.factor(cancelled)?;
        // The host solves what several devices have factored.
        let weights = if matrix.solves() { Some(matrix.solve(wanted.targets)?) } else { None };
        let tiles = match own {
            None => matrix.take_back()?,
            Some(mut tiles) => {
                matrix.read(tiles.numbers_mut())?;
                tiles
            }
        };
        Ok(Made { factor: TiledMatrix::of_packed(wanted.points.len(), TILE, tiles), weights })
    }
}

/// The factor is in the host's memory then, where slots solve with it.
fn make_with_slots<T: DeviceNumber>(
    matrix: &mut DeviceMatrix<T>,
    wanted: &Wanted<'_>,
    tiles: Packed<T>,
    slots: &mut Pieces<'_>,
) -> Result<Made<T>, Unfactored> {
    let factor = TiledMatrix::of_packed(wanted.points.len(), TILE, tiles);
    let covariances = (!wanted.is_filled).then_some((wanted.expression, wanted.points, wanted.added));
    matrix.factor_with_slots(&factor, covariances, slots)?;
    Ok(Made { factor, weights: None })
}

fn slopes_of<T: DeviceNumber>(
    matrix: &mut DeviceMatrix<T>,
    wanted: &Wanted<'_>,
    weights: Option<&[f64]>,
    cancelled: &dyn Fn() -> bool,
) -> Result<Sloped, Unfactored> {
    matrix.allocate()?;
    matrix.fill(wanted.expression, wanted.points, wanted.added)?;
    matrix.factor(cancelled)?;
    let weights = match weights {
        Some(weights) => weights.to_vec(),
        None => matrix.solve(wanted.targets)?,
    };
    // The inverse takes the place of the factor.
    let pivots = matrix.pivots()?;
    matrix.invert()?;
    let slopes = matrix.slopes(wanted.expression, &weights)?;
    Ok(Sloped { pivots, weights, slopes })
}

#[cfg(test)]
mod tests;
