/* The place in the address: which sequence is read and how, so that a link leads back to it. */

/** The state as a hash: every part is checked again when it is read. */
function hashOf(data, { sequence, by, metric, view }) {
  const prompt = data.prompts[sequence.prompt];
  const parts = {
    prompt: prompt.id,
    run: sequence.run,
    kind: sequence.kind,
    sample: sequence.sample,
    by,
    metric,
  };
  const usual = data.view ?? "one";
  return `#${new URLSearchParams(view === usual ? parts : { ...parts, view })}`;
}

/** What a hash asks for, as a change of the state; null where it names no prompt of the page. */
function placeOf(data, hash) {
  const asked = new URLSearchParams(hash.slice(1));
  const found = data.sequences.filter((sequence) => {
    const prompt = data.prompts[sequence.prompt];
    return (
      prompt.id === asked.get("prompt") && (asked.get("run") ?? String(sequence.run)) === String(sequence.run)
    );
  });
  if (found.length === 0) return null;
  const exact = found.filter(({ kind }) => kind === (asked.get("kind") ?? kind));
  const own = exact.find(({ sample }) => String(sample) === (asked.get("sample") ?? String(sample)));
  const place = { sequence: own ?? found[0], ...granularityOf(data, asked) };
  if (["one", "all"].includes(asked.get("view"))) place.view = asked.get("view");
  const span = Number(asked.get("span") ?? NaN);
  if (own && place.by && Number.isInteger(span)) place.span = span;
  return place;
}

/** A statistic that the granularity does not have is left to the reader, which takes another. */
function granularityOf(data, asked) {
  const by = data.granularities.find(({ name }) => name === asked.get("by"))?.name;
  return by ? { by, metric: asked.get("metric") } : {};
}

/** Where the browser keeps no history of a file, the place is not kept either. */
function keepPlace(hash) {
  try {
    if (location.hash !== hash) history.replaceState(null, "", hash);
  } catch {
    return;
  }
}
