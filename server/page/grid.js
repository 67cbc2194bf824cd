// Pictures in columns. One of them is in the order of the Tab key, arrows go from one to the next, and letters and digits
// judge the one that has the focus.
import { Card, toggle } from './card.js';
import { h } from './dom.js';
import { model } from './model.js';
import { JUDGEMENTS } from './words.js';

/** Pictures that load at once; those below load when they come near. */
const EAGER_COUNT = 24;

export class Grid {
  /** @type {Card[]} */
  #cards = [];

  /** @param {{onwhy: (item: any) => void, onsimilar: (item: any) => void, signal: AbortSignal}} options */
  constructor({ onwhy, onsimilar, signal }) {
    this.options = { onwhy, onsimilar };
    this.element = h('ul.grid', {
      role: 'list',
      onkeydown: (event) => this.#key(event),
      onfocusin: (event) => this.#focused(event),
    });
    model.addEventListener('state', () => this.#draw(), { signal });
  }

  /**
   * Shows objects in place of those before. A focus in the grid stays in it.
   * @param {import('./api.js').Item[]} items
   * @param {{label: string, note?: (item: any) => string, isMore?: boolean}} options `isMore`: after those before
   */
  show(items, { label, note, isMore = false }) {
    const hadFocus = this.element.contains(document.activeElement);
    const before = isMore ? this.#cards : [];
    const made = items.map(
      (item, idx) =>
        new Card(item, {
          ...this.options,
          note: note?.(item),
          isLazy: before.length + idx >= EAGER_COUNT,
        }),
    );
    this.#cards = [...before, ...made];
    this.element.setAttribute('aria-label', label);
    if (isMore) this.element.append(...made.map((card) => card.element));
    else this.element.replaceChildren(...made.map((card) => card.element));
    if (!this.#cards.some((card) => card.button.tabIndex === 0)) this.#rove(0);
    if (hadFocus && !isMore) this.focus();
    if (hadFocus && isMore) made[0]?.button.focus();
  }

  /** Puts the focus on the picture that the Tab key reaches. */
  focus() {
    this.#cards.find((card) => card.button.tabIndex === 0)?.button.focus({ preventScroll: true });
  }

  get count() {
    return this.#cards.length;
  }

  #draw() {
    for (const card of this.#cards) card.draw();
  }

  #rove(idx) {
    this.#cards.forEach((card, at) => {
      card.button.tabIndex = at === idx ? 0 : -1;
    });
  }

  #focused(event) {
    const idx = this.#cards.findIndex((card) => card.element.contains(event.target));
    if (idx >= 0) this.#rove(idx);
  }

  /** The columns that the style gives the grid now. */
  #columns() {
    return getComputedStyle(this.element).gridTemplateColumns.split(' ').length;
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const idx = this.#cards.findIndex((card) => card.element.contains(event.target));
    if (idx < 0) return;
    const { item } = this.#cards[idx];
    const last = this.#cards.length - 1;
    const moves = {
      ArrowRight: idx + 1,
      ArrowLeft: idx - 1,
      ArrowDown: idx + this.#columns(),
      ArrowUp: idx - this.#columns(),
      Home: 0,
      End: last,
    };
    const judgement = JUDGEMENTS.find(({ key }) => key === event.key);
    if (event.key in moves) {
      const next = moves[event.key];
      if (next >= 0 && next <= last) this.#cards[next].button.focus();
    } else if (judgement) toggle(item, judgement.relevance);
    else if (event.key === 'l') toggle(item, 1);
    else if (event.key === 'd') toggle(item, 0);
    else if (event.key === 'w') this.options.onwhy(item);
    else if (event.key === 'm') this.options.onsimilar(item);
    else if (event.key === 'Enter' && event.shiftKey) toggle(item, 0);
    else return;
    event.preventDefault();
  }
}
