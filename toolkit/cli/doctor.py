"""`toolkit doctor`: device, BLAS, its speed and versions; what is slow here, and why."""

from __future__ import annotations

import argparse
import warnings
from typing import TYPE_CHECKING

from toolkit.cli.output import json_text

if TYPE_CHECKING:
    from toolkit.models.doctor import Finding
    from toolkit.models.selftest import Check


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    parser.add_argument(
        "--selftest",
        action="store_true",
        help="also compare the default model with known values; prints one line for a bug report",
    )


def run(args: argparse.Namespace) -> int:
    """0, or 1 if a check of the self-test failed."""
    from toolkit.models.blas import BlasWarning
    from toolkit.models.doctor import examine

    if args.selftest:
        _have_default_model()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BlasWarning)  # it is among the findings
        findings = examine()
        checks = _selftest() if args.selftest else []
    print(_as_json(findings, checks) if args.json else _as_text(findings, checks))
    return 0 if all(check.passed for check in checks) else 1


def _have_default_model() -> None:
    from toolkit.models.loading import find

    find(None)


def _selftest() -> list[Check]:
    from toolkit.collect.selftest import CHECKS
    from toolkit.models import load
    from toolkit.models.selftest import run_checks

    return run_checks(load(), CHECKS)


def _as_text(findings: list[Finding], checks: list[Check]) -> str:
    from toolkit.models.doctor import facts
    from toolkit.models.selftest import report_line

    width = max(len(finding.topic) for finding in findings)
    lines = [f"{finding.topic:<{width}}  {finding.text}" for finding in findings]
    advice = [f"- {finding.advice}" for finding in findings if finding.advice is not None]
    lines += ["", *(["Slow or missing here:", *advice] if advice else ["Nothing is slow or missing here."])]
    if checks:
        lines.append("")
        lines += [
            f"{'ok' if check.passed else 'FAILED':<6}  {check.name}: {check.detail}" for check in checks
        ]
        lines += ["", report_line(checks, facts(findings))]
    return "\n".join(lines)


def _as_json(findings: list[Finding], checks: list[Check]) -> str:
    from toolkit.models.doctor import facts
    from toolkit.models.selftest import report_line

    shown: dict[str, object] = {"findings": [finding._asdict() for finding in findings]}
    if checks:
        shown["checks"] = [check._asdict() for check in checks]
        shown["report"] = report_line(checks, facts(findings))
    return json_text(shown)
