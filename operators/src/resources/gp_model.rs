//! `gp_model`: a Gaussian process that was fitted to samples.

use std::sync::{Arc, OnceLock};

use boxwork_kernels::cholesky::TiledMatrix;
use boxwork_kernels::gaussian_process::Predictor;
use boxwork_runtime::operator::{Bind, BoxError, Resource, ResourceSpec};
use boxwork_runtime::parameter::{Default, Parameter, ParameterType};
use boxwork_stores::gp_model::SavedModel;
use boxwork_stores::new_number;

/// A model, read and checked once and shared by requests as [`GpModel`].
pub(crate) static GP_MODEL: ResourceSpec = ResourceSpec {
    name: "gp_model",
    about: "A Gaussian process fitted to samples, from `boxwork gp fit`.",
    parameters: &[Parameter::new("path", ParameterType::Path, Default::Required, "the `*.gp.arrow` file")],
    example: "model: {kind: gp_model, path: hill.gp.arrow}",
    provides: None,
    check: None,
    load,
};

/// A model, and its factor by tiles once a prediction needs it.
pub(crate) struct GpModel {
    pub(crate) saved: SavedModel,
    tiles: OnceLock<TiledMatrix>,
    /// The number by which devices know its parts.
    pub(crate) number: u64,
    pub(crate) path: String,
}

impl GpModel {
    /// The model of a file.
    pub(crate) fn of(saved: SavedModel, path: String) -> Self {
        Self { saved, tiles: OnceLock::new(), number: new_number(), path }
    }

    /// The factor by tiles.
    ///
    /// # Errors
    /// When the model was written without it.
    pub(crate) fn factor(&self) -> Result<&TiledMatrix, BoxError> {
        let model = &self.saved.regression;
        if !model.has_factor() {
            return Err(BoxError::new(format!(
                "`{}` was written without its factor, so it has no deviations and takes no samples: fit it with \
                 `keep: factor`, or predict with `deviation: false`",
                self.path
            )));
        }
        Ok(self.tiles.get_or_init(|| Predictor::tiles(model)))
    }
}

fn load(bind: &Bind<'_>) -> Result<Resource, BoxError> {
    let path = bind.path("path");
    let saved = SavedModel::open(&path)?;
    Ok(Arc::new(GpModel::of(saved, path.display().to_string())))
}

/// The parameter of boxes that use a model.
pub(crate) const MODEL: Parameter =
    Parameter::new("model", ParameterType::Resource("gp_model"), Default::Required, "the fitted process");

/// The model that a box names.
pub(crate) fn model(bind: &Bind<'_>) -> Result<Arc<GpModel>, BoxError> {
    bind.resource("model")
}
