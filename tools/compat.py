"""Measures the doctor on labelled restores: how often outcome and stage are those that real Flink had.

    python -m tools.compat [FOLDER or tests/data/compat-pairs.tar.xz] [--mode savepoint|jar|both|none] [--misses]

A label that fails, or loses or changes values, and is called fine is the worst that the doctor can do. One that is called fine but
for a named risk is listed apart: some facts are in no savepoint (docs/reference/verdicts.md).
"""

from __future__ import annotations

import argparse
import json
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import doctor
from doctor import Against, CheckReport, JarAgainst, SavepointAgainst, Severity
from readers import Savepoint

PAIRS = Path("tests/data/compat-pairs.tar.xz")
MODES = ("savepoint", "jar", "both", "none")
# Every report has these where it compares anything: no comparison sees code and configuration.
CAUTIONS = Severity.FINE


@dataclass(frozen=True, slots=True)
class Result:
    """What the doctor said about one label.

    Attributes:
        pair, label: names.
        truth: outcome and stage in real Flink.
        said: those of the report.
        loses: the restore went through, and values were lost, changed or not read.
        severity: the weight of the report.
        cautious: the report has words of caution about what no comparison sees.
        rules: the rules that decided.
    """

    pair: str
    label: str
    truth: str
    said: str
    loses: bool
    severity: Severity
    cautious: bool
    rules: tuple[str, ...]

    @property
    def is_right(self) -> bool:
        """True if outcome and stage are those of Flink."""
        return self.truth == self.said

    @property
    def is_bad(self) -> bool:
        """True if the restore failed or lost something."""
        return self.loses or self.truth != "restores"

    @property
    def is_called_fine(self) -> bool:
        """True if the report names neither a failure nor a loss, doubt or risk."""
        return self.severity is Severity.FINE

    def __str__(self) -> str:
        loss = ", loses" if self.loses else ""
        return f"{self.pair} {self.label}: {self.truth}{loss}; said {self.said} ({self.severity}; {', '.join(self.rules)})"


def results(folder: Path, mode: str) -> Iterator[Result]:
    """Yield the result of every label in a folder of pairs."""
    for path in sorted(folder.glob("*/labels/*.json")):
        label = json.loads(path.read_text())
        yield result_of(path.parents[1], path.stem, label, mode)


def result_of(pair: Path, name: str, label: dict[str, Any], mode: str) -> Result:
    """Return what the doctor says about a label."""
    report = doctor.check(
        pair / label["savepoint_a"],
        against=against_of(pair, label, mode),
        flink=label["reader"],
        backend=label["backend"].rsplit("-to-", 1)[-1],
        allow_non_restored=label["allow_non_restored"],
    )
    return Result(
        pair=label["pair"],
        label=name,
        truth=_text(label["outcome"], label.get("stage")),
        said=_text(report.outcome, report.stage),
        loses=_loses(label),
        severity=report.severity,
        cautious=bool(report.risks),
        rules=tuple(_rules(report)),
    )


def against_of(pair: Path, label: dict[str, Any], mode: str) -> Sequence[Against]:
    """Return what a label is compared with."""
    found: list[Against] = []
    if mode in ("savepoint", "both") and label.get("savepoint_b"):
        found.append(SavepointAgainst(Savepoint(pair / label["savepoint_b"])))
    if mode in ("jar", "both") and label.get("jar_b"):
        found.append(JarAgainst(pair / label["jar_b"]))
    return found


def _text(outcome: str, stage: str | None) -> str:
    return f"{outcome} {stage}" if stage else str(outcome)


def _loses(label: dict[str, Any]) -> bool:
    if label["outcome"] != "restores":
        return False
    if (
        any(label.get(key) for key in ("silent_change", "dropped", "not_read"))
        or label.get("state_effect") == "lost"
    ):
        return True
    return any(
        state.get("values") in ("changed", "gone") or state.get("fields_dropped") for state in label["states"]
    )


def _rules(report: CheckReport) -> Iterator[str]:
    if report.rule:
        yield report.rule
    for operator in report.operators:
        yield from filter(None, [operator.rule, *(state.rule for state in operator.states)])
    yield from dict.fromkeys(f"?{risk.rule}" for risk in report.all_risks() if risk.severity is not CAUTIONS)


def _print(found: list[Result], *, misses: bool) -> None:
    right = sum(result.is_right for result in found)
    bad = [result for result in found if result.is_bad]
    fine = [result for result in bad if result.is_called_fine]
    risks = [
        result
        for result in bad
        if result.said == "restores" and result.severity in (Severity.RISK, Severity.DOUBT)
    ]
    print(
        f"{right} of {len(found)} labels have the right outcome and stage: {right / max(1, len(found)):.1%}"
    )
    uncautious = [result for result in fine if not result.cautious]
    print(
        f"{len(bad)} fail or lose something: {len(fine)} are called fine ({len(uncautious)} without a word of caution), "
        f"{len(risks)} fine but for a named risk"
    )
    pairs = Counter(result.pair for result in found if not result.is_right)
    for pair, count in sorted(pairs.items()):
        print(f"  {pair}: {count} wrong")
    if misses:
        for result in found:
            if not result.is_right:
                print(f"wrong: {result}")
        for result in risks:
            print(f"risk: {result}")
    for result in fine:
        print(f"CALLED FINE: {result}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print how the doctor does on a folder of pairs."""
    parser = argparse.ArgumentParser(prog="tools.compat", description=__doc__)
    parser.add_argument(
        "pairs", nargs="?", type=Path, default=PAIRS, help="a folder of pairs, or an archive of one"
    )
    parser.add_argument(
        "--mode", choices=MODES, default="savepoint", help="what each savepoint is compared with"
    )
    parser.add_argument("--misses", action="store_true", help="list every label that is wrong")
    options = parser.parse_args(arguments)
    with ExitStack() as stack:
        folder = options.pairs
        if folder.is_file():
            unpacked = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            with tarfile.open(folder) as archive:
                archive.extractall(unpacked, filter="data")
            folder = unpacked
        found = list(results(folder, options.mode))
    _print(found, misses=options.misses)
    return (
        0
        if found and all(result.cautious or not result.is_called_fine for result in found if result.is_bad)
        else 1
    )


if __name__ == "__main__":
    sys.exit(main())
