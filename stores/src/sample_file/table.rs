//! Columns of a table by their names, and their numbers.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use boxwork_runtime::parameter::nearest;

use super::SampleColumns;

/// The places of the columns that are read.
pub(super) struct Columns {
    pub(super) inputs: Vec<(usize, String)>,
    pub(super) target: Option<(usize, String)>,
    pub(super) names: Option<usize>,
}

impl Columns {
    /// Finds columns among those of a file.
    pub(super) fn find(known: &[String], asked: &SampleColumns) -> Result<Self, String> {
        let place = |name: &String| {
            let mut places = known.iter().enumerate().filter(|(_, other)| *other == name);
            match (places.next(), places.next()) {
                (Some((at, _)), None) => Ok(at),
                (Some(_), Some(_)) => Err(format!("it has two columns `{name}`: rename one")),
                (None, _) => Err(missing(known, name)),
            }
        };
        let inputs = asked.inputs.iter().map(|name| Ok((place(name)?, name.clone())));
        let inputs = inputs.collect::<Result<Vec<_>, String>>()?;
        let twice = (0..inputs.len()).find(|at| inputs[..*at].iter().any(|other| other.0 == inputs[*at].0));
        if let Some(at) = twice {
            return Err(format!("the input `{}` is named twice", inputs[at].1));
        }
        let target = asked.target.as_ref().map(|name| Ok::<_, String>((place(name)?, name.clone())));
        let target = target.transpose()?;
        if let Some(target) = target.as_ref().filter(|target| inputs.iter().any(|input| input.0 == target.0))
        {
            return Err(format!("`{}` is named as an input and as the target", target.1));
        }
        Ok(Self { inputs, target, names: asked.names.as_ref().map(place).transpose()? })
    }

    /// The columns of numbers with their names: the inputs, then the target.
    pub(super) fn wanted(&self) -> impl Iterator<Item = (usize, &str)> {
        self.inputs.iter().chain(&self.target).map(|(at, name)| (*at, name.as_str()))
    }
}

fn missing(known: &[String], name: &str) -> String {
    let hint = match nearest(name, known.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `{near}`?"),
        None => {
            let some: Vec<&str> = known.iter().take(20).map(String::as_str).collect();
            format!("there are {}", some.join(", "))
        }
    };
    format!("it has no column `{name}`: {hint}")
}

/// The number of a field of text; nothing if it is empty.
pub(super) fn number_of(text: &str) -> Result<Option<f64>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| {
        let shown: String = text.chars().take(40).collect();
        format!("`{shown}` is no number; numbers are written as 1.5 or 2e-3")
    })
}

/// The numbers of the wanted columns, in their order; nothing for nulls.
pub(super) fn numbers(batch: &RecordBatch, columns: &Columns) -> Result<Vec<Vec<Option<f64>>>, String> {
    let column = |(at, name): (usize, &str)| {
        let array = batch.column(at);
        fn all<T: ArrowPrimitiveType>(
            array: &dyn Array,
            widen: impl Fn(T::Native) -> f64,
        ) -> Vec<Option<f64>> {
            array.as_primitive::<T>().iter().map(|number| number.map(&widen)).collect()
        }
        Ok(match array.data_type() {
            DataType::Float64 => all::<Float64Type>(array, |x| x),
            DataType::Float32 => all::<Float32Type>(array, f64::from),
            DataType::Int64 => all::<Int64Type>(array, |x| x as f64),
            DataType::Int32 => all::<Int32Type>(array, f64::from),
            DataType::Int16 => all::<Int16Type>(array, f64::from),
            DataType::Int8 => all::<Int8Type>(array, f64::from),
            DataType::UInt64 => all::<UInt64Type>(array, |x| x as f64),
            DataType::UInt32 => all::<UInt32Type>(array, f64::from),
            DataType::UInt16 => all::<UInt16Type>(array, f64::from),
            DataType::UInt8 => all::<UInt8Type>(array, f64::from),
            other => return Err(format!("the column `{name}` is of type {other}: a sample needs numbers")),
        })
    };
    columns.wanted().map(column).collect()
}

/// The names of a batch's samples.
type Names = Box<dyn Fn(usize) -> String>;

/// The names of the samples, if a column has them.
pub(super) fn names(batch: &RecordBatch, columns: &Columns) -> Result<Option<Names>, String> {
    let Some(at) = columns.names else { return Ok(None) };
    match batch.column(at).data_type() {
        DataType::Utf8 => {
            let texts = batch.column(at).as_string::<i32>().clone();
            Ok(Some(Box::new(move |row| texts.value(row).to_owned())))
        }
        DataType::LargeUtf8 => {
            let texts = batch.column(at).as_string::<i64>().clone();
            Ok(Some(Box::new(move |row| texts.value(row).to_owned())))
        }
        other => Err(format!("the column of the names is of type {other}: names are texts")),
    }
}
