/* What is said in words above a text: the prompt, and the sequence. */

const REFERENCES_SHOWN = 4;
const QUESTION_WHOLE = 1200; // a longer one is opened by a button

function promptHead(data, prompt) {
  const run = prompt.run === null ? {} : data.runs[prompt.run];
  const origin = [prompt.id, run.name, run.model, run.sampler].filter(Boolean);
  return [
    questionOf(prompt),
    ...(prompt.reference.length > 0 ? [references(prompt.reference)] : []),
    make("p", { class: "note origin" }, ...origin.map((text) => make("bdi", {}, oneLine(text, 120)))),
  ];
}

function questionOf(prompt) {
  const heading = make(
    "h3",
    { class: "question", dir: "auto" },
    visible(clip(prompt.question, QUESTION_WHOLE)),
  );
  if (prompt.question.length <= QUESTION_WHOLE) return heading;
  const button = make(
    "button",
    { type: "button", class: "more" },
    `Show all ${prompt.question.length.toLocaleString("en")} characters`,
  );
  button.addEventListener("click", () => {
    heading.textContent = visible(prompt.question);
    button.remove();
  });
  return make("div", {}, heading, button);
}

function references(texts) {
  const shown = texts
    .slice(0, REFERENCES_SHOWN)
    .flatMap((text, i) => [i > 0 ? " or " : "", make("bdi", { class: "reference" }, oneLine(text, 120))]);
  const more = texts.length > REFERENCES_SHOWN ? ` or ${texts.length - REFERENCES_SHOWN} more` : "";
  return make("p", { class: "references" }, make("span", { class: "muted" }, "right: "), ...shown, more);
}

function sequenceFacts(sequence) {
  const { tokens } = sequence;
  const cut = tokens.v.length - tokens.kept;
  return [
    gradeFact(sequence),
    formatCount(tokens.kept, "token"),
    `sum ${formatNumber(sequence.sum_logprob)} nats`,
    `mean ${formatNumber(sequence.mean_logprob)} nats`,
    `finish: ${oneLine(sequence.finish, 40)}`,
    ...(cut > 0 ? [`${formatCount(cut, "token")} past a stop string not shown`] : []),
  ].map((fact) => make("span", { class: "fact" }, fact));
}

function gradeFact(sequence) {
  const grade = gradeOf(sequence);
  if (grade === "ungraded") return "ungraded";
  const partial = grade === "partly" ? ` right (${formatNumber(sequence.grade)})` : "";
  const fact = make(
    "span",
    {},
    make("span", { "aria-hidden": "true" }, `${GRADE_SIGNS[grade]} `),
    grade + partial,
  );
  if (sequence.extracted)
    fact.append(", read as ", make("bdi", { class: "reference" }, oneLine(sequence.extracted, 80)));
  return fact;
}
