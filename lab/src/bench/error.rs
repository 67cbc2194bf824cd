//! Errors of a workload: a wrong call, a refusal by the system, or a wrong result.

use std::io;
use std::path::PathBuf;

use boxwork_runtime::prepare::PrepareError;
use boxwork_runtime::request::RequestError;

/// A workload gave no figures.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The workload's pipeline cannot be prepared.
    #[error("{0}")]
    Prepare(#[from] PrepareError),
    /// A request failed.
    #[error("{0}")]
    Request(#[from] RequestError),
    /// The runtime cannot start its threads.
    #[error("the system refused a thread: {0}; try fewer --workers")]
    Threads(io::Error),
    /// A workload computed a wrong result.
    #[error("{what}: the result is {found}, and {wanted} is right: this is a bug of the runtime")]
    Wrong {
        /// The quantity checked.
        what: &'static str,
        /// The number found.
        found: u64,
        /// The right number.
        wanted: u64,
    },
    /// A setting has a value that the workload cannot use.
    #[error("`{name}={value}`: {wanted} is wanted")]
    Setting {
        /// The setting.
        name: &'static str,
        /// Its value.
        value: String,
        /// The allowed values.
        wanted: &'static str,
    },
    /// No chosen workload has such a setting.
    #[error("no workload that was chosen has a setting `{name}`{near}")]
    NoSetting {
        /// The setting.
        name: String,
        /// A proposal, or nothing.
        near: String,
    },
    /// A file of the workload cannot be made or read.
    #[error("{}: {cause}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        cause: io::Error,
    },
    /// A line of a script cannot be read or answered.
    #[error("the line cannot be read or written: {0}")]
    Line(io::Error),
    /// An error within a case.
    #[error("{what}: {cause}")]
    Within {
        /// The workload and the case.
        what: String,
        /// The error.
        cause: Box<Error>,
    },
}

impl Error {
    /// Whether the arguments were wrong rather than the run.
    pub fn is_of_usage(&self) -> bool {
        match self {
            Self::Setting { .. } | Self::NoSetting { .. } => true,
            Self::Within { cause, .. } => cause.is_of_usage(),
            _ => false,
        }
    }

    /// Fails if a result is not the right one.
    ///
    /// # Errors
    /// When the numbers differ.
    pub fn unless_equal(what: &'static str, found: u64, wanted: u64) -> Result<(), Self> {
        if found == wanted { Ok(()) } else { Err(Self::Wrong { what, found, wanted }) }
    }
}
