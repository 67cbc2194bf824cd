//! `what=lists`: rows in lists by their nearest centroids, and searches of some of the lists.

use boxwork_kernels::distance::squared_l2_on;
use boxwork_kernels::kmeans::{Options, k_means, start};
use boxwork_kernels::panels::{Panels, Shortlist};
use boxwork_kernels::vector::VectorMeasure;

use super::contest::{Bench, Limit, Other, Work, pieces, shared};
use super::kmeans::assigned;
use super::list;
use super::support::Arguments;
use super::world::{Answers, World};

/// Rounds of the training of centroids.
const ROUNDS: usize = 10;
/// Rows for each list in the training.
const ROWS_A_LIST: usize = 64;
/// Centroids whose squared distances from a query differ by less than this part are a tie in f32.
const TIE: f64 = 1e-5;

/// Rows by their nearest centroid.
pub(super) struct ByList {
    pub(super) centroids: Vec<f32>,
    panels: Panels,
    /// The list of each row.
    pub(super) of_row: Vec<u32>,
    /// The rows of each list.
    pub(super) rows: Vec<Vec<u32>>,
}

/// The lists that are nearest to each query, the nearest first.
pub(super) type Probes = Vec<Vec<(f64, u32)>>;

impl ByList {
    /// Centroids of the peer, or ours, and the lists of all rows. The peer gets both.
    pub(super) fn new(bench: &Bench, count: usize) -> Self {
        let (world, dimensions) = (&bench.world, bench.world.dimensions);
        let centroids = match bench.ask(&format!("train {count} {ROUNDS}")) {
            Some(_) => bench.read_f32("centroids.f32"),
            None => {
                let sample = world.spread(count * ROWS_A_LIST);
                let first = start((sample.len() / dimensions) as u64, count, 1).into_iter();
                let first = first
                    .flat_map(|row| sample[row as usize * dimensions..][..dimensions].to_vec())
                    .collect();
                let options = Options { iterations: ROUNDS, seed: 1, spherical: false, frozen: 0 };
                let found =
                    k_means(&sample, dimensions, first, options, bench.path, &mut pieces(bench.threads));
                found.expect("memory").expect("no one cancels it").centroids
            }
        };
        let of_row: Vec<u32> = assigned(bench, &centroids).into_iter().map(|(list, _)| list).collect();
        let bytes: Vec<u8> = of_row.iter().flat_map(|list| list.to_le_bytes()).collect();
        std::fs::write(bench.folder.join("lists.u32"), bytes).expect("data for the peer");
        let mut rows = vec![Vec::new(); centroids.len() / dimensions];
        of_row.iter().zip(0..).for_each(|(list, row)| rows[*list as usize].push(row));
        let panels = Panels::new(&centroids, dimensions, None);
        Self { centroids, panels, of_row, rows }
    }

    pub(super) fn centroid(&self, list: u32, dimensions: usize) -> &[f32] {
        &self.centroids[list as usize * dimensions..][..dimensions]
    }

    /// The nearest lists of some queries, as the `probe` box finds them.
    pub(super) fn nearest(&self, bench: &Bench, queries: &[f32], probes: usize) -> Probes {
        let (panels, dimensions) = (self.panels.borrow(), bench.world.dimensions);
        let each = || queries.chunks_exact(dimensions);
        let mut lists: Vec<_> = each().map(|query| panels.shortlist(query, probes)).collect();
        panels.scan(bench.path, queries, &mut lists, 0);
        let of = |(query, list): (&[f32], Shortlist)| {
            list.ranked(|list| squared_l2_on(bench.path, query, self.centroid(list, dimensions)))
        };
        each().zip(lists).map(of).collect()
    }

    /// The rows in the probed lists, of all queries together.
    pub(super) fn probed(&self, probes: &Probes) -> usize {
        probes.iter().flatten().map(|(_, list)| self.rows[*list as usize].len()).sum()
    }
}

/// The order in which lists are scanned.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Each list once, for all its queries.
    Lists,
    /// The nearest list of each query before all others: fewer rows of these are within the limit of its shortlist.
    NearestFirst,
}

/// A list of which some queries are scanned together, and the places of the queries.
fn by_list(probes: &Probes, order: Order) -> Vec<(u32, Vec<usize>)> {
    let each = probes.iter().enumerate();
    let mut pairs: Vec<(bool, u32, usize)> = each
        .flat_map(|(query, lists)| {
            let is_later = |rank| order == Order::NearestFirst && rank > 0;
            lists.iter().enumerate().map(move |(rank, (_, list))| (is_later(rank), *list, query))
        })
        .collect();
    pairs.sort_unstable();
    let groups = pairs.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1));
    groups.map(|group| (group[0].1, group.iter().map(|pair| pair.2).collect())).collect()
}

/// Offers a list to the shortlists of some queries: gets the list, and the places, numbers and shortlists of the queries.
pub(super) type ScanList<'a> = dyn FnMut(u32, &[usize], &[f32], &mut [Shortlist]) + 'a;

/// Offers lists to the shortlists of their queries.
pub(super) fn scanned(
    world: &World,
    queries: &[f32],
    (probes, order): (&Probes, Order),
    shortlists: &mut [Shortlist],
    scan: &mut ScanList<'_>,
) {
    let dimensions = world.dimensions;
    for (list, places) in by_list(probes, order) {
        let mut together = Vec::with_capacity(places.len() * dimensions);
        let mut taken = Vec::with_capacity(places.len());
        for place in &places {
            together.extend_from_slice(&queries[place * dimensions..][..dimensions]);
            taken.push(std::mem::replace(&mut shortlists[*place], Shortlist::new(0, 0.0)));
        }
        scan(list, &places, &together, &mut taken);
        for (place, list) in places.into_iter().zip(taken) {
            shortlists[place] = list;
        }
    }
}

/// The rows of each list in panels. A number of all rows is its place in the lists.
pub(super) struct RowLists {
    pub(super) lists: ByList,
    places: Vec<u32>,
    panels: Vec<(u32, Panels)>,
    all: Panels,
}

impl RowLists {
    pub(super) fn new(world: &World, lists: ByList) -> Self {
        let (mut places, mut panels) = (Vec::new(), Vec::new());
        for rows in &lists.rows {
            let numbers: Vec<f32> = rows.iter().flat_map(|row| world.row(*row).iter().copied()).collect();
            panels.push((places.len() as u32, Panels::new(&numbers, world.dimensions, None)));
            places.extend_from_slice(rows);
        }
        Self { lists, places, panels, all: Panels::new(&world.rows, world.dimensions, None) }
    }

    /// The k nearest of some queries among the rows of the lists nearest to each.
    pub(super) fn searched(&self, bench: &Bench, queries: &[f32], probes: usize, k: usize) -> Answers {
        let world = &bench.world;
        let probes = self.lists.nearest(bench, queries, probes);
        let each = || queries.chunks_exact(world.dimensions);
        let mut shortlists: Vec<Shortlist> =
            each().map(|query| self.all.borrow().shortlist(query, k)).collect();
        scanned(world, queries, (&probes, Order::Lists), &mut shortlists, &mut |list, _, queries, taken| {
            let (first, panels) = &self.panels[list as usize];
            panels.borrow().scan(bench.path, queries, taken, *first);
        });
        let of = |(query, mut list): (&[f32], Shortlist)| {
            list.tighten();
            let rows: Vec<u32> = list.kept().iter().map(|(_, place)| self.places[*place as usize]).collect();
            let found = world.nearest_of(query, &rows, k).into_iter();
            found.map(|(square, row)| (square.sqrt(), row)).collect()
        };
        each().zip(shortlists).map(of).collect()
    }
}

pub(super) fn of_rows(bench: &Bench, arguments: &Arguments) {
    const K: usize = 10;
    let world = &bench.world;
    let (dimensions, truth) = (world.dimensions, world.exact(VectorMeasure::L2, K));
    for count in list(arguments, "lists", "1024,4096").into_iter().filter(|count| count * 20 <= world.count())
    {
        let lists = RowLists::new(world, ByList::new(bench, count));
        let built = bench.ask("index lists").is_some();
        let search = |probes: usize| -> Answers {
            shared(bench.threads, truth.len(), |part| {
                let queries = &world.queries[part.start * dimensions..part.end * dimensions];
                lists.searched(bench, queries, probes, K)
            })
        };
        let lists = &lists.lists;
        for probes in
            list(arguments, "probes", "1,2,4,8,16,32,64").into_iter().filter(|probes| *probes <= count)
        {
            let (found, nearest) = (search(probes), lists.nearest(bench, &world.queries, probes + 1));
            let question = format!("search lists {K} {probes} {0} {0}", truth.len());
            let peers = if built { bench.found(&question, K) } else { None };
            if let Some(peers) = peers {
                same_lists(world, &nearest, probes, &found, &peers);
            }
            let rows: Vec<Vec<u32>> =
                found.iter().map(|found| found.iter().map(|(_, row)| *row).collect()).collect();
            let scanned = lists.probed(&lists.nearest(bench, &world.queries, probes));
            let products = (scanned + count * truth.len()) as f64 * dimensions as f64;
            let work = Work {
                row: "6",
                name: format!("{count} lists, {probes} probed"),
                limit: Limit::MultiplyAdds(products),
                note: format!("recall {K}@{K} {:.3}", World::recall(&truth, &rows, K)),
            };
            let others = [Other { name: "IndexIVFFlat", question, bar: 1.3 }];
            bench.contest(&work, &others, &mut || _ = search(probes));
        }
        bench.ask("forget");
    }
}

/// Asserts that both sides found the same in the same lists. Where the last probed list and the next one are as near, either may
/// have been probed.
fn same_lists(world: &World, nearest: &Probes, probes: usize, found: &Answers, peers: &[Vec<i64>]) {
    let has_tie = |lists: &Vec<(f64, u32)>| {
        lists.get(probes).is_some_and(|next| next.0 - lists[probes - 1].0 <= TIE * next.0)
    };
    let tolerance = world.tolerance();
    for (((query, lists), found), peers) in world.each_query().iter().zip(nearest).zip(found).zip(peers) {
        if has_tie(lists) {
            continue;
        }
        let known: Vec<u32> = peers.iter().filter_map(|row| u32::try_from(*row).ok()).collect();
        assert_eq!(known.len(), found.len(), "as many rows");
        let mut theirs: Vec<f64> = known.iter().map(|row| world.squared(query, *row)).collect();
        theirs.sort_by(f64::total_cmp);
        for ((distance, row), theirs) in found.iter().zip(theirs) {
            let off = (distance * distance - theirs).abs();
            assert!(off <= tolerance, "row {row} of the lists: {} and {theirs}", distance * distance);
        }
    }
}
