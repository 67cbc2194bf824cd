//! Searched pictures by token, so that a session may begin with one: a bounded list whose entries expire.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::backend::Picture;

#[derive(Debug)]
struct Kept {
    picture: Arc<Picture>,
    /// The extraction that made it.
    family: String,
    used: Instant,
}

/// The pictures.
#[derive(Debug)]
pub struct Pictures {
    kept: Mutex<HashMap<String, Kept>>,
    most: usize,
    idle: Duration,
}

impl Pictures {
    /// Room for so many, for so long after their last use.
    pub fn new(most: usize, idle: Duration) -> Self {
        Self { kept: Mutex::default(), most, idle }
    }

    /// Keeps a picture under a token.
    pub fn keep(&self, token: String, picture: Arc<Picture>, family: &str, now: Instant) {
        let mut kept = self.kept.lock();
        kept.retain(|_, kept| now.saturating_duration_since(kept.used) < self.idle);
        if kept.len() >= self.most {
            let oldest = kept.iter().min_by_key(|(_, kept)| kept.used).map(|(token, _)| token.clone());
            oldest.and_then(|token| kept.remove(&token));
        }
        kept.insert(token, Kept { picture, family: family.to_owned(), used: now });
    }

    /// The picture of a token, if it fits an extraction.
    pub fn get(&self, token: &str, family: &str, now: Instant) -> Option<Arc<Picture>> {
        let mut kept = self.kept.lock();
        let found = kept.get_mut(token)?;
        if found.family != family || now.saturating_duration_since(found.used) >= self.idle {
            return None;
        }
        found.used = now;
        Some(Arc::clone(&found.picture))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_goes_and_old_ones_expire() {
        let pictures = Pictures::new(2, Duration::from_secs(10));
        let picture = Arc::new(Picture { width: 1, height: 1, signature: Vec::new() });
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let keep = |token: &str, seconds| {
            pictures.keep(token.to_owned(), Arc::clone(&picture), "f", at(seconds));
        };
        keep("a", 0);
        keep("b", 1);
        assert!(pictures.get("a", "f", at(2)).is_some());
        keep("c", 3);
        assert!(pictures.get("b", "f", at(3)).is_none(), "the least recently used");
        assert!(pictures.get("a", "f", at(3)).is_some() && pictures.get("a", "g", at(3)).is_none());
        assert!(pictures.get("a", "f", at(13)).is_none(), "too old");
    }
}
