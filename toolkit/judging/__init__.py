"""Right and wrong: grades beside a run, and what every estimator of confidence is worth against them.

Stands on `toolkit.aggregation` for the values and on `toolkit.grading` for what a text says.
"""
