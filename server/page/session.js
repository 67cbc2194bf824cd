// A session: its rounds as a grid, the strip of rounds, the trays, and the ranking so far.
import * as api from './api.js';
import { attempt } from './busy.js';
import { read, tune } from './actions.js';
import { count, h, icon } from './dom.js';
import { Grid } from './grid.js';
import { historyStrip } from './history.js';
import { model } from './model.js';
import { picture } from './picture.js';
import { link } from './route.js';
import { trays } from './trays.js';

const RANKING_PAGE = 48;

/** The pictures that the session began with, or none. */
function given(state, store) {
  if (state.query.length === 0) return null;
  const one = (query) => {
    const sent = model.pictures.get(query.token);
    if (sent) return h('div.frame', {}, h('img', { src: sent.url, alt: sent.name }));
    if (query.token)
      return h('div.frame', {}, h('div.missing', { role: 'img', 'aria-label': 'your own picture' }, icon('upload')));
    if (query.id === undefined) return null;
    const mark = model.marks.all().find(({ item }) => item.id === query.id);
    return picture(
      store,
      mark?.item ?? { id: query.id, name: query.name ?? `picture ${query.id}`, width: 1, height: 1 },
      { size: 96 },
    );
  };
  return h('div.query', {}, state.query.slice(0, 3).map(one));
}

/** The choice of a class, as an element and how to draw it. */
function classFilter(store) {
  const select = h(
    'select',
    { id: 'only', onchange: () => tune({ class: select.value || null }) },
    h('option', { value: '' }, 'All classes'),
    store.classes.map(({ name }) => h('option', { value: name }, name)),
  );
  return {
    element: store.classes.length > 1 && h('label', { for: 'only' }, h('span.unseen', {}, 'Look in'), select),
    draw: () => {
      select.value = model.state.class ?? '';
    },
  };
}

/** The view of a session that is not there. */
function ended() {
  return h(
    'section.hero',
    {},
    h('h1', {}, 'This session is not there'),
    h('p', {}, 'It has ended, or its link is not complete. Sessions in memory end with the server or after a day.'),
    h('p', {}, h('a.primary', { href: '#' }, 'Begin another one')),
  );
}

/**
 * @param {import('./route.js').Route} route
 * @param {{onwhy: (item: any) => void, onsimilar: (item: any) => void, signal: AbortSignal}} options
 */
export function sessionView(route, { onwhy, onsimilar, signal }) {
  const name = /** @type {string} */ (route.session);
  const grid = new Grid({ onwhy, onsimilar, signal });
  const root = h('div.session');
  const [head, strip, side] = [h('header.view-head'), h('div.strip'), h('div.side')];
  const further = h('button.secondary', { type: 'button', hidden: true }, 'Show more');
  const rest = h('p.hint.rest', { hidden: true });
  const [title, about] = [h('h1', {}, 'Opening the session'), h('p.hint')];
  const tray = trays(onwhy);
  let filter;
  let shown = '';
  let isFirst = true;

  const drawGrid = async () => {
    const { state } = model;
    const key = JSON.stringify([
      state.round.round,
      route.round,
      route.isRanking,
      state.round.objects.map(({ id }) => id),
    ]);
    if (key === shown) return;
    shown = key;
    if (route.isRanking) await drawRanking(0);
    else if (route.round && route.round !== state.round.round) {
      const past = await api.round(name, route.round);
      if (!signal.aborted) grid.show(past.objects, { label: `Round ${past.round}` });
    } else grid.show(state.round.objects, { label: `Round ${state.round.round}` });
    if (isFirst) grid.focus();
    isFirst = false;
  };

  const drawRanking = async (offset) => {
    const { total, objects } = await api.ranking(name, { offset, limit: RANKING_PAGE });
    if (signal.aborted) return;
    grid.show(objects, {
      label: 'Best so far',
      note: ({ rank, mean }) => `${rank} · ${mean.toFixed(2)}`,
      isMore: offset > 0,
    });
    further.hidden = offset + objects.length >= total;
    further.onclick = () => attempt('The ranking did not come', () => drawRanking(offset + objects.length));
  };

  /** What stays as it is while the rounds change. */
  const build = () => {
    const { state, store } = model;
    const tab = (values, word, is) =>
      h('a', { href: link({ session: name, ...values }), 'aria-current': is ? 'page' : null }, word);
    head.replaceChildren(
      ...[
        given(state, store),
        h('div', {}, title, about),
        h(
          'div.head-tools',
          {},
          filter.element,
          h(
            'nav.tabs',
            { 'aria-label': 'Views' },
            tab({}, 'Rounds', !route.isRanking),
            tab({ best: 1 }, 'Best so far', route.isRanking),
          ),
        ),
      ].filter(Boolean),
    );
    side.append(tray.element);
  };

  const drawHead = () => {
    const { state } = model;
    const { round, objects } = state.round;
    const number = route.round ?? round;
    title.textContent = route.isRanking ? 'Best so far' : `Round ${number}`;
    about.textContent = route.isRanking
      ? 'All pictures in the order in which you are expected to like them.'
      : number === round
        ? `${count(objects.length, 'new picture')}, ${state.shown} shown so far`
        : 'A round from before. Marks on it count from the next round on.';
    strip.replaceChildren(historyStrip(route.isRanking ? null : number));
    strip.querySelector('[aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'nearest' });
    rest.hidden = route.isRanking || !state.exhausted;
    rest.textContent =
      objects.length > 0
        ? 'These are the last: you have seen all that the filter lets through.'
        : 'Nothing is left to show. Choose another class, or look at the best so far.';
  };

  const draw = () => {
    const { state } = model;
    if (state === null) root.replaceChildren(ended());
    if (state === null || state.session !== name || signal.aborted) return;
    drawHead();
    filter.draw();
    tray.draw();
    attempt('The round could not be shown', () =>
      drawGrid().catch((fault) => {
        shown = '';
        throw fault;
      }),
    );
  };

  head.append(title);
  root.append(
    head,
    strip,
    h('div.work', {}, h('div.pictures', {}, grid.element, rest, h('div.further', {}, further)), side),
  );
  const ready =
    model.state?.session === name
      ? Promise.resolve(true)
      : attempt('The session could not be opened', async () => {
          try {
            model.leave();
            model.marks.clear();
            await read(name);
          } catch (fault) {
            if (fault.status === 404 || fault.isShown) root.replaceChildren(ended());
            if (fault.status !== 404) throw fault;
          }
        });
  ready.then(() => {
    if (model.state === null || signal.aborted) return;
    model.store = model.stores.find((store) => store.name === model.state.store) ?? model.store;
    filter = classFilter(model.store);
    build();
    draw();
    model.addEventListener('state', draw, { signal });
  });
  return { root, title: 'Rounds, Boxwork' };
}
