/* Text made safe to look at: characters that would be obeyed or hidden are drawn as visible ones. */

// As `visible` of toolkit/characters.py has them: also private use, and letters that are drawn as nothing.
const HIDDEN =
  /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u3164\uffa0\ufe00-\ufe0e\u{e0100}-\u{e01ef}]/gu;
const JOINERS = "\u200c\u200d"; // emoji and several scripts need them, and they cannot reorder
const CONTROLS =
  "NUL SOH STX ETX EOT ENQ ACK BEL BS HT LF VT FF CR SO SI DLE DC1 DC2 DC3 DC4 NAK SYN ETB CAN EM SUB ESC FS GS RS US".split(
    " ",
  );
const SPACES = /[\p{Zs}\t\n]/gu;

/** A control, format, surrogate or unassigned character as a visible one; tab and newline stay to be obeyed. */
function visible(text) {
  return text.replace(HIDDEN, visibleCharacter);
}

function visibleCharacter(character) {
  const code = character.codePointAt(0);
  if (character === "\t" || character === "\n" || JOINERS.includes(character)) return character;
  if (code < 0x20) return `<${CONTROLS[code]}>`;
  if (code === 0x7f) return "<DEL>";
  return `<U+${code.toString(16).toUpperCase().padStart(4, "0")}>`;
}

/** Text as nodes: plain text as `say` gives it, and every hidden character as an element of its own. */
function textNodes(text, say) {
  const nodes = [];
  let place = 0;
  for (const { 0: character, index } of text.matchAll(HIDDEN)) {
    const sign = visibleCharacter(character);
    if (sign === character) continue;
    nodes.push(say(text.slice(place, index)), make("span", { class: "hidden-character" }, sign));
    place = index + character.length;
  }
  return [...nodes, say(text.slice(place))];
}

/** `visible` with spaces drawn too; line breaks are shown and then obeyed where `breaks` says so. */
function withSpaces(text, breaks = true) {
  const signs = { " ": "·", "\t": breaks ? "⇥\t" : "⇥", "\n": breaks ? "↵\n" : "↵" };
  return visible(text).replace(SPACES, (space) => signs[space] ?? "⍽");
}

/** One line, with spaces drawn at the ends only, cut to a number of characters. */
function oneLine(text, limit) {
  const shown = clip(text, limit);
  const core = shown.trim();
  if (core === "") return withSpaces(shown, false);
  const start = shown.indexOf(core);
  const inner = visible(core).replaceAll("\n", "↵").replaceAll("\t", "⇥");
  return (
    withSpaces(shown.slice(0, start), false) + inner + withSpaces(shown.slice(start + core.length), false)
  );
}

function clip(text, limit) {
  return text.length <= limit ? text : `${text.slice(0, wholeAt(text, limit))}…`;
}

/** A cut at or before `place` that leaves surrogate pairs whole. */
function wholeAt(text, place) {
  const code = text.charCodeAt(place - 1);
  return code >= 0xd800 && code < 0xdc00 && place > 1 ? place - 1 : place;
}
