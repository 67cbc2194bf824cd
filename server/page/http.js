// Requests as the server wants them: problems become errors that say what to do, and a wait that the server asks for, or that
// the network needs, is kept and shown.
import { show } from './say.js';
import { askToken, authorization } from './token.js';

/** Times that one request is sent again because the server is busy. */
const BUSY_TRIES_MAX = 6;
/** Times that a request without effect twice is sent again because there was no answer. */
const SILENT_TRIES_MAX = 2;
/** How often a server is asked whether it can be reached again. */
const ASK_MS = 2000;
const WAIT_S_MAX = 60;
const ANSWER_MS_MAX = 60_000;

/** What a server said against a request (RFC 9457), or that it said nothing: then `status` is 0. */
export class Problem extends Error {
  /** @param {{type?: string, title?: string, status?: number, detail?: string, instance?: string, errors?: any[]}} body */
  constructor({ type = 'about:blank', title = 'The request failed', status = 0, detail, instance, errors }) {
    super(detail ?? title);
    this.name = 'Problem';
    /** The last part of the type: `unknown-session`. */
    this.kind = type.split('/').pop();
    Object.assign(this, { title, status, detail: detail ?? title, instance, errors: errors ?? [] });
  }
}

async function problemOf(response) {
  const base = { status: response.status, instance: response.headers.get('x-request-id') ?? undefined };
  const body = await response.json().catch(() => null);
  if (body && typeof body === 'object') return new Problem({ ...base, ...body });
  return new Problem({ ...base, detail: `The server answered ${response.status} without saying why.` });
}

/** Seconds of a Retry-After header: a number or a date. */
function secondsOf(header) {
  const seconds = Number(header);
  const until = Number.isFinite(seconds) ? seconds : (Date.parse(header) - Date.now()) / 1000;
  return Math.min(Math.max(Number.isFinite(until) ? until : 1, 0.2), WAIT_S_MAX);
}

/** Waits until something happens, and says so; the message has a button to stop waiting. */
function waiting(title, until) {
  return new Promise((resolve, reject) => {
    const stop = () => reject(new Problem({ title: 'Stopped waiting', detail: 'Nothing was changed.' }));
    const message = show({ kind: 'wait', title, actions: [{ word: 'Stop waiting', run: stop }], stays: true });
    until(() => {
      message.close();
      resolve(undefined);
    });
  });
}

/** Waits for a connection. A server on this machine can be reached without any network: it is asked, too. */
const online = () =>
  waiting('There is no connection. This continues as soon as there is one.', (done) => {
    const end = () => {
      clearInterval(timer);
      removeEventListener('online', end);
      done();
    };
    const timer = setInterval(() => fetch('/healthz').then(end, () => undefined), ASK_MS);
    addEventListener('online', end);
  });

const later = (seconds) =>
  waiting(`The server is busy. Trying again in ${Math.ceil(seconds)} s.`, (done) => setTimeout(done, seconds * 1000));

const pause = (milliseconds) =>
  new Promise((resolve) => {
    setTimeout(resolve, milliseconds);
  });

/**
 * Sends a request and returns its answer, whose status is a good one.
 * @param {string} method
 * @param {string} path
 * @param {{json?: any, body?: BodyInit, type?: string, isRepeatable?: boolean}} [options] `isRepeatable`: sent twice, it
 *   has one effect
 */
export async function send(method, path, { json, body, type, isRepeatable = method === 'GET' } = {}) {
  const headers = {};
  if (json !== undefined) headers['content-type'] = 'application/json';
  else if (type) headers['content-type'] = type;
  for (let busy = 0, silent = 0; ;) {
    let response;
    try {
      response = await fetch(path, {
        method,
        headers: { ...headers, ...authorization() },
        body: json === undefined ? body : JSON.stringify(json),
        signal: AbortSignal.timeout(ANSWER_MS_MAX),
      });
    } catch (fault) {
      if (fault.name === 'TimeoutError') {
        throw new Problem({ title: 'No answer', detail: 'The server did not answer within a minute.' });
      }
      if (!navigator.onLine && isRepeatable) {
        await online();
        continue;
      }
      silent += 1;
      if (!isRepeatable || silent > SILENT_TRIES_MAX) {
        throw new Problem({
          title: 'No connection',
          detail: 'The server cannot be reached. Is it running? Your marks are kept.',
        });
      }
      await pause(200 * silent);
      continue;
    }
    if (response.ok) return response;
    // A server that is not busy but unable, such as one with a full disk, names no time.
    const retry = response.headers.get('retry-after');
    if ((response.status === 429 || response.status === 503) && retry !== null && busy < BUSY_TRIES_MAX) {
      busy += 1;
      await later(secondsOf(retry));
    } else if (response.status === 401) await askToken();
    else throw await problemOf(response);
  }
}
