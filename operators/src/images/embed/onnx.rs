//! Small models in ONNX's format for tests, written field by field: a message of protocol buffers is a list of fields, each a key
//! (number and form) and a content.

/// The type of 32-bit floats.
pub const FLOAT: u64 = 1;

fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// A field that is a whole number.
fn number(field: u64, value: u64) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

/// A field that is a text, bytes or a message.
fn bytes(field: u64, content: impl AsRef<[u8]>) -> Vec<u8> {
    let content = content.as_ref();
    [varint(field << 3 | 2), varint(content.len() as u64), content.to_vec()].concat()
}

fn each<T: AsRef<[u8]>>(field: u64, contents: &[T]) -> Vec<u8> {
    contents.iter().flat_map(|content| bytes(field, content)).collect()
}

/// A node with attributes that are lists of whole numbers.
pub fn node(kind: &str, inputs: &[&str], output: &str, attributes: &[(&str, &[u64])]) -> Vec<u8> {
    const INTS: u64 = 7;
    let attributes: Vec<Vec<u8>> = attributes
        .iter()
        .map(|(name, values)| {
            let values: Vec<u8> = values.iter().flat_map(|value| number(8, *value)).collect();
            [bytes(1, name), values, number(20, INTS)].concat()
        })
        .collect();
    [
        each(1, inputs),
        bytes(2, output),
        bytes(3, format!("make_{output}")),
        bytes(4, kind),
        each(5, &attributes),
    ]
    .concat()
}

/// A constant of 32-bit floats.
pub fn tensor(name: &str, lengths: &[u64], numbers: &[f32]) -> Vec<u8> {
    let lengths: Vec<u8> = lengths.iter().flat_map(|length| number(1, *length)).collect();
    let raw: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    [lengths, number(2, FLOAT), bytes(8, name), bytes(9, raw)].concat()
}

/// An input or output; an axis of length 0 has a name instead.
pub fn value(name: &str, kind: u64, lengths: &[u64]) -> Vec<u8> {
    let axes: Vec<Vec<u8>> = lengths
        .iter()
        .map(|length| if *length == 0 { bytes(2, "batch") } else { number(1, *length) })
        .collect();
    let tensor = [number(1, kind), bytes(2, each(1, &axes))].concat();
    [bytes(1, name), bytes(2, bytes(1, tensor))].concat()
}

/// A model of these nodes, constants, inputs and outputs.
pub fn model(nodes: &[Vec<u8>], constants: &[Vec<u8>], inputs: &[Vec<u8>], outputs: &[Vec<u8>]) -> Vec<u8> {
    let graph =
        [each(1, nodes), bytes(2, "graph"), each(5, constants), each(11, inputs), each(12, outputs)].concat();
    [number(1, 8), bytes(7, graph), bytes(8, number(2, 13))].concat()
}

/// The kernels of [`edges`], and the side of one.
pub const KERNELS: usize = 5;
pub const SIDE: usize = 2;

/// The weights of [`edges`]: kernel, channel, row, column; and what is added for each kernel.
pub fn weights() -> (Vec<f32>, Vec<f32>) {
    let weight = |idx: usize| ((idx * 37 + 11) % 29) as f32 / 16.0 - 0.8;
    let weights = (0..KERNELS * 3 * SIDE * SIDE).map(weight).collect();
    (weights, (0..KERNELS).map(|kernel| kernel as f32 / 8.0 - 0.2).collect())
}

/// A convolution of squares that do not overlap, whose positive results are averaged: input `image`, outputs `features` (a vector)
/// and `map` (its inner result).
pub fn edges(input: &[u64]) -> Vec<u8> {
    let (weights, bias) = weights();
    let side = SIDE as u64;
    let nodes = [
        node(
            "Conv",
            &["image", "weights", "bias"],
            "folded",
            &[("kernel_shape", &[side, side]), ("strides", &[side, side])],
        ),
        node("Relu", &["folded"], "map", &[]),
        node("GlobalAveragePool", &["map"], "pooled", &[]),
        node("Flatten", &["pooled"], "features", &[]),
    ];
    let constants = [
        tensor("weights", &[KERNELS as u64, 3, side, side], &weights),
        tensor("bias", &[KERNELS as u64], &bias),
    ];
    let outputs =
        [value("features", FLOAT, &[0, KERNELS as u64]), value("map", FLOAT, &[0, KERNELS as u64, 0, 0])];
    model(&nodes, &constants, &[value("image", FLOAT, input)], &outputs)
}

/// The output of [`edges`] for an input of 3 channels of `size` rows and columns, in f64.
pub fn edges_of(numbers: &[f64], size: usize) -> Vec<f64> {
    let (weights, bias) = weights();
    let cells = size / SIDE;
    let feature = |kernel: usize| {
        let mut sum = 0.0;
        for (row, column) in (0..cells * cells).map(|cell| (cell / cells * SIDE, cell % cells * SIDE)) {
            let mut folded = f64::from(bias[kernel]);
            for channel in 0..3 {
                for (down, right) in (0..SIDE * SIDE).map(|place| (place / SIDE, place % SIDE)) {
                    let weight = weights[((kernel * 3 + channel) * SIDE + down) * SIDE + right];
                    folded +=
                        f64::from(weight) * numbers[(channel * size + row + down) * size + column + right];
                }
            }
            sum += folded.max(0.0);
        }
        sum / (cells * cells) as f64
    };
    (0..KERNELS).map(feature).collect()
}
