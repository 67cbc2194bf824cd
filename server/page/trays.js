// What is kept and what is disliked so far, and what one can do with the list.
import { copyLink, saveCsv, saveJson } from './share.js';
import { h, icon } from './dom.js';
import { model } from './model.js';
import { picture } from './picture.js';
import { isLiked, judgementOf } from './words.js';

/** One tray. Its pictures stay in place when others come, so none is loaded twice. */
class Tray {
  /** @type {Map<number, {element: HTMLElement, button: HTMLElement}>} */
  #entries = new Map();

  constructor(title, name, empty, onwhy) {
    this.onwhy = onwhy;
    this.count = h('span.tray-count', {}, '0');
    this.hint = h('p.hint', {}, empty);
    this.list = h('ul', { role: 'list' });
    this.element = h(
      'section.tray',
      { data: { tray: name } },
      h('h2', {}, icon(name === 'kept' ? 'like' : 'dislike'), title, this.count),
      this.hint,
      this.list,
    );
  }

  #entry(item) {
    let entry = this.#entries.get(item.id);
    if (!entry) {
      const button = h(
        'button.small',
        { type: 'button', onclick: () => this.onwhy(item) },
        picture(model.store, item, { size: 96, isLazy: true }),
      );
      entry = { button, element: h('li', {}, button) };
      this.#entries.set(item.id, entry);
    }
    return entry;
  }

  draw(marks) {
    this.count.textContent = String(marks.length);
    this.hint.hidden = marks.length > 0;
    this.list.hidden = marks.length === 0;
    const elements = marks.map(({ item, relevance }) => {
      const { element, button } = this.#entry(item);
      const text = `${item.name}, ${judgementOf(relevance).word.toLowerCase()}`;
      button.title = text;
      button.setAttribute('aria-label', text);
      return element;
    });
    const isSame =
      elements.length === this.list.children.length &&
      elements.every((element, idx) => element === this.list.children[idx]);
    if (!isSame) this.list.replaceChildren(...elements);
  }
}

/** The two trays; `onwhy` shows one of their objects. Returns their element and how to draw them. */
export function trays(onwhy) {
  const kept = new Tray('Kept', 'kept', 'Pictures that you like gather here.', onwhy);
  const disliked = new Tray('Disliked', 'disliked', 'Nothing yet.', onwhy);
  const liked = () =>
    model.marks
      .all()
      .filter(({ relevance }) => isLiked(relevance))
      .reverse();
  const tool = (name, word, run) => h('button.tool', { type: 'button', onclick: run }, icon(name), word);
  const saves = [tool('save', 'CSV', () => saveCsv(liked())), tool('save', 'JSON', () => saveJson(liked()))];
  const element = h(
    'aside.trays',
    { 'aria-label': 'Judged so far' },
    kept.element,
    disliked.element,
    h('div.share', {}, saves, tool('link', 'Copy link', copyLink)),
  );
  const draw = () => {
    const marks = liked();
    kept.draw(marks);
    disliked.draw(
      model.marks
        .all()
        .filter(({ relevance }) => !isLiked(relevance))
        .reverse(),
    );
    for (const save of saves) save.setAttribute('aria-disabled', String(marks.length === 0));
  };
  return { element, draw };
}
