// The bar at the foot: undo, redo, how bold the next round is, and the button for it.
import { next, redo, tune, undo } from './actions.js';
import { at, count, h, icon } from './dom.js';
import { model } from './model.js';
import { here } from './route.js';

const EXPLORE_TEXTS = ['only like these', 'mostly like these', 'half and half', 'mostly surprises', 'surprise me'];

/** The number of marks in words, as far as they are new. */
function freshText() {
  const fresh = model.marks.freshCount;
  return fresh > 0 ? `${count(fresh, 'mark')} to send` : '';
}

export function makeBar() {
  const back = h(
    'button.tool',
    { type: 'button', id: 'undo', title: 'Undo (u)', onclick: undo },
    icon('undo'),
    h('span', {}, 'Undo'),
  );
  const again = h(
    'button.tool',
    { type: 'button', id: 'redo', title: 'Redo (r)', onclick: redo },
    icon('redo'),
    h('span', {}, 'Redo'),
  );
  const range = h('input', { type: 'range', id: 'explore', min: '0', max: '1', step: '0.05' });
  const text = () => range.setAttribute('aria-valuetext', EXPLORE_TEXTS[Math.round(Number(range.value) * 4)]);
  range.addEventListener('input', text);
  range.addEventListener('change', () => tune({ explore: Number(range.value) }));
  const slider = h(
    'div.slider',
    {},
    h('label', { for: 'explore' }, 'More like these'),
    range,
    h('span', { 'aria-hidden': 'true' }, 'Surprise me'),
  );
  const fresh = h('span.fresh', {});
  const word = h('span', {});
  const forward = h(
    'button.primary',
    { type: 'button', id: 'next', title: 'Next round (n)', onclick: () => next() },
    word,
    icon('next'),
  );
  const bar = at('bar');
  bar.append(h('div.bar-inner', {}, h('div.bar-tools', {}, back, again), slider, h('div.bar-go', {}, fresh, forward)));

  /** A disabled button would lose the focus; one that says so keeps it. */
  const enable = (button, is) => button.setAttribute('aria-disabled', String(!is));

  const draw = () => {
    const { state, marks, isChanging } = model;
    const { view } = here();
    const isSession = state !== null && view === 'session';
    bar.hidden =
      !isSession && (model.store === null || view === 'session' || (view === 'start' && marks.freshCount === 0));
    slider.hidden = !isSession;
    enable(back, !isChanging && (marks.canUndo || Boolean(state?.can_undo)));
    enable(again, !isChanging && (marks.canRedo || Boolean(state?.can_redo)));
    enable(forward, !isChanging && !(isSession && state.exhausted && marks.freshCount === 0));
    word.textContent = isSession ? 'Next round' : 'Begin rounds with these';
    fresh.textContent = freshText();
    if (isSession && document.activeElement !== range) range.value = String(state.explore);
    text();
  };
  model.addEventListener('state', draw);
  addEventListener('hashchange', draw);
  draw();
}
