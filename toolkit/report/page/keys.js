/* Keys that work anywhere on the page, but where text is typed. The page lists them under "Keys". */

class Keys {
  constructor(reader) {
    this.reader = reader;
    this.actions = {
      "]": () => this.toSequence(1),
      "[": () => this.toSequence(-1),
      n: () => this.toPrompt(1),
      p: () => this.toPrompt(-1),
      u: () => this.toUnsure(1),
      U: () => this.toUnsure(-1),
      w: () => reader.update({ spaces: !reader.state.spaces }),
      c: () => reader.update({ view: reader.state.view === "one" ? "all" : "one" }),
      "/": () => reader.prompts.search.focus(),
      "?": () => this.explain(),
    };
    document.addEventListener("keydown", (event) => this.press(event));
  }

  press(event) {
    if (event.key === "Escape") {
      this.escape(event.target);
      return;
    }
    // Some keyboards have brackets on AltGr, which counts as Control and Alt.
    const modified = (event.ctrlKey || event.altKey || event.metaKey) && !event.getModifierState("AltGraph");
    if (modified || isTyping(event.target) || !Object.hasOwn(this.actions, event.key)) return;
    event.preventDefault();
    if (this.reader.state.sequence) this.actions[event.key]();
  }

  toSequence(step) {
    const { reader } = this;
    const shown = reader.sequencesOf(reader.prompt);
    const next = shown[shown.indexOf(reader.state.sequence) + step];
    if (next) reader.update({ sequence: next });
  }

  toPrompt(step) {
    const { reader } = this;
    const prompt = reader.prompts.beside(reader.prompt, step);
    if (prompt && prompt !== reader.prompt) reader.update({ sequence: reader.firstOf(prompt) });
  }

  /** To the next or previous underlined piece, from the one that is focused or from an end of the text. */
  toUnsure(step) {
    const { active: view, pen, state } = this.reader;
    const unsure = (piece) => {
      const confidence = pen.confidence(view.sequence, piece.items, state.by, state.metric);
      return confidence !== null && confidence < UNSURE;
    };
    const inside = view.host.contains(document.activeElement);
    const from = inside ? view.current + step : step > 0 ? 0 : view.pieces.length - 1;
    const target = view.nearest(from, step, unsure);
    if (target >= 0) view.focus(target);
  }

  explain() {
    const details = byId("keys");
    details.open = true;
    details.querySelector("summary").focus();
  }

  escape(target) {
    const { card, prompts } = this.reader;
    if (target === prompts.search) {
      target.value = "";
      this.reader.listPrompts();
    } else if (card.host.contains(target)) this.reader.backToText();
    else card.close();
  }
}
