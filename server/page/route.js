// The page's place as the part of its address behind #, which no server sees: a session's name is the right to it.

/**
 * @typedef {{view: 'start' | 'search' | 'session', store?: string, search?: string, session?: string, round?: number,
 *   isRanking?: boolean}} Route
 */

/** @returns {Route} */
export function here() {
  const values = new URLSearchParams(location.hash.slice(1));
  const store = values.get('store') ?? undefined;
  if (values.has('session')) {
    const round = Number(values.get('round'));
    return {
      view: 'session',
      session: values.get('session') ?? '',
      round: Number.isInteger(round) && round > 0 ? round : undefined,
      isRanking: values.has('best'),
    };
  }
  if (values.has('search')) return { view: 'search', store, search: values.get('search') ?? '' };
  return { view: 'start', store };
}

/** An address behind #. */
export function link(values) {
  const kept = Object.entries(values).filter(([, value]) => value !== undefined && value !== null);
  return `#${new URLSearchParams(kept)}`;
}

/** Goes to a place; the browser's Back returns. */
export function go(values) {
  const hash = link(values);
  if (hash === location.hash || (hash === '#' && location.hash === ''))
    dispatchEvent(new HashChangeEvent('hashchange'));
  else location.hash = hash;
}
