//! B2, wavefront: a square of cells, each computed after the cell above it and the cell to its left.
//!
//! A row is a box. It handles its cell j after the row above has sent cell j, and its cells in order; edges of one
//! envelope make each cell a firing.

use super::graph::{Graph, whole};
use super::rig::{Rig, Setup};
use super::{Case, Error, Figures, Measured, Workload, figures};

pub static WAVEFRONT: Workload = Workload {
    id: "B2",
    name: "wavefront",
    question: "How many tasks per second run if each waits for two others?",
    rounds_max: 11,
    cases: |is_quick| {
        let sizes: &[(usize, f64)] = if is_quick {
            &[(32, 0.0), (32, 10.0)]
        } else {
            &[(128, 0.0), (128, 1.0), (128, 10.0), (128, 100.0), (512, 0.0), (512, 1.0)]
        };
        sizes.iter().map(|(side, spin_us)| Case::new(&[("side", side), ("spin_us", spin_us)])).collect()
    },
    open,
};

struct Wavefront {
    rig: Rig,
    cells: u64,
    iterations: u64,
    workers: f64,
    ideal_s: f64,
}

fn open(setup: &Setup, case: &Case) -> Result<Box<dyn Measured<Error>>, Error> {
    let (side, spin_us) = (case.count("side")?, case.number("spin_us")?);
    let iterations = setup.spin.iterations(spin_us);
    let mut graph = Graph::new();
    graph.add("source", "source", &[("messages", whole(side))]);
    let mut before = "source".to_owned();
    for idx in 0..side {
        let name = format!("row{idx}");
        graph.stage(&name, whole(iterations), setup.spin);
        graph.edge(&before, &name, 1);
        before = name;
    }
    graph.add("end", "sink", &[]);
    graph.edge(&before, "end", 1);
    let (workers, cells) = (setup.workers() as f64, (side * side) as u64);
    // The longest path goes along one row and down one column.
    let tasks = (cells as f64 / workers).max(2.0 * side as f64 - 1.0);
    let ideal_s = tasks * spin_us / 1e6;
    Ok(Box::new(Wavefront { rig: Rig::new(setup, &graph)?, cells, iterations, workers, ideal_s }))
}

impl Measured<Error> for Wavefront {
    fn round(&mut self) -> Result<Figures, Error> {
        let seconds = self.rig.run()?.duration.as_secs_f64();
        self.rig.check_arrived(self.cells.isqrt())?;
        self.rig.check_tasks(self.cells, self.iterations)?;
        let cells = self.cells as f64;
        Ok(figures([
            ("tasks_per_s", cells / seconds),
            ("overhead_task_ns", (seconds - self.ideal_s) * self.workers * 1e9 / cells),
            ("efficiency", self.ideal_s / seconds),
        ]))
    }
}
