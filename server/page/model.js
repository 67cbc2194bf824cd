// What the page knows: the stores, the session if there is one, and the marks. Views listen for `state`.
import { Marks } from './marks.js';

class Model extends EventTarget {
  /** @type {import('./api.js').Store[]} */
  stores = [];
  /** @type {import('./api.js').Store | null} */
  store = null;
  /** The session's state as the server said it last. @type {import('./api.js').State | null} */
  state = null;
  marks = new Marks();
  /** With what a session would begin: an object, or an uploaded picture. @type {import('./api.js').Query[]} */
  query = [];
  /** Addresses of uploaded pictures, by token. @type {Map<string, {url: string, name: string}>} */
  pictures = new Map();
  /** Whether a change of the session is on its way: another one waits for its answer. */
  isChanging = false;

  constructor() {
    super();
    this.marks.addEventListener('change', () => this.changed());
  }

  changed() {
    this.dispatchEvent(new Event('state'));
  }

  /** Leaves the session, and its marks with it. */
  leave() {
    if (this.state === null) return;
    this.state = null;
    this.marks.adopt([]);
    this.marks.clear();
  }
}

export const model = new Model();
