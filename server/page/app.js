// The page: which view stands where the address says, and what connects them.
import * as api from './api.js';
import { begin, more, next, redo, undo } from './actions.js';
import { attempt } from './busy.js';
import { makeBar } from './bar.js';
import { at, h, icon } from './dom.js';
import { help } from './help.js';
import { listen as listenToKeys } from './keys.js';
import { model } from './model.js';
import { go, here } from './route.js';
import { searchByPicture, searchView } from './search.js';
import { sessionView } from './session.js';
import { startView } from './start.js';
import { themeButton } from './theme.js';
import { listen as listenToPictures, sendPicture } from './upload.js';
import { why } from './why.js';

/** Ends what the view on the page listens to. */
let leaving = new AbortController();

/** A picture from outside: a search, or the query of a new session. */
function usePicture(file) {
  if (sessionStorage.getItem('boxwork.mode') === 'search') {
    attempt('The search failed', async () => go({ store: model.store.name, search: await searchByPicture(file) }));
  } else {
    let token = null;
    attempt('The picture could not be used', async () => {
      token = (await sendPicture(file, 1)).query.token;
    }).then((isSent) => isSent && begin([{ token }]));
  }
}

const options = () => ({
  onpicture: usePicture,
  onsimilar: more,
  onwhy: (item) => why(item, { onsimilar: more, onsearch: ({ id }) => go({ store: model.store.name, search: id }) }),
  signal: leaving.signal,
});

function viewOf(route) {
  if (route.view === 'session') return sessionView(route, options());
  if (model.state !== null) model.leave();
  if (route.view === 'search') return searchView({ search: route.search, ...options() });
  model.query = [];
  return startView(options());
}

function draw() {
  const route = here();
  leaving.abort();
  leaving = new AbortController();
  if (route.store) model.store = model.stores.find(({ name }) => name === route.store) ?? model.store;
  const { root, title } = viewOf(route);
  document.title = title;
  const main = at('view');
  const hadFocus = main.contains(document.activeElement);
  main.replaceChildren(root);
  main.dataset.view = route.view;
  if (hadFocus) main.focus({ preventScroll: true });
  scrollTo(0, 0);
  model.changed();
}

/** The choice between several stores. */
function makeStores() {
  const label = at('stores');
  const select = label.querySelector('select');
  if (model.stores.length < 2) return;
  label.hidden = false;
  select.append(...model.stores.map(({ name }) => h('option', { value: name }, name)));
  select.addEventListener('change', () => go({ store: select.value }));
  model.addEventListener('state', () => {
    select.value = model.store?.name ?? '';
  });
}

themeButton(at('theme'), icon);
at('help').addEventListener('click', help);
listenToKeys({
  n: () => {
    if (!at('bar').hidden) next();
  },
  u: undo,
  r: redo,
  '?': help,
});
listenToPictures(usePicture);
addEventListener('hashchange', draw);
await attempt('The collections could not be listed', async () => {
  model.stores = await api.stores();
  model.store = model.stores[0] ?? null;
  makeStores();
  makeBar();
  if (model.store === null)
    at('view').replaceChildren(h('section.hero', {}, h('h1', {}, 'There is no collection here')));
  else draw();
});
