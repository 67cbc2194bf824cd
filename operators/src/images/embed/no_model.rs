//! The place of the runtime of models in a build without the feature `embed`: a model cannot be loaded, and the error names the
//! build that can.

use std::path::Path;

use boxwork_runtime::operator::BoxError;

/// A model; there is none in this build.
pub(super) enum Model {}

impl Model {
    /// Refuses.
    ///
    /// # Errors
    /// Always: names the feature.
    pub(super) fn load(path: &Path, _: [usize; 4], _: Option<&str>) -> Result<Self, BoxError> {
        Err(BoxError::new(format!(
            "the model `{}` cannot be run: this program was built without models of ONNX; build it with \
             `cargo build --release --features embed`",
            path.display()
        )))
    }

    /// The checksum of the file.
    pub(super) fn checksum(&self) -> u32 {
        match *self {}
    }

    /// Numbers of a vector.
    pub(super) fn dimensions(&self) -> usize {
        match *self {}
    }

    /// The vector of a picture.
    pub(super) fn run(&self, _: &[f32]) -> Result<Vec<f32>, String> {
        match *self {}
    }
}

#[cfg(test)]
mod tests {
    use boxwork_runtime::harness::Harness;
    use boxwork_runtime::parameter::Value;

    use super::super::EMBED;

    #[test]
    fn a_build_without_models_names_the_one_that_has_them() {
        let model = ("model", Value::Text("photos.onnx".to_owned()));
        let message = Harness::new(&EMBED, [model]).err().unwrap().to_string();
        assert!(message.contains("photos.onnx") && message.contains("--features embed"), "{message}");
    }
}
