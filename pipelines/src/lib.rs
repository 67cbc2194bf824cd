//! The YAML front end.
