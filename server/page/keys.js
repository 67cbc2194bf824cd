// Keys that work wherever the focus is. A switch turns them off: speech input types letters that nobody meant as keys.
import { isOpen } from './dialog.js';

const KEY = 'boxwork.keys';

/** Whether single letters act outside the grid. */
export function hasKeys() {
  try {
    return localStorage.getItem(KEY) !== 'off';
  } catch {
    return true;
  }
}

export function setKeys(is) {
  try {
    localStorage.setItem(KEY, is ? 'on' : 'off');
  } catch {
    // No storage: they stay on.
  }
}

/** @param {Record<string, () => void>} actions by key */
export function listen(actions) {
  addEventListener('keydown', (event) => {
    const target = /** @type {Element} */ (event.target);
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    if (!hasKeys() || isOpen() || target.closest('input:not([type=range]), select, textarea')) return;
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
}
