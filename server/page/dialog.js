// A dialog over the page: the browser keeps the focus in it, closes it with Escape and gives the focus back.
import { h, icon } from './dom.js';

/**
 * Opens a dialog and returns the way to close it.
 * @param {string} title
 * @param {Node} content
 * @param {() => void} [onclose]
 */
export function open(title, content, onclose) {
  const close = () => dialog.close();
  const leave = (event) => {
    if (event.target === dialog) close();
  };
  const dialog = /** @type {HTMLDialogElement} */ (
    h(
      'dialog',
      {
        'aria-labelledby': 'dialog-title',
        onclick: leave,
        onclose: () => {
          dialog.remove();
          onclose?.();
        },
      },
      h(
        'div.dialog',
        {},
        h(
          'header',
          {},
          h('h2', { id: 'dialog-title' }, title),
          h('button.round-button', { type: 'button', 'aria-label': 'Close', onclick: close }, icon('close')),
        ),
        content,
      ),
    )
  );
  document.body.append(dialog);
  dialog.showModal();
  return close;
}

/** Whether a dialog is open. */
export function isOpen() {
  return document.querySelector('dialog[open]') !== null;
}
