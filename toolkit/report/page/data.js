/* What the page holds: the data island, and plain facts about it. Null is not computed; MASKED stands for -inf. */

const MASKED = -9999;
const UNSURE = 0.5; // below this confidence a piece is underlined too

function readIsland() {
  const data = JSON.parse(document.getElementById("report-data").textContent);
  for (const [index, prompt] of data.prompts.entries()) prompt.index = index;
  for (const [index, sequence] of data.sequences.entries()) sequence.index = index;
  tellRunsApart(data);
  return data;
}

/** Where runs are compared, a prompt has sequences of both: they have the run, and it is of none. */
function tellRunsApart(data) {
  for (const sequence of data.sequences) {
    const prompt = data.prompts[sequence.prompt];
    if (sequence.run === undefined) sequence.run = prompt.run;
    else {
      sequence.of = data.runs[sequence.run].name;
      prompt.run = null;
    }
  }
}

function labelOf(sequence) {
  const own =
    sequence.kind === "greedy" && sequence.sample === 0 ? "greedy" : `${sequence.kind} ${sequence.sample}`;
  return sequence.of === undefined ? own : `${oneLine(sequence.of, 40)}: ${own}`;
}

/** "right", "wrong", "partly" right, or "ungraded". */
function gradeOf(sequence) {
  if (sequence.grade === null || sequence.grade === undefined) return "ungraded";
  if (sequence.grade > 0 && sequence.grade < 1) return "partly";
  return sequence.grade >= 1 ? "right" : "wrong";
}

const GRADE_SIGNS = { right: "✓", wrong: "✗", partly: "◐", ungraded: "" };

/** How many items a granularity has in a sequence. Of its tokens, those that a stop string did not cut off. */
function countOf(sequence, by) {
  return by === "token" ? sequence.tokens.kept : (itemsOf(sequence, by)?.start.length ?? 0);
}

/** The tokens, or the spans of a granularity; undefined where the sequence has none. */
function itemsOf(sequence, by) {
  return by === "token" ? sequence.tokens : sequence.spans?.[by];
}

function valueOf(sequence, by, metric, item) {
  return itemsOf(sequence, by)?.[metric]?.[item] ?? null;
}

/** The value of lowest confidence among some items; null where none was computed. */
function leastSure(data, sequence, by, metric, items) {
  const rising = data.metrics[metric].sure > data.metrics[metric].unsure;
  let least = null;
  for (const item of items) {
    const value = valueOf(sequence, by, metric, item);
    if (value !== null && (least === null || (rising ? value < least : value > least))) least = value;
  }
  return least;
}

function placeOnScale(scale, value) {
  return scale.log ? Math.log(Math.max(value, 1e-300)) : value;
}

/** From 0, unsure, to 1, sure, on the metric's fixed scale; null stays null. */
function confidenceOf(scale, value) {
  if (value === null) return null;
  const unsure = placeOnScale(scale, scale.unsure);
  const sure = placeOnScale(scale, scale.sure);
  return Math.min(Math.max((placeOnScale(scale, value) - unsure) / (sure - unsure), 0), 1);
}

/** The value at a confidence: the inverse of `confidenceOf` between the ends. */
function valueAt(scale, confidence) {
  const unsure = placeOnScale(scale, scale.unsure);
  const place = unsure + confidence * (placeOnScale(scale, scale.sure) - unsure);
  return scale.log ? Math.exp(place) : place;
}

/** A value for people: whole numbers as they are, else two decimals. */
function formatNumber(value) {
  if (value === null || value === undefined) return "not computed";
  if (value === MASKED) return "−∞";
  const text = Number.isInteger(value) ? String(value) : value.toFixed(2);
  return text.replace(/^-(?=.*[1-9])/, "−").replace(/^-/, "");
}

function formatShare(share) {
  const percent = 100 * share;
  if (percent > 0 && percent < 0.1) return "< 0.1 %";
  if (percent > 99.9 && percent < 100) return "> 99.9 %";
  return `${percent.toFixed(1)} %`;
}

function formatCount(count, noun) {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}

function nameOf(metric) {
  return metric.replaceAll("_", " ");
}

/** How two sequences begin: the number of tokens they share, and whether one or both end there. */
function parting(one, other) {
  const [a, b] = [one.tokens, other.tokens];
  const most = Math.min(a.kept, b.kept);
  let length = 0;
  while (length < most && a.v[length] === b.v[length]) length++;
  return {
    length,
    same: length === a.kept && length === b.kept,
    ends: length === b.kept,
    continues: length === a.kept,
  };
}

/** How many tokens all of some sequences begin with. */
function commonToAll(sequences) {
  return Math.min(...sequences.map((sequence) => parting(sequences[0], sequence).length));
}

/** All items of sequences by confidence, the least sure first; ties in the order of the page. */
function leastConfident(data, sequences, by, metric) {
  const found = [];
  for (const sequence of sequences) {
    const count = countOf(sequence, by);
    for (let item = 0; item < count; item++) {
      const value = valueOf(sequence, by, metric, item);
      if (value !== null) found.push({ sequence, item, value });
    }
  }
  const sign = data.metrics[metric].sure > data.metrics[metric].unsure ? 1 : -1;
  return found.sort((a, b) => sign * (a.value - b.value));
}

function range(start, end) {
  return Array.from({ length: Math.max(end - start, 0) }, (_, i) => start + i);
}
