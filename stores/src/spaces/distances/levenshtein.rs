//! The Levenshtein distance of texts.

use std::ops::Range;

use boxwork_kernels::CodePath;
use boxwork_kernels::distance::{Distance, DistanceError, Levenshtein, Long, Pattern, Properties, Slack};
use boxwork_kernels::interrupt::{Interrupt, Interrupted, ask};

use crate::kinds::{Kind, Texts};
use crate::spaces::Constants;
use crate::spaces::column_space::{ColumnDistance, ColumnDistanceSpec};

/// The number of letters to insert, delete or replace.
pub(in crate::spaces) static LEVENSHTEIN: ColumnDistanceSpec<Levenshtein> =
    ColumnDistanceSpec { name: "levenshtein", constants: Constants::None, make: |_| Ok(Levenshtein) };

/// All texts of a block are compared if at least one in so many is wanted: that takes less time than one by one.
const TOGETHER_SHARE: usize = 8;

/// Queries that are compared with a block at once. They share the bits of its letters.
const QUERIES_TOGETHER: usize = 64;

impl ColumnDistance for Levenshtein {
    type Kind = Texts;
    type Query = Pattern;

    fn properties(&self) -> Properties {
        Distance::properties(self)
    }

    fn slack(&self, dimensions: usize) -> Slack {
        Distance::slack(self, dimensions, 0.0)
    }

    fn query(&self, object: &[char]) -> Result<Pattern, DistanceError> {
        self.check(object)?;
        Ok(Pattern::new(object))
    }

    fn to(&self, query: &Pattern, object: &[char]) -> f64 {
        query.distance(object) as f64
    }

    fn to_rows(
        &self,
        query: &Pattern,
        batch: &<Texts as Kind>::Batch,
        rows: &[usize],
        out: &mut [f64],
        interrupt: Interrupt<'_>,
    ) -> Result<(), Interrupted> {
        assert_eq!(rows.len(), out.len(), "a distance a row");
        let (mut place, mut found) = (0, Vec::new());
        while let Some(row) = rows.get(place) {
            let (block, of_block) = batch.block(*row);
            let run = rows[place..].iter().take_while(|row| of_block.contains(row)).count();
            let (rows, out) = (&rows[place..place + run], &mut out[place..place + run]);
            place += run;
            if TOGETHER_SHARE * run < of_block.len() {
                for (row, out) in rows.iter().zip(out) {
                    ask(interrupt)?;
                    *out = self.to(query, Texts::item(batch, *row));
                }
                continue;
            }
            found.resize(of_block.len(), 0_u32);
            let text = |text| Texts::item(batch, of_block.start + text);
            block.distances(CodePath::detect(), &[query], text, &mut found, interrupt)?;
            for (row, out) in rows.iter().zip(out) {
                *out = f64::from(found[row - of_block.start]);
            }
        }
        Ok(())
    }

    fn to_many(
        &self,
        queries: &[&Pattern],
        batch: &<Texts as Kind>::Batch,
        rows: Range<usize>,
        out: &mut [f64],
        interrupt: Interrupt<'_>,
    ) -> Result<(), Interrupted> {
        assert_eq!(out.len(), queries.len() * rows.len(), "a number for each query and row");
        let (count, mut next, mut found) = (rows.len(), rows.start, Vec::new());
        while next < rows.end {
            let (block, of_block) = batch.block(next);
            let upto = of_block.end.min(rows.end);
            let (of_out, of_found) = (next - rows.start, next - of_block.start);
            let text = |text| Texts::item(batch, of_block.start + text);
            if of_block == rows {
                // The block has these rows and no others, as it has for a whole piece of a scan.
                for (queries, out) in
                    queries.chunks(QUERIES_TOGETHER).zip(out.chunks_mut(QUERIES_TOGETHER * count))
                {
                    block.distances(CodePath::detect(), queries, text, out, interrupt)?;
                }
                return Ok(());
            }
            for (place, queries) in queries.chunks(QUERIES_TOGETHER).enumerate() {
                found.resize(queries.len() * of_block.len(), 0_u32);
                block.distances(CodePath::detect(), queries, text, &mut found, interrupt)?;
                let out = out.chunks_exact_mut(count).skip(place * QUERIES_TOGETHER);
                for (found, out) in found.chunks_exact(of_block.len()).zip(out) {
                    let found = found[of_found..].iter().map(|found| f64::from(*found));
                    out[of_out..of_out + upto - next]
                        .iter_mut()
                        .zip(found)
                        .for_each(|(out, found)| *out = found);
                }
            }
            next = upto;
        }
        Ok(())
    }

    fn is_long(&self, query: &Pattern, object: Option<&[char]>) -> bool {
        query.is_long(object.map_or(usize::MAX, <[char]>::len))
    }

    fn long(&self, query: &Pattern, object: &[char]) -> Option<Long> {
        query.is_long(object.len()).then(|| query.long(object))
    }

    fn between(&self, a: &[char], b: &[char]) -> f64 {
        self.distance(a, b)
    }
}
