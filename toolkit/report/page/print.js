/* For paper: every sequence of the chosen prompt, drawn when the page is printed and gone after. */

const PRINTED_BLOCKS = 8;

function printable(reader) {
  const { data, pen, state, prompt } = reader;
  if (state.sequence === null) return [];
  const legend = make("p", { class: "legend" }, ...pen.legend(state));
  const sequences = prompt.sequences.map((i) => printedSequence(pen, data.sequences[i], state));
  return [...promptHead(data, prompt), legend, ...sequences];
}

function printedSequence(pen, sequence, state) {
  const pieces = piecesOf(sequence, state.by);
  const drawn = pieces
    .slice(0, blocksOf(pieces)[PRINTED_BLOCKS])
    .map((piece) => pen.piece(sequence, piece, state));
  const left = pieces.length - drawn.length;
  return make(
    "div",
    { class: "printed" },
    make("p", { class: "printed-head" }, make("strong", {}, labelOf(sequence)), ...sequenceFacts(sequence)),
    make("div", { class: "text", dir: "auto" }, ...drawn),
    left > 0 ? make("p", { class: "note" }, `${formatCount(left, "piece")} more not printed.`) : "",
  );
}

function preparePrinting(reader) {
  const host = byId("reader-print");
  const prepare = () => fill(host, ...printable(reader));
  window.addEventListener("beforeprint", prepare);
  window.addEventListener("afterprint", () => fill(host));
  matchMedia("print").addEventListener("change", ({ matches }) => (matches ? prepare() : fill(host)));
}
