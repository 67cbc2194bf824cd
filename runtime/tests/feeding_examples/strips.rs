//! Strips of an image: each block filters some rows of three colours, and gets the rows above and below that it needs.

use std::ops::Range;
use std::sync::Arc;

use boxwork_runtime::feeding::faults::has_device;
use boxwork_runtime::feeding::{
    Argument, Back, Block, DeviceError, Devices, Feed, Grid, KernelSpec, ProgramSource, Value,
};

use super::{Random, Station, on_all_devices};

const WIDTH: usize = 53;
const HEIGHT: usize = 41;
const COLOURS: usize = 3;
/// Rows of a strip; the last strip may have fewer.
const STRIP: usize = 12;
/// The filter's radius in pixels.
const RADIUS: usize = 2;

const TEXT: &str = "\
#pragma OPENCL FP_CONTRACT OFF
// The weighted mean of a square around each pixel; pixels beyond the image count as those at its border. `rows` has `height`
// rows for each colour, of which those from `first` on are filtered.
__kernel void blur(__global const float *rows, __constant float *weights, uint width, uint height, uint first,
                   uint count, __global float *blurred) {
    const int column = get_global_id(0);
    const int row = get_global_id(1);
    const uint colour = get_global_id(2);
    if (column >= (int)width || row >= (int)count) return;
    __global const float *plane = rows + colour * width * height;
    float sum = 0.0f;
    for (int y = -RADIUS; y <= RADIUS; ++y) {
        const int at = clamp(row + (int)first + y, 0, (int)height - 1);
        for (int x = -RADIUS; x <= RADIUS; ++x) {
            const float weight = weights[(y + RADIUS) * (2 * RADIUS + 1) + x + RADIUS];
            sum += weight * plane[at * width + clamp(column + x, 0, (int)width - 1)];
        }
    }
    blurred[(colour * count + row) * width + column] = sum;
}
";

fn program() -> ProgramSource {
    const KERNELS: &[KernelSpec] = &[KernelSpec {
        name: "blur",
        arguments: &[
            ("rows", Argument::Buffer),
            ("weights", Argument::Buffer),
            ("width", Argument::Value(4)),
            ("height", Argument::Value(4)),
            ("first", Argument::Value(4)),
            ("count", Argument::Value(4)),
            ("blurred", Argument::Buffer),
        ],
    }];
    let constants = vec![("RADIUS", RADIUS.to_string())];
    ProgramSource { name: "strips", text: TEXT, constants, kernels: KERNELS, exact: true }
}

fn weights() -> Vec<f32> {
    let side = 2 * RADIUS + 1;
    (0..side * side).map(|at| 1.0 / (1.0 + at as f32)).collect()
}

/// By colour, row by row.
struct Image(Vec<f32>);

impl Image {
    fn new() -> Self {
        let mut random = Random(4);
        Self((0..COLOURS * WIDTH * HEIGHT).map(|_| random.number() as f32).collect())
    }

    /// Rows of one colour.
    fn rows(&self, colour: usize, rows: Range<usize>) -> &[f32] {
        &self.0[(colour * HEIGHT + rows.start) * WIDTH..(colour * HEIGHT + rows.end) * WIDTH]
    }

    /// These rows filtered by plain code, all colours.
    fn blurred(&self, rows: Range<usize>) -> Vec<f32> {
        let weights = weights();
        let clamped = |at: usize, by: usize, most: usize| (at + by).saturating_sub(RADIUS).min(most - 1);
        let pixel = |colour: usize, row: usize, column: usize| {
            let plane = self.rows(colour, 0..HEIGHT);
            weights.iter().enumerate().fold(0.0, |sum, (at, weight)| {
                let (y, x) = (at / (2 * RADIUS + 1), at % (2 * RADIUS + 1));
                sum + weight * plane[clamped(row, y, HEIGHT) * WIDTH + clamped(column, x, WIDTH)]
            })
        };
        let colours = (0..COLOURS).flat_map(|colour| rows.clone().map(move |row| (colour, row)));
        colours.flat_map(|(colour, row)| (0..WIDTH).map(move |column| pixel(colour, row, column))).collect()
    }
}

struct Strip {
    image: Arc<Image>,
    rows: Range<usize>,
    blurred: Vec<f32>,
}

impl Block for Strip {
    fn size(&self) -> u64 {
        (self.rows.len() * WIDTH) as u64
    }

    fn feed(&mut self, feed: &mut Feed<'_>) -> Result<(), DeviceError> {
        let Self { image, rows, .. } = self;
        let halo = rows.start.saturating_sub(RADIUS)..(rows.end + RADIUS).min(HEIGHT);
        let plane = halo.len() * WIDTH;
        // A part for each colour.
        feed.write_in_parts("rows", COLOURS * plane, plane, |colour, to: &mut [f32]| {
            to.copy_from_slice(image.rows(colour, halo.clone()));
            Ok(())
        })?;
        let weights = weights();
        feed.replicated("weights", 1, weights.len(), |to: &mut [f32]| {
            to.copy_from_slice(&weights);
            Ok(())
        })?;
        feed.output::<f32>("blurred", COLOURS * rows.len() * WIDTH)?;
        let values = [
            ("width", Value::of(WIDTH as u32)),
            ("height", Value::of(halo.len() as u32)),
            ("first", Value::of((rows.start - halo.start) as u32)),
            ("count", Value::of(rows.len() as u32)),
        ];
        let grid = Grid::covering([WIDTH, rows.len(), COLOURS], [16, 4, 1]);
        feed.launch(&program(), "blur", grid, &values)?;
        feed.read::<f32>("blurred", COLOURS * rows.len() * WIDTH)
    }

    fn collect(&mut self, back: &Back<'_>) {
        self.blurred = back.numbers("blurred").to_vec();
    }
}

#[test]
fn strips_of_an_image_are_filtered_with_their_neighbours_rows() {
    if !has_device("strips_of_an_image_are_filtered_with_their_neighbours_rows") {
        return;
    }
    let image = Arc::new(Image::new());
    on_all_devices(|devices: &Arc<Devices>, works| {
        let mut station = Station::new(devices);
        for first in (0..HEIGHT).step_by(STRIP) {
            let rows = first..HEIGHT.min(first + STRIP);
            station.submit(Strip { image: Arc::clone(&image), rows, blurred: Vec::new() });
        }
        let strips = station.take_all();
        assert_eq!(strips.iter().map(|(strip, _)| strip.rows.len()).sum::<usize>(), HEIGHT);
        for (strip, result) in strips {
            match result {
                Ok(()) => assert_eq!(strip.blurred, image.blurred(strip.rows)),
                // The slots compute it.
                Err(error) => assert!(!works && error.is_of_device(), "{error}"),
            }
        }
    });
}
