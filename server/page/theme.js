// Light, dark, or as the system is: set before the first picture is painted.

const KEY = 'boxwork.theme';
const NAMES = { auto: 'as the system', light: 'light', dark: 'dark' };
const THEMES = Object.keys(NAMES);

function current() {
  try {
    const kept = localStorage.getItem(KEY);
    return kept && THEMES.includes(kept) ? kept : 'auto';
  } catch {
    return 'auto';
  }
}

function set(theme) {
  document.documentElement.dataset.theme = theme;
}

set(current());

/** Makes a button change the theme. */
export function themeButton(button, icon) {
  const draw = () => {
    const theme = document.documentElement.dataset.theme ?? 'auto';
    button.replaceChildren(icon(theme));
    const text = `Colours: ${NAMES[theme]}`;
    button.setAttribute('aria-label', text);
    button.title = text;
  };
  button.addEventListener('click', () => {
    const theme = document.documentElement.dataset.theme ?? 'auto';
    const next = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    try {
      localStorage.setItem(KEY, next);
    } catch {
      // It lasts as long as the page then.
    }
    set(next);
    draw();
  });
  draw();
}
