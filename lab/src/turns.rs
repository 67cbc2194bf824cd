//! Measuring round by round: cases take turns, so that a disturbance of the machine affects all of them equally.

/// The figures of one round by name; a name ends with its unit. The first figure is the answer.
pub type Figures = Vec<(String, f64)>;

/// The figures of several rounds: for each name, one figure per round.
pub type Rounds = Vec<(String, Vec<f64>)>;

/// A case that is set up and ready to be measured.
pub trait Measured<E> {
    /// Measures once and checks the result.
    ///
    /// # Errors
    /// When the case fails or its result is wrong.
    fn round(&mut self) -> Result<Figures, E>;
}

/// Measures all cases in each of `warmup + rounds` rounds; the first `warmup` rounds do not count.
///
/// # Errors
/// The first error, with the index of its case.
pub fn take_turns<E>(
    cases: &mut [Box<dyn Measured<E>>],
    warmup: usize,
    rounds: usize,
) -> Result<Vec<Rounds>, (usize, E)> {
    let mut measured: Vec<Rounds> = vec![Rounds::new(); cases.len()];
    for round in 0..warmup + rounds {
        // Each round starts with another case, so that no two cases always run in one order.
        let count = cases.len();
        for idx in (0..count).map(|idx| (idx + round) % count) {
            let figures = cases[idx].round().map_err(|error| (idx, error))?;
            if round >= warmup {
                figures.into_iter().for_each(|figure| add(&mut measured[idx], figure));
            }
        }
    }
    Ok(measured)
}

fn add(rounds: &mut Rounds, (name, figure): (String, f64)) {
    match rounds.iter_mut().find(|(known, _)| *known == name) {
        Some((_, figures)) => figures.push(figure),
        None => rounds.push((name, vec![figure])),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    struct Noted(usize, Rc<RefCell<Vec<usize>>>);

    impl Measured<()> for Noted {
        fn round(&mut self) -> Result<Figures, ()> {
            self.1.borrow_mut().push(self.0);
            Ok(vec![("calls".to_owned(), self.1.borrow().len() as f64)])
        }
    }

    #[test]
    fn cases_take_turns_and_warmup_rounds_do_not_count() {
        let calls = Rc::default();
        let mut cases: Vec<Box<dyn Measured<()>>> =
            (0..2).map(|idx| Box::new(Noted(idx, Rc::clone(&calls))) as _).collect();
        let measured = take_turns(&mut cases, 1, 2).expect("no case fails");
        assert_eq!(*calls.borrow(), [0, 1, 1, 0, 0, 1]);
        assert_eq!(measured[0], [("calls".to_owned(), vec![4.0, 5.0])]);
        assert_eq!(measured[1], [("calls".to_owned(), vec![3.0, 6.0])]);
    }
}
