// The rounds of a session as a strip, each with its counts; a press shows that round again.
import { h, icon } from './dom.js';
import { model } from './model.js';
import { link } from './route.js';
import { isLiked } from './words.js';

function countsOf(round, current) {
  const marks = model.marks.all().filter((mark) => (mark.round ?? current) === round);
  const liked = marks.filter(({ relevance }) => isLiked(relevance)).length;
  return { liked, disliked: marks.length - liked };
}

const amount = (name, number, word) =>
  number > 0 &&
  h('span.amount', { data: { kind: name } }, icon(name), String(number), h('span.unseen', {}, ` ${word}`));

/** The strip; `shown` is the round that is on the page, or null. */
export function historyStrip(shown) {
  const { state } = model;
  const current = state.round.round;
  const last = Math.max(state.rounds, current);
  const entries = Array.from({ length: last }, (_, idx) => {
    const round = idx + 1;
    const { liked, disliked } = countsOf(round, current);
    const isUndone = round > current;
    const inner = [
      h('span.round-name', {}, `Round ${round}`),
      amount('like', liked, 'liked, '),
      amount('dislike', disliked, 'disliked'),
    ];
    if (isUndone)
      return h('li', {}, h('span.past', { data: { undone: '' }, title: 'Undone: Redo brings it back' }, inner));
    const href = link({ session: state.session, round: round === current ? null : round });
    return h('li', {}, h('a.past', { href, 'aria-current': round === shown ? 'step' : null }, inner));
  });
  return h('nav.history', { 'aria-label': 'Rounds' }, h('ol', { role: 'list' }, entries));
}
