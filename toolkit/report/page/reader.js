/* The reader: one state, changed in one place, and everything drawn from it. */

class Reader {
  constructor(data) {
    this.data = data;
    this.host = byId("reader");
    this.pen = new Pen(data);
    const [first] = data.granularities;
    this.state = {
      sequence: null,
      by: first.name,
      metric: first.metrics[0],
      filter: "all",
      view: data.view ?? "one",
      spaces: false,
      scope: "sequence",
    };
    this.makeParts();
    this.listen();
    this.keys = new Keys(this);
  }

  makeParts() {
    const { data, pen } = this;
    const look = (view, piece, how) => this.look(view, piece, how);
    const jump = (sequence, by, item) => this.jump(sequence, by, item);
    this.card = new Card(data, pen, { jump, leave: () => this.backToText() });
    this.text = new TextView(byId("text"), {
      draw: (piece, view) => this.pen.piece(view.sequence, piece, this.state),
      look,
      limit: 3,
    });
    this.active = this.text;
    this.prompts = new PromptList(data, (prompt) => this.update({ sequence: this.firstOf(prompt) }));
    this.tabs = new SequenceTabs(pen, (sequence) => this.update({ sequence }));
    this.least = new LeastList(data, pen, jump);
    const drawer = (sequence) => (piece) => pen.piece(sequence, piece, this.state);
    this.comparison = new Comparison(data, { drawer, look, choose: (sequence) => this.update({ sequence }) });
  }

  listen() {
    for (const name of ["filter", "view", "scope"])
      this.onChange(name, (input) => this.update({ [name]: input.value }));
    this.onChange("by", (select) => this.update({ by: select.value }));
    this.onChange("metric", (select) => this.update({ metric: select.value }));
    this.onChange("spaces", (box) => this.update({ spaces: box.checked }));
    this.prompts.search.addEventListener("input", () => this.listPrompts());
    window.addEventListener("hashchange", () => this.followHash());
  }

  onChange(name, act) {
    for (const control of this.host.querySelectorAll(`[name="${name}"]`))
      control.addEventListener("change", () => act(control));
  }

  start() {
    byId("reader-body").hidden = false;
    if (!this.followHash()) this.settle({ sequence: this.data.sequences[0] ?? null });
  }

  /** Go where the address says, if it names a prompt of this page. */
  followHash() {
    const place = placeOf(this.data, location.hash);
    if (place === null) return false;
    const { span, ...change } = place;
    const filter = this.matches(change.sequence) ? this.state.filter : "all";
    this.update({ ...change, filter });
    this.host.scrollIntoView();
    if (span !== undefined) this.focusItem(span);
    return true;
  }

  matches(sequence, filter = this.state.filter) {
    return filter === "all" || gradeOf(sequence) === filter;
  }

  /** The sequences of a prompt that the filter lets through. */
  sequencesOf(prompt, filter = this.state.filter) {
    return prompt.sequences
      .map((i) => this.data.sequences[i])
      .filter((sequence) => this.matches(sequence, filter));
  }

  firstOf(prompt, filter = this.state.filter) {
    return this.sequencesOf(prompt, filter)[0] ?? null;
  }

  /** Change the state as a person asked, and keep the place in the address. */
  update(change) {
    const place = this.textPlace();
    this.settle(change);
    this.restore(place);
    if (this.state.sequence) keepPlace(hashOf(this.data, this.state));
  }

  /** Change the state, and draw what follows from it. */
  settle(change) {
    const before = this.state;
    this.state = this.settled({ ...before, ...change });
    if (this.state.filter !== before.filter || before.sequence === null) this.listPrompts();
    else this.prompts.mark(this.prompt);
    if (["sequence", "by", "metric"].some((name) => this.state[name] !== before[name])) this.card.close();
    this.render();
  }

  /** A state that holds together: a statistic that the granularity has, a sequence that the filter lets through. */
  settled(state) {
    const { metrics } = this.data.granularities.find(({ name }) => name === state.by);
    const metric = metrics.includes(state.metric) ? state.metric : metrics[0];
    return { ...state, metric, sequence: this.settledSequence(state) };
  }

  settledSequence({ sequence, filter }) {
    const { sequences, prompts } = this.data;
    if (sequence && this.matches(sequence, filter)) return sequence;
    const near = sequence ? this.firstOf(prompts[sequence.prompt], filter) : null;
    return near ?? sequences.find((one) => this.matches(one, filter)) ?? null;
  }

  get prompt() {
    return this.state.sequence ? this.data.prompts[this.state.sequence.prompt] : undefined;
  }

  listPrompts() {
    this.prompts.render((sequence) => this.matches(sequence), this.prompt);
  }

  render() {
    const { state, prompt } = this;
    this.showControls();
    byId("sheet").hidden = state.sequence === null;
    byId("nothing").hidden = state.sequence !== null;
    if (state.sequence === null) {
      byId("nothing").textContent =
        state.filter === "all"
          ? "There are no sequences on this page."
          : `No sequence on this page is ${state.filter}.`;
      this.renderLeast();
      return;
    }
    const shown = this.sequencesOf(prompt);
    fill(byId("prompt-head"), ...promptHead(this.data, prompt));
    this.tabs.render(shown, state.sequence);
    fill(byId("legend"), ...this.pen.legend(state));
    fill(byId("facts"), ...sequenceFacts(state.sequence));
    this.renderText(shown);
    this.renderLeast();
  }

  renderText(shown) {
    const { state } = this;
    const alone = state.view === "one";
    byId("panel").hidden = !alone;
    byId("comparison").hidden = alone;
    if (!alone) {
      this.comparison.render(shown, state.sequence, state);
      return;
    }
    this.active = this.text;
    this.text.show({ sequence: state.sequence, pieces: piecesOf(state.sequence, state.by), markAt: -1 });
    byId("text").setAttribute(
      "aria-label",
      `Text of ${labelOf(state.sequence)}, by ${state.by} and ${nameOf(state.metric)}`,
    );
    byId("no-spans").hidden = this.text.current >= 0;
    byId("no-spans").textContent =
      state.by === "token" ? "It has no tokens." : `There is no ${state.by} in this text.`;
  }

  renderLeast() {
    const { by, metric, scope, filter, sequence } = this.state;
    const own =
      scope === "sequence"
        ? [sequence].filter(Boolean)
        : this.data.sequences.filter((one) => this.matches(one));
    const key = [by, metric, scope, scope === "sequence" ? sequence?.index : filter].join(" ");
    this.least.render(key, own, this.state);
  }

  showControls() {
    const { state, data } = this;
    for (const name of ["filter", "view", "scope"]) {
      for (const input of this.host.querySelectorAll(`input[name="${name}"]`))
        input.checked = input.value === state[name];
    }
    for (const grade of ["right", "wrong", "partly", "ungraded"]) {
      const { length } = data.sequences.filter((sequence) => gradeOf(sequence) === grade);
      byId(`count-${grade}`).textContent = length.toLocaleString("en");
      if (grade === "partly") byId("filter-partly").hidden = length === 0;
    }
    byId("spaces").checked = state.spaces;
    const { metrics } = data.granularities.find(({ name }) => name === state.by);
    setOptions(
      byId("by"),
      data.granularities.map(({ name }) => name),
      state.by,
    );
    setOptions(byId("metric"), metrics, state.metric);
  }

  look(view, piece, how) {
    if (how === "focus") this.active = view;
    const { by, metric } = this.state;
    this.card.look(piece === null ? null : { sequence: view.sequence, piece, by, metric }, how);
  }

  /** Where the focus is in the text or beside it, so that it can be put back after a change. */
  textPlace() {
    if (this.text.host.contains(document.activeElement)) return this.text.current;
    return byId("comparison").contains(document.activeElement) ? "panel" : null;
  }

  restore(place) {
    if (place === null || this.state.sequence === null) return;
    if (this.state.view === "all") byId("panels").querySelector(".base button")?.focus();
    else if (place === "panel") this.text.focus(this.text.current);
    else this.text.focus(this.text.nearest(Math.min(place, this.text.pieces.length - 1), -1));
  }

  backToText() {
    if (this.active.host.isConnected) this.active.focus(this.active.current);
    this.card.close();
  }

  jump(sequence, by, item) {
    this.update({ sequence, by, view: "one" });
    this.focusItem(item);
  }

  focusItem(item) {
    if (this.state.view === "all") this.update({ view: "one" });
    const index = pieceOfItem(this.state.sequence, this.state.by, this.text.pieces, item);
    this.text.focus(index);
    this.text.flash(index);
  }
}

function setOptions(select, names, chosen) {
  const options = names.map((name) => make("option", { value: name }, nameOf(name)));
  fill(select, ...options);
  select.value = chosen;
}
