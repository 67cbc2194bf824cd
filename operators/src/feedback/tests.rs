//! The boxes of a round together, against a model fitted to all objects by its formulas.

mod covariances;
mod sketches;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use boxwork_kernels::gaussian_process::{Covariance, Form, MARK_NOISE, Model, WEAK_NOISE};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::harness::Harness;
use boxwork_runtime::operator::{BoxError, In, OperatorSpec, Out, Resource};
use boxwork_runtime::parameter::Value;
use boxwork_stores::space::Space;
use boxwork_stores::spaces::{self, DistanceOptions};
use boxwork_stores::store::SharedStore;
use boxwork_stores::{object_column, testing};
use proptest::prelude::*;

use super::marks::{NO_MARK, foreign_id};
use crate::resources::gp_kernel::GpKernel;

const FIRST: In = In::nth(0);
const SECOND: In = In::nth(1);
const OUT: Out = Out::nth(0);

/// A round: the boxes of `feedback.yaml`, one after the other.
struct Round {
    kernel: Arc<GpKernel>,
    marks: Vec<String>,
    seen: Vec<String>,
    unmarked: &'static str,
    batch: i64,
    explore: f64,
    class: Option<&'static str>,
    size: i64,
    seed: i64,
}

/// The rows of a round: id, mean, deviation, upper, liked and its share, disliked and its share.
type Row = (u64, f64, f64, f64, (u64, f64), (u64, f64));

impl Round {
    fn of(kernel: &Arc<GpKernel>) -> Self {
        Self {
            kernel: Arc::clone(kernel),
            marks: Vec::new(),
            seen: Vec::new(),
            unmarked: "weak",
            batch: 12,
            explore: 0.25,
            class: None,
            size: 256,
            seed: 1,
        }
    }

    fn marked(kernel: &Arc<GpKernel>, marks: &[(u64, f64)]) -> Self {
        let marks = marks.iter().map(|(id, relevance)| format!("#{id}={relevance}")).collect();
        Self { marks, ..Self::of(kernel) }
    }

    fn harness(
        &self,
        spec: &'static OperatorSpec,
        given: impl Into<Vec<(&'static str, Value)>>,
    ) -> Result<Harness, BoxError> {
        let kernel: Resource = Arc::<GpKernel>::clone(&self.kernel);
        let store: Resource = Arc::new(SharedStore(Arc::clone(self.kernel.space.store())));
        let named = |name: &str| Value::Text(name.to_owned());
        let has = |name: &str| spec.parameters.iter().any(|parameter| parameter.name == name);
        let mut given: Vec<(&str, Value)> = given.into();
        given.extend(has("kernel").then(|| ("kernel", named("k"))));
        given.extend(has("store").then(|| ("store", named("s"))));
        given.extend(has("explore").then_some(("explore", Value::Number(self.explore))));
        given.extend(has("seen").then(|| ("seen", texts(&self.seen))));
        Harness::with_resources(spec, given, [("k", kernel), ("s", store)])
    }

    /// The marks, and the envelopes of the model.
    fn fitted(&self) -> Result<(Vec<super::marks::Mark>, Vec<Envelope>), BoxError> {
        let unmarked = Value::Text(self.unmarked.to_owned());
        let mut read = self.harness(
            &super::read_marks::READ_MARKS,
            [("marks", texts(&self.marks)), ("unmarked", unmarked)],
        )?;
        read.run()?;
        let marks = read.taken(OUT);
        let mut fit = self.harness(&super::gp_fit::GP_FIT, Vec::new())?;
        marks.iter().for_each(|envelope| fit.give(FIRST, envelope.clone()));
        fit.run()?;
        Ok((super::marks::of_envelopes(&marks)?, fit.taken(OUT)))
    }

    /// The envelopes of the candidates.
    fn scanned(&self, model: &[Envelope]) -> Result<Vec<Envelope>, BoxError> {
        let mut given = vec![("size", Value::Integer(self.size)), ("seed", Value::Integer(self.seed))];
        given.extend(self.class.map(|class| ("class", Value::Text(class.to_owned()))));
        let mut scan = self.harness(&super::gp_scan::GP_SCAN, given)?;
        model.iter().for_each(|envelope| scan.give(FIRST, envelope.clone()));
        while !scan.is_done() {
            scan.run()?;
        }
        Ok(scan.taken(OUT))
    }

    fn run(&self) -> Result<Vec<Row>, BoxError> {
        let (_, model) = self.fitted()?;
        let candidates = self.scanned(&model)?;
        let mut list =
            self.harness(&super::gp_shortlist::GP_SHORTLIST, [("size", Value::Integer(self.size))])?;
        candidates.into_iter().for_each(|envelope| list.give(FIRST, envelope));
        list.end(FIRST);
        list.run()?;
        let shortlist = list.taken(OUT);
        let given = [("batch", Value::Integer(self.batch)), ("seed", Value::Integer(self.seed))];
        let mut select = self.harness(&super::gp_select::GP_SELECT, given)?;
        model.iter().for_each(|envelope| select.give(SECOND, envelope.clone()));
        for envelope in shortlist {
            select.give(FIRST, envelope);
            select.run()?;
            if select.is_done() {
                break;
            }
        }
        if !select.is_done() {
            select.end(FIRST);
            select.run()?;
        }
        assert!(select.is_done());
        rows(&select.taken(OUT))
    }

    fn ids(&self) -> Vec<u64> {
        self.run().unwrap().into_iter().map(|row| row.0).collect()
    }
}

fn texts(texts: &[String]) -> Value {
    Value::List(texts.iter().cloned().map(Value::Text).collect())
}

fn rows(envelopes: &[Envelope]) -> Result<Vec<Row>, BoxError> {
    let mut rows = Vec::new();
    for envelope in envelopes {
        let number = |name: &str, row: usize| envelope.f64s(name).map(|numbers| numbers[row]);
        for row in 0..envelope.rows() {
            assert_eq!(envelope.u32s("rank")?[row] as usize, row + 1);
            rows.push((
                envelope.u64s("id")?[row],
                number("mean", row)?,
                number("deviation", row)?,
                number("upper", row)?,
                (envelope.u64s("liked")?[row], number("liked_share", row)?),
                (envelope.u64s("disliked")?[row], number("disliked_share", row)?),
            ));
        }
    }
    Ok(rows)
}

/// The round by the formulas: a model of all marks and picks is fitted anew for every pick, and every object is looked at.
fn reference(
    kernel: &GpKernel,
    marks: &[(u64, f64, f64)],
    hidden: &BTreeSet<u64>,
    (batch, explore): (usize, f64),
) -> Vec<(u64, f64, f64)> {
    let space = &kernel.space;
    let covariances = |from: u64, to: &[u64]| -> Vec<f64> {
        let pairs: Vec<[u64; 2]> = to.iter().map(|id| [from, *id]).collect();
        let mut distances = vec![0.0; pairs.len()];
        space.between(&pairs, &mut distances).unwrap();
        distances.into_iter().map(|distance| kernel.covariance.of(distance)).collect()
    };
    let explore = if marks.iter().all(|mark| mark.1 == 0.0) { 1.0 } else { explore };
    let mut all = marks.to_vec();
    let (mut model, mut picks) = (Model::new(), Vec::new());
    let mut weights = Vec::new();
    for turn in 0..=marks.len() + batch {
        let ids: Vec<u64> = all.iter().map(|mark| mark.0).collect();
        if turn >= marks.len() {
            if turn == marks.len() {
                weights = model.weights();
            }
            let store = space.store();
            let best = store
                .among(0..store.ids_count())
                .filter(|id| !hidden.contains(id) && !ids.contains(id))
                .map(|id| {
                    let k = covariances(id, &ids);
                    let mean: f64 = k.iter().zip(&weights).map(|(k, weight)| k * weight).sum();
                    (mean + explore * model.variance(&k).sqrt(), mean, id)
                })
                .fold(None, |best: Option<(f64, f64, u64)>, next| match best {
                    Some(best) if best.0 >= next.0 => Some(best),
                    _ => Some(next),
                });
            let Some((upper, mean, id)) = best.filter(|_| picks.len() < batch) else { break };
            picks.push((id, mean, upper));
            all.push((id, 0.0, MARK_NOISE));
        }
        let mark = all[turn];
        model.push(&covariances(mark.0, &ids[..turn]), mark.1, mark.2);
    }
    picks
}

fn kernel_of(space: Arc<dyn Space>, form: Form) -> Arc<GpKernel> {
    Arc::new(GpKernel::new(space, Covariance::new(form, 0.4), Arc::default()))
}

fn signatures(folder: &Path, objects: usize) -> Arc<GpKernel> {
    let space = testing::any_space(&testing::space(testing::store(folder, objects)));
    kernel_of(space, Form::InverseMultiquadric)
}

/// Vectors in a plane, some of them equal.
fn vectors(folder: &Path, objects: usize, distance: &str, form: Form) -> Arc<GpKernel> {
    let line = |idx: usize| {
        let place = idx - idx % 3 / 2;
        let x = (place * 7919 % 1009) as f64 / 1009.0;
        let y = (place * 104_729 % 997) as f64 / 997.0;
        format!("{{\"name\": \"{}/{idx}\", \"object\": [{x}, {y}]}}\n", ["a", "b"][idx % 2])
    };
    let path = folder.join("vectors.jsonl");
    std::fs::write(&path, (0..objects).map(line).collect::<String>()).unwrap();
    let store = object_column::open(&path, None, "name", None).unwrap();
    kernel_of(spaces::open(&DistanceOptions::named(distance), store).unwrap(), form)
}

/// Compares a round with the reference; equal objects may change places only if their bounds are equal.
fn check(kernel: &Arc<GpKernel>, marks: &[(u64, f64)], seen: &[u64], round: &Round) {
    let mut rows: Vec<(u64, f64, f64)> = Vec::new();
    let judged: BTreeSet<u64> = marks.iter().map(|mark| mark.0).collect();
    rows.extend(marks.iter().filter(|mark| !seen.contains(&mark.0)).map(|mark| (mark.0, mark.1, MARK_NOISE)));
    for id in seen {
        match marks.iter().find(|mark| mark.0 == *id) {
            Some(mark) => rows.push((mark.0, mark.1, MARK_NOISE)),
            None if round.unmarked == "weak" => rows.push((*id, 0.0, WEAK_NOISE)),
            None => {}
        }
    }
    let mut hidden: BTreeSet<u64> = seen.iter().copied().collect();
    hidden.extend(&judged);
    let found = round.run().unwrap();
    let expected = reference(kernel, &rows, &hidden, (round.batch as usize, round.explore));
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found.0, expected.0, "{found:?} {expected:?}");
        assert!((found.1 - expected.1).abs() < 1e-10 && (found.3 - expected.2).abs() < 1e-10);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_round_is_that_of_all_objects(
        marks in prop::collection::btree_map(0u64..70, 0u8..=4, 1..10),
        shown in prop::collection::vec(0u64..70, 0..12),
        is_weak in any::<bool>(),
        batch in 1i64..15,
        explore in prop::sample::select(vec![0.0, 0.25, 1.0, 2.0]),
        // From one object on, the list grows until the choice is that of all.
        size in prop::sample::select(vec![1i64, 7, 256]),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let kernel = signatures(folder.path(), 70);
        let marks: Vec<(u64, f64)> = marks.into_iter().map(|(id, score)| (id, f64::from(score) / 4.0)).collect();
        let mut seen: Vec<u64> = Vec::new();
        shown.into_iter().for_each(|id| if !seen.contains(&id) { seen.push(id) });
        let round = Round {
            seen: seen.iter().map(|id| format!("#{id}")).collect(),
            unmarked: if is_weak { "weak" } else { "ignore" },
            batch,
            explore,
            size,
            ..Round::marked(&kernel, &marks)
        };
        check(&kernel, &marks, &seen, &round);
    }
}

#[test]
fn a_large_store_has_the_round_of_all_objects_from_fast_columns() {
    let folder = tempfile::tempdir().unwrap();
    let kernel = vectors(folder.path(), 5000, "l2", Form::InverseMultiquadric);
    assert!(!kernel.is_small());
    let marks = [(17, 1.0), (400, 0.0), (4801, 0.5)];
    let round = Round { size: 16, ..Round::marked(&kernel, &marks) };
    check(&kernel, &marks, &[], &round);
    // From the columns and pairs that are kept now.
    assert_eq!(round.run().unwrap(), round.run().unwrap());
    let l1 = vectors(folder.path(), 4200, "l1", Form::Laplacian);
    check(&l1, &marks[..2], &[], &Round { size: 8, ..Round::marked(&l1, &marks[..2]) });
}

#[test]
fn without_marks_a_round_is_spread_from_the_seeds_object() {
    let folder = tempfile::tempdir().unwrap();
    let kernel = signatures(folder.path(), 40);
    let starts: BTreeSet<u64> = (0..20).map(|seed| Round { seed, ..Round::of(&kernel) }.ids()[0]).collect();
    assert!(starts.len() > 5, "{starts:?}");
    let rows = Round::of(&kernel).run().unwrap();
    assert_eq!(rows.len(), 12);
    assert!(rows.iter().all(|row| row.1 == 0.0 && row.2 == 1.0 && row.4.0 == NO_MARK && row.5.0 == NO_MARK));
    // Each object is the one that the earlier ones tell least about.
    let first = rows[0].0;
    let after: Vec<(u64, f64, f64)> =
        reference(&kernel, &[(first, 0.0, MARK_NOISE)], &BTreeSet::from([first]), (11, 1.0));
    assert_eq!(
        rows[1..].iter().map(|row| row.0).collect::<Vec<_>>(),
        after.iter().map(|row| row.0).collect::<Vec<_>>()
    );
    assert_eq!(Round::of(&kernel).ids(), Round::of(&kernel).ids());
}

#[test]
fn only_dislikes_lead_away_from_the_disliked_even_without_exploration() {
    let folder = tempfile::tempdir().unwrap();
    let kernel = signatures(folder.path(), 60);
    let marks = [(3, 0.0), (10, 0.0)];
    let round = Round { explore: 0.0, batch: 5, ..Round::marked(&kernel, &marks) };
    check(&kernel, &marks, &[], &round);
    assert!(round.run().unwrap().iter().all(|row| row.1 == 0.0 && row.4.0 == NO_MARK));
}

#[test]
fn shares_name_the_marks_that_raise_and_lower_a_mean() {
    let folder = tempfile::tempdir().unwrap();
    let kernel = signatures(folder.path(), 60);
    for row in Round::marked(&kernel, &[(3, 1.0), (10, 0.0)]).run().unwrap() {
        assert_eq!((row.4.0, row.5.0), (3, 10));
        assert!(row.4.1 > 0.0 && row.5.1 < 0.0 && (row.4.1 + row.5.1 - row.1).abs() < 1e-12);
        assert!(row.3 > row.1 && row.2 > 0.0);
    }
}

#[test]
fn small_stores_and_filters_give_short_rounds() {
    let folder = tempfile::tempdir().unwrap();
    let kernel = signatures(folder.path(), 1);
    assert_eq!(Round::of(&kernel).ids(), [0]);
    assert!(Round::marked(&kernel, &[(0, 1.0)]).ids().is_empty());
    let other = tempfile::tempdir().unwrap();
    let kernel = signatures(other.path(), 30);
    let of_class = |class| Round { class: Some(class), ..Round::marked(&kernel, &[(1, 1.0)]) };
    let cats = of_class("cats").ids();
    assert!(cats.len() == 10 && cats.iter().all(|id| id % 3 == 0));
    assert_eq!(of_class("owls/").ids().len(), 10);
    assert!(of_class("mice").ids().is_empty());
    let seen = (0..30).filter(|id| *id != 7).map(|id| format!("#{id}")).collect();
    assert_eq!(Round { seen, ..Round::of(&kernel) }.ids(), [7]);
    // Removed objects do not come, and cannot be marked.
    let store = testing::without(kernel.space.store().clone().as_signatures().as_ref().unwrap(), 0..25);
    let kernel = kernel_of(testing::any_space(&testing::space(store)), Form::Gaussian);
    let ids: BTreeSet<u64> = Round::of(&kernel).ids().into_iter().collect();
    assert_eq!(ids, (25..30).collect());
    let error = Round::marked(&kernel, &[(3, 1.0)]).run().unwrap_err().to_string();
    assert!(error.contains("object 3 was removed from"), "{error}");
}

#[test]
fn duplicates_by_the_thousand_give_distinct_and_different_objects() {
    let folder = tempfile::tempdir().unwrap();
    let names: Vec<String> = (0..2100).map(|idx| format!("a/{idx}")).collect();
    // Two thousand equal objects, and others.
    let objects: Vec<(&str, u64)> = names
        .iter()
        .enumerate()
        .map(|(idx, name)| (name.as_str(), if idx < 2000 { 1 } else { idx as u64 }))
        .collect();
    let store = testing::store_of(folder.path(), &objects, &Default::default());
    let kernel = kernel_of(testing::any_space(&testing::space(store)), Form::InverseMultiquadric);
    let ids: BTreeSet<u64> = Round::of(&kernel).ids().into_iter().collect();
    assert_eq!(ids.len(), 12);
    assert!(ids.iter().filter(|id| **id < 2000).count() <= 1, "{ids:?}");
    let ids: BTreeSet<u64> = Round::marked(&kernel, &[(0, 1.0)]).ids().into_iter().collect();
    assert_eq!(ids.len(), 12);
}

#[test]
fn marks_of_objects_that_are_not_in_the_store_come_first() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("words.jsonl");
    let words = ["bark", "park", "quark", "dark", "shark", "zebra"];
    std::fs::write(&path, words.map(|word| format!("{{\"word\": \"{word}\"}}\n")).concat()).unwrap();
    let store = object_column::open(&path, Some("word"), "name", None).unwrap();
    let space = spaces::open(&DistanceOptions::named("levenshtein"), store).unwrap();
    // A length at which few words of one alphabet have a positive definite matrix.
    let kernel = Arc::new(GpKernel::new(space, Covariance::new(Form::Exponential, 1.0), Arc::default()));
    let spelt = Round {
        marks: vec!["barks=1".into(), "zebras=0".into(), "park=1".into()],
        batch: 2,
        ..Round::of(&kernel)
    };
    let rows = spelt.run().unwrap();
    assert_eq!(rows[0].0, 0, "{rows:?}");
    assert_eq!(rows[0].4.0, foreign_id(0));
    assert_eq!(rows[0].5.0, foreign_id(1));
}

#[test]
fn marks_that_are_wrong_are_refused_with_the_fix() {
    let folder = tempfile::tempdir().unwrap();
    let kernel = signatures(folder.path(), 10);
    let refused = |marks: &[&str], words: &[&str]| {
        let marks = marks.iter().map(|mark| (*mark).to_owned()).collect();
        let error = Round { marks, ..Round::of(&kernel) }.run().unwrap_err().to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    };
    refused(&["cats/000.png"], &["has no relevance", "write `cats/000.png=1`"]);
    for wrong in ["NaN", "-0.1", "1.01", "inf", "", "much"] {
        refused(&[&format!("cats/000.png={wrong}")], &["no number from 0 to 1", &format!("`{wrong}`")]);
    }
    refused(&["#10=1"], &["object 10 is not in"]);
    refused(&["cats/000.jpg=1"], &["neither the name", "did you mean `cats/000.png`"]);
    refused(&["#0=1", "cats/000.png=0"], &["`cats/000.png` is marked twice"]);
    let many = Round { marks: (0..1001).map(|id| format!("#{id}=1")).collect(), ..Round::of(&kernel) };
    assert!(many.run().unwrap_err().to_string().contains("1000 at most"));
    let seen = Round { seen: vec!["#99".into()], ..Round::of(&kernel) };
    assert!(seen.run().unwrap_err().to_string().contains("object 99 is not in"));
}

#[test]
fn weak_marks_beyond_the_most_are_those_shown_last() {
    let folder = tempfile::tempdir().unwrap();
    let kernel = vectors(folder.path(), 1400, "l2", Form::Gaussian);
    let seen: Vec<String> = (0..1200).map(|id| format!("#{id}")).collect();
    let round = Round { seen, batch: 3, ..Round::marked(&kernel, &[(1300, 1.0), (5, 1.0)]) };
    let mut read = round.harness(&super::read_marks::READ_MARKS, [("marks", texts(&round.marks))]).unwrap();
    read.run().unwrap();
    let marks = super::marks::of_envelopes(&read.taken(OUT)).unwrap();
    assert_eq!(marks.len(), 1000);
    assert_eq!((marks[0].id, marks[1].id, marks[2].id, marks[999].id), (1300, 5, 202, 1199));
    assert!(marks[2..].iter().all(|mark| mark.relevance == 0.0 && mark.noise == WEAK_NOISE));
    assert!(round.run().unwrap().iter().all(|row| row.0 >= 1200 && row.0 != 1300));
}

#[test]
fn a_ranking_is_by_mean_and_an_explanation_adds_up_to_it() {
    let folder = tempfile::tempdir().unwrap();
    for kernel in
        [signatures(folder.path(), 60), vectors(folder.path(), 4500, "l2", Form::InverseMultiquadric)]
    {
        let round = Round { explore: 0.0, ..Round::marked(&kernel, &[(3, 1.0), (10, 0.0), (20, 0.75)]) };
        let (marks, model) = round.fitted().unwrap();
        let keep = ("shown", Value::Text("keep".to_owned()));
        let mut scan = round.harness(&super::gp_scan::GP_SCAN, [keep]).unwrap();
        model.iter().for_each(|envelope| scan.give(FIRST, envelope.clone()));
        scan.run().unwrap();
        let mut rank = round.harness(&super::gp_rank::GP_RANK, [("limit", Value::Integer(30))]).unwrap();
        model.iter().for_each(|envelope| rank.give(SECOND, envelope.clone()));
        scan.taken(OUT).into_iter().for_each(|envelope| rank.give(FIRST, envelope));
        rank.end(FIRST);
        rank.run().unwrap();
        let ranking = rows(&rank.taken(OUT)).unwrap();
        assert_eq!(ranking.len(), 30);
        assert!(ranking.is_sorted_by(|a, b| a.1 > b.1 || (a.1 == b.1 && a.0 < b.0)));
        let has_liked = ranking.iter().any(|row| row.0 == 3);
        assert!(has_liked || !kernel.is_small(), "marks are ranked, too");
        // The means of all objects, one by one.
        let store = kernel.space.store();
        let mut means: Vec<f64> = Vec::new();
        for id in store.among(0..store.ids_count()).filter(|id| store.ids_count() < 100 || id % 97 == 0) {
            let object = ("object", Value::Text(format!("#{id}")));
            let mut why = round.harness(&super::gp_explain::GP_EXPLAIN, [object]).unwrap();
            model.iter().for_each(|envelope| why.give(FIRST, envelope.clone()));
            why.run().unwrap();
            let reasons = why.taken(OUT).remove(0);
            let (shares, mean) = (reasons.f64s("share").unwrap(), reasons.f64s("mean").unwrap()[0]);
            assert_eq!(shares.len(), marks.len());
            assert!((shares.iter().sum::<f64>() - mean).abs() < 1e-12);
            assert!(shares.is_sorted_by(|a, b| a.abs() >= b.abs()));
            if let Some(row) = ranking.iter().find(|row| row.0 == id) {
                assert_eq!((row.1, row.2), (mean, reasons.f64s("deviation").unwrap()[0]));
            } else {
                assert!(mean <= ranking[29].1);
            }
            means.push(mean);
        }
        assert!(means.len() > 40);
    }
    let kernel = signatures(folder.path(), 60);
    let object = ("object", Value::Text("#7".to_owned()));
    let mut why = Round::of(&kernel).harness(&super::gp_explain::GP_EXPLAIN, [object]).unwrap();
    why.run().unwrap();
    let reasons = why.taken(OUT).remove(0);
    assert_eq!((reasons.u64s("mark").unwrap(), reasons.f64s("mean").unwrap()), (&[NO_MARK][..], &[0.0][..]));
}
