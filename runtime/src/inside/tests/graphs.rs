//! Graphs on lanes of threads that steal, and without a lane.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;
use crate::sync::{AtomicUsize, Mutex};

/// A graph given by its edges, which records its runs.
#[derive(Debug, Default)]
struct Listed {
    successors: Vec<Vec<usize>>,
    predecessors: Vec<Vec<usize>>,
    priorities: Vec<u32>,
    /// How often each task has run.
    runs: Vec<AtomicUsize>,
    /// The tasks in the order in which they began.
    order: Mutex<Vec<usize>>,
    fault: Option<(usize, Fault)>,
    cancels: AtomicBool,
}

/// The event in a task.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    Error,
    Panic,
    Cancel,
}

impl Listed {
    fn new(tasks: usize, edges: &[(usize, usize)]) -> Self {
        let mut graph = Self::default();
        graph.successors.resize(tasks, Vec::new());
        graph.predecessors.resize(tasks, Vec::new());
        graph.runs.resize_with(tasks, AtomicUsize::default);
        for (from, to) in edges {
            graph.successors[*from].push(*to);
            graph.predecessors[*to].push(*from);
        }
        graph
    }

    fn ran(&self) -> Vec<usize> {
        self.runs.iter().map(|runs| runs.load(Ordering::Relaxed)).collect()
    }
}

impl TaskGraph for Listed {
    type Error = &'static str;

    fn tasks(&self) -> usize {
        self.runs.len()
    }

    fn predecessors(&self, task: usize) -> u32 {
        self.predecessors[task].len() as u32
    }

    fn successors(&self, task: usize, each: impl FnMut(usize)) {
        self.successors[task].iter().copied().for_each(each);
    }

    fn priority(&self, task: usize) -> u32 {
        self.priorities.get(task).copied().unwrap_or(0)
    }

    fn run(&self, task: usize, inside: &mut Inside<'_>) -> Result<(), Self::Error> {
        self.order.lock().push(task);
        for before in &self.predecessors[task] {
            let ran = self.runs[*before].load(Ordering::Relaxed);
            assert_eq!(ran, 1, "task {task} began before task {before} had ended");
        }
        if task.is_multiple_of(5) {
            let parts = AtomicUsize::new(0);
            inside.for_each_chunk(3, 1, |_| _ = parts.fetch_add(1, Ordering::Relaxed));
            assert_eq!(parts.into_inner(), 3, "a task's own branches");
        }
        self.runs[task].fetch_add(1, Ordering::Relaxed);
        match self.fault.filter(|(at, _)| *at == task) {
            Some((_, Fault::Error)) => Err("a task that fails"),
            Some((_, Fault::Panic)) => panic!("a task that panics"),
            Some((_, Fault::Cancel)) => {
                self.cancels.store(true, Ordering::Relaxed);
                Ok(())
            }
            None => Ok(()),
        }
    }
}

const DIAMOND: [(usize, usize); 4] = [(0, 1), (0, 2), (1, 3), (2, 3)];

#[test]
fn each_task_runs_once_after_its_predecessors() {
    everywhere(|inside| {
        for (tasks, edges) in [(0, &[][..]), (1, &[]), (4, &DIAMOND), (9, &DIAMOND), (2, &[(1, 0), (1, 0)])] {
            let graph = Listed::new(tasks, edges);
            inside.graph(&graph).unwrap();
            assert_eq!(graph.ran(), vec![1; tasks]);
        }
    });
}

#[test]
fn the_ready_task_of_the_highest_priority_runs_first() {
    // Task 0 makes 1 to 5 ready; 6 is ready from the start.
    let edges: Vec<_> = (1..6).map(|task| (0, task)).collect();
    let mut graph = Listed::new(7, &edges);
    graph.priorities = vec![9, 1, 5, 3, 5, 2, 4];
    Inside::new(None, &AtomicBool::new(false)).graph(&graph).unwrap();
    assert_eq!(graph.order.into_inner(), [0, 2, 4, 6, 3, 5, 1]);
}

#[test]
fn a_cycle_is_an_error_that_names_a_task_of_it() {
    everywhere(|inside| {
        let graph = Listed::new(6, &[(0, 1), (1, 2), (2, 3), (3, 2), (3, 5)]);
        let error = inside.graph(&graph).unwrap_err();
        assert_eq!(error, GraphError::Stuck { left: 3, tasks: 6, first: 2 });
        assert_eq!(graph.ran(), [1, 1, 0, 0, 1, 0]);
        let said = error.to_string();
        assert!(said.starts_with("3 of 6 tasks never became ready, task 2 the first"), "{said}");
        // A task that waits for itself is the only task.
        let alone = inside.graph(&Listed::new(1, &[(0, 0)])).unwrap_err();
        assert_eq!(alone, GraphError::Stuck { left: 1, tasks: 1, first: 0 });
    });
}

/// A graph whose description contradicts itself.
struct Wrong(usize, usize);

impl TaskGraph for Wrong {
    type Error = ();

    fn tasks(&self) -> usize {
        self.0
    }

    fn predecessors(&self, _: usize) -> u32 {
        0
    }

    fn successors(&self, _: usize, mut each: impl FnMut(usize)) {
        each(self.1);
    }

    fn run(&self, _: usize, _: &mut Inside<'_>) -> Result<(), ()> {
        Ok(())
    }
}

#[test]
fn a_description_that_contradicts_itself_panics_with_the_tasks() {
    everywhere(|inside| {
        for (graph, part) in
            [(Wrong(2, 2), "names task 2 as a successor"), (Wrong(2, 1), "fewer predecessors")]
        {
            let caught = catch_unwind(AssertUnwindSafe(|| inside.graph(&graph)));
            let message = *caught.unwrap_err().downcast::<String>().unwrap();
            assert!(message.contains(part), "{message}");
        }
    });
}

#[test]
fn a_cancelled_request_runs_no_task() {
    let stopping = AtomicBool::new(true);
    for stolen_of in [usize::MAX, 1] {
        let graph = Listed::new(4, &DIAMOND);
        let mut lane = Thieving::new(stolen_of);
        let ended = Inside::new(Some(&mut lane), &stopping).graph(&graph);
        assert_eq!((ended, graph.ran()), (Err(GraphError::Cancelled), vec![0; 4]));
        // Nothing is left to cancel in an empty graph.
        assert_eq!(Inside::new(None, &stopping).graph(&Listed::new(0, &[])), Ok(()));
    }
}

#[test]
fn a_graph_within_a_task_of_a_graph_ends_before_its_task() {
    struct Outer<'a>(&'a [Listed]);
    impl TaskGraph for Outer<'_> {
        type Error = GraphError<&'static str>;

        fn tasks(&self) -> usize {
            self.0.len()
        }

        fn predecessors(&self, task: usize) -> u32 {
            u32::from(task > 0)
        }

        fn successors(&self, task: usize, mut each: impl FnMut(usize)) {
            // Task 0 comes before all others.
            (1..self.0.len()).filter(|_| task == 0).for_each(&mut each);
        }

        fn run(&self, task: usize, inside: &mut Inside<'_>) -> Result<(), Self::Error> {
            inside.graph(&self.0[task])?;
            assert_eq!(self.0[task].ran(), [1; 4]);
            Ok(())
        }
    }
    everywhere(|inside| {
        let graphs: Vec<_> = (0..6).map(|_| Listed::new(4, &DIAMOND)).collect();
        inside.graph(&Outer(&graphs)).unwrap();
    });
}

fn random_graph() -> impl Strategy<Value = Listed> {
    let fault = prop_oneof![Just(Fault::Error), Just(Fault::Panic), Just(Fault::Cancel)];
    let most = if cfg!(miri) { 8 } else { 60 };
    (1..=most, prop::collection::vec((any::<u16>(), any::<u16>(), any::<u32>()), 0..3 * most))
        .prop_flat_map(move |(tasks, picks)| {
            let fault = prop::option::of((0..tasks, fault.clone()));
            (Just(tasks), Just(picks), fault)
        })
        .prop_map(|(tasks, picks, fault)| {
            let place = |pick: u16| usize::from(pick) % tasks;
            let edges = picks.iter().map(|(a, b, _)| (place(*a), place(*b))).filter(|(a, b)| a != b);
            // Odd numbers come before even ones, so that the order of the numbers says nothing.
            let rank = |task: usize| (task.is_multiple_of(2), task);
            let edges: Vec<_> = edges.map(|(a, b)| if rank(a) < rank(b) { (a, b) } else { (b, a) }).collect();
            let mut graph = Listed::new(tasks, &edges);
            graph.priorities = picks.iter().map(|(_, _, priority)| priority % 4).collect();
            graph.fault = fault;
            graph
        })
}

/// Runs a random graph and checks its runs and its result.
fn check(graph: Listed, stolen_of: usize) {
    let mut lane = Thieving::new(stolen_of);
    // The fault of a cancel sets the flag of the graph, which is that of the request.
    let ended = catch_unwind(AssertUnwindSafe(|| Inside::new(Some(&mut lane), &graph.cancels).graph(&graph)));
    let ran = graph.ran();
    assert!(ran.iter().all(|runs| *runs <= 1), "a task ran twice");
    let all = ran.iter().all(|runs| *runs == 1);
    match (graph.fault, ended) {
        (None, Ok(Ok(()))) => assert!(all, "tasks were left out"),
        (Some((_, Fault::Error)), Ok(Err(GraphError::Task("a task that fails")))) => {}
        (Some((_, Fault::Panic)), Err(panic)) => {
            assert_eq!(panic.downcast_ref::<&str>(), Some(&"a task that panics"));
        }
        (Some((_, Fault::Cancel)), Ok(Ok(()))) => {
            assert!(all, "a cancelled graph ended well with tasks left out")
        }
        (Some((_, Fault::Cancel)), Ok(Err(GraphError::Cancelled))) => assert!(!all, "nothing was left out"),
        (fault, ended) => panic!("{fault:?} gave {ended:?}"),
    }
    if let Some((at, Fault::Error | Fault::Panic)) = graph.fault {
        assert_eq!(ran[at], 1);
        assert!(graph.successors[at].iter().all(|next| ran[*next] == 0), "a successor of a failed task ran");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 256 }, rng_seed: RngSeed::Fixed(19), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_graphs_run_each_task_once_in_order(graph in random_graph(), stolen_of in prop_oneof![Just(usize::MAX), Just(1_usize), Just(3)]) {
        check(graph, stolen_of);
    }
}
