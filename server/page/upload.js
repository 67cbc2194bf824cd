// A picture from outside: dropped anywhere on the page, pasted, or chosen.
import * as api from './api.js';
import { h } from './dom.js';
import { model } from './model.js';
import { complain } from './say.js';

const MEBIBYTE = 1 << 20;
/** Pictures from outside that the page remembers. */
const PICTURES_MAX = 16;

/** Whether a file can be sent; says why not. */
function isFit(file) {
  const most = model.store.limits.image_bytes;
  let detail = null;
  if (!file.type.startsWith('image/'))
    detail = `${file.name} is no picture. Choose a JPEG, PNG, GIF, WebP, BMP or TIFF file.`;
  else if (file.size === 0) detail = `${file.name} is empty.`;
  else if (file.size > most) {
    detail = `${file.name} has ${(file.size / MEBIBYTE).toFixed(1)} MiB; the server takes ${most / MEBIBYTE} MiB. Choose a smaller one.`;
  }
  if (detail) complain('This file cannot be used', { detail });
  return detail === null;
}

/** Sends a picture; returns what the search by it found, and remembers the picture by its token. */
export async function sendPicture(file, k) {
  const found = await api.searchPicture(model.store.name, file, k);
  for (const [token, { url }] of model.pictures) {
    if (model.pictures.size < PICTURES_MAX) break;
    URL.revokeObjectURL(url);
    model.pictures.delete(token);
  }
  model.pictures.set(found.query.token, { url: URL.createObjectURL(file), name: file.name });
  return found;
}

/** A button that opens the browser's choice of files. */
export function chooser(use) {
  const input = h('input.unseen', { type: 'file', accept: 'image/*', id: 'file' });
  input.addEventListener('change', () => {
    const file = input.files?.[0];
    if (file && isFit(file)) use(file);
    input.value = '';
  });
  return h('label.primary.file', { for: 'file' }, 'Choose a picture', input);
}

/** Lets pictures be dropped on the page and pasted into it. */
export function listen(use) {
  const root = document.documentElement;
  const isFile = (event) => Boolean(event.dataTransfer?.types.includes('Files'));
  const take = (files) => {
    const file = [...(files ?? [])].find(({ type }) => type.startsWith('image/')) ?? files?.[0];
    if (file && model.store && isFit(file)) use(file);
  };
  addEventListener('dragover', (event) => {
    if (!isFile(event)) return;
    event.preventDefault();
    root.dataset.dropping = '';
  });
  addEventListener('dragleave', (event) => {
    if (event.relatedTarget === null) delete root.dataset.dropping;
  });
  addEventListener('drop', (event) => {
    if (!isFile(event)) return;
    event.preventDefault();
    delete root.dataset.dropping;
    take(event.dataTransfer?.files);
  });
  addEventListener('paste', (event) => {
    if (event.clipboardData?.files.length) take(event.clipboardData.files);
  });
}
