//! What the server says to the person who runs it, one line each. The library itself prints nothing.

use std::fmt;
use std::sync::Arc;

/// Takes the lines. Clones share one destination.
#[derive(Clone)]
pub struct Log(Arc<dyn Fn(&str) + Send + Sync>);

impl Log {
    /// Gives lines to this function.
    pub fn to(say: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(say))
    }

    /// Drops the lines.
    pub fn none() -> Self {
        Self::to(|_| {})
    }

    /// Says a line.
    pub fn say(&self, line: fmt::Arguments<'_>) {
        (self.0)(&line.to_string());
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").finish_non_exhaustive()
    }
}
