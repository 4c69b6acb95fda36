/* The theme, and the start of all else. */

const THEME_KEY = "token-confidence-report-theme";

/** What the reader of an earlier page chose; storage may be refused where the page is a file. */
function rememberedTheme() {
  try {
    return localStorage.getItem(THEME_KEY);
  } catch {
    return null;
  }
}

function rememberTheme(theme) {
  try {
    localStorage.setItem(THEME_KEY, theme);
  } catch {
    return;
  }
}

function startTheme() {
  const root = document.documentElement;
  const button = byId("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const show = () => button.setAttribute("aria-pressed", String(isDark()));
  const remembered = rememberedTheme();
  if (["light", "dark"].includes(remembered)) root.dataset.theme = remembered;
  button.hidden = false;
  show();
  system.addEventListener("change", show);
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    rememberTheme(root.dataset.theme);
    show();
  });
}

document.addEventListener("DOMContentLoaded", () => {
  startTheme();
  const reader = new Reader(readIsland());
  reader.start();
  preparePrinting(reader);
});
