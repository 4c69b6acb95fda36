/* How a piece, a value and a legend are drawn: the same everywhere on the page. */

class Pen {
  constructor(data) {
    this.data = data;
    this.paint = makePainter(data.palette);
  }

  /** A piece of text: coloured by its value, plain where it belongs to no item. */
  piece(sequence, piece, { by, metric, spaces }) {
    const text = textOfPiece(this.data, sequence, piece);
    if (piece.items.length === 0)
      return make("span", { class: "gap" }, ...textNodes(text, spaces ? withSpaces : String));
    const element = make(
      "span",
      { class: piece.chip ? "piece chip" : "piece" },
      ...this.pieceNodes(text, piece, spaces),
    );
    this.paint(element, this.confidence(sequence, piece.items, by, metric));
    return element;
  }

  /** A piece of line breaks alone shows them always: there would be nothing to see of it. */
  pieceNodes(text, piece, spaces) {
    if (piece.chip) return [oneLine(text, 200) || "∅"];
    const blank = text.includes("\n") && text.trim() === "";
    return textNodes(text, spaces || blank ? withSpaces : String);
  }

  confidence(sequence, items, by, metric) {
    const value = leastSure(this.data, sequence, by, metric, items);
    return confidenceOf(this.data.metrics[metric], value);
  }

  /** A number on the colour of its place on the scale. */
  value(metric, value) {
    const element = make("span", { class: "piece value" }, value === null ? "?" : formatNumber(value));
    this.paint(element, confidenceOf(this.data.metrics[metric], value));
    return element;
  }

  /** A short text on the colour of a value, in one line. */
  swatch(text, metric, value) {
    const element = make("bdi", { class: "piece" }, oneLine(text, 60) || "∅");
    this.paint(element, confidenceOf(this.data.metrics[metric], value));
    return element;
  }

  /** What the colours mean for a metric; the blocks are drawn as the text is. */
  legend({ by, metric }) {
    const scale = this.data.metrics[metric];
    const unit = scale.unit ? ` (${scale.unit})` : "";
    const blocks = make("span", { class: "scale" });
    for (let step = 0; step < STEPS_OF_LEGEND; step++) {
      const confidence = step / (STEPS_OF_LEGEND - 1);
      const block = make("span", { class: "piece" }, formatNumber(rounded(valueAt(scale, confidence))));
      this.paint(block, confidence);
      blocks.append(block);
    }
    const side = scale.sure > scale.unsure ? "below" : "above";
    const bound = formatNumber(rounded(valueAt(scale, UNSURE)));
    return [
      make("span", { class: "legend-name" }, `${nameOf(metric)}${unit} of each ${by}`),
      make("span", { class: "legend-scale" }, "unsure ", blocks, " sure"),
      make(
        "span",
        { class: "legend-rule" },
        make("span", { class: "underlined" }, "underlined"),
        ` ${side} ${bound}`,
      ),
      make(
        "span",
        { class: "legend-rule" },
        make("span", { class: "piece unknown" }, "dashed"),
        " not computed",
      ),
    ];
  }
}

function rounded(value) {
  return Math.round(100 * value) / 100;
}
