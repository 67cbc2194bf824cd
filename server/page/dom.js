// Elements from values. Texts become text nodes, never markup: names of files are data.

/** Properties that attributes do not set. */
const PROPERTIES = new Set(['value', 'checked', 'disabled', 'hidden', 'tabIndex']);

/**
 * Makes an element: `h('button.primary', {type: 'button', onclick: go}, icon('next'), 'Next')`.
 * Children that are null or false are left out.
 * @param {string} tag a tag with classes behind dots
 * @param {Object<string, any>} [values] attributes, properties, `on...` listeners, and `data` for `data-` attributes
 * @param {...any} children
 * @returns {any} an element, whose kind the tag says
 */
export function h(tag, values = {}, ...children) {
  const [name, ...classes] = tag.split('.');
  const element = document.createElement(name);
  if (classes.length > 0) element.className = classes.join(' ');
  for (const [key, value] of Object.entries(values)) {
    if (key.startsWith('on')) element.addEventListener(key.slice(2), value);
    else if (key === 'data') Object.assign(element.dataset, value);
    else if (PROPERTIES.has(key)) element[key] = value;
    else if (value !== null && value !== undefined && value !== false) {
      element.setAttribute(key, value === true ? '' : String(value));
    }
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

const SVG = 'http://www.w3.org/2000/svg';

/** One of the drawings at the foot of index.html. */
export function icon(name) {
  const svg = document.createElementNS(SVG, 'svg');
  svg.setAttribute('aria-hidden', 'true');
  const use = document.createElementNS(SVG, 'use');
  use.setAttribute('href', `#i-${name}`);
  svg.append(use);
  return svg;
}

/** The element of index.html with this id. */
export function at(id) {
  return /** @type {HTMLElement} */ (document.getElementById(id));
}

/** "1 picture", "12 pictures". */
export function count(number, word) {
  return `${number.toLocaleString('en')} ${word}${number === 1 ? '' : 's'}`;
}
