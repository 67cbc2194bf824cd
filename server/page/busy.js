// A line at the top while an answer takes longer than 150 ms: quick answers do not flicker.
import { at } from './dom.js';
import { complain } from './say.js';

const BUSY_MS = 150;
let pending = 0;
let timer = 0;

function set(is) {
  at('progress').hidden = !is;
  at('view').setAttribute('aria-busy', String(is));
}

/**
 * Awaits work and shows that it takes time.
 * @template T
 * @param {Promise<T>} work
 */
export async function busy(work) {
  pending += 1;
  if (pending === 1) timer = setTimeout(set, BUSY_MS, true);
  try {
    return await work;
  } finally {
    pending -= 1;
    if (pending === 0) {
      clearTimeout(timer);
      set(false);
    }
  }
}

/**
 * Runs an action; a fault becomes a message whose button runs it again. Returns whether it went well.
 * @param {string} what what to say if it fails
 * @param {() => Promise<any>} action
 * @param {() => any} [retry]
 */
export async function attempt(what, action, retry = () => attempt(what, action)) {
  try {
    await busy(action());
    return true;
  } catch (fault) {
    if (fault.name === 'AbortError') return false;
    if (!fault.isShown) complain(what, fault, retry);
    if (fault.status === undefined) console.error(fault);
    return false;
  }
}
