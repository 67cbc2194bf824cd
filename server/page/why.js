// Why a picture stands where it stands: how sure the model is, which marks pull it up or down, which liked ones are near.
import * as api from './api.js';
import { attempt } from './busy.js';
import { badge, toggle } from './card.js';
import { h, icon } from './dom.js';
import { open } from './dialog.js';
import { model } from './model.js';
import { originalLink, picture } from './picture.js';
import { JUDGEMENTS } from './words.js';

const small = (item, ...more) =>
  h('li', {}, picture(model.store, item, { size: 96 }), h('span.why-name', {}, item.name), ...more);

/** A bar to the right of the middle for a mark that speaks for the picture, to the left for one against it. */
function shareBar(share, most) {
  const bar = h('span.share-fill', { data: { sign: share < 0 ? 'against' : 'for' } });
  bar.style.setProperty('--part', String(Math.abs(share) / most));
  return h('span.share-bar', {}, bar);
}

function reasons({ mean, deviation, marks, nearest_liked: near }) {
  const most = Math.max(...marks.map(({ share }) => Math.abs(share)), 1e-9);
  const entry = (mark) =>
    small(
      mark,
      badge(mark.relevance),
      shareBar(mark.share, most),
      h('span.share-number', {}, `${mark.share < 0 ? '−' : '+'}${Math.abs(mark.share).toFixed(2)}`),
    );
  return [
    h('p.estimate', {}, 'Expected relevance ', h('strong', {}, mean.toFixed(2)), ` ± ${deviation.toFixed(2)}`),
    h('h3', {}, 'Marks that count most'),
    marks.length === 0
      ? h('p.hint', {}, 'There are no marks yet: the first pictures are chosen to differ from each other.')
      : h('ul.why-marks', { role: 'list' }, marks.map(entry)),
    near.length > 0 && h('h3', {}, 'Nearest liked pictures'),
    near.length > 0 &&
      h(
        'ul.why-near',
        { role: 'list' },
        near.map((item) => small(item, h('span.share-number', {}, `distance ${item.distance.toFixed(3)}`))),
      ),
  ];
}

/** The five judgements as buttons. */
function judge(item) {
  const buttons = JUDGEMENTS.map(({ relevance, word, icon: name }) =>
    h(
      'button.tool',
      {
        type: 'button',
        data: { relevance: String(relevance) },
        onclick: () => {
          toggle(item, relevance);
          draw();
        },
      },
      icon(name),
      word,
    ),
  );
  const draw = () =>
    buttons.forEach((button) =>
      button.setAttribute('aria-pressed', String(model.marks.of(item.id) === Number(button.dataset.relevance))),
    );
  draw();
  return h('div.judge', { role: 'group', 'aria-label': 'Judge this picture' }, buttons);
}

/**
 * Opens the page about one picture.
 * @param {import('./api.js').Item} item
 * @param {{onsimilar: (item: any) => void, onsearch: (item: any) => void}} options
 */
export function why(item, { onsimilar, onsearch }) {
  const body = h('div.why-reasons', { 'aria-live': 'polite' });
  const leave = (run) => () => {
    close();
    run(item);
  };
  const close = open(
    item.name,
    h(
      'div.why',
      {},
      h(
        'div.why-picture',
        {},
        picture(model.store, item, { size: 384 }),
        judge(item),
        h(
          'div.judge',
          {},
          h('button.tool', { type: 'button', onclick: leave(onsimilar) }, icon('similar'), 'More like this one'),
          h('button.tool', { type: 'button', onclick: leave(onsearch) }, icon('search'), 'Most similar'),
          originalLink(model.store, item),
        ),
      ),
      body,
    ),
  );
  const { state } = model;
  if (state === null) {
    body.append(h('p.hint', {}, 'Once there are rounds, this says which marks brought a picture here.'));
    return;
  }
  attempt('The reasons did not come', async () =>
    body.replaceChildren(...reasons(await api.why(state.session, item.id)).filter(Boolean)),
  );
}
