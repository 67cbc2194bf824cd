//! Tiles on edges, one an envelope, and the matrix that they are tiles of.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{ArrayRef, Float64Array, ListArray, UInt32Array};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field};
use boxwork_kernels::chance::Random;
use boxwork_kernels::covariance::{Expression, Points, Scratch};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{Bind, BoxError};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};

/// The dimensions of the points.
const DIMENSIONS: usize = 4;

/// The parameters of the matrix: the same for the box that makes it and the box that checks its factor.
pub(super) const MATRIX: [Parameter; 4] = [
    Parameter::new(
        "rows",
        ParameterType::integer_within(1, 1 << 17),
        Default::Integer(512),
        "the rows of the matrix",
    ),
    Parameter::new(
        "tile",
        ParameterType::integer_within(1, 4096),
        Default::Integer(64),
        "the rows of a tile",
    ),
    Parameter::new(
        "kernel",
        ParameterType::Text,
        Default::Text("rbf() + white(0.1)"),
        "the covariance of two points, as of gp_fit_samples",
    ),
    Parameter::new("seed", ParameterType::integer_from(0), Default::Integer(1), "the seed of the points"),
];

/// A matrix of covariances of random points, of which tiles are made when they are asked for.
pub(super) struct Matrix {
    pub(super) points: Points,
    pub(super) expression: Expression,
    pub(super) size: usize,
}

impl Matrix {
    pub(super) fn new(bind: &Bind<'_>) -> Result<Self, BoxError> {
        let expression: Expression =
            bind.text("kernel").parse().map_err(|error| BoxError::new(format!("{error}")))?;
        if let Some(lengths) = expression.dimensions().filter(|count| *count != DIMENSIONS) {
            return Err(BoxError::new(format!(
                "the kernel has lists of {lengths}, and the points have {DIMENSIONS} dimensions: give one number for all, or \
                 {DIMENSIONS}"
            )));
        }
        Ok(Self::of(expression, bind.count("rows"), bind.count("tile"), u64::try_from(bind.integer("seed"))?))
    }

    pub(super) fn of(expression: Expression, rows: usize, size: usize, seed: u64) -> Self {
        let mut random = Random::mixed(seed);
        let numbers: Vec<f64> = (0..DIMENSIONS * rows).map(|_| 4.0 * random.unit()).collect();
        Self { points: Points::of_rows(DIMENSIONS, &numbers), expression, size }
    }

    /// The rows of tiles.
    pub(super) fn tile_rows(&self) -> usize {
        self.points.len().div_ceil(self.size)
    }

    /// One entry.
    pub(super) fn entry(&self, row: usize, column: usize) -> f64 {
        let (mut entry, with) = ([0.0], self.points.point(column));
        let of = (&self.points, row..row + 1);
        self.expression.column(of, &with, Some(column), &mut Scratch::default(), &mut entry);
        entry[0]
    }

    /// Tile (i, j), filled up with rows of the identity.
    pub(super) fn tile(&self, i: usize, j: usize) -> Vec<f64> {
        let size = self.size;
        let mut tile = vec![0.0; size * size];
        self.expression.tile(&self.points, size, (i, j), 0.0, &mut tile);
        if i == j {
            let filled = self.points.len().saturating_sub(i * size).min(size);
            (filled..size).for_each(|row| tile[row * size + row] = 1.0);
        }
        tile
    }
}

/// The entries, by row and column, of the matrix of so many rows that `covariance_tiles` makes with its other parameters by
/// default.
///
/// # Panics
/// When there is no row.
pub fn default_entries(rows: usize) -> impl Fn(usize, usize) -> f64 {
    let default =
        |name: &str| MATRIX.iter().find(|parameter| parameter.name == name).map(|found| &found.default);
    let (Some(Default::Text(kernel)), Some(Default::Integer(seed))) = (default("kernel"), default("seed"))
    else {
        unreachable!("both have a default")
    };
    let expression = kernel.parse().expect("the default is a covariance");
    let matrix = Matrix::of(expression, rows, 1, seed.unsigned_abs());
    move |row, column| matrix.entry(row, column)
}

/// The envelope of a tile. Its numbers are not copied.
pub(super) fn envelope(i: usize, j: usize, numbers: Vec<f64>) -> Result<Envelope, BoxError> {
    let offsets = OffsetBuffer::<i32>::from_lengths([numbers.len()]);
    let values = Float64Array::new(ScalarBuffer::from(numbers), None);
    let item = Arc::new(Field::new("item", DataType::Float64, false));
    let number = |at: usize| Ok::<ArrayRef, BoxError>(Arc::new(UInt32Array::from(vec![u32::try_from(at)?])));
    let columns: [(&str, ArrayRef); 3] = [
        ("i", number(i)?),
        ("j", number(j)?),
        ("numbers", Arc::new(ListArray::new(item, offsets, Arc::new(values), None))),
    ];
    Ok(Envelope::from_columns(columns)?)
}

/// A tile of an envelope.
pub(super) struct Tile {
    pub(super) i: usize,
    pub(super) j: usize,
    pub(super) numbers: ScalarBuffer<f64>,
    /// The rows of the tile.
    pub(super) size: usize,
}

impl Tile {
    pub(super) fn of(envelope: &Envelope) -> Result<Self, BoxError> {
        let (i, j, lists) = (envelope.u32s("i")?, envelope.u32s("j")?, envelope.lists("numbers")?);
        let (1, [i], [j]) = (envelope.rows(), i, j) else {
            return Err(BoxError::new(format!("an envelope has {} tiles: each has one", envelope.rows())));
        };
        let numbers = lists.value(0).as_primitive::<Float64Type>().values().clone();
        let size = numbers.len().isqrt();
        if size == 0 || size * size != numbers.len() {
            return Err(BoxError::new(format!(
                "tile ({i}, {j}) has {} numbers: tiles are square",
                numbers.len()
            )));
        }
        Ok(Self { i: *i as usize, j: *j as usize, numbers, size })
    }
}
