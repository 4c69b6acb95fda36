"""Estimators over the samples of each prompt, as a table: a row a prompt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd

from toolkit import stats
from toolkit.aggregation.agreement import Comparison
from toolkit.aggregation.frames import to_pandas
from toolkit.aggregation.selection import KEY, Selection
from toolkit.aggregation.span_tables import Measure, span_table
from toolkit.aggregation.targets import TargetName, make_units, sample_kind, token_estimators
from toolkit.aggregation.units import Values, default_part, sequence_values
from toolkit.errors import ToolkitError
from toolkit.spans import span_kind
from toolkit.stats import Estimator

if TYPE_CHECKING:
    from toolkit.store import Run


def sample_frame(
    run: Run,
    metrics: Sequence[str],
    selection: Selection,
    comparison: Comparison | None = None,
    *,
    include_end: bool = True,
) -> pd.DataFrame:
    """Estimators of samples, and of the tokens of all samples, of each prompt.

    Parameters
    ----------
    run : Run
    metrics : sequence of str
        Names of estimators of either level.
    selection : Selection
        Kinds, where they are named, must include that of the samples; without the kind greedy, an answer to
        compare with is the first sample. Sample numbers do not apply to the greedy sequence.
    comparison : Comparison, optional
        Which samples say the same, and how alike they are.
    include_end : bool
        Whether end tokens take part in sequences.

    Returns
    -------
    DataFrame
        prompt_id, kind, n_sequences (samples), then the metrics. Texts are compared, and probabilities taken,
        over the answers where the run has thinking blocks, else over whole sequences.

    Raises
    ------
    ToolkitError
        The run, or the selection, has no samples.
    """
    estimators = [stats.get(name) for name in metrics]
    present = _kinds(run, selection)
    kind = sample_kind(present)
    if kind is None:
        raise ToolkitError(f"{run.path}: no samples are selected, and {metrics[0]} is a statistic of samples")
    of_tokens = [one.label for one in estimators if one.level != "samples"]
    own = selection._replace(kinds=[kind])
    rows = span_table(run, span_kind("prompt"), Measure(of_tokens), own, include_end=include_end)
    frame = to_pandas(rows).set_index("prompt_id", drop=False)
    chosen = [one for one in estimators if one.level == "samples"]
    kinds = [name for name in present if name in (kind, "greedy")]
    part = default_part(run)
    values = _selected(
        sequence_values(run, part, token_estimators(chosen), kinds, include_end=include_end), selection
    )
    compared = (comparison or Comparison()).of_run(run, part)
    target: TargetName = "greedy" if "greedy" in kinds else "first"
    units = make_units(values, {}, chosen, target, comparison=compared, engine=run.engine)
    found = pd.DataFrame(units.values, index=pd.Index(units.prompts, name="prompt_id"))
    head = [*KEY[:2], "n_sequences"]
    return frame.join(found)[[*head, *_labels(estimators)]].reset_index(drop=True)


def _labels(estimators: Sequence[Estimator]) -> list[str]:
    return list(dict.fromkeys(one.label for one in estimators))


def _kinds(run: Run, selection: Selection) -> list[str]:
    """The kinds of the selected sequences."""
    found: set[str] = set()
    for rows in run.iter_row_groups("sequences", ["kind"], selection.prompts, selection.kinds):
        found.update(rows["kind"].unique().to_pylist())
    return sorted(found)


def _selected(values: Values, selection: Selection) -> Values:
    rows = values.rows
    kept = pd.Series(True, index=rows.index)
    if selection.prompts is not None:
        kept &= rows["prompt_id"].isin(list(selection.prompts))
    if selection.samples is not None:
        kept &= rows["sample_index"].isin(list(selection.samples)) | (rows["kind"] == "greedy")
    return Values(rows[kept].reset_index(drop=True), values.estimates[kept].reset_index(drop=True))
