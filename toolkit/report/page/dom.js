/* Elements are made here, from plain text only: nothing is ever read as markup. */

/** An element with attributes (false leaves one out) and children: elements or text. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== false && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

function byId(id) {
  return document.getElementById(id);
}

function fill(element, ...children) {
  element.replaceChildren(...children);
}

/** Text for screen readers alone. */
function unseen(text) {
  return make("span", { class: "unseen" }, text);
}

function isTyping(element) {
  return (
    element instanceof HTMLElement &&
    element.matches("input:not([type=radio], [type=checkbox]), select, textarea")
  );
}

/** One member of a group takes part in the tab order: the one with `chosen`. */
function rove(members, chosen) {
  for (const member of members) member.tabIndex = member === chosen ? 0 : -1;
}

/** Where an arrow key, Home or End leads among `count` places; null for other keys. */
function placeByKey(key, place, count, [back, forward]) {
  const places = { [back]: place - 1, [forward]: place + 1, Home: 0, End: count - 1 };
  return key in places && count > 0 ? Math.min(Math.max(places[key], 0), count - 1) : null;
}
