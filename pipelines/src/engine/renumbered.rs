//! Numbers of queries over the requests of one run: each request counts its own from 0.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_array::{ArrayRef, RecordBatch, UInt32Array};
use arrow_schema::DataType;

/// The column of the number of a query.
const QUERY: &str = "query";

/// A batch whose column `query`, if it has one, counts from the number of queries in the requests before.
pub fn counted_from(queries_before: u32, batch: RecordBatch) -> RecordBatch {
    let Ok(place) = batch.schema_ref().index_of(QUERY) else { return batch };
    if queries_before == 0 || *batch.column(place).data_type() != DataType::UInt32 {
        return batch;
    }
    let numbers = batch.column(place).as_primitive::<UInt32Type>();
    let counted =
        UInt32Array::from_iter_values(numbers.values().iter().map(|number| queries_before + number));
    let mut columns: Vec<ArrayRef> = batch.columns().to_vec();
    columns[place] = Arc::new(counted);
    RecordBatch::try_new(batch.schema(), columns)
        .unwrap_or_else(|error| unreachable!("a column was replaced by one of its type and length: {error}"))
}

#[cfg(test)]
mod tests {
    use arrow_array::Float64Array;

    use super::*;

    fn numbers(batch: &RecordBatch) -> &[u32] {
        batch[QUERY].as_primitive::<UInt32Type>().values()
    }

    #[test]
    fn only_the_numbers_of_queries_move() {
        let of_queries = |numbers: Vec<u32>| {
            let columns: [(&str, ArrayRef); 2] = [
                ("distance", Arc::new(Float64Array::from(vec![0.5; numbers.len()]))),
                (QUERY, Arc::new(UInt32Array::from(numbers))),
            ];
            RecordBatch::try_from_iter(columns).unwrap()
        };
        let batch = of_queries(vec![0, 0, 3]);
        assert_eq!(numbers(&counted_from(0, batch.clone())), [0, 0, 3]);
        let moved = counted_from(64, batch.clone());
        assert_eq!(numbers(&moved), [64, 64, 67]);
        assert_eq!(moved["distance"].as_ref(), batch["distance"].as_ref());
        let other = batch.project(&[0]).unwrap();
        assert_eq!(counted_from(64, other.clone()), other);
    }
}
