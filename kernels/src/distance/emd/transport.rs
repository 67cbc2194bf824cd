//! The transportation problem: how much to move from each source to each sink with the least work.
//!
//! This is the simplex method on spanning trees (Dantzig's, in the form that textbooks call MODI). It moves whole numbers, so
//! nothing is lost to rounding. The numbers are perturbed so that every step moves something: each supply is multiplied and
//! gets one unit more, and the last demand gets all these units. Then no subset of supplies has the sum of a subset of
//! demands, except all of both. So every tree moves something along each of its edges, each step lowers the work, and no
//! tree occurs twice. The best tree for the perturbed numbers is also best for the original ones, which are put on it at the
//! end.

/// The method ends when no edge would save more than this part of the largest cost per unit.
pub(super) const TOLERANCE: f64 = 1e-11;

/// The method compares this many edges (in whole rows), and the best of them enters the tree.
const BLOCK: usize = 512;

const NONE: u32 = u32::MAX;

/// The least work to move `supplies` to `demands`, which have the same sum, with one row of `costs` per source.
///
/// The error is at most [`TOLERANCE`] of the largest cost per unit, and the rounding of a sum.
///
/// # Panics
/// If the sums differ, a number is not positive, or the costs are not one per source and sink.
pub(super) fn least_work(supplies: &[i64], demands: &[i64], costs: Vec<f64>) -> f64 {
    assert_eq!(supplies.iter().sum::<i64>(), demands.iter().sum::<i64>(), "as much is wanted as there is");
    assert_eq!(costs.len(), supplies.len() * demands.len(), "a cost for each source and sink");
    assert!(supplies.iter().chain(demands).all(|number| *number > 0), "something at each source and sink");
    if demands.is_empty() {
        return 0.0;
    }
    let mut tree = Tree::new(supplies, demands, costs);
    while let Some(entering) = tree.entering() {
        tree.exchange(entering);
    }
    tree.work(supplies, demands)
}

/// A spanning tree of sources and sinks. The nodes are the sources, then the sinks.
struct Tree {
    sources: usize,
    sinks: usize,
    costs: Vec<f64>,
    tolerance: f64,
    /// Per node. The first source is the root and has no parent.
    parent: Vec<u32>,
    depth: Vec<u32>,
    /// The amount that is moved along the edge to the parent.
    flow: Vec<i64>,
    /// The worth of a unit at each node (its potential). Along an edge of the tree, worths differ by the cost.
    worth: Vec<f64>,
    neighbours: Vec<Vec<u32>>,
    /// The row that is searched next.
    next_row: usize,
    stack: Vec<u32>,
}

impl Tree {
    /// The first tree: each source in turn supplies the sinks that are cheapest for it.
    fn new(supplies: &[i64], demands: &[i64], costs: Vec<f64>) -> Self {
        let (sources, sinks) = (supplies.len(), demands.len());
        let nodes = sources + sinks;
        let largest = costs.iter().fold(0.0, |largest: f64, cost| largest.max(*cost));
        let mut tree = Self {
            sources,
            sinks,
            costs,
            tolerance: TOLERANCE * largest,
            parent: vec![NONE; nodes],
            depth: vec![0; nodes],
            flow: vec![0; nodes],
            worth: vec![0.0; nodes],
            neighbours: vec![Vec::new(); nodes],
            next_row: 0,
            stack: Vec::new(),
        };
        // One more unit per source, and all of these for the last sink: see the head of this file.
        let factor = nodes as i64 + 1;
        let mut wanted: Vec<i64> = demands.iter().map(|demand| demand * factor).collect();
        wanted[sinks - 1] += sources as i64;
        let mut moves = Vec::with_capacity(nodes);
        let mut open: Vec<usize> = (0..sinks).collect();
        for (source, supply) in supplies.iter().enumerate() {
            let mut left = supply * factor + 1;
            while left > 0 {
                let row = &tree.costs[source * sinks..][..sinks];
                let cheapest = (0..open.len()).reduce(|a, b| if row[open[b]] < row[open[a]] { b } else { a });
                let Some(place) = cheapest else { break };
                let sink = open[place];
                let moved = left.min(wanted[sink]);
                moves.push((source, sources + sink, moved));
                left -= moved;
                wanted[sink] -= moved;
                if wanted[sink] == 0 {
                    open.swap_remove(place);
                }
            }
        }
        for (source, sink, _) in &moves {
            tree.neighbours[*source].push(*sink as u32);
            tree.neighbours[*sink].push(*source as u32);
        }
        tree.hang(0, NONE);
        for (source, sink, moved) in moves {
            let child = if tree.parent[sink] == source as u32 { sink } else { source };
            tree.flow[child] = moved;
        }
        tree
    }

    fn cost(&self, a: u32, b: u32) -> f64 {
        let (source, sink) = if (a as usize) < self.sources { (a, b) } else { (b, a) };
        self.costs[source as usize * self.sinks + sink as usize - self.sources]
    }

    /// Moves a node with its subtree under a parent, and computes their depths and worths from the parent's.
    fn hang(&mut self, node: u32, parent: u32) {
        self.parent[node as usize] = parent;
        self.stack.push(node);
        while let Some(node) = self.stack.pop() {
            let parent = self.parent[node as usize];
            if parent != NONE {
                let cost = self.cost(node, parent);
                self.depth[node as usize] = self.depth[parent as usize] + 1;
                let above = self.worth[parent as usize];
                // The worth of a source is that of the sink minus the cost.
                let is_source = (node as usize) < self.sources;
                self.worth[node as usize] = if is_source { above - cost } else { above + cost };
            }
            for idx in 0..self.neighbours[node as usize].len() {
                let neighbour = self.neighbours[node as usize][idx];
                if neighbour != parent {
                    self.parent[neighbour as usize] = node;
                    self.stack.push(neighbour);
                }
            }
        }
    }

    /// The edge that saves most among some rows, which take turns, or `None` if no edge saves anything.
    fn entering(&mut self) -> Option<(u32, u32)> {
        let rows = (BLOCK / self.sinks).max(1);
        let (sources_worth, sinks_worth) = self.worth.split_at(self.sources);
        let mut looked_at = 0;
        while looked_at < self.sources {
            let mut best = (-self.tolerance, None);
            for _ in 0..rows.min(self.sources - looked_at) {
                let row = self.next_row;
                self.next_row = if row + 1 == self.sources { 0 } else { row + 1 };
                let costs = &self.costs[row * self.sinks..][..self.sinks];
                let least = least_of(costs, sinks_worth) + sources_worth[row];
                if least < best.0 {
                    best = (least, Some(row));
                }
            }
            looked_at += rows;
            if let (_, Some(row)) = best {
                let costs = &self.costs[row * self.sinks..][..self.sinks];
                let saved = |sink: usize| costs[sink] - sinks_worth[sink];
                let sink = (0..self.sinks).reduce(|a, b| if saved(b) < saved(a) { b } else { a })?;
                return Some((row as u32, (self.sources + sink) as u32));
            }
        }
        None
    }

    /// Adds an edge to the tree, moves as much as possible along the cycle that it closes, and removes the edge that limits
    /// this.
    fn exchange(&mut self, (source, sink): (u32, u32)) {
        // On the way up from either end, every other edge loses what the entering edge gains, beginning with the first.
        let mut ends = [source, sink];
        let mut loses = [true, true];
        let (mut moved, mut leaving) = (i64::MAX, [NONE, 0]);
        while ends[0] != ends[1] {
            let side = usize::from(self.depth[ends[1] as usize] >= self.depth[ends[0] as usize]);
            let node = ends[side];
            if loses[side] && self.flow[node as usize] < moved {
                moved = self.flow[node as usize];
                leaving = [node, side as u32];
            }
            loses[side] = !loses[side];
            ends[side] = self.parent[node as usize];
        }
        let top = ends[0];
        for end in [source, sink] {
            let (mut node, mut loses) = (end, true);
            while node != top {
                self.flow[node as usize] += if loses { -moved } else { moved };
                loses = !loses;
                node = self.parent[node as usize];
            }
        }
        let [cut, side] = leaving;
        let above = self.parent[cut as usize];
        remove(&mut self.neighbours[cut as usize], above);
        remove(&mut self.neighbours[above as usize], cut);
        self.neighbours[source as usize].push(sink);
        self.neighbours[sink as usize].push(source);
        // The subtree that was cut off now hangs on its end of the entering edge, so the edges up to there are reversed.
        let (end, other) = if side == 0 { (source, sink) } else { (sink, source) };
        let (mut node, mut carried) = (end, moved);
        loop {
            let flow = std::mem::replace(&mut self.flow[node as usize], carried);
            if node == cut {
                break;
            }
            carried = flow;
            node = self.parent[node as usize];
        }
        self.hang(end, other);
    }

    /// The work of this tree for the original numbers: the supply or demand of a leaf goes along its edge.
    fn work(mut self, supplies: &[i64], demands: &[i64]) -> f64 {
        let mut surplus: Vec<i64> =
            supplies.iter().copied().chain(demands.iter().map(|demand| -demand)).collect();
        let mut order: Vec<u32> = (0..self.parent.len() as u32).collect();
        order.sort_by_key(|node| std::cmp::Reverse(self.depth[*node as usize]));
        for node in order {
            let parent = self.parent[node as usize];
            if parent != NONE {
                let moved = surplus[node as usize];
                surplus[parent as usize] += moved;
                self.flow[node as usize] = if (node as usize) < self.sources { moved } else { -moved };
            }
        }
        let edges = (0..self.parent.len() as u32).filter(|node| self.parent[*node as usize] != NONE);
        edges.map(|node| self.flow[node as usize] as f64 * self.cost(node, self.parent[node as usize])).sum()
    }
}

fn remove(list: &mut Vec<u32>, node: u32) {
    if let Some(place) = list.iter().position(|other| *other == node) {
        list.swap_remove(place);
    }
}

/// The least `cost - worth`, in an order that suits a vector unit.
fn least_of(costs: &[f64], worths: &[f64]) -> f64 {
    const LANES: usize = 8;
    let mut least = [f64::INFINITY; LANES];
    let (cost_lanes, cost_rest) = costs.as_chunks::<LANES>();
    let (worth_lanes, worth_rest) = worths.as_chunks::<LANES>();
    for (costs, worths) in cost_lanes.iter().zip(worth_lanes) {
        for lane in 0..LANES {
            let saved = costs[lane] - worths[lane];
            least[lane] = if saved < least[lane] { saved } else { least[lane] };
        }
    }
    let rest = cost_rest.iter().zip(worth_rest).map(|(cost, worth)| cost - worth);
    least.into_iter().chain(rest).fold(f64::INFINITY, f64::min)
}

/// The least work by successive shortest paths (Bellman and Ford) in the residual graph, slow and without trees, to test
/// [`least_work`].
pub(super) fn reference(supplies: &[i64], demands: &[i64], costs: &[f64]) -> f64 {
    let (sources, sinks) = (supplies.len(), demands.len());
    let (mut left, mut wanted) = (supplies.to_vec(), demands.to_vec());
    let mut moved = vec![0_i64; sources * sinks];
    let tiny = 1e-14 * costs.iter().fold(0.0, |largest: f64, cost| largest.max(*cost));
    while left.iter().any(|left| *left > 0) {
        let mut length: Vec<f64> =
            left.iter().map(|left| if *left > 0 { 0.0 } else { f64::INFINITY }).collect();
        length.resize(sources + sinks, f64::INFINITY);
        let mut before = vec![usize::MAX; sources + sinks];
        for _ in 0..sources + sinks {
            let mut changed = false;
            for source in 0..sources {
                for sink in 0..sinks {
                    let (cost, node) = (costs[source * sinks + sink], sources + sink);
                    if length[source] + cost < length[node] - tiny {
                        (length[node], before[node], changed) = (length[source] + cost, source, true);
                    }
                    if moved[source * sinks + sink] > 0 && length[node] - cost < length[source] - tiny {
                        (length[source], before[source], changed) = (length[node] - cost, node, true);
                    }
                }
            }
            if !changed {
                break;
            }
        }
        let open = (0..sinks).filter(|sink| wanted[*sink] > 0);
        let nearest = open.reduce(|a, b| if length[sources + b] < length[sources + a] { b } else { a });
        let Some(sink) = nearest else { break };
        let (mut node, mut amount) = (sources + sink, wanted[sink]);
        while before[node] != usize::MAX {
            if node < sources {
                amount = amount.min(moved[node * sinks + before[node] - sources]);
            }
            node = before[node];
        }
        let source = node;
        amount = amount.min(left[source]);
        node = sources + sink;
        while before[node] != usize::MAX {
            let from = before[node];
            match node < sources {
                true => moved[node * sinks + from - sources] -= amount,
                false => moved[from * sinks + node - sources] += amount,
            }
            node = from;
        }
        left[source] -= amount;
        wanted[sink] -= amount;
    }
    moved.iter().zip(costs).map(|(moved, cost)| *moved as f64 * cost).sum()
}
