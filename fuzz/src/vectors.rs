//! Stores of vectors in memory, and the files beside them.

use std::path::Path;
use std::sync::Arc;

use boxwork_kernels::pieces::one_by_one;
use boxwork_kernels::vector::{NumberType, VectorRef};
use boxwork_stores::kinds::{Kind as _, Vectors};
use boxwork_stores::lists::{self, Assigned, Coding, Lists, ListsError, ListsOptions, Training};
use boxwork_stores::object_store::Rows;
use boxwork_stores::space::Space;
use boxwork_stores::spaces::{self, DistanceOptions};
use boxwork_stores::store::Store;

/// Numbers of a vector.
pub const DIMENSIONS: usize = 8;
/// Lists of a file.
const LISTS: usize = 5;

/// A space of so many vectors of bytes, without the one with the id 2.
pub fn space(count: usize) -> Arc<dyn Space> {
    let mut rows = Rows::new(Vectors::of(DIMENSIONS, NumberType::U8));
    for row in 0..count {
        let numbers: Vec<u8> = (0..DIMENSIONS).map(|place| (row * (place * 7 + 3) % 251) as u8).collect();
        let pushed =
            rows.push(&format!("v/{row}"), |builder| Vectors::push(builder, VectorRef::U8(&numbers)));
        pushed.expect("a sound vector");
    }
    let store = rows.finish_without(vec![2], Path::new("vectors"), None).expect("sound vectors");
    let store: Arc<dyn Store> = Arc::new(store);
    spaces::open(&DistanceOptions::named("l2"), store).expect("a distance of vectors")
}

/// Writes the lists of a space.
pub fn write_lists(space: &Arc<dyn Space>, coding: Coding, path: &Path) {
    let options = ListsOptions {
        lists: Some(LISTS),
        iterations: 3,
        seed: 1,
        ..ListsOptions::of(coding)
    };
    let training = Training::new(space, options).expect("lists of vectors");
    let quantizers = training.train(&mut one_by_one()).expect("sound vectors").expect("nobody cancels");
    let ids: Vec<u64> = space.store().among(0..space.store().ids_count()).collect();
    let vectors = lists::vectors(&**space.store(), &ids).expect("sound vectors");
    let (of_lists, codes) = quantizers.assign(&vectors);
    let assigned = Assigned { ids, lists: of_lists, codes };
    lists::write(path, space, &quantizers, &assigned, &|| false).expect("a folder that can be written to");
}

/// All that lists say to a query: for each list the objects and the bits of their scores.
pub fn found(lists: &Lists) -> Result<Vec<Vec<(u64, u32)>>, ListsError> {
    let query: Vec<f32> = (0..DIMENSIONS).map(|place| (place * 31) as f32).collect();
    let mut all = Vec::new();
    for list in 0..lists.count() as u32 {
        lists.bring_in(&[list], &|| false)?;
        let mut kept = [lists.shortlist(&query, 1000, f64::INFINITY)];
        lists.scan(list, &lists.queries(query.clone()), &[0], None, &mut kept);
        let mut rows: Vec<(u64, u32)> =
            kept[0].kept().iter().map(|(score, place)| (lists.id(*place), score.to_bits())).collect();
        rows.sort_unstable();
        all.push(rows);
    }
    Ok(all)
}
