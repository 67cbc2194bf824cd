//! A picture as a row of an envelope.
//!
//! Invariant: an envelope of pictures has one row, since a picture may take hundreds of megabytes.

use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray, Float64Array, StringArray, UInt32Array};
use boxwork_kernels::denoise::{Picture, Samples};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::BoxError;

/// A picture with its name and what is known of its noise.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub name: String,
    pub picture: Picture,
    /// The deviation of the noise in grey levels, 0 if unknown.
    pub sigma: f64,
}

impl Row {
    /// A row of an envelope.
    ///
    /// # Errors
    /// Names the picture if its samples are none.
    pub fn read(envelope: &Envelope, row: usize) -> Result<Self, BoxError> {
        let number = |column: &str| -> Result<usize, BoxError> { Ok(envelope.u32s(column)?[row] as usize) };
        let name = envelope.texts("name")?.value(row).to_owned();
        let bytes = envelope.binaries("samples")?.value(row);
        let samples = match number("bits")? {
            8 => Samples::Bytes(bytes.to_vec()),
            16 => Samples::Words(bytes.chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]])).collect()),
            _ => Samples::Floats(
                bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect(),
            ),
        };
        let picture = Picture::new(number("width")?, number("height")?, number("channels")?, samples)
            .map_err(|error| BoxError::new(format!("{name}: {error}")))?;
        Ok(Self { name, picture, sigma: envelope.f64s("sigma")?[row] })
    }

    /// An envelope of this row.
    pub fn envelope(self) -> Result<Envelope, BoxError> {
        let [width, height, channels] =
            [self.picture.width(), self.picture.height(), self.picture.channels()].map(|x| x as u32);
        let (bits, bytes) = match self.picture.into_samples() {
            Samples::Bytes(samples) => (8, samples),
            Samples::Words(samples) => (16, samples.iter().flat_map(|sample| sample.to_le_bytes()).collect()),
            Samples::Floats(samples) => {
                (32, samples.iter().flat_map(|sample| sample.to_le_bytes()).collect())
            }
        };
        let number = |x: u32| -> ArrayRef { Arc::new(UInt32Array::from(vec![x])) };
        let columns: [(&str, ArrayRef); 7] = [
            ("name", Arc::new(StringArray::from(vec![self.name]))),
            ("width", number(width)),
            ("height", number(height)),
            ("channels", number(channels)),
            ("bits", number(bits)),
            ("samples", Arc::new(BinaryArray::from_iter_values([bytes]))),
            ("sigma", Arc::new(Float64Array::from(vec![self.sigma]))),
        ];
        Ok(Envelope::from_columns(columns)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_as_they_were() {
        let samples = [
            Samples::Bytes((0..24).collect()),
            Samples::Words((0..24).map(|x| x * 2731).collect()),
            Samples::Floats((0..24).map(|x| x as f32 / 3.0 - 1.0).collect()),
        ];
        for samples in samples {
            let row =
                Row { name: "a/b.png".into(), picture: Picture::new(3, 2, 4, samples).unwrap(), sigma: 2.5 };
            let envelope = row.clone().envelope().unwrap();
            assert_eq!(Row::read(&envelope, 0).unwrap(), row);
        }
    }
}
