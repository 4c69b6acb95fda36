"""Hypothesis without a deadline: a busy machine is no fault of an estimator."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
