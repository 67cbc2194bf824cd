// The server's paths, version 1, as functions.
import { send } from './http.js';

/**
 * @typedef {{id: number, name: string, class: string | null, width: number, height: number}} Item an object of a store
 * @typedef {{name: string, objects: number, fingerprint: string, images: boolean, originals: boolean,
 *   classes: {name: string, objects: number}[], limits: {image_bytes: number, k: number}}} Store
 * @typedef {{round: number, objects: Item[], exhausted: boolean}} Round
 * @typedef {Item & {relevance: number, round: number}} Mark
 * @typedef {{id: number} | {name: string} | {token: string}} Query
 * @typedef {{session: string, store: string, batch: number, explore: number, class: string | null, round: Round,
 *   rounds: number, marks: Mark[], query: Query[], can_undo: boolean, can_redo: boolean, exhausted: boolean,
 *   shown: number, notices: string[]}} State
 */

const json = async (method, place, options) => (await send(method, place, options)).json();
const path = (...parts) => `/v1/${parts.map(encodeURIComponent).join('/')}`;
const query = (values) =>
  new URLSearchParams(Object.entries(values).filter(([, value]) => value !== null && value !== ''));

/** @returns {Promise<Store[]>} */
export const stores = async () => (await json('GET', '/v1/stores')).stores;

/** A page of a store's objects: `{objects, next}`. */
export const objects = (store, values) => json('GET', `${path('stores', store, 'objects')}?${query(values)}`);

/** @returns {Promise<Item>} */
export const object = (store, id) => json('GET', path('stores', store, 'objects', id));

/** The objects most similar to one of the store, to a token's picture: `{query, hits}`. */
export const search = (store, request) =>
  json('POST', path('stores', store, 'search'), { json: request, isRepeatable: true });

/** The objects most similar to a picture; the answer has a token, with which a session can begin. */
export const searchPicture = (store, file, k) =>
  json('POST', `${path('stores', store, 'search')}?k=${k}`, { body: file, type: file.type, isRepeatable: true });

/** @returns {Promise<State>} */
export const begin = (store, values) => json('POST', path('stores', store, 'sessions'), { json: values });

/** Plays a session again on the store as it is now. @returns {Promise<State>} */
export const replay = async (store, name) => {
  const log = await (await send('GET', path('sessions', name, 'log'))).text();
  return json('POST', path('stores', store, 'sessions'), { body: log, type: 'application/jsonl' });
};

/** @returns {Promise<State>} */
export const session = (name) => json('GET', path('sessions', name));

/** @returns {Promise<Round>} */
export const round = (name, number) => json('GET', path('sessions', name, 'rounds', number));

/** Sends the marks of a round. The server answers the same body alike. @returns {Promise<State>} */
export const judge = (name, values) =>
  json('POST', path('sessions', name, 'rounds'), { json: values, isRepeatable: true });

/** @returns {Promise<State>} */
export const undo = (name) => json('POST', path('sessions', name, 'undo'), { json: {} });

/** @returns {Promise<State>} */
export const redo = (name) => json('POST', path('sessions', name, 'redo'), { json: {} });

/** Changes explore, class or batch. @returns {Promise<State>} */
export const change = (name, values) => json('PATCH', path('sessions', name), { json: values, isRepeatable: true });

/** The best objects by the mean so far: `{total, objects}`. */
export const ranking = (name, values) => json('GET', `${path('sessions', name, 'ranking')}?${query(values)}`);

/** Why an object stands where it stands. */
export const why = (name, id) => json('GET', path('sessions', name, 'objects', id, 'why'));

/** The address of an object's picture in a size of 96, 192 or 384. */
export const thumbnail = (store, id, size) =>
  `${path('stores', store.name, 'objects', id, 'thumbnail')}?size=${size}&v=${store.fingerprint}`;

/** The address of an object's own file, if the server gives it. */
export const original = (store, id) => path('stores', store.name, 'objects', id, 'image');
