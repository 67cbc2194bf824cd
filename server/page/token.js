// The access token of a server that asks for one. It stays in this tab alone.
import { h } from './dom.js';
import { open } from './dialog.js';

const KEY = 'boxwork.token';
let asked = null;

/** The header that carries the token, or none. */
export function authorization() {
  const token = sessionStorage.getItem(KEY);
  return token ? { authorization: `Bearer ${token}` } : {};
}

/** Whether requests carry a token: pictures then come by such requests, too. */
export function hasToken() {
  return sessionStorage.getItem(KEY) !== null;
}

/** Asks for the token, once for all requests that wait for it. */
export function askToken() {
  asked ??= new Promise((resolve, reject) => {
    const input = h('input', { type: 'password', id: 'token', autocomplete: 'current-password', required: true });
    const keep = (event) => {
      event.preventDefault();
      sessionStorage.setItem(KEY, input.value.trim());
      resolve(undefined);
      close();
    };
    const close = open(
      'This server asks for a token',
      h(
        'form.stack',
        { onsubmit: keep },
        // Password managers keep a token under a name.
        h('input', { type: 'text', autocomplete: 'username', value: 'boxwork', hidden: true }),
        h('label', { for: 'token' }, 'Token, as in the file that the server was started with'),
        input,
        h('button.primary', { type: 'submit' }, 'Continue'),
      ),
      () => reject(new DOMException('no token', 'AbortError')),
    );
    input.focus();
  }).finally(() => {
    asked = null;
  });
  return asked;
}
