// What the page says: to a screen reader by the live region, to the eyes by messages that stay until they are closed or,
// for good news, for some seconds.
import { at, h, icon } from './dom.js';

/** The most messages on the page: older ones leave. */
const MESSAGES_MAX = 3;
const NOTICE_MS = 8000;

/** Says a sentence to a screen reader. */
export function announce(sentence) {
  const live = at('live');
  // The same sentence twice is read twice only if the region changes.
  live.textContent = live.textContent === sentence ? `${sentence}\u00a0` : sentence;
}

/** A sentence of the server's, which begins anywhere in a line there. */
const sentence = (text) => text && text[0].toUpperCase() + text.slice(1);

/**
 * A message with an optional action. Returns the way to close it.
 * @param {{kind: 'notice' | 'error' | 'wait', title: string, detail?: string, more?: string[],
 *   actions?: {word: string, run: () => void}[], stays?: boolean}} message
 */
export function show({ kind, title, detail, more = [], actions = [], stays = kind !== 'notice' }) {
  const close = () => {
    if (element.contains(document.activeElement)) at('view').focus({ preventScroll: true });
    element.remove();
  };
  const act = ({ word, run }) =>
    h(
      'button.quiet',
      {
        type: 'button',
        onclick: () => {
          close();
          run();
        },
      },
      word,
    );
  const element = h(
    'section.toast',
    { role: kind === 'error' ? 'alert' : 'status', data: { kind } },
    h(
      'div.toast-text',
      {},
      h('strong', {}, title),
      detail && h('p', {}, sentence(detail)),
      more.length > 0 &&
        h(
          'ul',
          {},
          more.map((line) => h('li', {}, line)),
        ),
    ),
    actions.length > 0 && h('div.toast-actions', {}, actions.map(act)),
    h('button.round-button', { type: 'button', 'aria-label': 'Close this message', onclick: close }, icon('close')),
  );
  const messages = at('toasts');
  while (messages.children.length >= MESSAGES_MAX) messages.firstElementChild?.remove();
  messages.append(element);
  if (!stays)
    setTimeout(() => {
      if (!element.matches(':hover, :focus-within')) close();
    }, NOTICE_MS);
  return { close, element };
}

/** Says what a fault is and what to do; `retry` repeats what failed. */
export function complain(what, fault, retry) {
  const more = (fault.errors ?? []).slice(0, 5).map(({ pointer, detail }) => `${pointer ?? ''} ${detail ?? ''}`.trim());
  if (fault.instance) more.push(`Request ${fault.instance}`);
  show({
    kind: 'error',
    title: what,
    detail: fault.detail ?? fault.message,
    more,
    actions: retry ? [{ word: 'Try again', run: retry }] : [],
  });
}
