//! The signature quadratic form distance, with its own space: it has a fast path and a device form.

use std::sync::Arc;

use boxwork_kernels::distance::Properties;

use crate::space::{Space, SpaceError};
use crate::spaces::signature_space::signatures;
use crate::spaces::{Constants, Distance, DistanceOptions};
use crate::sqfd_space::SqfdSpace;
use crate::store::Store;

/// The distance of an [`SqfdSpace`].
#[derive(Debug)]
pub(in crate::spaces) struct Sqfd {
    /// The name.
    pub(in crate::spaces) name: &'static str,
}

/// Its only value.
pub(in crate::spaces) static SQFD: Sqfd = Sqfd { name: "sqfd" };

impl Distance for Sqfd {
    fn name(&self) -> &'static str {
        self.name
    }

    fn of(&self) -> &'static str {
        "signatures"
    }

    fn constants(&self) -> Constants {
        Constants::Similarity
    }

    fn properties(&self, options: &DistanceOptions) -> Result<Properties, String> {
        options.measure().map_err(|error| error.to_string())?;
        Ok(Properties::hilbert(self.name()))
    }

    fn open(
        &self,
        options: &DistanceOptions,
        _measure: String,
        store: Arc<dyn Store>,
    ) -> Result<Arc<dyn Space>, SpaceError> {
        let measure = options.measure().map_err(|error| SpaceError::Query(error.to_string()))?;
        Ok(Arc::new(SqfdSpace::new(signatures(self.name(), &store)?, measure)))
    }
}
