// The picture of an object: space for it is reserved, and one that cannot be shown is drawn with its name.
import { original, thumbnail } from './api.js';
import { h, icon } from './dom.js';
import { authorization, hasToken } from './token.js';

/** A drawing in place of a picture. */
function placeholder(item) {
  return h(
    'div.missing',
    { role: 'img', 'aria-label': item.name },
    icon('missing'),
    h('span', { 'aria-hidden': 'true' }, item.name),
  );
}

/** Loads a picture by a request with the token, which an `img` cannot carry. */
async function loadWithToken(image, address) {
  try {
    const response = await fetch(address, { headers: authorization() });
    if (!response.ok) throw new Error(response.statusText);
    const url = URL.createObjectURL(await response.blob());
    image.addEventListener('load', () => URL.revokeObjectURL(url), { once: true });
    image.src = url;
  } catch {
    image.dispatchEvent(new Event('error'));
  }
}

/**
 * A frame with an object's picture; its alternative text is the object's name.
 * @param {import('./api.js').Store} store
 * @param {import('./api.js').Item} item
 * @param {{size?: 96 | 192 | 384, sizes?: string, isLazy?: boolean}} [options] `sizes`: how wide it is shown, for the
 *   choice between two files
 */
export function picture(store, item, { size = 192, sizes, isLazy = false } = {}) {
  const frame = h('div.frame');
  if (!store.images) {
    frame.append(placeholder(item));
    return frame;
  }
  const image = h('img', {
    alt: item.name,
    width: item.width || null,
    height: item.height || null,
    decoding: 'async',
    draggable: 'false',
    loading: isLazy && 'lazy',
  });
  image.addEventListener('error', () => frame.replaceChildren(placeholder(item)), { once: true });
  const address = (pixels) => thumbnail(store, item.id, pixels);
  if (hasToken()) loadWithToken(image, address(sizes ? 384 : size));
  else {
    if (sizes) {
      image.sizes = sizes;
      image.srcset = `${address(192)} 192w, ${address(384)} 384w`;
    }
    image.src = address(size);
  }
  frame.append(image);
  return frame;
}

/** A link to an object's own file, if the server gives it. */
export function originalLink(store, item) {
  if (!store.originals || hasToken()) return null;
  return h('a.quiet', { href: original(store.name, item.id), target: '_blank', rel: 'noopener' }, 'Open the file');
}
