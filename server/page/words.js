// The five judgements: relevance, word, icon.

/** @type {{relevance: number, word: string, icon: string, key: string}[]} */
export const JUDGEMENTS = [
  { relevance: 0, word: 'Disliked', icon: 'dislike', key: '0' },
  { relevance: 0.25, word: 'Hardly', icon: 'partly', key: '1' },
  { relevance: 0.5, word: 'Partly', icon: 'partly', key: '2' },
  { relevance: 0.75, word: 'Mostly', icon: 'partly', key: '3' },
  { relevance: 1, word: 'Liked', icon: 'like', key: '4' },
];

/** The judgement nearest to a relevance. */
export function judgementOf(relevance) {
  return JUDGEMENTS[Math.round(relevance * (JUDGEMENTS.length - 1))];
}

/** Whether a relevance counts as liked: it is kept and exported. */
export const isLiked = (relevance) => relevance >= 0.5;
