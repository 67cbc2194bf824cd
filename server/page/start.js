// The first view: bring a picture, begin without one, continue a session, or mark some of the collection.
import * as api from './api.js';
import { begin } from './actions.js';
import { attempt } from './busy.js';
import { count, h, icon } from './dom.js';
import { Grid } from './grid.js';
import { model } from './model.js';
import { forget, recent } from './recent.js';
import { link } from './route.js';
import { chooser } from './upload.js';

/** Places of the collection that the first pictures come from, and pictures of each. */
const PLACES_COUNT = 12;
const PER_PLACE = 2;
const PAGE_COUNT = 48;

/** Pictures from all over the collection: at equal steps, or at random ones. */
async function spread(store, isRandom) {
  const step = store.objects / PLACES_COUNT;
  const place = (idx) => Math.floor((idx + (isRandom ? Math.random() : 0)) * step) - 1;
  const pages = await Promise.all(
    Array.from({ length: PLACES_COUNT }, (_, idx) =>
      api.objects(store.name, { after: Math.max(place(idx), -1) < 0 ? null : place(idx), limit: PER_PLACE }),
    ),
  );
  const items = new Map();
  for (let nth = 0; nth < PER_PLACE; nth += 1) {
    for (const { objects } of pages) if (objects[nth]) items.set(objects[nth].id, objects[nth]);
  }
  return [...items.values()];
}

function modes() {
  const mode = (value, word, title) =>
    h(
      'label',
      { title },
      h('input', {
        type: 'radio',
        name: 'mode',
        value,
        checked: (sessionStorage.getItem('boxwork.mode') ?? 'rounds') === value,
        onchange: () => sessionStorage.setItem('boxwork.mode', value),
      }),
      h('span', {}, word),
    );
  return h(
    'fieldset.modes',
    {},
    h('legend.unseen', {}, 'What a picture begins'),
    mode('rounds', 'Explore in rounds', 'Like and dislike; each round learns'),
    mode('search', 'Search once', 'The most similar pictures, in order'),
  );
}

function hero(onpicture, classOf) {
  return h(
    'section.hero',
    {},
    h('h1', {}, 'Find pictures by liking pictures'),
    h(
      'p',
      {},
      'Show one that is like what you look for. Then like and dislike what comes; every round knows you better.',
    ),
    h(
      'div.drop',
      {},
      icon('upload'),
      h('p.drop-title', {}, 'Drop a picture here'),
      h('p.hint', {}, 'or paste one from the clipboard'),
      h(
        'div.drop-acts',
        {},
        chooser(onpicture),
        h(
          'button.secondary',
          { type: 'button', id: 'without', onclick: () => begin([], { class: classOf() }) },
          icon('start'),
          'Start without one',
        ),
      ),
      modes(),
    ),
  );
}

function sessions(store) {
  const list = recent().filter((entry) => entry.store === store.name);
  if (list.length === 0) return null;
  const when = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' });
  const entry = ({ session, label, rounds, at }) => {
    const element = h(
      'li',
      {},
      h(
        'a',
        { href: link({ session }) },
        h('strong', {}, label),
        h('span', {}, `${count(rounds, 'round')}, ${when.format(at)}`),
      ),
      h(
        'button.round-button',
        {
          type: 'button',
          'aria-label': `Forget the session ${label}`,
          title: 'Forget',
          onclick: () => {
            forget(session);
            element.remove();
          },
        },
        icon('close'),
      ),
    );
    return element;
  };
  return h(
    'section.recent',
    { 'aria-labelledby': 'recent' },
    h('h2', { id: 'recent' }, 'Continue'),
    h('ul', { role: 'list' }, list.map(entry)),
  );
}

/** @param {{onpicture: (file: File) => void, onwhy: (item: any) => void, onsimilar: (item: any) => void, signal: AbortSignal}} options */
export function startView({ onpicture, onwhy, onsimilar, signal }) {
  const store = /** @type {import('./api.js').Store} */ (model.store);
  const grid = new Grid({ onwhy, onsimilar, signal });
  const classes = h(
    'select',
    { id: 'class', onchange: () => load() },
    h('option', { value: '' }, 'All classes'),
    store.classes.map(({ name, objects }) => h('option', { value: name }, `${name} (${objects})`)),
  );
  const prefix = h('input', {
    id: 'prefix',
    type: 'search',
    autocomplete: 'off',
    spellcheck: 'false',
    placeholder: 'Name begins with',
  });
  const further = h('button.secondary', { type: 'button' });
  const empty = h('p.hint', { hidden: true }, 'No picture has such a name.');
  let cursor = null;
  let turn = 0;

  const isFiltered = () => classes.value !== '' || prefix.value !== '';

  /** Shows the first pictures of the filter, or with `isMore` those after them; a later call wins. */
  const load = (isMore = false, isRandom = false) =>
    attempt('The pictures could not be listed', async () => {
      turn += 1;
      const mine = turn;
      const filter = { class: classes.value, prefix: prefix.value, limit: PAGE_COUNT, after: isMore ? cursor : null };
      const page = isFiltered()
        ? await api.objects(store.name, filter)
        : { objects: await spread(store, isRandom), next: null };
      if (mine !== turn || signal.aborted) return;
      cursor = page.next;
      grid.show(page.objects, { label: 'Pictures of the collection', isMore });
      empty.hidden = grid.count > 0;
      further.hidden = isFiltered() ? cursor === null : store.objects <= PLACES_COUNT * PER_PLACE;
      further.textContent = isFiltered() ? 'Show more' : 'Show others';
    });
  further.addEventListener('click', () => (isFiltered() ? load(true) : load(false, true)));
  let typing = 0;
  prefix.addEventListener('input', () => {
    clearTimeout(typing);
    typing = setTimeout(load, 200);
  });

  const root = h(
    'div.start',
    {},
    hero(onpicture, () => classes.value || null),
    sessions(store),
    h(
      'section.collection',
      { 'aria-labelledby': 'collection' },
      h(
        'div.collection-head',
        {},
        h(
          'h2',
          { id: 'collection' },
          'Or mark some of the collection',
          h('small', {}, count(store.objects, 'picture')),
        ),
        h(
          'div.filters',
          {},
          store.classes.length > 1 && h('label', { for: 'class' }, h('span.unseen', {}, 'Class'), classes),
          h('label', { for: 'prefix' }, h('span.unseen', {}, 'Name begins with'), prefix),
        ),
      ),
      grid.element,
      empty,
      h('div.further', {}, further),
    ),
  );
  load();
  return { root, title: 'Boxwork' };
}
