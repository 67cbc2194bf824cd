//! `boxwork top`: readings of a run become rates, rates become tables, and tables fit any terminal or pipe.
//!
//! Only `session` touches the terminal; all else are functions of readings and keys. Decision 064 names the rivals of the
//! library that draws.

mod reading;
mod figures;
mod table;
mod plain;
mod view;
mod screen;
mod session;

pub use figures::Figures;
pub use plain::text;
pub use reading::Reading;
pub use session::{show, width_of_output};
pub use view::View;
