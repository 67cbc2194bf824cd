//! A round as a page of pictures: the objects of the round, and below them the marks.
//!
//! Invariant: no text from outside is taken for markup.

use std::collections::HashMap;
use std::path::PathBuf;

use boxwork_runtime::operator::{BoxError, Context};
use boxwork_stores::spaces;
use boxwork_stores::store::Store;

use super::{Marked, Round, Share, Shown};
use crate::resources::gp_kernel::GpKernel;
use crate::results::html::markup::{FOOT, Picture, breakable, head, tile};
use crate::results::html::{paths_of, thumbnail};

/// The page so far.
pub(super) struct Page {
    text: String,
    round: Round,
    /// The next object of the round, then the next mark.
    next: usize,
}

impl Page {
    pub(super) fn new(round: Round, store: &dyn Store, kernel: &GpKernel) -> Self {
        let settings = [
            ("Store", store.path().display().to_string()),
            ("Objects", format!("{} {}", store.objects_count(), store.kind())),
            ("Distance", spaces::in_words(&*kernel.space)),
            ("Covariance", kernel.covariance.to_string()),
            ("Marks", round.summary()),
        ];
        let text = head("Next round", &settings) + "<section id=\"round\">\n<h2>Next round</h2>\n";
        let text = match round.shown.len() {
            0 => text + "<p class=\"summary\">No object is left to show.</p>\n<ol>\n",
            count if round.is_exhausted => {
                text + &format!("<p class=\"summary\">{count} objects; no other is left to show.</p>\n<ol>\n")
            }
            count => text + &format!("<p class=\"summary\">{count} objects, the best first.</p>\n<ol>\n"),
        };
        Self { text, round, next: 0 }
    }

    /// Adds the next picture; returns whether there was one.
    pub(super) fn step(
        &mut self,
        cx: &mut Context<'_>,
        store: &dyn Store,
        pictures: &mut HashMap<PathBuf, Option<Picture>>,
    ) -> Result<bool, BoxError> {
        let (shown, count) = (self.round.shown.len(), self.round.shown.len() + self.round.marks.len());
        if self.next == shown && self.next < count {
            self.text += "</ol>\n</section>\n<section id=\"marks\">\n<h2>Marks</h2>\n<ol>\n";
        }
        let Some(name) = self.name() else { return Ok(false) };
        let paths = if cx.detached("disk", || store.find(name))??.is_some() {
            paths_of(store.source(), name)
        } else {
            vec![PathBuf::from(name)]
        };
        let picture = thumbnail(cx, &paths, pictures)?;
        let item = match self.round.shown.get(self.next) {
            Some(shown) => shown_item(self.next + 1, shown, picture.as_ref()),
            None => mark_item(&self.round.marks[self.next - shown], picture.as_ref()),
        };
        self.text += &item;
        self.next += 1;
        cx.progress(self.next as u64, count as u64);
        Ok(true)
    }

    fn name(&self) -> Option<&str> {
        let shown = self.round.shown.get(self.next).map(|shown| shown.name.as_str());
        let mark = || self.round.marks.get(self.next - self.round.shown.len()).map(|mark| mark.name.as_str());
        shown.or_else(mark)
    }

    pub(super) fn finish(&mut self) -> String {
        std::mem::take(&mut self.text) + "</ol>\n</section>\n" + FOOT
    }
}

fn shown_item(rank: usize, shown: &Shown, picture: Option<&Picture>) -> String {
    let (picture, name) = (tile(picture, &shown.name), breakable(&shown.name));
    let Shown { mean, deviation, .. } = shown;
    let why = |word: &str, share: &Option<Share>| match share {
        None => String::new(),
        Some(Share { name, share, .. }) => {
            format!("<span class=\"name\">{word} {} ({share:+.3})</span>", breakable(name))
        }
    };
    let (liked, disliked) = (why("like", &shown.liked), why("unlike", &shown.disliked));
    format!(
        "<li><figure><div class=\"picture\">{picture}</div><figcaption><b>{rank}</b>\
         <span class=\"distance\">{mean:.3} \u{b1} {deviation:.3}</span><span class=\"name\">{name}</span>\
         {liked}{disliked}</figcaption></figure></li>\n"
    )
}

fn mark_item(mark: &Marked, picture: Option<&Picture>) -> String {
    let (picture, name) = (tile(picture, &mark.name), breakable(&mark.name));
    let (class, word) = match mark.relevance {
        _ if mark.is_weak => ("", "not judged"),
        liked if liked >= 0.5 => (" class=\"right\"", "liked"),
        _ => ("", "disliked"),
    };
    let relevance = mark.relevance;
    format!(
        "<li{class}><figure><div class=\"picture\">{picture}<span class=\"mark\">{word}</span></div>\
         <figcaption><b>{relevance}</b><span class=\"name\">{name}</span></figcaption></figure></li>\n"
    )
}
