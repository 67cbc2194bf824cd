// The most similar pictures to one, in order. Marks on them begin a session.
import * as api from './api.js';
import { attempt } from './busy.js';
import { count, h } from './dom.js';
import { Grid } from './grid.js';
import { model } from './model.js';
import { picture } from './picture.js';
import { announce } from './say.js';
import { sendPicture } from './upload.js';

const HITS_COUNT = 48;

/** What the last picture that was sent has found: the search view shows it without asking again. */
let last = null;

/** Sends a picture and returns what the search view is to show. */
export async function searchByPicture(file) {
  const answer = await sendPicture(file, HITS_COUNT);
  last = answer;
  return answer.query.token;
}

/** The query's own picture. */
function queryPicture(query, store) {
  const sent = model.pictures.get(query.token);
  if (sent) return h('div.frame', {}, h('img', { src: sent.url, alt: sent.name }));
  return query.id === undefined ? null : picture(store, query, { size: 192 });
}

/** @param {{search: string, onwhy: (item: any) => void, onsimilar: (item: any) => void, signal: AbortSignal}} options */
export function searchView({ search, onwhy, onsimilar, signal }) {
  const store = /** @type {import('./api.js').Store} */ (model.store);
  const grid = new Grid({ onwhy, onsimilar, signal });
  const title = h('h1', {}, 'Most similar pictures');
  const about = h('p.hint', {}, '');
  const given = h('div.query');
  const query = /^\d+$/.test(search) ? { id: Number(search) } : { token: search };
  model.query = [query];

  attempt('The search failed', async () => {
    const answer =
      last?.query.token === search
        ? last
        : await api.search(store.name, { query, k: Math.min(HITS_COUNT, store.limits.k) });
    if (signal.aborted) return;
    const hits = answer.hits.filter(({ id }) => id !== query.id);
    const name = model.pictures.get(search)?.name ?? answer.query.name;
    if (name) title.textContent = `Most similar to ${name}`;
    const image = queryPicture(
      { ...answer.query, width: answer.query.width ?? 1, height: answer.query.height ?? 1 },
      store,
    );
    if (image) given.replaceChildren(image);
    about.textContent = `${count(hits.length, 'picture')} in order of distance. Mark some and begin rounds with them.`;
    grid.show(hits, { label: 'Search results', note: ({ distance }) => distance.toFixed(3) });
    announce(`${count(hits.length, 'image')} found`);
    grid.focus();
  });
  return {
    root: h('div.results', {}, h('header.view-head', {}, given, h('div', {}, title, about)), grid.element),
    title: 'Search, Boxwork',
  };
}
