"""`make bench-write`: savepoints written by SQL, beside Flink's own SavepointWriter (the State Processor API) doing the same.

The source has two million keys with four states, canonical or native RocksDB, and the Kafka source of a real job. Each run is a process
of its own; a further write is one of a process that has written before. Flink's times are from the moment its cluster is up; its
CPU is that of the whole process, and its peak memory depends on the heap, `-Xmx6g`. Runs of both sides alternate.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers.flink import VERSIONS, Flink, FlinkNotAvailableError
from benchmarks.peers.process import run_measured

_HEAP_MIB = 6144
_CREATE = (
    "CREATE TABLE aggregate__count (key VARCHAR, value BIGINT) WITH (kind = 'VALUE', operator_uid = 'aggregate') "
    "AS SELECT key, value FROM '{parquet}'"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What is measured.

    Attributes:
        name: for people.
        script: our statement.
        layout: of the source: canonical or native; empty where there is none.
        peer: the work of `savepointdb.peers.Write` that does the same; empty where none does.
    """

    name: str
    script: str
    layout: str = "canonical"
    peer: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """The seconds, those of the processor among all cores, and the peak memory of a run."""

    seconds: float
    cpu_s: float
    peak_mib: float


WORKS = {
    "rewind": Work(
        name="rewind offsets", script="UPDATE source_offsets SET starting_offset = starting_offset - 5"
    ),
    "rename": Work(name="rename a uid", script="ALTER TABLE aggregate RENAME TO 'counts'", peer="rename"),
    "drop": Work(name="drop an operator", script="DROP TABLE aggregate", peer="drop"),
    "key": Work(
        name="change one key",
        script="UPDATE aggregate__count SET value = value + 1 WHERE key = 'key_1234567'",
        peer="key",
    ),
    "all": Work(
        name="`value = value + 1` for all keys of one state",
        script="UPDATE aggregate__count SET value = value + 1",
        peer="all",
    ),
    "all-native": Work(
        name="the same, from RocksDB native",
        script="UPDATE aggregate__count SET value = value + 1",
        layout="native",
        peer="all",
    ),
    "create": Work(name="bootstrap one Long state from Parquet", script=_CREATE, layout="", peer="create"),
}


def main() -> int:
    """Write the sources if need be, run every measurement, print the report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.write", description=__doc__)
    parser.add_argument("--keys", type=int, default=2_000_000, help="keys of the source (default: 2000000)")
    parser.add_argument("--directory", type=Path, help="a folder to keep the sources in (default: none)")
    parser.add_argument("--runs", type=int, default=3, help="our runs (default: 3)")
    parser.add_argument(
        "--peer-runs", type=int, default=1, help="of these with one of Flink, too (default: 1)"
    )
    parser.add_argument("--only", nargs="*", choices=WORKS, default=list(WORKS), help="what to measure")
    parser.add_argument("--peer", action=argparse.BooleanOptionalAction, default=True, help="run Flink, too")
    options = parser.parse_args()
    with _folder(options.directory) as folder:
        flink = _peers() if options.peer else None
        _in_process(folder, options.keys)
        _report_head(options.keys)
        for name in options.only:
            _report(name, folder, options.keys, options.runs, flink, options.peer_runs)
    return 0


@contextmanager
def _folder(given: Path | None) -> Iterator[Path]:
    if given is not None:
        yield given
        return
    with tempfile.TemporaryDirectory(prefix="savepointdb-bench-") as made:
        yield Path(made)


def _peers() -> Flink | None:
    try:
        return Flink()
    except FlinkNotAvailableError as error:
        print(f"bench-write: without Flink: {error}", file=sys.stderr)
        return None


def source_of(folder: Path, layout: str, keys: int) -> Path:
    return folder / f"write-{layout}-{keys}"


def parquet_of(folder: Path, keys: int) -> Path:
    return folder / f"counts-{keys}.parquet"


def arguments_of(work: Work, folder: Path, keys: int, target: Path) -> list[str]:
    """Return the arguments of `savepointdb`."""
    if not work.layout:
        script = work.script.format(parquet=parquet_of(folder, keys))
        return ["create", str(target), script, "--flink", "2.3"]
    return ["write", str(source_of(folder, work.layout, keys)), work.script, "--to", str(target)]


def _cold(work: Work, folder: Path, keys: int) -> Figure:
    """Return the figure of a process that writes once."""
    with tempfile.TemporaryDirectory(dir=folder) as made:
        arguments = arguments_of(work, folder, keys, Path(made) / "new")
        ended = run_measured([sys.executable, "-m", "savepointdb", *arguments])
    if ended.code:
        raise SystemExit(f"{work.name}: {ended.errors[-2000:]}")
    return Figure(seconds=ended.wall_s, cpu_s=ended.cpu_s, peak_mib=ended.peak_mib)


def _peer(work: Work, folder: Path, keys: int, flink: Flink) -> Figure:
    """Return the figure of Flink's writer, without the start of its cluster."""
    with tempfile.TemporaryDirectory(dir=folder) as made:
        source = f"file://{source_of(folder, work.layout, keys)}" if work.layout else str(keys)
        backend = "rocksdb" if work.layout == "native" else "hashmap"
        arguments = [work.peer, source, f"file://{made}/new", backend]
        ended = run_measured(flink.command(VERSIONS[0], "Write", arguments, _HEAP_MIB))
    if ended.code:
        raise SystemExit(f"{work.name}, Flink: {ended.errors[-2000:]}")
    seconds = json.loads(ended.output.strip().splitlines()[-1])["seconds"]
    return Figure(seconds=seconds, cpu_s=ended.cpu_s, peak_mib=ended.peak_mib)


def _report_head(keys: int) -> None:
    print(
        f"\n{keys:,} keys, four states; {os.cpu_count()} cores, {platform.machine()}, "
        f"Python {platform.python_version()}, Flink {VERSIONS[0]}\n"
    )
    print(
        "| what | CPU of a further write | a process | CPU | peak memory | Flink's SavepointWriter | its CPU | its peak memory |"
    )
    print("|---|---|---|---|---|---|---|---|")


def _report(name: str, folder: Path, keys: int, runs: int, flink: Flink | None, peer_runs: int) -> None:
    work = WORKS[name]
    ours: list[Figure] = []
    theirs: list[Figure] = []
    for number in range(runs):
        ours.append(_cold(work, folder, keys))
        if flink is not None and work.peer and number < peer_runs:
            theirs.append(_peer(work, folder, keys, flink))
    warm = statistics.median(json.loads(_in_process(folder, keys, name)))
    print(
        f"| {work.name} | {warm:.2f} s | {_sides(ours)} | {_sides(theirs)} |",
        flush=True,
    )


def _in_process(folder: Path, keys: int, *work: str) -> str:
    """Write the sources that are missing, or measure; in another process, because this one must stay small."""
    measured = [sys.executable, "-m", "benchmarks.writesources", str(folder), str(keys), *work]
    ended = subprocess.run(measured, stdout=subprocess.PIPE, text=True, check=True)
    return ended.stdout.strip().rpartition("\n")[2]


def _sides(figures: list[Figure]) -> str:
    """Return the columns of one side: median, least and most of the seconds, and the most of the others."""
    if not figures:
        return " | | "
    times = [figure.seconds for figure in figures]
    spread = f" ({min(times):.2f} – {max(times):.2f})" if len(times) > 1 else ""
    cpu = min(figure.cpu_s for figure in figures)
    peak = max(figure.peak_mib for figure in figures)
    return f"{statistics.median(times):.2f} s{spread} | {cpu:.2f} s | {peak:,.0f} MiB"


if __name__ == "__main__":
    raise SystemExit(main())
