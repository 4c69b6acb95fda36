/* The card: all that is known of the piece that is pointed at or focused. */

const ROWS_OF_CARD = 30;
const PLAIN_METRICS = ["logprob", "entropy", "rank"]; // shown first, in this order

class Card {
  constructor(data, pen, { leave, jump }) {
    Object.assign(this, {
      data,
      pen,
      jump,
      host: byId("card"),
      body: byId("card-body"),
      status: byId("card-status"),
    });
    this.pinned = null;
    byId("card-close").addEventListener("click", () => {
      this.close();
      leave();
    });
  }

  /** Show what is focused until it is closed; what is pointed at, while it is. */
  look(shown, how) {
    if (how === "focus") {
      this.pinned = shown;
      this.status.textContent = shown ? this.sentence(shown) : "";
    } else if (getComputedStyle(this.host).position === "fixed") {
      return; // as a sheet over the text it would come and go under the pointer
    }
    this.render(shown ?? this.pinned);
  }

  close() {
    this.pinned = null;
    this.status.textContent = "";
    this.render(null);
  }

  render(shown) {
    this.host.classList.toggle("closed", shown === null);
    fill(this.body, ...(shown === null ? [] : this.contents(shown)));
  }

  contents(shown) {
    const { sequence, piece, by } = shown;
    if (by !== "token") return [this.heading(shown), this.spanFacts(shown), this.tokenTable(shown)];
    if (piece.items.length > 1) return [this.heading(shown), this.tokenTable({ ...shown, part: true })];
    return [
      this.heading(shown),
      this.tokenFacts(sequence, piece.items[0]),
      ...this.alternatives(sequence, piece.items[0]),
    ];
  }

  heading({ sequence, piece, by, metric }) {
    const text = textOfPiece(this.data, sequence, piece);
    const shown = piece.chip ? text : clip(text, 300);
    const swatch = make("bdi", { class: "piece card-piece" }, ...textNodes(shown, withSpaces));
    this.pen.paint(swatch, this.pen.confidence(sequence, piece.items, by, metric));
    return make("p", { class: "card-text" }, swatch);
  }

  /** One line for screen readers. */
  sentence({ sequence, piece, by, metric }) {
    const value = leastSure(this.data, sequence, by, metric, piece.items);
    const text = clip(visible(textOfPiece(this.data, sequence, piece)), 100);
    const share =
      by === "token" && metric === "logprob" && value !== null ? `, ${formatShare(Math.exp(value))}` : "";
    return `${text}: ${nameOf(metric)} ${formatNumber(value)}${share}`;
  }

  tokenFacts(sequence, token) {
    const { tokens } = sequence;
    const bytes = this.data.vocabulary.bytes[tokens.v[token]];
    const facts = [
      ["token", `${token + 1} of ${tokens.v.length}`],
      ["bytes", bytes === null ? "none: a special token" : formatBytes(bytes)],
    ];
    for (const metric of this.tokenMetrics(tokens))
      facts.push([nameOf(metric), this.measure(metric, tokens[metric][token])]);
    return factList(facts);
  }

  tokenMetrics(tokens) {
    const metrics = this.data.granularities.find(({ name }) => name === "token")?.metrics ?? [];
    const others = metrics.filter((metric) => !PLAIN_METRICS.includes(metric));
    return [...PLAIN_METRICS, ...others].filter((metric) => tokens[metric] !== undefined);
  }

  measure(metric, value) {
    const unit = this.data.metrics[metric]?.unit;
    const known = value !== null && value !== undefined && value !== MASKED;
    const share = metric.endsWith("logprob") && known ? ` · ${formatShare(Math.exp(value))}` : "";
    return (
      formatNumber(value) +
      (known && unit ? ` ${unit}` : "") +
      share +
      (value === MASKED ? " · masked out" : "")
    );
  }

  spanFacts({ sequence, piece, by }) {
    const [item] = piece.items;
    const spans = itemsOf(sequence, by);
    const metrics = this.data.granularities.find(({ name }) => name === by).metrics;
    const facts = spans.label ? [["label", oneLine(spans.label[item], 200)]] : [];
    facts.push([by, `${item + 1} of ${spans.start.length}`]);
    for (const metric of metrics) {
      if (spans[metric] === undefined) continue;
      const value = spans[metric][item];
      const unit = this.data.metrics[metric].unit;
      facts.push([nameOf(metric), formatNumber(value) + (value !== null && unit ? ` ${unit}` : "")]);
    }
    return factList(facts);
  }

  /** The tokens of a piece, each a button that leads to it. */
  tokenTable({ sequence, piece, by, part }) {
    const spans = by === "token" ? null : itemsOf(sequence, by);
    const [item] = piece.items;
    const tokens = spans ? range(spans.first[item], spans.last[item]) : piece.items;
    const rows = tokens.slice(0, ROWS_OF_CARD).map((token) => this.tokenRow(sequence, token, part));
    const names = ["token", part ? "bytes" : "entropy", "logprob", "rank"];
    const head = names.map((name) =>
      make("th", { scope: "col", class: name === "token" ? false : "num" }, name),
    );
    const more = tokens.length > rows.length ? `, the first ${rows.length} are listed` : "";
    const said = formatCount(tokens.length, "token") + (part ? ", which share this text" : "");
    return make(
      "table",
      { class: "tokens" },
      make("caption", {}, said + more),
      make("thead", {}, make("tr", {}, ...head)),
      make("tbody", {}, ...rows),
    );
  }

  tokenRow(sequence, token, part) {
    const { tokens } = sequence;
    const word = tokens.v[token];
    const button = make(
      "button",
      { type: "button", class: "link" },
      this.pen.swatch(this.data.vocabulary.texts[word], "logprob", tokens.logprob[token]),
    );
    button.addEventListener("click", () => this.jump(sequence, "token", token));
    const bytes = formatBytes(this.data.vocabulary.bytes[word] ?? "", 8);
    const cells = [
      part ? bytes : formatNumber(tokens.entropy[token]),
      formatNumber(tokens.logprob[token]),
      formatNumber(tokens.rank[token]),
    ];
    return make(
      "tr",
      {},
      make("th", { scope: "row" }, button),
      ...cells.map((text) => make("td", { class: "num" }, text)),
    );
  }

  /** The likeliest tokens at a position with their probabilities as bars, and what is left for all others. */
  alternatives(sequence, token) {
    const pairs = sequence.tokens.alternatives?.[token] ?? [];
    if (pairs.length === 0) return [make("p", { class: "note" }, "No alternatives were kept.")];
    const own = sequence.tokens.v[token];
    const rows = range(0, pairs.length / 2).map((i) => ({ word: pairs[2 * i], logprob: pairs[2 * i + 1] }));
    if (!rows.some(({ word }) => word === own))
      rows.push({ word: own, logprob: sequence.tokens.logprob[token] });
    const known = rows.filter(({ logprob }) => logprob !== null && logprob !== MASKED);
    const rest = 1 - known.reduce((sum, { logprob }) => sum + Math.exp(logprob), 0);
    const body = rows.map(({ word, logprob }) =>
      alternativeRow(this.data.vocabulary.texts[word], logprob, word === own),
    );
    if (rest > 0.0005) body.push(alternativeRow(null, Math.log(rest), false));
    return [
      make(
        "table",
        { class: "alternatives" },
        make("caption", {}, "Alternatives"),
        make("tbody", {}, ...body),
      ),
    ];
  }
}

function alternativeRow(text, logprob, chosen) {
  const share = logprob === null || logprob === MASKED ? 0 : Math.exp(logprob);
  const bar = make("span", { class: "bar", "aria-hidden": "true" });
  bar.style.setProperty("inline-size", `${(100 * Math.min(share, 1)).toFixed(2)}%`);
  const name =
    text === null ? make("span", { class: "rest" }, "all others") : make("bdi", {}, oneLine(text, 40) || "∅");
  return make(
    "tr",
    { class: chosen ? "chosen" : text === null ? "others" : false },
    make("th", { scope: "row" }, chosen ? unseen("chosen: ") : "", name),
    make("td", { class: "bars" }, make("span", { class: "track" }, bar)),
    make("td", { class: "num" }, logprob === null ? "?" : formatShare(share)),
    make("td", { class: "num" }, text === null ? "" : formatNumber(logprob)),
  );
}

function factList(facts) {
  return make(
    "dl",
    { class: "card-facts" },
    ...facts.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, make("bdi", {}, value))]),
  );
}

function formatBytes(hex, limit = 48) {
  const bytes = hex.match(/../g) ?? [];
  if (bytes.length === 0) return "none";
  return bytes.slice(0, limit).join(" ") + (bytes.length > limit ? ` … ${bytes.length} in all` : "");
}
