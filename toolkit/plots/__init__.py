"""One function a figure: arrays and frames in, an Axes out. Importing this imports matplotlib, but no pyplot.

Every function takes `ax=None` (an axes of its own, through pyplot, where none is given), draws, and returns
the axes. None shows anything, changes matplotlib's settings, or computes a statistic that `toolkit.stats` has.

A caption under each says how many values were drawn and how many could not be; `note` follows it, for what
only the caller knows: the estimator, the sampler, the run. Legends stand above the axes, and
`toolkit.plots.layout.add_title` puts a title above the legend.

Colours are of the theme that the axes' background fits, see `toolkit.plots.style.theme_of`.
"""

from toolkit.plots.agreement import plot_agreement
from toolkit.plots.distribution import plot_distribution
from toolkit.plots.early_stopping import plot_early_stopping
from toolkit.plots.entropy_logprob import plot_entropy_logprob
from toolkit.plots.entropy_map import plot_entropy_map
from toolkit.plots.estimators import plot_estimators
from toolkit.plots.layout import add_title
from toolkit.plots.paired_differences import plot_paired_confidence, plot_paired_differences
from toolkit.plots.reliability import plot_reliability
from toolkit.plots.risk_coverage import plot_risk_coverage
from toolkit.plots.samples import plot_samples
from toolkit.plots.sequence import plot_sequence
from toolkit.plots.style import style
from toolkit.plots.votes import plot_votes

__all__ = [
    "add_title",
    "plot_agreement",
    "plot_distribution",
    "plot_early_stopping",
    "plot_entropy_logprob",
    "plot_entropy_map",
    "plot_estimators",
    "plot_paired_confidence",
    "plot_paired_differences",
    "plot_reliability",
    "plot_risk_coverage",
    "plot_samples",
    "plot_sequence",
    "plot_votes",
    "style",
]
