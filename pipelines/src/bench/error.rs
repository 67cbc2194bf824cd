//! Why a workload gave no figures: the call was wrong, the system refused something, or what came out is wrong.

use std::io;
use std::path::PathBuf;

use boxwork_runtime::prepare::PrepareError;
use boxwork_runtime::request::RequestError;

/// Why a workload gave no figures.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("{0}")]
    Prepare(#[from] PrepareError),
    #[error("{0}")]
    Request(#[from] RequestError),
    #[error("the system refused a thread: {0}; try fewer --workers")]
    Threads(io::Error),
    #[error("{what}: {found} came out, and {wanted} is right: this is a bug of the runtime")]
    Wrong { what: &'static str, found: u64, wanted: u64 },
    #[error("`{name}={value}`: {wanted} is wanted")]
    Setting { name: &'static str, value: String, wanted: &'static str },
    #[error("no workload that was chosen has a setting `{name}`{near}")]
    NoSetting { name: String, near: String },
    #[error("{}: {cause}", .path.display())]
    File { path: PathBuf, cause: io::Error },
    #[error("the line cannot be read or written: {0}")]
    Line(io::Error),
    #[error("{what}: {cause}")]
    Within { what: String, cause: Box<Error> },
}

impl Error {
    /// Whether the call was wrong, and not the run.
    pub fn is_of_usage(&self) -> bool {
        match self {
            Self::Setting { .. } | Self::NoSetting { .. } => true,
            Self::Within { cause, .. } => cause.is_of_usage(),
            _ => false,
        }
    }

    pub(super) fn unless_equal(what: &'static str, found: u64, wanted: u64) -> Result<(), Self> {
        if found == wanted { Ok(()) } else { Err(Self::Wrong { what, found, wanted }) }
    }
}
