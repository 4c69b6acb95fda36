/*
 * A sequence's text cut into pieces: {start, end, items}, where items are the tokens or spans that a piece
 * belongs to, none for text between spans. A chip is a token without text, such as the end token.
 */

const PIECE_LIMIT = 4000; // a longer one is drawn in parts
const BLOCK_PIECES = 600;
const BLOCK_CHARACTERS = 16000;

function piecesOf(sequence, by) {
  const pieces = by === "token" ? tokenPieces(sequence) : spanPieces(sequence, itemsOf(sequence, by));
  return pieces.flatMap((piece) => splitLong(sequence.text, piece));
}

/** Cut wherever a token begins or ends: a part that several tokens share is a piece of all of them. */
function tokenPieces(sequence) {
  const { start, end, kept } = sequence.tokens;
  const shown = range(0, kept);
  const wide = shown.filter((i) => start[i] < end[i]);
  const edges = [...new Set(wide.flatMap((i) => [start[i], end[i]]))].sort((a, b) => a - b);
  const pieces = [];
  let [owners, next] = [[], 0];
  for (let k = 0; k + 1 < edges.length; k++) {
    owners = owners.filter((i) => end[i] > edges[k]);
    while (next < wide.length && start[wide[next]] <= edges[k]) owners.push(wide[next++]);
    pieces.push({ start: edges[k], end: edges[k + 1], items: [...owners] });
  }
  const chips = shown.filter((i) => start[i] >= end[i]);
  return withChips(
    pieces,
    chips.map((i) => ({ start: start[i], end: start[i], items: [i], chip: true })),
  );
}

function withChips(pieces, chips) {
  const merged = [];
  let next = 0;
  for (const piece of pieces) {
    while (next < chips.length && chips[next].items[0] < piece.items[0]) merged.push(chips[next++]);
    merged.push(piece);
  }
  return merged.concat(chips.slice(next));
}

/** Spans and what is between them; of spans that overlap each begins where the one before ends. */
function spanPieces(sequence, spans) {
  const pieces = [];
  let place = 0;
  for (let item = 0; item < (spans?.start.length ?? 0); item++) {
    const start = Math.max(place, spans.start[item]);
    if (start >= spans.end[item]) continue;
    pieces.push({ start: place, end: start, items: [] }, { start, end: spans.end[item], items: [item] });
    place = spans.end[item];
  }
  pieces.push({ start: place, end: sequence.text.length, items: [] });
  return pieces.filter((piece) => piece.start < piece.end);
}

function splitLong(text, piece) {
  if (piece.end - piece.start <= PIECE_LIMIT) return [piece];
  const parts = [];
  let start = piece.start;
  while (start < piece.end) {
    const limit = start + PIECE_LIMIT;
    const end = limit < piece.end ? wholeAt(text, limit) : piece.end;
    parts.push({ start, end, items: piece.items });
    start = end;
  }
  return parts;
}

/** Where blocks of pieces begin: as many as are drawn at a time. */
function blocksOf(pieces) {
  const starts = [];
  let [count, characters] = [Infinity, 0];
  for (const [i, piece] of pieces.entries()) {
    const length = piece.end - piece.start;
    if (count >= BLOCK_PIECES || characters + length > BLOCK_CHARACTERS) {
      starts.push(i);
      [count, characters] = [0, 0];
    }
    count += 1;
    characters += length;
  }
  return starts;
}

/** The first piece of an item; of one that others cover, the piece that lies where it begins. */
function pieceOfItem(sequence, by, pieces, item) {
  const own = pieces.findIndex((piece) => piece.items.includes(item));
  if (own >= 0) return own;
  const start = itemsOf(sequence, by).start[item];
  return pieces.findIndex((piece) => piece.items.length > 0 && piece.end > start);
}

/** What a piece shows: its text, or the token's literal. */
function textOfPiece(data, sequence, piece) {
  if (piece.chip) return data.vocabulary.texts[sequence.tokens.v[piece.items[0]]];
  return sequence.text.slice(piece.start, piece.end);
}
