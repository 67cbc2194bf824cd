//! The message of a caught panic.

use std::any::Any;

/// The text of a panic.
pub(crate) fn panic_message(cause: &(dyn Any + Send)) -> String {
    if let Some(text) = cause.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = cause.downcast_ref::<String>() {
        text.clone()
    } else {
        "with a value that is not text".to_owned()
    }
}
