"""`make bench-growth`: what works of savepointdb take on savepoints of 1, 10 and 100 million keys, each in a process of its own.

run        write the missing savepoints, measure, print the tables (the default)
report     print the tables of what was measured
documents  put tables and figure of what was measured into docs/

Each measurement is a whole `savepointdb` process without its cache of decoded states, so there is its start in
each. Works that read are run once more on an object store that counts requests, and their memory there counts, too.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from benchmarks.countingstore import serving, taken, url_of
from benchmarks.peers.figures import Figure, Figures
from benchmarks.peers.picture import Line, over_keys
from benchmarks.peers.process import FinishedProcess, run_measured
from benchmarks.peers.report import between, seconds

SIZES = (1_000_000, 10_000_000, 100_000_000)
LAYOUTS = ("hashmap-canonical", "rocksdb-canonical", "rocksdb-native")
BEGIN, END = "<!-- growth -->\n", "<!-- /growth -->"
_HERE, _STORE = "here", "store"
_PROJECT = Path(__file__).parent.parent
_MILLION = 1_000_000
# Less CPU than this a million keys is that of no key: a lookup.
_FLAT_S = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What is measured.

    Attributes:
        name: for people.
        arguments: of `savepointdb`; {savepoint} and {later} are the two checkpoints of the job in {folder}, {key} is one in the
            middle, {new} a path where nothing is.
        is_counted: whether it is run on the counting store, too: it must list no folder.
        is_drawn: whether the figure has its line.
        code: how it ends.
    """

    name: str
    arguments: tuple[str, ...]
    code: int = 0
    is_counted: bool = True
    is_drawn: bool = True


WORKS = (
    Work(
        name="full scan: count, sum, max of the keys",
        arguments=("query", "{savepoint}", "SELECT count(*), sum(value), max(key) FROM aggregate__count"),
    ),
    Work(name="lookup of one key", arguments=("lookup", "{savepoint}", "{key}")),
    Work(
        name="group by the value",
        arguments=("query", "{savepoint}", "SELECT value, count(*) FROM aggregate__count GROUP BY value"),
        is_drawn=False,
    ),
    Work(
        name="diff, 1,000 keys changed",
        arguments=("diff", "{savepoint}", "{later}", "--state", "count", "--format", "jsonl"),
        code=1,
    ),
    Work(
        name="follow, 1,000 keys changed",
        arguments=("follow", "{folder}", "aggregate__count", "--since", "1", "--once"),
        is_counted=False,
        is_drawn=False,
    ),
    Work(
        name="UPDATE of one key",
        arguments=(
            *("write", "{savepoint}", "UPDATE aggregate__count SET value = 0 WHERE key = '{key}'"),
            *("--to", "{new}"),
        ),
    ),
    Work(
        name="UPDATE of all rows",
        arguments=(
            *("write", "{savepoint}", "UPDATE aggregate__count SET value = value + 1"),
            *("--to", "{new}"),
        ),
    ),
    Work(name="sample of 1 %", arguments=("sample", "{savepoint}", "--fraction", "0.01", "--to", "{new}")),
    Work(
        name="export to Parquet",
        arguments=("export", "{savepoint}", "--tables", "aggregate__count", "--to", "{new}"),
    ),
    Work(name="check", arguments=("check", "{savepoint}", "--flink", "2.3"), is_drawn=False),
    Work(
        name="check of all values",
        arguments=("check", "{savepoint}", "--flink", "2.3", "--values", "all"),
        is_drawn=False,
    ),
    Work(name="x-ray", arguments=("xray", "{savepoint}")),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one of the commands."""
    options = _parser().parse_args(arguments)
    if options.directory is None:
        with tempfile.TemporaryDirectory(prefix="savepointdb-bench-") as made:
            return _run(options, Path(made))
    return _run(options, options.directory)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.growth",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", nargs="?", default="run", choices=("run", "report", "documents"))
    parser.add_argument(
        "--directory", type=Path, help="a folder that keeps savepoints and measurements (default: none)"
    )
    parser.add_argument("--sizes", type=int, nargs="*", default=list(SIZES), help="numbers of keys")
    parser.add_argument("--layouts", nargs="*", choices=LAYOUTS, default=list(LAYOUTS), help="(default: all)")
    parser.add_argument("--works", nargs="*", help="beginnings of the names of works (default: all)")
    parser.add_argument("--runs", type=int, default=3, help="runs of a work (default: 3)")
    return parser


def _run(options: argparse.Namespace, directory: Path) -> int:
    directory.mkdir(parents=True, exist_ok=True)
    kept = directory / "figures.json"
    figures = Figures.read(kept) if kept.exists() else Figures(machine=_machine())
    if options.command == "run":
        works = [work for work in WORKS if work.name.startswith(tuple(options.works or ("",)))]
        for keys in options.sizes:
            for layout in options.layouts:
                _measure(figures, directory, layout, keys, works, options.runs)
                figures.write(kept)
    if options.command == "documents":
        page = _PROJECT / "docs" / "evidence" / "scale.md"
        page.write_text(
            between(page.read_text(encoding="utf-8"), BEGIN, report(figures), END), encoding="utf-8"
        )
        (_PROJECT / "docs" / "scale.svg").write_text(picture(figures), encoding="utf-8")
    else:
        print(report(figures), end="")
    return 0


def _machine() -> str:
    return f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"


# --- measuring ---


def _measure(
    figures: Figures, directory: Path, layout: str, keys: int, works: Sequence[Work], runs: int
) -> None:
    """Measure works on a savepoint, which is written if need be; earlier measurements of them go."""
    folder = directory / f"{layout}-{keys}"
    written = [sys.executable, "-m", "benchmarks.growthsources", str(folder), layout, str(keys)]
    subprocess.run(written, check=True)
    figures.bytes_of[keys, layout] = sum(file.stat().st_size for file in (folder / "chk-1").iterdir())
    again = {work.name for work in works}
    figures.runs = [
        run for run in figures.runs if (run.keys, run.kind) != (keys, layout) or run.question not in again
    ]
    places = {
        "folder": str(folder),
        "savepoint": str(folder / "chk-1"),
        "later": str(folder / "chk-2"),
        "key": f"key_{keys // 2}",
    }
    # The first process of an installation compiles what it needs.
    _finished(works[0], places, directory)
    with serving(folder) as address:
        remote = places | {
            name: url_of(f"chk-{number}", address) for number, name in enumerate(("savepoint", "later"), 1)
        }
        for work in works:
            least_s = math.inf
            for _ in range(runs):
                ended = _finished(work, places, directory)
                least_s = min(least_s, ended.cpu_s)
                figures.runs.append(_figure(work, layout, keys, _HERE, ended))
            if work.is_counted:
                taken(address)
                ended = _finished(work, remote, directory)
                requests, _, fetched = taken(address)
                found = _figure(work, layout, keys, _STORE, ended, requests, fetched)
                figures.runs.append(found)
            print(f"{keys:>11,} keys  {layout:18} {work.name}: {least_s:.2f} s", file=sys.stderr, flush=True)


def _finished(work: Work, places: dict[str, str], directory: Path) -> FinishedProcess:
    """Run a work to its end."""
    with tempfile.TemporaryDirectory(dir=directory) as made:
        words = [word.format(**places, new=Path(made, "new")) for word in work.arguments]
        apart = ["--no-cache", "--file-cache-directory", str(Path(made, "files"))]
        command = [sys.executable, "-m", "savepointdb", *words, *apart]
        ended = run_measured(command, os.environ | {"TMPDIR": made})
    if ended.code != work.code:
        raise SystemExit(f"{work.name}: {ended.errors[-2000:]}{ended.output[-2000:]}")
    return ended


def _figure(
    work: Work,
    layout: str,
    keys: int,
    side: str,
    ended: FinishedProcess,
    requests: int = 0,
    fetched: int = 0,
) -> Figure:
    return Figure(
        question=work.name,
        kind=layout,
        keys=keys,
        side=side,
        wall_s=ended.wall_s,
        cpu_s=ended.cpu_s,
        peak_mib=ended.peak_mib,
        read_bytes=fetched,
        read_calls=requests,
    )


# --- what is shown ---


def report(figures: Figures) -> str:
    """Return a table of each layout, a work a row."""
    parts = [
        f"{figures.machine}. The least of the runs, for memory the most; slashes are between the numbers of keys.\n"
    ]
    for layout in LAYOUTS:
        sizes = sorted(keys for keys, kind in figures.bytes_of if kind == layout)
        if sizes:
            parts.append("\n".join(_table(figures, layout, sizes)) + "\n")
    return "\n".join(parts)


def _table(figures: Figures, layout: str, sizes: Sequence[int]) -> Iterator[str]:
    shown = " / ".join(
        f"{keys // _MILLION:,} M ({figures.bytes_of[keys, layout] / 1e6:,.0f} MB)" for keys in sizes
    )
    yield f"{layout}, keys: {shown}"
    yield ""
    yield (
        "| work | time | CPU | CPU of a million keys more | the last of these beside the first | peak memory "
        "| from a store: requests | fetched | peak memory |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    for work in WORKS:
        points = _points(figures, work, layout)
        here = [figures.spread("wall_s", work.name, layout, keys, _HERE) for keys in sizes]
        cells = [
            work.name,
            " / ".join(seconds(one.least) if one else "–" for one in here),
            " / ".join(seconds(value) for _, value in points),
            *_growth(points),
            _most(figures, work, layout, sizes, _HERE, "peak_mib", "{:,.0f}", " MiB"),
            _most(figures, work, layout, sizes, _STORE, "read_calls", "{:,}", ""),
            _fetched(figures, work, layout, sizes),
            _most(figures, work, layout, sizes, _STORE, "peak_mib", "{:,.0f}", " MiB"),
        ]
        if points:
            yield f"| {' | '.join(cells)} |"


def _points(figures: Figures, work: Work, layout: str) -> tuple[tuple[int, float], ...]:
    """Return the least seconds of the processor by number of keys."""
    found = []
    for keys in sorted(keys for keys, kind in figures.bytes_of if kind == layout):
        spread = figures.spread("cpu_s", work.name, layout, keys, _HERE)
        if spread is not None:
            found.append((keys, spread.least))
    return tuple(found)


def _growth(points: Sequence[tuple[int, float]]) -> tuple[str, str]:
    """Return the seconds of each million keys between two sizes, and the last of them beside the first."""
    steps = [(after - before) / (more - few) * _MILLION for (few, before), (more, after) in pairwise(points)]
    shown = " / ".join("–" if step < _FLAT_S else seconds(step) for step in steps)
    is_flat = len(steps) < 2 or min(steps[0], steps[-1]) < _FLAT_S
    return shown, "" if is_flat else f"{steps[-1] / steps[0]:.2f}"


def _most(
    figures: Figures,
    work: Work,
    layout: str,
    sizes: Sequence[int],
    side: str,
    measure: str,
    shape: str,
    unit: str,
) -> str:
    spreads = [figures.spread(measure, work.name, layout, keys, side) for keys in sizes]
    known = [shape.format(spread.most) for spread in spreads if spread is not None]
    return " / ".join(known) + unit if known else ""


def _fetched(figures: Figures, work: Work, layout: str, sizes: Sequence[int]) -> str:
    spreads = [figures.spread("read_bytes", work.name, layout, keys, _STORE) for keys in sizes]
    known = [
        f"{spread.most / 1e6:,.{0 if spread.most > 1e7 else 2}f}" for spread in spreads if spread is not None
    ]
    return " / ".join(known) + " MB" if known else ""


def picture(figures: Figures, layout: str = "rocksdb-canonical") -> str:
    """Return a chart of the processor time of works over the number of keys; those that write have the other colour."""
    lines = [
        Line(work.name, "peer" if "{new}" in work.arguments else "ours", _points(figures, work, layout))
        for work in WORKS
        if work.is_drawn
    ]
    return over_keys(
        lines,
        "Processor time over the number of keys of a canonical savepoint",
        "seconds of a whole process, its start included; both scales are logarithmic",
    )


if __name__ == "__main__":
    raise SystemExit(main())
