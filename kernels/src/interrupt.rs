//! Interruption of long work: the work asks a closure of its caller every few milliseconds whether to stop.
//!
//! Invariant: an [`Interrupt`] that never says stop changes no bit of a result.

use thiserror::Error;

/// Says whether to stop. Long work calls it every few milliseconds, so it may be an atomic load or a look at a clock.
pub type Interrupt<'a> = &'a dyn Fn() -> bool;

/// The caller's [`Interrupt`] said to stop, so there is no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the computation was interrupted")]
pub struct Interrupted;

/// The [`Interrupt`] of work that always runs to its end.
pub fn never() -> bool {
    false
}

/// Unwraps the result of work that was given [`never`].
pub(crate) fn finished<T>(result: Result<T, Interrupted>) -> T {
    result.unwrap_or_else(|Interrupted| unreachable!("`never` does not interrupt"))
}

/// An error if an [`Interrupt`] says stop, for `?`.
///
/// # Errors
/// If it says stop.
#[inline]
pub fn ask(interrupt: Interrupt<'_>) -> Result<(), Interrupted> {
    if interrupt() { Err(Interrupted) } else { Ok(()) }
}

/// Asks an [`Interrupt`] once for every so many units of work.
#[derive(Clone, Copy)]
pub struct Patience<'a> {
    interrupt: Interrupt<'a>,
    units_max: usize,
    units: usize,
}

impl<'a> Patience<'a> {
    /// Asks again after at most `units_max` units.
    pub fn new(interrupt: Interrupt<'a>, units_max: usize) -> Self {
        Self { interrupt, units_max, units: 0 }
    }

    /// Counts work that is about to be done; asks first when that makes more than `units_max` since the last question.
    ///
    /// # Errors
    /// If the interrupt says stop.
    #[inline(always)]
    pub fn spend(&mut self, units: usize) -> Result<(), Interrupted> {
        self.units = self.units.saturating_add(units);
        if self.units <= self.units_max { Ok(()) } else { self.ask(units) }
    }

    #[cold]
    fn ask(&mut self, units: usize) -> Result<(), Interrupted> {
        self.units = units;
        ask(self.interrupt)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_question_is_asked_for_each_full_measure_of_work() {
        let asked = Cell::new(0);
        let interrupt = || {
            asked.set(asked.get() + 1);
            asked.get() == 3
        };
        let mut patience = Patience::new(&interrupt, 10);
        let ends = (1..100).find(|_| patience.spend(4).is_err());
        // Two pieces fit; the third, fifth and seventh are asked about.
        assert_eq!((ends, asked.get()), (Some(7), 3));
        let mut patience = Patience::new(&never, 10);
        assert!((0..100).all(|_| patience.spend(1000).is_ok()));
    }
}
