//! Placeholder until the first module lands.

pub mod extract;

pub mod similarity;

pub mod sqfd;

pub mod quality;
