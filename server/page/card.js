// One picture that can be judged: a click likes it, with Shift dislikes it, again takes that back.
import { h, icon } from './dom.js';
import { model } from './model.js';
import { picture } from './picture.js';
import { announce } from './say.js';
import { judgementOf } from './words.js';

/** How wide a card is, for the choice of a file: two columns on a phone, more elsewhere. */
const SIZES = '(max-width: 560px) 46vw, 240px';

/** Gives an object a mark, or takes the same mark back. */
export function toggle(item, relevance) {
  const next = model.marks.of(item.id) === relevance ? null : relevance;
  model.marks.set(item, next);
  announce(next === null ? `${item.name}: mark taken back` : `${item.name}: ${judgementOf(next).word.toLowerCase()}`);
}

/** The icon and the word of a mark. */
export function badge(relevance) {
  const { word, icon: name } = judgementOf(relevance);
  return h('span.badge', { data: { relevance: String(relevance) } }, icon(name), word);
}

export class Card {
  /**
   * @param {import('./api.js').Item} item
   * @param {{note?: string, isLazy?: boolean, onwhy: (item: any) => void, onsimilar: (item: any) => void}} options
   *   `note`: a short text at a corner, such as a distance
   */
  constructor(item, { note, isLazy, onwhy, onsimilar }) {
    this.item = item;
    const click = (event) => toggle(item, event.shiftKey ? 0 : 1);
    this.button = h(
      'button.picture',
      { type: 'button', title: item.name, tabIndex: -1, onclick: click },
      picture(model.store, item, { sizes: SIZES, isLazy }),
      note && h('span.note', {}, note),
    );
    this.like = this.#act('like', 'Like', () => toggle(item, 1));
    this.dislike = this.#act('dislike', 'Dislike', () => toggle(item, 0));
    this.element = h(
      'li.card',
      { data: { id: String(item.id) } },
      this.button,
      h(
        'div.acts',
        {},
        this.like,
        this.dislike,
        this.#act('similar', 'More like this one', () => onsimilar(item)),
        this.#act('why', 'Why this one', () => onwhy(item)),
      ),
    );
    this.draw();
  }

  /** A small button for the pointer; each has a key, so the Tab key passes over them. */
  #act(name, word, run) {
    const text = `${word}: ${this.item.name}`;
    return h(
      'button.act',
      { type: 'button', tabIndex: -1, 'aria-label': text, title: word, data: { act: name }, onclick: run },
      icon(name),
    );
  }

  /** Shows the mark that the object has now. */
  draw() {
    const relevance = model.marks.of(this.item.id);
    const shown = this.element.dataset.relevance ?? '';
    if (this.button.hasAttribute('aria-pressed') && shown === String(relevance ?? '')) return;
    this.element.dataset.relevance = String(relevance ?? '');
    this.button.querySelector('.badge')?.remove();
    if (relevance !== null) this.button.append(badge(relevance));
    this.button.setAttribute('aria-pressed', String(relevance !== null && relevance > 0));
    this.like.setAttribute('aria-pressed', String(relevance === 1));
    this.dislike.setAttribute('aria-pressed', String(relevance === 0));
  }
}
