"""Questions with choices, put to a model: by the letters of a list, and by the choices' own texts.

A question's choices are completions of its prompt, scored as `toolkit score` does; here is what that does not
give: the letters after a prompt that lists the choices, in one order or in all rotations, and the texts after a
prompt without the question.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from toolkit.collect.completions import Completion
from toolkit.collect.letters import Asked, logprobs_after, parting
from toolkit.collect.prompts import Prompt
from toolkit.collect.questions import LETTERS, Question
from toolkit.collect.render import is_templated, render_prompt, render_prompts
from toolkit.collect.scoring_plans import ScoringPlan, completion_tokens
from toolkit.collect.settings import RenderSettings, ScoreSettings
from toolkit.collect.steps import make_scorer
from toolkit.errors import ToolkitError, argument
from toolkit.models import Model
from toolkit.records import PromptRecord
from toolkit.stats.choices import SCORES, average_orders, by_choice, rotations, softmax, text_scores
from toolkit.stats.ranges import Floats

BARE = "Answer:"
_TOGETHER = 32  # questions whose bare texts are scored in one go


@dataclass(frozen=True)
class AskSettings(ScoreSettings):
    """How questions are put, and what is kept of the choices' tokens.

    Raises
    ------
    ToolkitError
        A value is out of range.
    """

    rotate: bool = False  # the letters are those of every rotation of the choices, averaged
    bare: str = BARE  # the prompt without the question
    instruction: str = (
        "Answer with the letter of the right choice only."  # after the list, where a template is
    )
    cue: str = "Answer:"  # after the list, where none is


class TextSums(NamedTuple):
    """What scoring the choices of a question as texts gave, (n_choices,) each."""

    logprob: Floats  # NaN where the logits were not finite
    n_tokens: Floats


class ChoiceRows(NamedTuple):
    """The rows of the table choices of one question."""

    prompt_id: str
    columns: dict[str, list[Any]]
    n_read: int  # tokens that were read for the letters


def plan_questions(model: Model, questions: Sequence[Question], settings: AskSettings) -> list[ScoringPlan]:
    """The questions' prompts, and their choices as completions to be scored.

    Raises
    ------
    ToolkitError
        A prompt or a choice does not fit in the context, or a template fails; the message names the line.
    """
    prompts = [question.prompt for question in questions]
    records = render_prompts(model.tokenizer, prompts, settings.render, model.context_length)
    plans = []
    for question, record in zip(questions, records, strict=True):
        texts = [_answer(model, settings.render, record.text, choice) for choice in question.choices]
        tokens = [
            completion_tokens(model, record, Completion(question.where, question.prompt, text), settings)
            for text in texts
        ]
        plans.append(ScoringPlan(record, [question.where] * len(tokens), tokens))
    return plans


class Asker:
    """Asks a model questions; what it needs for all of them is made, and checked, when it is made itself.

    Parameters
    ----------
    model : as loaded
    questions : those that there are, with their plans
    plans : of `plan_questions`
    settings : how to ask

    Raises
    ------
    ToolkitError
        A letter is no single token, a prompt with its list or the bare prompt does not fit in the context, or
        the bare prompt has no tokens.
    """

    def __init__(
        self, model: Model, questions: Sequence[Question], plans: Sequence[ScoringPlan], settings: AskSettings
    ) -> None:
        self._model, self._settings = model, settings
        self._pairs = list(zip(questions, plans, strict=True))
        self._bare = _bare_prompt(model, settings)
        self._letters = self._letter_tokens(questions)
        self._lists = [list(self._listed(question)) for question in questions]
        self._known: dict[tuple[int, ...], float] = {}
        longest = max((len(ids) for plan in plans for ids in plan.completions), default=0)
        _check_bare(model, len(self._bare) + longest)

    def rows(self, sums: Callable[[ScoringPlan], TextSums]) -> Iterator[ChoiceRows]:
        """The rows of each question, in order; `sums` has what scoring its choices gave."""
        found = logprobs_after(self._model, (asked for lists in self._lists for asked in lists))
        for start in range(0, len(self._pairs), _TOGETHER):
            several = self._pairs[start : start + _TOGETHER]
            bare = self._bare_sums(tuple(ids.tolist()) for _, plan in several for ids in plan.completions)
            for (question, plan), lists in zip(several, self._lists[start:], strict=False):
                letters = np.array(list(islice(found, len(lists))))
                texts = sums(plan)
                of_bare = [bare[tuple(ids.tolist())] for ids in plan.completions]
                columns = choice_columns(question.choices, letters, texts, np.array(of_bare))
                n_read = sum(len(asked.token_ids) for asked in lists)
                yield ChoiceRows(plan.prompt.prompt_id, columns, n_read)

    def _listed(self, question: Question) -> Iterator[Asked]:
        """The question with its choices in each order, and the letters there are."""
        for order in _orders(len(question.choices), self._settings.rotate):
            record = self._render(question, order)
            between, letters = self._letters
            yield Asked([*record.token_ids.tolist(), *between], letters[: len(order)])

    def _render(self, question: Question, order: Sequence[int]) -> PromptRecord:
        model, settings = self._model, self._settings
        prompt = with_list(question, order, _after_list(model, settings))
        return render_prompt(model.tokenizer, prompt, settings.render, model.context_length)

    def _letter_tokens(self, questions: Sequence[Question]) -> Asked:
        """What comes between the end of a list and its letters (a space, where it is a token), and the letters."""
        longest = max(questions, key=lambda question: len(question.choices))
        record = self._render(longest, range(len(longest.choices)))
        render = self._settings.render
        answers = [
            _answer(self._model, render, record.text, letter) for letter in LETTERS[: len(longest.choices)]
        ]
        templated = is_templated(self._model.tokenizer, render)
        found = parting(self._model, record.text, templated, answers, whole=True)
        before, between = np.split(found.token_ids, [len(record.token_ids)])
        if not np.array_equal(before, record.token_ids):
            raise ToolkitError(
                f"the model {self._model.name} gives the end of a prompt other tokens where a letter follows: "
                "ask another model"
            )
        return found._replace(token_ids=between.tolist())

    def _bare_sums(self, texts: Iterable[tuple[int, ...]]) -> Mapping[tuple[int, ...], float]:
        """Log-probabilities of the choices after the bare prompt; each text is scored once."""
        new = [ids for ids in dict.fromkeys(texts) if ids not in self._known]
        if new:
            scorer = make_scorer(self._model, 0)
            found = scorer.continuations(self._bare, new)
            for ids, statistics in zip(new, found, strict=True):
                self._known[ids] = float(statistics.logprob.sum(dtype=np.float64))
        return self._known


def with_list(question: Question, order: Sequence[int], after: str) -> Prompt:
    """A question's prompt with its choices below, a letter before each, and what comes after them."""
    lines = [f"{letter}. {question.choices[i]}" for letter, i in zip(LETTERS, order, strict=False)]
    below = "\n".join(["", *lines, after])
    prompt = question.prompt
    if prompt.messages is None:
        return replace(prompt, prompt=f"{prompt.prompt}{below}")
    last = prompt.messages[-1]
    asked = {**last, "content": f"{last['content']}{below}"}
    return replace(prompt, messages=(*prompt.messages[:-1], asked))


def choice_columns(
    choices: Sequence[str], letters: Floats, texts: TextSums, bare: Floats
) -> dict[str, list[Any]]:
    """Columns of the table choices, beside the key.

    Parameters
    ----------
    choices : n texts
    letters : (n_orders, n)
        Log-probability of the letter at each place, the order of the question or all rotations of it.
    texts : TextSums
    bare : (n,)
        Log-probabilities of the texts after the bare prompt.
    """
    n = len(choices)
    orders = np.array(list(_orders(n, len(letters) > 1)))
    logprob, probability = average_orders(by_choice(letters, orders))
    n_bytes = [len(choice.encode()) for choice in choices]
    scores = text_scores(texts.logprob, texts.n_tokens, n_bytes, bare)
    found = {
        "letter_logprob": logprob,
        "sum_logprob": scores.sum,
        "mean_logprob": scores.mean,
        "byte_logprob": scores.byte,
        "bare_logprob": bare,
        "pmi": scores.pmi,
        "p_letter": probability,
        **{f"p_{name}": softmax(getattr(scores, name)) for name in SCORES if name != "letter"},
    }
    numbers = {name: [None if np.isnan(x) else float(x) for x in values] for name, values in found.items()}
    return {"letter": list(LETTERS[:n]), **numbers}


def _orders(n: int, rotate: bool) -> Sequence[Sequence[int]]:
    return [list(map(int, order)) for order in (rotations(n) if rotate else rotations(n)[:1])]


def _after_list(model: Model, settings: AskSettings) -> str:
    return settings.instruction if is_templated(model.tokenizer, settings.render) else settings.cue


def _answer(model: Model, settings: RenderSettings, before: str, text: str) -> str:
    """A text as it follows a prompt: after a template it begins the reply, else a word of the same text."""
    spaced = is_templated(model.tokenizer, settings) or before[-1:].isspace()
    return text if spaced else f" {text}"


def _bare_prompt(model: Model, settings: AskSettings) -> list[int]:
    if not settings.bare.strip() and not is_templated(model.tokenizer, settings.render):
        raise ToolkitError(
            f"{argument('bare')}: it is empty, and without a chat template it has no tokens; write {BARE}"
        )
    record = render_prompt(model.tokenizer, Prompt(0, 0, prompt=settings.bare), settings.render)
    return record.token_ids.tolist()


def _check_bare(model: Model, n_tokens: int) -> None:
    if model.context_length is not None and n_tokens > model.context_length:
        raise ToolkitError(
            f"{argument('bare')}: with the longest choice it has {n_tokens} tokens and the model's context is "
            f"{model.context_length}; shorten it"
        )
