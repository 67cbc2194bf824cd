// What a person does with a session. One change at a time; a fault leaves marks and round as they were before it.
import * as api from './api.js';
import { attempt, busy } from './busy.js';
import { count } from './dom.js';
import { model } from './model.js';
import { forget, remember } from './recent.js';
import { go, here } from './route.js';
import { announce, show } from './say.js';

const BATCH = 12;
/** The most parts of a query that the server takes. */
const QUERY_MAX = 16;

/** A short name for a session, for the list of recent ones. */
function labelOf(state) {
  const liked = state.marks.find(({ relevance }) => relevance === 1);
  const given = state.query.map((query) => model.pictures.get(query.token)?.name ?? query.name).find(Boolean);
  return given ?? liked?.name ?? (state.class === null ? 'started without a picture' : state.class);
}

function adopt(state, options) {
  const before = model.state;
  model.state = state;
  model.marks.adopt(state.marks, options);
  remember({
    session: state.session,
    store: state.store,
    label: labelOf(state),
    rounds: state.round.round,
    at: Date.now(),
  });
  for (const notice of state.notices ?? []) {
    if (!before?.notices?.includes(notice)) show({ kind: 'notice', title: notice });
  }
  const { round, objects } = state.round;
  if (before?.session !== state.session || before.round.round !== round) {
    announce(
      objects.length > 0
        ? `Round ${round}, ${count(objects.length, 'new image')}`
        : `Round ${round}: nothing is left to show`,
    );
  }
}

/** Shows that a session is over, with the ways on. */
function isOver(title, fault, actions = []) {
  const liked = model.marks
    .all()
    .filter(({ relevance }) => relevance === 1)
    .map(({ item }) => ({ name: item.name }));
  const anew = { word: liked.length > 0 ? 'Begin anew with the liked ones' : 'Begin anew', run: () => begin(liked) };
  show({ kind: 'error', title, detail: fault.detail, actions: [...actions, anew] });
  fault.isShown = true;
}

/** What helps after a fault of a session; a fault that this explains is not shown again. */
async function recover(fault, name) {
  if (fault.status === 404) {
    forget(name);
    if (model.state !== null) isOver('This session has ended', fault);
    model.leave();
  } else if (fault.kind === 'store-changed') {
    const { store } = model;
    const again = () => start(() => api.replay(store.name, name));
    isOver('The collection has changed', fault, [{ word: 'Play the session again', run: again }]);
  } else if (fault.status === 409) {
    adopt(await api.session(name));
    show({
      kind: 'notice',
      title: 'This session went on elsewhere',
      detail: `Perhaps in another tab. It is in round ${model.state?.round.round} now, and your marks are kept for it.`,
      stays: true,
    });
    fault.isShown = true;
  }
}

/** Whether a change had no answer: then it may have been made. */
let isInDoubt = false;

/** Reads the session after a change without an answer. Returns whether that change was made after all. */
async function isMoved(name, options) {
  if (!isInDoubt) return false;
  const state = await api.session(name);
  isInDoubt = false;
  if (state.round.round === model.state.round.round) return false;
  adopt(state, options);
  return true;
}

/** Runs a change of the session, unless one is on its way. */
async function change(what, work, options) {
  if (model.isChanging || model.state === null) return false;
  const name = model.state.session;
  model.isChanging = true;
  model.changed();
  const action = async () => {
    try {
      if (await isMoved(name, options)) return;
      adopt(await work(name), options);
    } catch (fault) {
      if (fault.status === 0) isInDoubt = true;
      await recover(fault, name);
      throw fault;
    }
  };
  try {
    return await attempt(what, action, () => change(what, work, options));
  } finally {
    model.isChanging = false;
    model.changed();
  }
}

/** Makes a session and goes to it; one that was open stays as it is on the server. */
async function start(make) {
  if (model.isChanging) return false;
  model.isChanging = true;
  model.changed();
  try {
    return await attempt(
      'The session could not begin',
      async () => {
        const state = await make();
        if (model.state !== null) model.leave();
        adopt(state);
        model.query = [];
        go({ session: state.session });
      },
      () => start(make),
    );
  } finally {
    model.isChanging = false;
    model.changed();
  }
}

/** Begins a session with these queries. Pictures that are liked before any session are queries, too. */
export async function begin(query = model.query, values = {}) {
  const { store } = model;
  if (store === null) return false;
  const drafts = model.state === null ? model.marks.all() : [];
  const liked = drafts.filter(({ relevance }) => relevance === 1).map(({ item }) => ({ id: item.id }));
  const more = liked.filter(({ id }) => !query.some((given) => 'id' in given && given.id === id));
  const asked = [...query, ...more].slice(0, QUERY_MAX);
  return start(() => api.begin(store.name, { batch: BATCH, query: asked, ...values }));
}

/** Begins a new session with one picture of the store. */
export const more = (item) => begin([{ id: item.id }]);

/** Reads a session. */
export async function read(name) {
  try {
    adopt(await busy(api.session(name)));
  } catch (fault) {
    await recover(fault, name);
    throw fault;
  }
}

/** The objects of a body that the server refused, by the pointers of its errors. */
function refused(fault, marks) {
  const places = fault.errors?.map(({ pointer }) => /^\/marks\/(\d+)/.exec(pointer ?? '')?.[1]) ?? [];
  return places.filter((place) => place !== undefined).map((place) => marks[Number(place)]?.id);
}

/** Sends the marks and gets the next round. */
export async function next() {
  if (model.state === null) return begin();
  const isDone = await change('The next round did not come', async (name) => {
    const marks = model.marks.send();
    model.changed();
    try {
      return await api.judge(name, { round: model.state.round.round, marks });
    } catch (fault) {
      model.marks.rollBack(refused(fault, marks));
      throw fault;
    }
  });
  const { session, round, isRanking } = here();
  if (isDone && (round || isRanking)) go({ session });
  return isDone;
}

/** Takes back the last mark that is not sent, or else the last round. */
export async function undo() {
  const step = model.isChanging ? null : model.marks.undo();
  if (step) announce(`${step.item.name}: undone`);
  else if (model.state?.can_undo) await change('The round was not undone', api.undo, { restore: true });
}

/** The opposite of undo. */
export async function redo() {
  const step = model.isChanging ? null : model.marks.redo();
  if (step) announce(`${step.item.name}: done again`);
  else if (model.state?.can_redo) await change('The round did not come back', api.redo);
}

/** Changes what the next rounds look for: `explore`, `class`. */
export function tune(values) {
  return change('The setting was not changed', (name) => api.change(name, values));
}
