/* The sequences of a prompt side by side, each with a mark where it first parts from the chosen one. */

const PANELS_SHOWN = 12;

class Comparison {
  constructor(data, { drawer, look, choose }) {
    Object.assign(this, {
      data,
      drawer,
      look,
      choose,
      host: byId("panels"),
      note: byId("common"),
      more: byId("more-panels"),
    });
    this.limit = PANELS_SHOWN;
    this.more.addEventListener("click", () => this.extend());
  }

  render(sequences, base, state) {
    Object.assign(this, { sequences, base, state });
    this.note.textContent = this.sentence();
    fill(this.host, ...sequences.slice(0, this.limit).map((sequence) => this.panel(sequence)));
    const left = sequences.length - this.limit;
    this.more.hidden = left <= 0;
    this.more.textContent = `Show ${Math.min(left, PANELS_SHOWN)} more of ${formatCount(sequences.length, "sequence")}`;
  }

  extend() {
    const from = this.limit;
    this.limit += PANELS_SHOWN;
    this.render(this.sequences, this.base, this.state);
    this.host.children[from]?.querySelector("button").focus();
  }

  /** What all of them have in common. */
  sentence() {
    const { sequences } = this;
    if (sequences.length < 2) return "There is one sequence: nothing to compare.";
    const length = commonToAll(sequences);
    const all = sequences.length === 2 ? "Both sequences" : `All ${sequences.length} sequences`;
    if (sequences.every((sequence) => parting(this.base, sequence).same))
      return `${all} have the same tokens.`;
    if (length === 0) return `${all} part at the first token.`;
    const { tokens, text } = sequences[0];
    const words = oneLine(text.slice(0, tokens.end[length - 1]), 120);
    return `${all} begin with the same ${formatCount(length, "token")}: ${words}`;
  }

  panel(sequence) {
    const isBase = sequence === this.base;
    const found = parting(this.base, sequence);
    const button = make(
      "button",
      { type: "button", "aria-pressed": String(isBase), class: "panel-name" },
      `${labelOf(sequence)} ${GRADE_SIGNS[gradeOf(sequence)]}`,
      unseen(gradeOf(sequence)),
    );
    button.addEventListener("click", () => this.choose(sequence));
    const text = make("div", {
      class: "text",
      dir: "auto",
      role: "group",
      "aria-label": `Text of ${labelOf(sequence)}`,
    });
    const view = new TextView(text, { draw: this.drawer(sequence), look: this.look, limit: 2 });
    const pieces = piecesOf(sequence, this.state.by);
    view.show({
      sequence,
      pieces,
      markAt: isBase || found.same ? -1 : partingPiece(sequence, this.state.by, pieces, found),
    });
    const head = make(
      "div",
      { class: "panel-head" },
      button,
      make("span", { class: "parts" }, isBase ? "the others are compared with this" : this.parts(found)),
    );
    return make("div", { class: isBase ? "panel base" : "panel" }, head, text);
  }

  parts(found) {
    if (found.same) return "the same tokens";
    if (found.ends) return `ends after token ${found.length}`;
    return found.continues ? `goes on at token ${found.length + 1}` : `parts at token ${found.length + 1}`;
  }
}

/** The piece that the first token of its own is in; none where that has no text, as an end token. */
function partingPiece(sequence, by, pieces, { length, ends }) {
  if (ends) return -1;
  if (by === "token") return pieces.findIndex((piece) => piece.items.includes(length));
  const { start, end } = sequence.tokens;
  const touches = (piece) => piece.start < end[length] && piece.end > start[length];
  const span = pieces.findIndex((piece) => piece.items.length > 0 && touches(piece));
  return span >= 0 ? span : pieces.findIndex(touches);
}
