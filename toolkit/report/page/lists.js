/* Lists to choose from: prompts, the sequences of a prompt, and what the model was least sure of. */

const QUESTION_SHOWN = 160;
const LEAST_SHOWN = 20;
const LEAST_MORE = 50;

/** What a prompt is found by, in lower case. */
function searchText(data, prompt) {
  const runs = prompt.run === null ? data.runs : [data.runs[prompt.run]];
  return [prompt.id, prompt.question, ...prompt.reference, ...runs.map(({ name }) => name)]
    .join("\n")
    .toLowerCase();
}

/** The prompts, to be searched; the one that the keys are on is chosen at once. */
class PromptList {
  constructor(data, choose) {
    Object.assign(this, {
      data,
      choose,
      host: byId("prompts"),
      search: byId("search"),
      found: byId("found"),
    });
    this.texts = data.prompts.map((prompt) => searchText(data, prompt));
    this.host.addEventListener("click", (event) => this.pick(event));
    this.host.addEventListener("keydown", (event) => this.walk(event));
    this.search.addEventListener("keydown", (event) => this.leaveSearch(event));
  }

  /** `matches` says which sequences the filter lets through. */
  render(matches, chosen) {
    const query = this.search.value.trim().toLowerCase();
    this.prompts = this.data.prompts.filter((prompt) => {
      return (
        this.texts[prompt.index].includes(query) &&
        prompt.sequences.some((i) => matches(this.data.sequences[i]))
      );
    });
    fill(this.host, ...this.prompts.map((prompt) => this.option(prompt)));
    const page = this.data.page.files.length > 1 ? " of this page" : "";
    this.found.textContent = `${this.prompts.length} of ${formatCount(this.data.prompts.length, "prompt")}${page}`;
    this.mark(chosen);
  }

  option(prompt) {
    const run =
      this.data.runs.length > 1 && prompt.run !== null
        ? make("bdi", { class: "prompt-run" }, oneLine(this.data.runs[prompt.run].name, 60))
        : "";
    return make(
      "li",
      { role: "option", "data-prompt": prompt.index },
      make(
        "span",
        { class: "prompt-head" },
        make("bdi", { class: "prompt-id" }, oneLine(prompt.id, 80)),
        this.tally(prompt),
      ),
      run,
      make("bdi", { class: "prompt-question" }, oneLine(prompt.question, QUESTION_SHOWN)),
    );
  }

  tally(prompt) {
    const grades = prompt.sequences.map((i) => gradeOf(this.data.sequences[i]));
    const count = (grade) => grades.filter((one) => one === grade).length;
    if (count("ungraded") === grades.length) return make("span", { class: "tally" }, `${grades.length} ×`);
    const told = count("partly") > 0 ? ["right", "partly", "wrong"] : ["right", "wrong"];
    const parts = told.map((grade) => [
      make("span", { "aria-hidden": "true" }, `${GRADE_SIGNS[grade]} ${count(grade)} `),
      unseen(` ${count(grade)} ${grade}`),
    ]);
    return make("span", { class: "tally" }, ...parts.flat());
  }

  mark(chosen) {
    const options = [...this.host.children];
    const own = options.find((option) => Number(option.dataset.prompt) === chosen?.index);
    for (const option of options) option.setAttribute("aria-selected", String(option === own));
    rove(options, own ?? options[0]);
    if (own) this.reveal(own);
  }

  /** Scroll the list alone, never the page. */
  reveal(option) {
    const [box, inner] = [this.host.getBoundingClientRect(), option.getBoundingClientRect()];
    if (inner.top < box.top) this.host.scrollTop += inner.top - box.top;
    else if (inner.bottom > box.bottom) this.host.scrollTop += inner.bottom - box.bottom;
  }

  pick(event) {
    const option = event.target.closest("[data-prompt]");
    if (option) this.choose(this.data.prompts[Number(option.dataset.prompt)]);
  }

  walk(event) {
    const options = [...this.host.children];
    const place = placeByKey(event.key, options.indexOf(event.target), options.length, [
      "ArrowUp",
      "ArrowDown",
    ]);
    if (place === null) return;
    event.preventDefault();
    this.choose(this.prompts[place]);
    options[place].focus();
  }

  leaveSearch(event) {
    if (!["ArrowDown", "Enter"].includes(event.key) || this.prompts.length === 0) return;
    event.preventDefault();
    this.choose(this.prompts[0]);
    this.host.firstElementChild.focus();
  }

  /** The prompt that is `step` further down in the list. */
  beside(chosen, step) {
    const place = this.prompts.indexOf(chosen);
    if (place < 0) return this.prompts[0];
    return this.prompts[Math.min(Math.max(place + step, 0), this.prompts.length - 1)];
  }
}

/** The sequences of a prompt as tabs over the text. */
class SequenceTabs {
  constructor(pen, choose) {
    Object.assign(this, { pen, choose, host: byId("sequences"), shown: [] });
    this.host.addEventListener("keydown", (event) => this.walk(event));
  }

  render(sequences, chosen) {
    const hadFocus = this.host.contains(document.activeElement);
    this.shown = sequences;
    const tabs = sequences.map((sequence) => this.tab(sequence, sequence === chosen));
    fill(this.host, ...tabs);
    const own = tabs[sequences.indexOf(chosen)];
    rove(tabs, own);
    if (hadFocus) own?.focus();
  }

  tab(sequence, selected) {
    const grade = gradeOf(sequence);
    const sign = GRADE_SIGNS[grade]
      ? make("span", { class: "sign", "aria-hidden": "true" }, GRADE_SIGNS[grade])
      : "";
    const tab = make(
      "button",
      { type: "button", role: "tab", "aria-selected": String(selected), "aria-controls": "panel" },
      `${labelOf(sequence)} `,
      sign,
      unseen(grade),
      " ",
      this.pen.value("mean_logprob", sequence.mean_logprob),
    );
    tab.title = "mean log-probability of its tokens, nats";
    tab.addEventListener("click", () => this.choose(sequence));
    return tab;
  }

  walk(event) {
    const place = placeByKey(event.key, [...this.host.children].indexOf(event.target), this.shown.length, [
      "ArrowLeft",
      "ArrowRight",
    ]);
    if (place === null) return;
    event.preventDefault();
    this.choose(this.shown[place]);
  }
}

/** The least confident tokens or spans; each leads to its place in the text. */
class LeastList {
  constructor(data, pen, jump) {
    Object.assign(this, { data, pen, jump, host: byId("least-list"), more: byId("least-more"), key: null });
    this.more.addEventListener("click", () => this.extend());
  }

  /** `key` names what is asked for; the same is not computed twice. */
  render(key, sequences, { by, metric, scope }) {
    byId("least-title").textContent = `Least confident ${by}s`;
    byId("least-note").textContent = `by ${nameOf(metric)}`;
    if (key === this.key) return;
    Object.assign(this, {
      key,
      by,
      metric,
      scope,
      limit: LEAST_SHOWN,
      found: leastConfident(this.data, sequences, by, metric),
    });
    this.draw(0);
  }

  draw(from) {
    if (from === 0) fill(this.host);
    for (const entry of this.found.slice(from, this.limit)) this.host.append(this.entry(entry));
    const left = this.found.length - this.host.childElementCount;
    this.more.hidden = left <= 0;
    this.more.textContent = `Show more of ${left.toLocaleString("en")}`;
    byId("least-empty").hidden = this.found.length > 0;
  }

  extend() {
    const from = this.host.childElementCount;
    this.limit = from + LEAST_MORE;
    this.draw(from);
    this.host.children[from]?.firstElementChild.focus();
  }

  entry({ sequence, item, value }) {
    const button = make(
      "button",
      { type: "button", class: "entry" },
      this.pen.value(this.metric, value),
      make("bdi", { class: "entry-text" }, oneLine(this.textOf(sequence, item), 60) || "∅"),
      this.where(sequence, item),
    );
    button.addEventListener("click", () => this.jump(sequence, this.by, item));
    return make("li", {}, button);
  }

  where(sequence, item) {
    if (this.scope === "sequence") return make("span", { class: "where" }, `${this.by} ${item + 1}`);
    const prompt = this.data.prompts[sequence.prompt];
    return make(
      "span",
      { class: "where elsewhere" },
      make("bdi", {}, oneLine(prompt.id, 60)),
      ` · ${labelOf(sequence)}`,
    );
  }

  textOf(sequence, item) {
    if (this.by === "token") return this.data.vocabulary.texts[sequence.tokens.v[item]];
    const spans = itemsOf(sequence, this.by);
    return sequence.text.slice(spans.start[item], spans.end[item]);
  }
}
