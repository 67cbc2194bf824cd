// Taking the result elsewhere: the liked names as CSV or JSON, and a link to the session.
import { h } from './dom.js';
import { model } from './model.js';
import { open } from './dialog.js';
import { link } from './route.js';
import { show } from './say.js';

/** A field of CSV (RFC 4180). */
const field = (value) => (/[",\r\n]/.test(String(value)) ? `"${String(value).replaceAll('"', '""')}"` : String(value));

function save(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  h('a', { href: url, download: name }).click();
  // The browser has begun to read it by then.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

const rowsOf = (kept) =>
  kept.map(({ item, relevance }) => ({ id: item.id, name: item.name, class: item.class, relevance }));

export function saveCsv(kept) {
  if (kept.length === 0) return;
  const lines = rowsOf(kept).map((row) => [row.id, row.name, row.class ?? '', row.relevance].map(field).join(','));
  save('liked.csv', 'text/csv', `${['id,name,class,relevance', ...lines].join('\r\n')}\r\n`);
}

export function saveJson(kept) {
  if (kept.length === 0) return;
  const { store, state } = model;
  const liked = rowsOf(kept);
  save(
    'liked.json',
    'application/json',
    `${JSON.stringify({ store: store.name, session: state?.session, liked }, null, 2)}\n`,
  );
}

/** Puts the session's address on the clipboard, or shows it where the browser does not allow that. */
export async function copyLink() {
  const address = new URL(link({ session: model.state.session }), location.href).href;
  try {
    await navigator.clipboard.writeText(address);
    show({
      kind: 'notice',
      title: 'The link is on the clipboard',
      detail: 'Whoever has it can see and continue this session.',
    });
  } catch {
    const input = h('input', { id: 'link', readonly: true, value: address });
    open(
      'Link to this session',
      h('div.stack', {}, h('label', { for: 'link' }, 'Whoever has it can see and continue this session'), input),
    );
    input.select();
  }
}
