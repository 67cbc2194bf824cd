// The page's help: how rounds work, and the keys.
import { h } from './dom.js';
import { open } from './dialog.js';
import { hasKeys, setKeys } from './keys.js';

const IN_GRID = [
  [['Arrows'], 'go from picture to picture'],
  [['Enter', 'l'], 'like; again takes it back'],
  [['Shift+Enter', 'd'], 'dislike'],
  [['0', '1', '2', '3', '4'], 'disliked, hardly, partly, mostly, liked'],
  [['w'], 'why this picture'],
  [['m'], 'more like this one: a new session'],
];
const ANYWHERE = [
  [['n'], 'next round'],
  [['u'], 'undo the last mark, or the last round'],
  [['r'], 'redo'],
  [['?'], 'this help'],
];

const table = (caption, rows) =>
  h(
    'table.keys',
    {},
    h('caption', {}, caption),
    h(
      'tbody',
      {},
      rows.map(([keys, does]) =>
        h(
          'tr',
          {},
          h(
            'th',
            { scope: 'row' },
            keys.flatMap((key, idx) => [idx > 0 && ' ', h('kbd', {}, key)]),
          ),
          h('td', {}, does),
        ),
      ),
    ),
  );

export function help() {
  const box = h('input', { type: 'checkbox', id: 'keys', checked: hasKeys() });
  box.addEventListener('change', () => setKeys(box.checked));
  open(
    'Help',
    h(
      'div.stack',
      {},
      h(
        'p',
        {},
        'Click the pictures that are like what you look for, and Shift-click or cross out those that are not. ',
        'Then ask for the next round: it shows new pictures, chosen by all your marks. A few marks a round are enough.',
      ),
      h(
        'p',
        {},
        'The slider says how bold a round is: to the left it shows what is most like your marks, to the right it tries ',
        'what is still unknown.',
      ),
      h('div.key-tables', {}, table('On a picture', IN_GRID), table('Anywhere', ANYWHERE)),
      h('label.check', { for: 'keys' }, box, 'Single letters work anywhere on the page'),
    ),
  );
}
