//! What `auto` weighs: the cost of the ways to answer a query.

pub mod cost_model;
