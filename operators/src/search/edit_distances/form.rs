//! The form in which devices take the texts of a chunk: planes of bits for the distance levenshtein, letters for alignments.

use std::sync::Arc;

use boxwork_kernels::distance::TextPlanes;
use boxwork_kernels::distance::alignments::{self, CodedTexts, Numbers};
use boxwork_kernels::distance::edits;
use boxwork_kernels::pieces::Pieces;

/// The distance or score that devices compute.
#[derive(Clone, Debug)]
pub(super) enum Wanted {
    Levenshtein,
    Alignments(Arc<Numbers>),
}

impl Wanted {
    /// The most letters of a query.
    pub(super) fn query_letters_max(&self) -> usize {
        match self {
            Self::Levenshtein => edits::QUERY_LETTERS_MAX,
            Self::Alignments(_) => alignments::LETTERS_MAX,
        }
    }

    /// Whether texts are taken as letters.
    pub(super) fn takes_letters(&self) -> bool {
        matches!(self, Self::Alignments(_))
    }

    /// Whether devices compute the numbers of these texts and of queries up to this length.
    pub(super) fn fits(&self, longest: usize, form: &Form) -> bool {
        match (self, form) {
            (Self::Alignments(numbers), Form::Letters(texts)) => numbers.fit(longest, texts.longest()),
            _ => true,
        }
    }
}

/// Texts as devices take them.
#[derive(Debug)]
pub(super) enum Form {
    Planes(TextPlanes),
    Letters(CodedTexts),
}

impl Form {
    /// The texts as letters or as planes; nothing if devices cannot take them, or if the caller cancels.
    pub(super) fn new(are_letters: bool, texts: &[&[char]], pieces: &mut Pieces<'_>) -> Option<Self> {
        match are_letters {
            true => CodedTexts::new(texts, pieces).map(Self::Letters),
            false => TextPlanes::new(texts, pieces).map(Self::Planes),
        }
    }

    /// The number of the text at each position.
    pub(super) fn order(&self) -> &[u32] {
        match self {
            Self::Planes(texts) => texts.order(),
            Self::Letters(texts) => texts.order(),
        }
    }

    /// Texts that are too long, which have no position.
    pub(super) fn rest(&self) -> &[u32] {
        match self {
            Self::Planes(texts) => texts.rest(),
            Self::Letters(texts) => texts.rest(),
        }
    }

    /// Positions with those that fill up groups.
    pub(super) fn positions(&self) -> usize {
        match self {
            Self::Planes(texts) => texts.positions(),
            Self::Letters(texts) => texts.order().len(),
        }
    }

    /// Letters of the longest text that has a position.
    pub(super) fn longest(&self) -> usize {
        match self {
            Self::Planes(texts) => texts.longest(),
            Self::Letters(texts) => texts.longest(),
        }
    }
}
