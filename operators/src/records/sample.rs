//! `sample`: a random part of the objects that pass, for trials and for measuring.
//!
//! Invariants: whether an object passes depends on the seed and the names alone, not on the order or the envelopes in
//! which objects come. Those that pass keep their order, and a smaller part is contained in a larger one of its seed.

use arrow_array::{Array, ArrayRef, RecordBatch, make_array};
use arrow_data::transform::MutableArrayData;
use boxwork_kernels::chance::{Random, mix};
use boxwork_runtime::envelope::Envelope;
use boxwork_runtime::operator::{
    Bind, BoxError, Context, Flow, In, Kind, Operator, OperatorSpec, Out, Pushed,
};
use boxwork_runtime::parameter::{Arguments, Default, Parameter, ParameterType};

use super::HOLDS;
use crate::columns;

/// Rows of an envelope of a counted sample.
const ROWS: usize = 1024;
/// Objects that a counted sample holds beyond twice its count before it drops those that no longer belong to it.
const ROWS_MORE: usize = 4096;

const OBJECTS_IN: In = In::stream(0, "objects", columns::objects, "objects of one kind");
const OBJECTS_OUT: Out = Out::new(0, "objects", columns::objects, "some of them, in their order");

/// Passes a random part of the objects.
///
/// Each object gets a number by its name and the seed. With `share`, an object passes if its number is below that share
/// of all numbers, as soon as it comes. With `count`, the objects with the least numbers pass, once all have come; the
/// box holds about twice as many meanwhile. So a store from which objects were removed gives the sample of before
/// without them, and stores of equal names give equal samples.
///
/// # Inputs
/// `objects`: objects of one kind.
///
/// # Outputs
/// `objects`: some of them, in their order.
///
/// # Parameters
/// `count`: how many objects pass, or all if there are fewer. `share`: which part of the objects passes. Exactly one of
/// both is given. `seed`: the seed of the random numbers. `holds`: the kind of the objects.
pub(crate) static SAMPLE: OperatorSpec = OperatorSpec {
    parameters: &[
        Parameter::new(
            "count",
            ParameterType::integer_from(1),
            Default::Absent,
            "how many objects pass, or all if there are fewer; in place of `share`",
        )
        .unit("objects"),
        Parameter::new(
            "share",
            ParameterType::Number { minimum: 0.0, maximum: 1.0 },
            Default::Absent,
            "which part of the objects passes, such as 0.01; in place of `count`",
        ),
        Parameter::new(
            "seed",
            ParameterType::integer_from(0),
            Default::Integer(1),
            "the seed of the random numbers",
        ),
        HOLDS,
    ],
    inputs: &[OBJECTS_IN],
    outputs: &[OBJECTS_OUT],
    example: "some: {kind: sample, count: 1000}",
    check: Some(|arguments, _| check(arguments)),
    ..OperatorSpec::new("sample", "Passes a random part of the objects.", Kind::Stateful, make)
};

fn check(arguments: &Arguments) -> Result<(), String> {
    match arguments.get("count").is_some() && arguments.get("share").is_some() {
        true => Err("`count` and `share` are both given: leave one of them out".to_owned()),
        false => Ok(()),
    }
}

fn make(bind: &Bind<'_>) -> Result<Box<dyn Operator>, BoxError> {
    check(bind.arguments).map_err(BoxError::new)?;
    let seed = bind.count("seed") as u64;
    let count = bind.get_integer("count").and_then(|count| usize::try_from(count).ok());
    match (count, bind.get_number("share")) {
        (Some(count), _) => Ok(Box::new(Counted { seed, held: Held::new(count), sample: None, sent: 0 })),
        (None, Some(share)) => Ok(Box::new(Shared { seed, limit: limit_of(share), passed: 0 })),
        (None, None) => Err(BoxError::new(
            "needs `count`, a number of objects, or `share`, such as 0.01: give one of them",
        )),
    }
}

/// The number of an object, anything below 2^64 with equal chances.
fn number_of(name: &str, seed: u64) -> u64 {
    // FNV-1a, whose result is mixed well enough only afterwards.
    let of_name = name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    mix(mix(of_name) ^ Random::mixed(seed).bits())
}

/// The numbers below this one are a share of all.
fn limit_of(share: f64) -> u128 {
    // Exact: a share of 53 bits times a power of 2.
    (share * (1u128 << 64) as f64) as u128
}

/// Rows of batches with equal columns, one after the other.
fn gathered(batches: &[RecordBatch], rows: &[(usize, usize)]) -> Result<RecordBatch, BoxError> {
    let schema = batches[0].schema();
    let column = |idx: usize| -> Result<ArrayRef, BoxError> {
        let data: Vec<_> = batches.iter().map(|batch| batch.column(idx).to_data()).collect();
        let mut all = MutableArrayData::new(data.iter().collect(), false, rows.len());
        rows.iter().try_for_each(|(batch, row)| all.try_extend(*batch, *row, *row + 1))?;
        Ok(make_array(all.freeze()))
    };
    let columns = (0..schema.fields().len()).map(column).collect::<Result<Vec<_>, BoxError>>()?;
    Ok(RecordBatch::try_new(schema, columns)?)
}

/// The box of a share: objects pass as they come.
struct Shared {
    seed: u64,
    limit: u128,
    passed: u64,
}

impl Operator for Shared {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while cx.has_room(OBJECTS_OUT) {
            let Some(envelope) = cx.take(OBJECTS_IN) else {
                return Ok(if cx.is_ended(OBJECTS_IN) { Flow::Done } else { Flow::Wait });
            };
            let names = envelope.texts("name")?;
            let passes = |row: &usize| u128::from(number_of(names.value(*row), self.seed)) < self.limit;
            let rows: Vec<(usize, usize)> = (0..envelope.rows()).filter(passes).map(|row| (0, row)).collect();
            self.passed += rows.len() as u64;
            cx.progress(self.passed, 0);
            if rows.is_empty() {
                continue;
            }
            let batch = gathered(std::slice::from_ref(envelope.batch()), &rows)?;
            if cx.push(OBJECTS_OUT, Envelope::new(batch)?)? == Pushed::Closed {
                return Ok(Flow::Done);
            }
        }
        Ok(Flow::Wait)
    }
}

/// The box of a count: objects pass when all have come.
struct Counted {
    seed: u64,
    held: Held,
    /// The sample, once it is known.
    sample: Option<RecordBatch>,
    sent: usize,
}

impl Operator for Counted {
    fn process(&mut self, cx: &mut Context<'_>) -> Result<Flow, BoxError> {
        while let Some(envelope) = cx.take(OBJECTS_IN) {
            self.held.add(&envelope, self.seed)?;
        }
        if !cx.is_ended(OBJECTS_IN) {
            return Ok(Flow::Wait);
        }
        if self.sample.is_none() {
            self.held.prune()?;
            self.sample = self.held.batches.pop();
        }
        let Some(sample) = &self.sample else { return Ok(Flow::Done) };
        while self.sent < sample.num_rows() {
            if !cx.has_room(OBJECTS_OUT) {
                return Ok(Flow::Wait);
            }
            let rows = ROWS.min(sample.num_rows() - self.sent);
            let envelope = Envelope::new(sample.slice(self.sent, rows))?;
            self.sent += rows;
            cx.progress(self.sent as u64, sample.num_rows() as u64);
            if cx.push(OBJECTS_OUT, envelope)? == Pushed::Closed {
                break;
            }
        }
        Ok(Flow::Done)
    }
}

/// Objects that may belong to a counted sample.
struct Held {
    count: usize,
    batches: Vec<RecordBatch>,
    rows: Vec<HeldRow>,
    /// The number and the place that an object must be below: those of the last one of the sample so far.
    limit: (u64, u64),
    seen: u64,
}

struct HeldRow {
    number: u64,
    /// Its place among all objects that came.
    place: u64,
    batch: usize,
    row: usize,
}

impl Held {
    fn new(count: usize) -> Self {
        Self { count, batches: Vec::new(), rows: Vec::new(), limit: (u64::MAX, u64::MAX), seen: 0 }
    }

    fn add(&mut self, envelope: &Envelope, seed: u64) -> Result<(), BoxError> {
        let (names, batch) = (envelope.texts("name")?, self.batches.len());
        let mut rows = Vec::new();
        for row in 0..envelope.rows() {
            let (number, place) = (number_of(names.value(row), seed), self.seen);
            self.seen += 1;
            if (number, place) < self.limit {
                self.rows.push(HeldRow { number, place, batch, row: rows.len() });
                rows.push((0, row));
            }
        }
        if !rows.is_empty() {
            self.batches.push(gathered(std::slice::from_ref(envelope.batch()), &rows)?);
        }
        match self.rows.len() > self.count.saturating_mul(2).saturating_add(ROWS_MORE) {
            true => self.prune(),
            false => Ok(()),
        }
    }

    /// Drops the objects that do not belong to the sample, and brings the others into one batch.
    fn prune(&mut self) -> Result<(), BoxError> {
        if self.rows.len() > self.count {
            self.rows.select_nth_unstable_by_key(self.count - 1, |row| (row.number, row.place));
            self.rows.truncate(self.count);
            self.limit = self.rows.last().map_or(self.limit, |row| (row.number, row.place));
        }
        self.rows.sort_unstable_by_key(|row| row.place);
        let rows: Vec<(usize, usize)> = self.rows.iter().map(|row| (row.batch, row.row)).collect();
        if !rows.is_empty() {
            self.batches = vec![gathered(&self.batches, &rows)?];
            self.rows.iter_mut().enumerate().for_each(|(row, held)| (held.batch, held.row) = (0, row));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::types::UInt32Type;
    use arrow_array::{ListArray, StringArray};
    use boxwork_runtime::harness::Harness;
    use boxwork_runtime::parameter::Value;
    use proptest::prelude::*;

    use super::*;

    /// Sets named by their numbers; each has its number as its element.
    fn sets(numbers: &[u32]) -> Envelope {
        let sets = numbers.iter().map(|number| Some(vec![Some(*number)]));
        let columns: [(&str, ArrayRef); 2] = [
            ("name", Arc::new(StringArray::from_iter_values(numbers.iter().map(u32::to_string)))),
            ("object", Arc::new(ListArray::from_iter_primitive::<UInt32Type, _, _>(sets))),
        ];
        Envelope::from_columns(columns).unwrap()
    }

    fn harness(settings: &[(&'static str, Value)]) -> Result<Harness, BoxError> {
        let holds = ("holds", Value::Text("sets".to_owned()));
        Harness::new(&SAMPLE, settings.iter().cloned().chain([holds]))
    }

    /// The numbers that pass, when they come in envelopes of `rows`.
    fn passed(numbers: &[u32], rows: usize, settings: &[(&'static str, Value)]) -> Vec<u32> {
        let mut harness = harness(settings).unwrap();
        harness.room(1);
        let mut found = Vec::new();
        let mut rest = numbers.chunks(rows).map(sets).map(Some).chain([None]);
        while !harness.is_done() {
            match rest.next() {
                Some(Some(envelope)) => harness.give(OBJECTS_IN, envelope.with_note("made", "so")),
                Some(None) => harness.end(OBJECTS_IN),
                None => {}
            }
            harness.run().unwrap();
            for envelope in harness.taken(OBJECTS_OUT) {
                assert_eq!(envelope.note("made"), Some("so"));
                let lists = envelope.lists("object").unwrap();
                for row in 0..envelope.rows() {
                    let set = lists.value(row);
                    let number = arrow_array::cast::AsArray::as_primitive::<UInt32Type>(&set).value(0);
                    assert_eq!(envelope.texts("name").unwrap().value(row), number.to_string());
                    found.push(number);
                }
            }
        }
        found
    }

    fn count(count: i64, seed: i64) -> [(&'static str, Value); 2] {
        [("count", Value::Integer(count)), ("seed", Value::Integer(seed))]
    }

    fn share(share: f64, seed: i64) -> [(&'static str, Value); 2] {
        [("share", Value::Number(share)), ("seed", Value::Integer(seed))]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn passes_as_the_scalar_reference_does(
            numbers in proptest::collection::vec(0u32..5000, 0..600),
            rows in 1usize..80,
            wanted in 1usize..300,
            part in 0.0f64..1.0,
            seed in 0i64..1000,
        ) {
            // Numbers that come twice have one name: the earlier one comes first.
            let key = |place: usize| (number_of(&numbers[place].to_string(), seed as u64), place);
            let mut least: Vec<usize> = (0..numbers.len()).collect();
            least.sort_by_key(|place| key(*place));
            least.truncate(wanted);
            least.sort_unstable();
            let reference: Vec<u32> = least.iter().map(|place| numbers[*place]).collect();
            prop_assert_eq!(passed(&numbers, rows, &count(wanted as i64, seed)), reference);

            let below = |place: &usize| key(*place).0 as f64 / 2f64.powi(64) < part;
            let reference: Vec<u32> = (0..numbers.len()).filter(below).map(|place| numbers[place]).collect();
            prop_assert_eq!(passed(&numbers, rows, &share(part, seed)), reference);
        }
    }

    #[test]
    fn a_count_is_kept_over_many_prunings_and_samples_lie_within_each_other() {
        let numbers: Vec<u32> = (0..40_000).collect();
        let few = passed(&numbers, 1000, &count(100, 7));
        let many = passed(&numbers, 333, &count(2500, 7));
        assert_eq!((few.len(), many.len()), (100, 2500));
        assert!(many.is_sorted() && few.iter().all(|number| many.binary_search(number).is_ok()));
        assert_ne!(few, passed(&numbers, 1000, &count(100, 8)));
        assert_eq!(passed(&numbers[..50], 7, &count(100, 7)), numbers[..50]);
        assert_eq!(passed(&[], 7, &count(100, 7)), [0; 0]);
    }

    #[test]
    fn a_share_is_about_so_many_of_every_part() {
        let numbers: Vec<u32> = (0..40_000).collect();
        let found = passed(&numbers, 1000, &share(0.25, 3));
        for tenth in 0..10 {
            let range = tenth * 4000..(tenth + 1) * 4000;
            let here = found.iter().filter(|number| range.contains(*number)).count();
            // Five standard deviations of a binomial distribution.
            assert!(here.abs_diff(1000) < 5 * 28, "{here} of 1000");
        }
        assert!(passed(&numbers, 1000, &share(0.0, 3)).is_empty());
        assert_eq!(passed(&numbers, 1000, &share(1.0, 3)), numbers);
    }

    #[test]
    fn parameters_that_make_no_sample_are_refused() {
        let [counted, _] = count(5, 1);
        let [shared, _] = share(0.5, 1);
        for (settings, reason) in [
            (vec![], "needs `count`, a number of objects, or `share`"),
            (vec![counted, shared], "both given: leave one of them out"),
            (vec![("count", Value::Integer(0))], "0 is not a whole number of at least 1"),
            (vec![("share", Value::Number(1.5))], "1.5 is not a number from 0 to 1"),
            (vec![("share", Value::Number(-0.5))], "-0.5 is not a number from 0 to 1"),
        ] {
            let message = harness(&settings).err().expect(reason).to_string();
            assert!(message.contains(reason), "{message}");
        }
    }
}
