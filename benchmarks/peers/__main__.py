"""`make bench-peers`: savepointdb beside Flink's own readers, the sides in turn, every answer checked.

run     write the missing savepoints, measure, write the report (the default)
report  print the report of saved figures
readme  put the tables and the pictures of saved figures into the README and docs/
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers.figures import Figure, Figures
from benchmarks.peers.flink import DataSet, Flink, FlinkNotAvailableError
from benchmarks.peers.picture import bars, growth
from benchmarks.peers.process import FinishedProcess, run_measured
from benchmarks.peers.questions import right_answer
from benchmarks.peers.report import report, with_headline, with_summary
from benchmarks.peers.sides import CASES, GROWTH, OURS, PROCESS, UNBUFFERED, Case, command_of
from benchmarks.peers.targets import KEYS

_PROJECT = Path(__file__).parent.parent.parent
_DATA = Path(os.environ.get("SAVEPOINTDB_BENCH_DATA", str(_PROJECT / "benchmarks" / ".data")))
_SIZES = (100_000, KEYS, 10_000_000)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one of the commands."""
    options = _parser().parse_args(arguments)
    figures: Path = options.figures or options.data / "figures.json"
    if options.command == "run":
        try:
            _run(options, figures)
        except FlinkNotAvailableError as error:
            print(f"bench-peers: {error}", file=sys.stderr)
            return 2
    known = Figures.read(figures)
    if options.command == "readme":
        _write_readme(known, options.keys)
    else:
        text = report(known, options.keys)
        figures.with_suffix(".txt").write_text(text, encoding="utf-8")
        for name, draw in _drawn(known, options.keys).items():
            figures.with_name(name).write_text(draw, encoding="utf-8")
        print(text)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("command", nargs="?", default="run", choices=("run", "report", "readme"))
    parser.add_argument(
        "--data", type=Path, default=_DATA, help=f"folder of the savepoints (default: {_DATA})"
    )
    parser.add_argument(
        "--figures", type=Path, help="file of the figures (default: figures.json in that folder)"
    )
    parser.add_argument("--keys", type=int, default=KEYS, help=f"keys of the savepoints (default: {KEYS})")
    parser.add_argument(
        "--growth",
        type=int,
        nargs="*",
        default=list(_SIZES),
        metavar="KEYS",
        help="numbers of keys of the lines",
    )
    parser.add_argument("--rounds", type=int, default=3, help="runs of a side (default: 3)")
    parser.add_argument(
        "--unbuffered-rounds",
        type=int,
        default=1,
        help="runs of a side over file://, which takes minutes (default: 1)",
    )
    parser.add_argument("--question", action="append", help="only this question; may be repeated")
    parser.add_argument(
        "--without-flink", action="store_true", help="only savepointdb, on existing savepoints"
    )
    return parser


def _run(options: argparse.Namespace, kept: Path) -> None:
    flink = None if options.without_flink else Flink()
    data = {
        keys: DataSet(options.data / f"keys-{keys}", keys)
        for keys in dict.fromkeys([options.keys, *options.growth])
    }
    if flink is not None:
        for known in data.values():
            flink.write(known)
    figures = Figures(machine=_machine())
    asked = [(data[options.keys], case) for case in CASES]
    asked += [(data[keys], case) for keys in options.growth for case in GROWTH]
    if options.question:
        asked = [(known, case) for known, case in asked if case.question in options.question]
    for number in range(options.rounds):
        for known, case in asked:
            sides = [side for side in case.sides if _takes_part(side, number, options)]
            _ask(figures, known, case, sides, flink)
            figures.write(kept)


def _takes_part(side: str, number: int, options: argparse.Namespace) -> bool:
    if options.without_flink and side not in (OURS, PROCESS):
        return False
    return number < options.unbuffered_rounds or side not in UNBUFFERED


def _ask(figures: Figures, data: DataSet, case: Case, sides: Sequence[str], flink: Flink | None) -> None:
    """Put the question of a case to each side once."""
    if not data.has(case.kind):
        print(f"{data.keys:,} keys, {case.kind}: not written", flush=True)
        return
    figures.bytes_of[data.keys, case.kind] = data.size_bytes(case.kind)
    for side in sides:
        with tempfile.TemporaryDirectory(dir=data.folder) as folder:
            output = Path(folder) / "parquet"
            ended = run_measured(command_of(side, case, data, output, flink))
            figure = _figure(data, case, side, ended, output)
        figures.runs.append(figure)
        taken = figure.error or f"{figure.in_process_s or figure.wall_s:.3f} s"
        print(f"{data.keys:>10,} keys  {case.kind:20} {case.question:9} {side:9} {taken}", flush=True)


def _figure(data: DataSet, case: Case, side: str, ended: FinishedProcess, output: Path) -> Figure:
    if ended.code:
        return _failed(data, case, side, f"ended with {ended.code}: {_last_line(ended.errors)}")
    told: dict[str, Any] = {}
    answer: Any = None
    if side == PROCESS:
        answer = _rows_of(case.question, json.loads(ended.output))
    else:
        told = json.loads(ended.output)
        answer = _totals(output) if case.question == "parquet" else told["answer"]
    right = right_answer(case.question, data.truth(), ours=side in (OURS, PROCESS))
    if answer != right:
        return _failed(data, case, side, f"expected the answer {right}, found {answer}")
    return Figure(
        question=case.question,
        kind=case.kind,
        keys=data.keys,
        side=side,
        wall_s=ended.wall_s,
        cpu_s=ended.cpu_s,
        peak_mib=ended.peak_mib,
        read_bytes=told.get("bytes_read", ended.read_bytes),
        read_calls=ended.read_calls,
        in_process_s=told.get("seconds"),
        first_s=told.get("first_s"),
        warm_s=told.get("warm_s"),
        limit_s=told.get("limit_s"),
    )


def _failed(data: DataSet, case: Case, side: str, error: str) -> Figure:
    return Figure(question=case.question, kind=case.kind, keys=data.keys, side=side, error=error)


def _rows_of(question: str, rows: list[dict[str, Any]]) -> Any:
    """Return the answer of `savepointdb query`, in which sums of 64-bit numbers are text."""
    values = [[int(value) if str(value).isdigit() else value for value in row.values()] for row in rows]
    if question == "days":
        return [[str(day), total] for day, total in values]
    if question in ("count", "key", "metadata"):
        return {"count": values[0], "key": values[0][0], "metadata": [row[0] for row in values]}[question]
    return values


def _totals(folder: Path) -> Any:
    """Return the totals of the Parquet files; another process reads them, so that this one stays small."""
    command = [sys.executable, "-m", "benchmarks.peers.written", str(folder)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def _last_line(text: str) -> str:
    """Return the last line with a reason: in a Java trace the innermost cause."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("Caused by:")]
    return (causes or lines or ["nothing on standard error"])[-1][:500]


def _machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return f"{os.cpu_count()} cores, {platform.machine()}, {memory:.0f} GiB, Python {platform.python_version()}, Flink 2.3.0"


def _drawn(figures: Figures, keys: int) -> dict[str, str]:
    return {"peers.svg": bars(figures, keys), "growth.svg": growth(figures)}


def _write_readme(figures: Figures, keys: int) -> None:
    for name, written in (("README.md", with_headline), ("docs/evidence/benchmarks.md", with_summary)):
        page = _PROJECT / name
        page.write_text(written(page.read_text(encoding="utf-8"), figures, keys), encoding="utf-8")
    for name, drawing in _drawn(figures, keys).items():
        (_PROJECT / "docs" / name).write_text(drawing, encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
