"""From the tables of a run to the confidence of spans, sequences and prompts.

Reads whole sequences of a run, finds spans in their text and the tokens of each, and calls the estimators of
`toolkit.stats` on them. Knows nothing of right and wrong: that is `toolkit.judging`.
"""
