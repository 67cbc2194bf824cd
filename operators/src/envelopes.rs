//! Envelopes of a result that is large: slots make some of them side by side, then these leave.
//!
//! Invariant: envelopes leave in their order, and few are made before they can leave.

use std::collections::VecDeque;
use std::ops::Range;

use boxwork_runtime::envelope::{Envelope, EnvelopeError};
use boxwork_runtime::operator::{BoxError, Context, Out, Pushed};

/// Envelopes that are made before the first of them leaves.
const MADE_AT_ONCE: usize = 64;

/// The envelopes of a result on their way out.
#[derive(Default)]
pub(crate) struct Envelopes {
    /// Envelopes that were made.
    next: usize,
    made: VecDeque<Envelope>,
}

impl Envelopes {
    /// Sends what there is room for, of so many envelopes in all; nothing is returned while some are left.
    ///
    /// # Errors
    /// As [`Context::push`], and those of `make`.
    pub(crate) fn send(
        &mut self,
        cx: &mut Context<'_>,
        output: Out,
        count: usize,
        make: impl Fn(usize) -> Result<Envelope, EnvelopeError> + Sync,
    ) -> Result<Option<Pushed>, BoxError> {
        loop {
            if self.made.is_empty() {
                if self.next == count {
                    return Ok(Some(Pushed::Sent));
                }
                self.make(cx, count, &make)?;
            }
            if !cx.has_room(output) {
                return Ok(None);
            }
            if let Some(envelope) = self.made.pop_front()
                && cx.push(output, envelope)? == Pushed::Closed
            {
                return Ok(Some(Pushed::Closed));
            }
        }
    }

    /// As [`Envelopes::send`], for so many rows, of which an envelope has at most so many; `make` makes one of some rows.
    ///
    /// # Errors
    /// As [`Envelopes::send`].
    pub(crate) fn send_rows(
        &mut self,
        cx: &mut Context<'_>,
        output: Out,
        (rows, at_once): (usize, usize),
        make: impl Fn(Range<usize>) -> Result<Envelope, EnvelopeError> + Sync,
    ) -> Result<Option<Pushed>, BoxError> {
        self.send(cx, output, rows.div_ceil(at_once), |place| {
            make(place * at_once..rows.min((place + 1) * at_once))
        })
    }

    /// Makes the next envelopes.
    fn make(
        &mut self,
        cx: &mut Context<'_>,
        count: usize,
        make: &(impl Fn(usize) -> Result<Envelope, EnvelopeError> + Sync),
    ) -> Result<(), EnvelopeError> {
        let end = count.min(self.next + MADE_AT_ONCE);
        let mut made: Vec<Option<_>> = (self.next..end).map(|_| None).collect();
        let first = self.next;
        cx.inside(|inside| {
            inside.for_each_chunk_of(&mut made, 1, |place, made| made[0] = Some(make(first + place)));
        });
        for envelope in made {
            self.made.extend(envelope.transpose()?);
        }
        self.next = end;
        Ok(())
    }
}
