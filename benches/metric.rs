//! Which index computes the fewest distances, which is the fastest, and what does each cost?
//!
//! One table for each set of objects: AESA, LAESA, list of clusters, M-tree, PM-tree and M-index, compared with the
//! pivot table by its triangular and its tightest bound, and with the scan. A line gives the mean number of distances
//! of a query and its share of all objects, the time of a query, the memory without the objects, and the distances and
//! the time of building. One thread does all of it, and times are its processor time. Every answer is compared with the
//! scan's.
//!
//! - `signatures`: SQFD over a store given as `store=FILE`, or over mixes: each object combines the centroids of two of
//!   a few random signatures, so that some objects are near each other and others are not.
//! - `vectors`: L2 over random vectors around a hundred places.
//! - `texts`: Levenshtein over random words, each a few letters away from one of a few hundred.
//!
//! `cargo bench --bench metric -- what=signatures,vectors,texts objects=10000 queries=20 k=10 pivots=32`
//!
//! AESA's memory and time grow with the square of the number of objects: it is measured for up to `aesa` objects, and
//! skipped in larger tables. A pivot table is searched best first; its time includes the bounds of all objects.

mod support;

use std::path::PathBuf;

use boxwork_kernels::CodePath;
use boxwork_kernels::distance::{Distance, Levenshtein, Lp, Pattern, Properties, Slack};
use boxwork_kernels::lower_bound::{
    Bound, BoundEvaluator, BoundQuery, Bounds, PACKED_OBJECTS, PackedBlock, Simplex, TableErrors,
};
use boxwork_kernels::metric_index::{
    Aesa, AesaChoice, Answer, ClusterSize, IndexedObjects, Laesa, ListOfClusters, MIndex, MIndexParameters,
    MTree, MetricIndex, MetricIndexError, PmTree, Search,
};
use boxwork_kernels::similarity::{Ground, Measure, Similarity};
use boxwork_kernels::sqfd::{StoreColumns, reference};
use boxwork_stores::signature_store::{SignatureStore, StoreError};
use support::clock::thread_seconds;
use support::memory::megabytes;
use support::signatures::{DIMENSIONS, Random, Signatures};
use support::{Arguments, print_machine};

fn main() {
    let names = ["what", "store", "objects", "queries", "k", "pivots", "alpha", "aesa"];
    let arguments = Arguments::read(&names);
    let what = arguments.text("what").unwrap_or("signatures,vectors,texts").to_owned();
    let settings = Settings {
        objects: arguments.get("objects", 10_000),
        queries: arguments.get("queries", 20),
        k: arguments.get("k", 10),
        pivots: arguments.get("pivots", 32),
        aesa: arguments.get("aesa", 3000),
    };
    print_machine();
    println!("code path   {}", CodePath::detect());
    for what in what.split(',') {
        match what {
            "signatures" => {
                let alpha = arguments.get("alpha", 0.2);
                signatures(&settings, alpha, arguments.text("store").map(PathBuf::from));
            }
            "vectors" => vectors(&settings),
            "texts" => texts(&settings),
            other => panic!("what={other} is none of signatures, vectors and texts"),
        }
    }
}

#[derive(Clone, Copy)]
struct Settings {
    objects: usize,
    queries: usize,
    k: usize,
    pivots: usize,
    aesa: usize,
}

/// Distances of objects and of queries, and the properties that bounds may use.
struct Space<'a> {
    about: String,
    count: usize,
    properties: Properties,
    slack: Slack,
    between: &'a dyn Fn(u32, u32) -> f64,
    /// A query's distance to an object.
    from: &'a dyn Fn(usize, u32) -> f64,
}

fn signatures(settings: &Settings, alpha: f64, store: Option<PathBuf>) {
    let measure = Measure::new(Similarity::Gaussian, Ground::L2, alpha).expect("a sound measure");
    let (objects, name) = match &store {
        Some(path) => (stored(path, settings.objects), path.display().to_string()),
        None => (mixes(settings.objects, 1), "mixes".to_owned()),
    };
    let queries = match &store {
        // Objects as queries, each slightly moved.
        Some(_) => moved(&objects, settings.queries),
        None => mixes(settings.queries, 2),
    };
    objects.with(|objects| {
        queries.with(|queries| {
            let sigmas = |columns: &StoreColumns<'_>| -> Vec<f64> {
                let all = 0..columns.rows();
                all.map(|row| reference::sigma_self(&measure, columns.signature(row))).collect()
            };
            let (own, of_queries) = (sigmas(objects), sigmas(queries));
            let between = |a: u32, b: u32| {
                let (a, b) = (a.min(b) as usize, a.max(b) as usize);
                let cross = reference::sigma(&measure, objects.signature(a), objects.signature(b));
                reference::distance(own[a], own[b], cross)
            };
            let from = |query: usize, object: u32| {
                let object = object as usize;
                let cross = reference::sigma(&measure, queries.signature(query), objects.signature(object));
                reference::distance(of_queries[query], own[object], cross)
            };
            let centroids = (0..objects.rows()).map(|row| objects.range(row).1).max().unwrap_or(0);
            let noise = reference::error_squared(&measure, 1.01, 1.5, 2 * centroids, DIMENSIONS);
            table(
                settings,
                &Space {
                    about: format!("signatures, SQFD at alpha {alpha}, {name}"),
                    count: objects.rows(),
                    properties: Properties::hilbert("sqfd"),
                    slack: Slack::of_squares(noise),
                    between: &between,
                    from: &from,
                },
            );
        });
    });
}

/// Signatures of about 60 centroids, each combined from two of a hundred random ones.
fn mixes(count: usize, seed: u64) -> Signatures {
    let sources = Signatures::random(99, 100, 40..=80);
    let (mut mixes, mut random) = (Signatures::default(), Random::new(seed));
    for _ in 0..count {
        let picked = [random.count(0..=99), random.count(0..=99)];
        let share = 0.2 + 0.6 * random.unit();
        let (mut columns, mut weights) = (vec![Vec::new(); DIMENSIONS], Vec::new());
        for (source, share) in picked.into_iter().zip([share, 1.0 - share]) {
            let centroids = sources.offsets[source] as usize..sources.offsets[source + 1] as usize;
            for centroid in centroids {
                if random.unit() < share {
                    let by = 0.05 * (random.unit() - 0.5);
                    columns
                        .iter_mut()
                        .zip(&sources.coordinates)
                        .for_each(|(to, from)| to.push(from[centroid] + by));
                    weights.push(sources.weights[centroid]);
                }
            }
        }
        if weights.is_empty() {
            columns.iter_mut().zip(&sources.coordinates).for_each(|(to, from)| to.push(from[0]));
            weights.push(1.0);
        }
        mixes.push(&columns, &weights);
    }
    mixes
}

fn stored(path: &PathBuf, most: usize) -> Signatures {
    let store = SignatureStore::open(path).expect("a sound store");
    assert_eq!(store.dimensions(), DIMENSIONS, "the bench takes signatures of {DIMENSIONS} coordinates");
    let mut signatures = Signatures::default();
    let read = store.read(|objects| {
        for id in 0..store.len().min(most as u64) {
            let signature = objects.signature(id)?;
            let columns: Vec<Vec<f32>> = (0..DIMENSIONS).map(|d| signature.coordinate(d).to_vec()).collect();
            signatures.push(&columns, signature.weights());
        }
        Ok::<_, StoreError>(())
    });
    read.expect("a sound store");
    signatures
}

fn moved(of: &Signatures, count: usize) -> Signatures {
    let (mut queries, mut random) = (Signatures::default(), Random::new(3));
    for _ in 0..count {
        let object = random.count(0..=of.count() - 1);
        let centroids = of.offsets[object] as usize..of.offsets[object + 1] as usize;
        let columns: Vec<Vec<f32>> = of
            .coordinates
            .iter()
            .map(|column| column[centroids.clone()].iter().map(|x| x + 0.1 * (random.unit() - 0.5)).collect())
            .collect();
        queries.push(&columns, &of.weights[centroids]);
    }
    queries
}

fn vectors(settings: &Settings) {
    const NUMBERS: usize = 16;
    let mut random = Random::new(4);
    let mut vector = |spread: f32| -> Vec<f32> { (0..NUMBERS).map(|_| spread * random.unit()).collect() };
    let places: Vec<Vec<f32>> = (0..100).map(|_| vector(1.0)).collect();
    let mut near = |i: usize| -> Vec<f32> {
        places[i % 100].iter().zip(vector(0.4)).map(|(place, by)| place + by).collect()
    };
    let objects: Vec<Vec<f32>> = (0..settings.objects).map(&mut near).collect();
    let queries: Vec<Vec<f32>> = (0..settings.queries).map(|query| near(7 * query)).collect();
    table(
        settings,
        &Space {
            about: format!("vectors of {NUMBERS} numbers, L2"),
            count: objects.len(),
            properties: Lp::L2.properties(),
            slack: Lp::L2.slack(NUMBERS, 0.0),
            between: &|a, b| Lp::L2.distance(&objects[a as usize], &objects[b as usize]),
            from: &|query, object| Lp::L2.distance(&queries[query], &objects[object as usize]),
        },
    );
}

fn texts(settings: &Settings) {
    let mut random = Random::new(5);
    let mut letter = move |most: usize| random.count(0..=most - 1);
    let word = |letter: &mut dyn FnMut(usize) -> usize| -> Vec<char> {
        (0..6 + letter(10)).map(|_| char::from(b'a' + letter(12) as u8)).collect()
    };
    let stems: Vec<Vec<char>> = (0..300).map(|_| word(&mut letter)).collect();
    let mut near = |i: usize| -> Vec<char> {
        let mut text = stems[i % 300].clone();
        for _ in 0..letter(4) {
            let place = letter(text.len());
            text[place] = char::from(b'a' + letter(12) as u8);
        }
        text
    };
    let objects: Vec<Vec<char>> = (0..settings.objects).map(&mut near).collect();
    let queries: Vec<Pattern> = (0..settings.queries).map(|query| Pattern::new(&near(11 * query))).collect();
    table(
        settings,
        &Space {
            about: "words of 6 to 15 letters, Levenshtein".to_owned(),
            count: objects.len(),
            properties: Levenshtein.properties(),
            slack: Slack::EXACT,
            between: &|a, b| Levenshtein.distance(&objects[a as usize], &objects[b as usize]),
            from: &|query, object| queries[query].distance(&objects[object as usize]) as f64,
        },
    );
}

/// One line: an index, and the cost of building it.
struct Built {
    name: String,
    index: Box<dyn MetricIndex>,
    distances: u64,
    seconds: f64,
}

type Build<'a> = &'a dyn Fn(&IndexedObjects<'_>) -> Result<Box<dyn MetricIndex>, MetricIndexError>;

fn table(settings: &Settings, space: &Space<'_>) {
    let pivots = |objects: &IndexedObjects<'_>| objects.pivots(settings.pivots, 1);
    let four_point = space.properties.four_point;
    let parameters = MIndexParameters { capacity: 64, levels: 3, four_point };
    let scan: Build<'_> = &|objects| Ok(Box::new(Scan(objects.count())));
    let mut builds: Vec<(&str, Build<'_>)> = vec![("scan", scan)];
    let aesa: Build<'_> = &|objects| Ok(Box::new(Aesa::build(objects, AesaChoice::LeastBound)?));
    if space.count <= settings.aesa {
        builds.push(("aesa", aesa));
    }
    let tightest = space.properties.tightest().unwrap_or(Bound::Triangular);
    let tightest_name = format!("pivot table, {tightest}");
    let by_bound =
        |objects: &IndexedObjects<'_>, bound: Bound| -> Result<Box<dyn MetricIndex>, MetricIndexError> {
            Ok(Box::new(PivotTable::build(objects, &pivots(objects)?, bound, space.slack)?))
        };
    let triangular: Build<'_> = &|objects| by_bound(objects, Bound::Triangular);
    let other: Build<'_> = &|objects| by_bound(objects, tightest);
    builds.push(("pivot table, triangular", triangular));
    if tightest != Bound::Triangular {
        builds.push((tightest_name.as_str(), other));
    }
    let laesa: Build<'_> = &|objects| Ok(Box::new(Laesa::build(objects, &pivots(objects)?, 8)?));
    let clusters: Build<'_> =
        &|objects| Ok(Box::new(ListOfClusters::build(objects, ClusterSize::Objects(32))?));
    let m_tree: Build<'_> = &|objects| Ok(Box::new(MTree::build(objects, 24)?));
    let pm_tree: Build<'_> = &|objects| Ok(Box::new(PmTree::build(objects, 24, &pivots(objects)?)?));
    let m_index: Build<'_> = &|objects| Ok(Box::new(MIndex::build(objects, &pivots(objects)?, parameters)?));
    builds.extend([
        ("laesa", laesa),
        ("list of clusters", clusters),
        ("m-tree", m_tree),
        ("pm-tree", pm_tree),
        ("m-index", m_index),
    ]);
    println!();
    println!("{}: {} objects, {} queries, k = {}", space.about, space.count, settings.queries, settings.k);
    println!(
        "{:<26} {:>10} {:>7} {:>10} {:>9} {:>12} {:>9}",
        "index", "distances", "part", "ms/query", "MB", "build dist.", "build s"
    );
    let mut expected: Vec<Vec<(f64, u32)>> = Vec::new();
    for (name, build) in builds {
        let objects = IndexedObjects::new(space.count, space.between).expect("there are objects");
        let mut index = None;
        let seconds = thread_seconds(|| index = Some(build(&objects).expect("sound distances")));
        let index = index.expect("it was built");
        let built = Built { name: name.to_owned(), index, distances: objects.computed(), seconds };
        let answers = ask(settings, space, built);
        if expected.is_empty() {
            expected = answers;
        } else {
            assert!(answers == expected, "{name} and the scan differ");
        }
    }
    println!("all answers equal the scan's, to the bit");
}

fn ask(settings: &Settings, space: &Space<'_>, built: Built) -> Vec<Vec<(f64, u32)>> {
    let (mut computed, mut answers) = (0, Vec::new());
    let seconds = thread_seconds(|| {
        for query in 0..settings.queries {
            let mut distance = |object: u32| (space.from)(query, object);
            let mut search = Search::new(settings.k, f64::INFINITY, space.slack, &mut distance);
            built.index.answer(&mut search).expect("sound distances");
            let Answer { objects, computed: of_query } = search.finish();
            computed += of_query;
            answers.push(objects);
        }
    });
    let seconds = seconds / settings.queries as f64;
    let each = computed as f64 / settings.queries as f64;
    println!(
        "{:<26} {:>10.0} {:>6.1}% {:>10.3} {:>9.2} {:>12} {:>9.3}",
        built.name,
        each,
        100.0 * each / space.count as f64,
        1e3 * seconds,
        megabytes(built.index.bytes()),
        built.distances,
        built.seconds
    );
    answers
}

/// Computes every distance.
#[derive(Debug)]
struct Scan(usize);

impl MetricIndex for Scan {
    fn objects(&self) -> usize {
        self.0
    }

    fn bytes(&self) -> usize {
        0
    }

    fn answer(&self, search: &mut Search<'_>) -> Result<(), MetricIndexError> {
        (0..self.0 as u32).try_for_each(|object| search.compute(object).map(drop))
    }
}

/// The two-phase form, with the kernels of the shipped pipelines: all pivots, all bounds, then best first.
#[derive(Debug)]
struct PivotTable {
    count: usize,
    pivots: Vec<u32>,
    bound: Bound,
    between: Vec<f64>,
    simplex: Simplex,
    distance_max: f64,
    spread_max: f64,
    distances: Vec<f32>,
    apexes: Vec<f32>,
}

impl PivotTable {
    fn build(
        objects: &IndexedObjects<'_>,
        pivots: &[u32],
        bound: Bound,
        slack: Slack,
    ) -> Result<Self, MetricIndexError> {
        let count = pivots.len();
        let mut rows = Vec::with_capacity(objects.count() * count);
        for object in objects.all() {
            for &pivot in pivots {
                rows.push(if pivot == object { 0.0 } else { objects.distance(pivot, object)? });
            }
        }
        let between: Vec<f64> =
            pivots.iter().flat_map(|pivot| rows[*pivot as usize * count..][..count].to_vec()).collect();
        let largest = rows.iter().fold(0.0, |largest: f64, distance| largest.max(*distance));
        let noise = slack.noise_squared(largest);
        let has_apexes = bound == Bound::Simplex;
        let simplex = Simplex::new(if has_apexes { &between } else { &[0.0] }, noise).expect("distances");
        let blocks = objects.count().div_ceil(PACKED_OBJECTS);
        let width = |columns: usize| vec![0.0; blocks * columns * PACKED_OBJECTS];
        let mut table = Self {
            count: objects.count(),
            pivots: pivots.to_vec(),
            bound,
            between,
            distance_max: largest,
            spread_max: 0.0,
            distances: if has_apexes { Vec::new() } else { width(count) },
            apexes: if has_apexes { width(simplex.dimensions()) } else { Vec::new() },
            simplex,
        };
        for (object, row) in rows.chunks_exact(count).enumerate() {
            let place = |column: usize, width: usize| {
                (object / PACKED_OBJECTS * width + column) * PACKED_OBJECTS + object % PACKED_OBJECTS
            };
            if has_apexes {
                let apex = table.simplex.apex(row, noise).expect("a Hilbert distance");
                table.spread_max = table.spread_max.max(apex.spread);
                for (column, x) in apex.coordinates.iter().enumerate() {
                    table.apexes[place(column, table.simplex.dimensions())] = *x as f32;
                }
            } else {
                row.iter().enumerate().for_each(|(p, x)| table.distances[place(p, count)] = *x as f32);
            }
        }
        Ok(table)
    }
}

impl MetricIndex for PivotTable {
    fn objects(&self) -> usize {
        self.count
    }

    fn bytes(&self) -> usize {
        4 * (self.distances.len() + self.apexes.len())
    }

    fn answer(&self, search: &mut Search<'_>) -> Result<(), MetricIndexError> {
        let mut query = Vec::with_capacity(self.pivots.len());
        for &pivot in &self.pivots {
            query.push(search.compute(pivot)?);
        }
        let largest = query.iter().fold(self.distance_max, |largest, distance| largest.max(*distance));
        let noise_squared = search.slack().noise_squared(largest);
        let errors =
            TableErrors { distance_max: self.distance_max, noise_squared, spread_max: self.spread_max };
        let made = BoundQuery::new(self.bound, &query, &self.between, &self.simplex, &errors);
        let made = made.expect("sound distances");
        let evaluator = BoundEvaluator::new(CodePath::detect());
        let (mut bounds, mut left) = (Bounds::default(), Vec::with_capacity(self.count));
        let width = self.pivots.len() * PACKED_OBJECTS;
        let tips = self.simplex.dimensions() * PACKED_OBJECTS;
        for block in 0..self.count.div_ceil(PACKED_OBJECTS) {
            let columns = PackedBlock {
                distances: self.distances.get(block * width..(block + 1) * width).unwrap_or(&[]),
                apexes: self.apexes.get(block * tips..(block + 1) * tips).unwrap_or(&[]),
            };
            evaluator.bounds(&made, columns, &mut bounds);
            let first = block * PACKED_OBJECTS;
            let lowers = bounds.lower.iter().take(self.count - first);
            left.extend(lowers.enumerate().map(|(row, lower)| (*lower, (first + row) as u32)));
        }
        left.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        for (lower, object) in left {
            if search.rules_out(f64::from(lower)) {
                break;
            }
            if !self.pivots.contains(&object) {
                search.compute(object)?;
            }
        }
        Ok(())
    }
}
