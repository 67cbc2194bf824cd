//! The services of the scheduler for a firing: the virtual part of a box's context.

use std::sync::Arc;

use super::{Model, NewTasks};
use crate::inside::{Inside, Lane};
use crate::operator::{Cancelled, Outside, Ports, Problem, Services};
use crate::sync::add;

/// The services of a scheduler for a box that blocks. This trait keeps the model free of the scheduler.
pub(crate) trait Detacher: Lane {
    /// The node of the slot that the firing holds.
    fn node(&self) -> usize;

    /// Plans the tasks made so far, gives the slot away, waits for a permit, runs the closure and attaches again.
    fn detached(
        &mut self,
        model: &Arc<Model>,
        cell: usize,
        class: &str,
        new_tasks: &mut NewTasks,
        f: &mut dyn FnMut(),
    ) -> Result<(), Cancelled>;

    /// Plans the tasks made so far for other slots; the calling thread continues its firing.
    fn plan(&mut self, model: &Arc<Model>, new_tasks: &mut NewTasks);

    /// Takes a token for work that the box begins outside of its firings. When the work ends, the token moves to the
    /// box's next task.
    fn outside(&mut self, model: &Arc<Model>, cell: usize) -> Outside;
}

/// The services of one firing.
pub(super) struct FiringServices<'a> {
    pub(super) model: &'a Arc<Model>,
    pub(super) cell_idx: usize,
    pub(super) detacher: &'a mut dyn Detacher,
    pub(super) new_tasks: &'a mut NewTasks,
}

impl FiringServices<'_> {
    /// Notifies the consumers of pushed envelopes, and the producers of room on edges that the box took from.
    fn notify_all(&mut self, ports: &mut Ports<'_>) {
        self.model.notify_of(self.cell_idx, ports.parts(), self.new_tasks);
        if ports.firing().took() && self.model.boxes[self.cell_idx].state.take_wanted() {
            self.model.notify_of_room(self.cell_idx, self.new_tasks);
        }
    }
}

impl Services for FiringServices<'_> {
    fn announce(&mut self, ports: &mut Ports<'_>) {
        self.notify_all(ports);
        if !self.new_tasks.is_empty() {
            self.detacher.plan(self.model, self.new_tasks);
        }
    }

    fn detached(&mut self, ports: &mut Ports<'_>, class: &str, f: &mut dyn FnMut()) -> Result<(), Cancelled> {
        if self.model.is_stopping() {
            return Err(Cancelled);
        }
        // The closure may take long, and neither consumers nor producers must wait for it.
        self.notify_all(ports);
        let begun_ns = self.model.now_ns();
        let result = self.detacher.detached(self.model, self.cell_idx, class, self.new_tasks, f);
        ports.continue_on(self.detacher.node());
        let blocked_ns = &self.model.boxes[self.cell_idx].counters.blocked_ns;
        add(blocked_ns, self.model.now_ns().saturating_sub(begun_ns));
        result
    }

    fn outside(&mut self) -> Outside {
        self.detacher.outside(self.model, self.cell_idx)
    }

    fn inside(&mut self, ports: &mut Ports<'_>, f: &mut dyn FnMut(&mut Inside<'_>)) {
        self.model.notify_of(self.cell_idx, ports.parts(), self.new_tasks);
        f(&mut Inside::new(Some(self.detacher), &self.model.stopping));
    }

    fn report(&mut self, problem: Problem) {
        self.model.report(problem);
    }

    fn note(&mut self, note: String) {
        self.model.note(note);
    }
}
