// The last sessions of this browser: their names and what they were about, no pictures.

const KEY = 'boxwork.sessions';
const SESSIONS_MAX = 8;

/** @returns {{session: string, store: string, label: string, rounds: number, at: number}[]} */
export function recent() {
  try {
    const list = JSON.parse(localStorage.getItem(KEY) ?? '[]');
    return Array.isArray(list) ? list.filter(({ session }) => typeof session === 'string').slice(0, SESSIONS_MAX) : [];
  } catch {
    return [];
  }
}

function write(list) {
  try {
    localStorage.setItem(KEY, JSON.stringify(list.slice(0, SESSIONS_MAX)));
  } catch {
    // No storage, or none left: the list is a convenience.
  }
}

export function remember(entry) {
  write([entry, ...recent().filter(({ session }) => session !== entry.session)]);
}

export function forget(session) {
  write(recent().filter((entry) => entry.session !== session));
}
