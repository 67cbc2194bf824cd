//! The rows that may be among the k nearest, by scores with an error.

/// Candidates for the k nearest of many rows.
#[derive(Clone, Debug)]
pub struct Shortlist {
    k: usize,
    /// Twice the error of a score.
    slack: f32,
    /// Rows with larger scores are not among the k nearest.
    limit: f32,
    /// Candidates that are kept before those beyond the limit are dropped.
    most: usize,
    kept: Vec<(f32, u32)>,
}

/// Candidates beyond so many that are kept before the limit is looked for again: a few, and a quarter. The limit falls with each
/// look, and fewer rows are offered.
const fn room(kept: usize) -> usize {
    kept / 4 + 8
}

/// The order of candidates by (score, row), as one number: one comparison without a branch.
#[inline(always)]
fn order(&(score, row): &(f32, u32)) -> i64 {
    let bits = score.to_bits().cast_signed();
    // As `f32::total_cmp` orders them: the sizes of numbers below 0 go down.
    let score = bits ^ ((bits >> 31).cast_unsigned() >> 1).cast_signed();
    i64::from(score) << 32 | i64::from(row)
}

impl Shortlist {
    /// An empty list for `k` rows, whose scores are off by at most `error`.
    pub fn new(k: usize, error: f64) -> Self {
        let slack = ((2.0 * error) as f32).next_up();
        let limit = if k == 0 { f32::NEG_INFINITY } else { f32::MAX };
        Self { k, slack, limit, most: k.saturating_add(room(k)), kept: Vec::new() }
    }

    /// The same list, for rows with scores up to a limit only. Scores have their errors: a row whose true score is within
    /// the limit by the error of one is kept.
    pub fn within(mut self, limit: f32) -> Self {
        self.limit = self.limit.min(limit);
        self
    }

    /// Allows scores to be off by `error` more; only before any row is offered.
    pub fn with_more_error(mut self, error: f64) -> Self {
        if error > 0.0 {
            self.slack = ((f64::from(self.slack) + 2.0 * error) as f32).next_up();
        }
        self
    }

    /// Rows with larger scores are not among the k nearest.
    #[inline]
    pub fn limit(&self) -> f32 {
        // A list that takes all rows has no use for scores: none is at most a NaN.
        if self.takes_all() { f32::NAN } else { self.limit }
    }

    /// Twice the error of a score, rounded up.
    pub(super) fn slack(&self) -> f32 {
        self.slack
    }

    /// Whether scores say nothing, so that every row is a candidate.
    #[inline]
    pub fn takes_all(&self) -> bool {
        self.slack == f32::INFINITY && self.k > 0
    }

    /// Keeps a row if it may be among the k nearest.
    #[inline]
    pub fn offer(&mut self, score: f32, row: u32) {
        if score > self.limit {
            return;
        }
        self.kept.push((score, row));
        if self.k == 1 {
            // The sum is rounded once.
            self.limit = self.limit.min((score + self.slack).next_up());
        }
        if self.kept.len() >= self.most {
            self.tighten();
        }
    }

    /// Drops the rows that are beyond the k-th least score by more than the error.
    pub fn tighten(&mut self) {
        if self.k > 0 && self.kept.len() >= self.k {
            let (_, (score, _), _) = self.kept.select_nth_unstable_by_key(self.k - 1, order);
            self.limit = self.limit.min((*score + self.slack).next_up());
            let limit = self.limit;
            self.kept.retain(|(score, _)| *score <= limit);
        }
        // Many rows may lie within the error of each other: they must not be looked through for each new one.
        self.most = self.most.max(self.kept.len() + room(self.kept.len()));
    }

    /// The candidates so far, in no order: a score and a row each.
    pub fn kept(&self) -> &[(f32, u32)] {
        &self.kept
    }

    /// The k nearest of the candidates by (distance, row), the nearest first; `distance` computes the distance of a row in
    /// f64.
    pub fn ranked(mut self, mut distance: impl FnMut(u32) -> f64) -> Vec<(f64, u32)> {
        self.tighten();
        let mut ranked: Vec<(f64, u32)> = self.kept.iter().map(|(_, row)| (distance(*row), *row)).collect();
        ranked.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        ranked.truncate(self.k);
        ranked
    }

    /// The k candidates of the least scores, the nearest first, for scores that are not computed again; equal scores go by
    /// row.
    pub fn by_score(mut self) -> Vec<(f32, u32)> {
        self.kept.sort_unstable_by_key(order);
        self.kept.truncate(self.k);
        self.kept
    }

    /// Keeps only the k nearest of the candidates by (distance, row) if there are more than `most`: many rows may lie within
    /// the error of each other, such as copies of one.
    pub fn settle(&mut self, most: usize, mut distance: impl FnMut(u32) -> f64) {
        if self.kept.len() <= most.max(self.k) {
            return;
        }
        self.tighten();
        if self.kept.len() <= most.max(self.k) {
            return;
        }
        let mut ranked: Vec<_> = self.kept.iter().map(|kept| (distance(kept.1), *kept)).collect();
        ranked.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.1.cmp(&b.1.1)));
        ranked.truncate(self.k);
        self.kept.clear();
        self.kept.extend(ranked.into_iter().map(|(_, kept)| kept));
    }
}
