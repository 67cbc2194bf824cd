// Marks in three layers: what the server has, what is on its way to it, and what is new. A fault on the way moves marks back
// to the new ones, so none is lost.

/** @typedef {import('./api.js').Item} Item */

export class Marks extends EventTarget {
  /** @type {Map<number, {item: Item, relevance: number, round?: number}>} */
  #kept = new Map();
  /** @type {Map<number, {item: Item, relevance: number | null, round?: number}>} */
  #sent = new Map();
  /** @type {Map<number, {item: Item, relevance: number | null, round?: number}>} */
  #fresh = new Map();
  /** @type {{item: Item, from: number | null, to: number | null}[]} */
  #done = [];
  /** @type {{item: Item, from: number | null, to: number | null}[]} */
  #undone = [];
  /** The steps behind the marks that are on their way. */
  #sentSteps = [];
  /** Marks that are new because their round was undone. @type {Set<number>} */
  #restored = new Set();

  #changed() {
    this.dispatchEvent(new Event('change'));
  }

  /** The relevance of an object, or null. @returns {number | null} */
  of(id) {
    for (const layer of [this.#fresh, this.#sent, this.#kept]) {
      const mark = layer.get(id);
      if (mark) return mark.relevance;
    }
    return null;
  }

  #put(item, relevance) {
    const kept = this.#sent.get(item.id)?.relevance ?? this.#kept.get(item.id)?.relevance ?? null;
    if (kept === relevance) this.#fresh.delete(item.id);
    else this.#fresh.set(item.id, { item, relevance });
    this.#changed();
  }

  /** Marks an object; null takes its mark back. */
  set(item, relevance) {
    const from = this.of(item.id);
    if (from === relevance) return;
    this.#done.push({ item, from, to: relevance });
    this.#undone = [];
    this.#restored.delete(item.id);
    this.#put(item, relevance);
  }

  /** Takes back the last mark that is not sent. Returns whether there was one. */
  undo() {
    const step = this.#done.pop();
    if (!step) return null;
    this.#undone.push(step);
    this.#put(step.item, step.from);
    return step;
  }

  /** Makes the mark again that was taken back last. Returns whether there was one. */
  redo() {
    const step = this.#undone.pop();
    if (!step) return null;
    this.#done.push(step);
    this.#put(step.item, step.to);
    return step;
  }

  get canUndo() {
    return this.#done.length > 0;
  }

  get canRedo() {
    return this.#undone.length > 0;
  }

  /** All objects with marks, in the order of their marks. */
  all() {
    const all = new Map();
    for (const layer of [this.#kept, this.#sent, this.#fresh]) {
      for (const [id, { item, relevance, round }] of layer) {
        if (relevance === null) all.delete(id);
        else all.set(id, { item, relevance, round: round ?? null });
      }
    }
    return [...all.values()];
  }

  /** The number of marks that are not sent. */
  get freshCount() {
    return this.#fresh.size;
  }

  /** Moves the new marks to those on their way and returns these as the server wants them. */
  send() {
    for (const [id, mark] of this.#fresh) this.#sent.set(id, mark);
    this.#fresh.clear();
    this.#sentSteps = this.#done;
    this.#done = [];
    this.#undone = [];
    return [...this.#sent].map(([id, { relevance }]) => ({ id, relevance }));
  }

  /** The way failed: the marks are new again, without those that the server refused. */
  rollBack(refused = []) {
    const later = [...this.#fresh];
    this.#fresh = new Map([...this.#sent, ...later]);
    this.#sent.clear();
    this.#done = [...this.#sentSteps, ...this.#done];
    this.#sentSteps = [];
    for (const id of refused) this.#fresh.delete(id);
    this.#changed();
  }

  /**
   * The server has these marks now. With `restore`, marks that it has no longer become new ones: an undone round shows its
   * marks again, to be changed and sent.
   * @param {import('./api.js').Mark[]} marks
   */
  adopt(marks, { restore = false } = {}) {
    const before = this.#kept;
    this.#kept = new Map(marks.map(({ relevance, round, ...item }) => [item.id, { item, relevance, round }]));
    this.#sent.clear();
    this.#sentSteps = [];
    if (restore) this.#restore(before);
    for (const [id, { relevance }] of this.#fresh) {
      if ((this.#kept.get(id)?.relevance ?? null) === relevance) this.#fresh.delete(id);
    }
    this.#changed();
  }

  /** Makes marks new that were kept before, in place of those of a later round that was undone before. */
  #restore(before) {
    for (const id of this.#restored) this.#fresh.delete(id);
    this.#restored.clear();
    for (const [id, { item, relevance }] of before) {
      if (this.#kept.get(id)?.relevance === relevance || this.#fresh.has(id)) continue;
      this.#fresh.set(id, { item, relevance });
      this.#restored.add(id);
    }
  }

  /** Forgets what is new. */
  clear() {
    this.#fresh.clear();
    this.#sent.clear();
    this.#restored.clear();
    this.#done = [];
    this.#undone = [];
    this.#changed();
  }
}
