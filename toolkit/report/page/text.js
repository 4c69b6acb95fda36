/* A sequence's text as coloured pieces, a few blocks of them in the document at a time, walked by keys. */

class TextView {
  /**
   * `draw(piece)` gives a piece's element; `look(view, piece, how)` is told what is pointed at ("hover") or
   * focused ("focus"), and of null where nothing is. At most `limit` blocks are in the document.
   */
  constructor(host, { draw, look, limit }) {
    Object.assign(this, {
      host,
      draw,
      look,
      limit,
      pieces: [],
      starts: [],
      elements: new Map(),
      current: -1,
    });
    host.addEventListener("keydown", (event) => this.walk(event));
    host.addEventListener("focusin", (event) => this.noticeFocus(event));
    host.addEventListener("pointerover", (event) => this.point(event));
    host.addEventListener("pointerleave", () => this.look(this, null, "hover"));
  }

  /** Show pieces from the beginning; `markAt` is the piece that a mark goes before, if any. */
  show(drawing) {
    Object.assign(this, drawing);
    this.starts = blocksOf(this.pieces);
    [this.first, this.last] = [0, Math.min(1, this.starts.length)];
    this.current = this.pieces.findIndex((piece) => piece.items.length > 0);
    this.render();
  }

  render() {
    this.elements.clear();
    const blocks = [];
    for (let block = this.first; block < this.last; block++) blocks.push(this.renderBlock(block));
    fill(this.host, ...this.moreButton("earlier"), ...blocks, ...this.moreButton("later"));
    this.host.scrollTop = 0;
    this.setCurrent(this.current);
  }

  renderBlock(block) {
    const element = make("span", { class: "block" });
    const end = this.starts[block + 1] ?? this.pieces.length;
    for (let i = this.starts[block]; i < end; i++) {
      const drawn = this.draw(this.pieces[i], this);
      if (i === this.markAt) {
        drawn.classList.add("parting");
        element.append(unseen(" parts here: "));
      }
      if (this.pieces[i].items.length > 0) {
        drawn.dataset.piece = i;
        drawn.tabIndex = -1;
        this.elements.set(i, drawn);
      }
      element.append(drawn);
    }
    return element;
  }

  /** A button for the blocks that are not in the document, with how many pieces they are. */
  moreButton(side) {
    const hidden = side === "earlier" ? this.starts[this.first] : this.pieces.length - this.starts[this.last];
    if (!(hidden > 0)) return [];
    const text = `${hidden.toLocaleString("en")} ${side} ${hidden === 1 ? "piece" : "pieces"}: show more`;
    const button = make("button", { type: "button", class: `more ${side}` }, text);
    button.addEventListener("click", () => this.extend(side));
    return [button];
  }

  /** One more block on a side; one is dropped from the other where there would be too many. */
  extend(side) {
    const anchor = side === "earlier" ? this.starts[this.first] - 1 : this.starts[this.last];
    if (side === "earlier") this.setWindow(this.first - 1, Math.min(this.last, this.first - 1 + this.limit));
    else this.setWindow(Math.max(this.first, this.last + 1 - this.limit), this.last + 1);
    const target = this.nearest(anchor, 1);
    if (target >= 0) this.focus(target);
  }

  setWindow(first, last) {
    [this.first, this.last] = [first, last];
    this.render();
  }

  /** Bring a piece into the document and focus it. */
  focus(index) {
    if (!(index >= 0 && index < this.pieces.length)) return;
    if (!this.elements.has(index)) this.openAt(index);
    const element = this.elements.get(index);
    element?.focus({ preventScroll: true });
    element?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  /** Draw the eye to a piece that was jumped to. */
  flash(index) {
    const element = this.elements.get(index);
    element?.classList.add("flash");
    element?.addEventListener("animationend", () => element.classList.remove("flash"), { once: true });
  }

  openAt(index) {
    const block = this.starts.findLastIndex((start) => start <= index);
    if (block === this.last) this.setWindow(Math.max(this.first, block + 1 - this.limit), block + 1);
    else if (block === this.first - 1) this.setWindow(block, Math.min(this.last, block + this.limit));
    else this.setWindow(block, block + 1);
  }

  setCurrent(index) {
    this.elements.get(this.current)?.setAttribute("tabindex", "-1");
    this.current = index;
    const element = this.elements.get(index) ?? this.elements.values().next().value;
    element?.setAttribute("tabindex", "0");
  }

  pieceAt(target) {
    const element = target instanceof Element ? target.closest("[data-piece]") : null;
    return element && this.host.contains(element) ? Number(element.dataset.piece) : -1;
  }

  noticeFocus(event) {
    const index = this.pieceAt(event.target);
    if (index < 0) return;
    this.setCurrent(index);
    this.look(this, this.pieces[index], "focus");
  }

  point(event) {
    const index = this.pieceAt(event.target);
    this.look(this, index < 0 ? null : this.pieces[index], "hover");
  }

  /** The nearest piece with items, from `index` in the direction of `step`; -1 where there is none. */
  nearest(index, step, accept = () => true) {
    for (let i = index; i >= 0 && i < this.pieces.length; i += step) {
      if (this.pieces[i].items.length > 0 && accept(this.pieces[i])) return i;
    }
    return -1;
  }

  walk(event) {
    const index = this.pieceAt(event.target);
    if (index < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    const target = this.targetOf(event.key, index);
    if (target === undefined) return;
    event.preventDefault();
    if (target >= 0) this.focus(target);
  }

  targetOf(key, index) {
    const forward = getComputedStyle(this.host).direction === "rtl" ? -1 : 1;
    switch (key) {
      case "ArrowRight":
        return this.nearest(index + forward, forward);
      case "ArrowLeft":
        return this.nearest(index - forward, -forward);
      case "ArrowDown":
        return this.onNextLine(index, 1);
      case "ArrowUp":
        return this.onNextLine(index, -1);
      case "Home":
        return this.nearest(0, 1);
      case "End":
        return this.nearest(this.pieces.length - 1, -1);
      default:
        return undefined;
    }
  }

  /** The piece of the line below (1) or above (-1) that is nearest in the horizontal; a block on at the edge. */
  onNextLine(index, step) {
    const from = this.elements.get(index).getClientRects()[0];
    const middle = from.left + from.width / 2;
    let [line, best, distance] = [null, -1, Infinity];
    for (let i = index + step; this.pieces[i] !== undefined; i += step) {
      const element = this.elements.get(i);
      if (element === undefined && this.pieces[i].items.length === 0) continue;
      if (element === undefined) return best < 0 ? i : best;
      for (const rect of element.getClientRects()) {
        const below = step * (rect.top - from.top) > from.height / 2;
        if (!below || rect.width === 0) continue;
        line ??= rect.top;
        const away = Math.max(rect.left - middle, middle - rect.right, 0);
        if (Math.abs(rect.top - line) < from.height / 2 && away < distance) [best, distance] = [i, away];
      }
      if (line !== null && step * (element.getClientRects()[0].top - line) > from.height) break;
    }
    return best;
  }
}
