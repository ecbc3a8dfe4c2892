"""`make bench-lists`: the tables and columns of thousands of savepoints, cold and after a restart; the history of a job of as many.

    copies      30 jobs, each a hundred copies of one of the savepoints in `tests/data/flink`
    checkpoints the same, but no two savepoints have the same checkpoint id, names of files and handles, key groups or offsets:
                as the checkpoints of a job differ
    history     one job of such checkpoints: a key in one of them, and in all of them, the first time and again

Each measurement is a process of its own: seconds of a processor for the look at the roots, all rows of `information_schema.tables`, and
then of `columns`; or for each query. The files are in the page cache.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from readers.metadata import (
    ByteStreamStateHandle,
    FileStateHandle,
    IncrementalRemoteKeyedStateHandle,
    KeyGroupsSavepointStateHandle,
    KeyGroupsStateHandle,
    OperatorState,
    RelativeFileStateHandle,
    StateObject,
    StreamStateHandle,
    SubtaskState,
    read_metadata,
)
from readers.storage.location import SavepointLocation
from writers.metadata import with_leaves, write_metadata

FLINK = Path(__file__).parent.parent / "tests" / "data" / "flink"
HISTORIES = {
    "rocksdb, incremental": "2.3.0/wordcount-rocksdb-checkpoint-incremental/checkpoint/chk-2",
    "canonical": "2.3.0/wordcount-hashmap-savepoints/canonical",
}
JOBS = 30
RUNS = 3


def write_copies(root: Path, savepoints: int) -> None:
    """Write jobs of copies below `root`."""
    for source, job, number in _places(root, savepoints):
        shutil.copytree(source, job / f"chk-{number}")
        if (source.parent / "shared").exists():
            shutil.copytree(source.parent / "shared", job / "shared", dirs_exist_ok=True)


def write_checkpoints(root: Path, savepoints: int, sources: Sequence[Path] = (), jobs: int = JOBS) -> None:
    """Write jobs of savepoints that differ as checkpoints do below `root`."""
    chance = random.Random(root.name)
    for source, job, number in _places(root, savepoints, sources, jobs):
        target = job / f"chk-{number}"
        target.mkdir(parents=True)
        metadata = read_metadata((source / "_metadata").read_bytes())
        moved = _Moved(SavepointLocation(source), target, chance)
        operators = tuple(with_leaves(_regrouped(one, number, chance), moved) for one in metadata.operators)
        changed = replace(metadata, checkpoint_id=number, operators=operators)
        (target / "_metadata").write_bytes(write_metadata(changed))


def _places(
    root: Path, savepoints: int, sources: Sequence[Path] = (), jobs: int = JOBS
) -> list[tuple[Path, Path, int]]:
    """Return (savepoint to copy, folder of the job, number) of each savepoint."""
    known = sources or sorted(path.parent for path in FLINK.rglob("_metadata"))
    return [
        (known[job % len(known)], root / f"job-{job:02}", number + 1)
        for job in range(jobs)
        for number in range(savepoints // jobs)
    ]


class _Moved:
    """Gives every stream another name, and copies its file."""

    def __init__(self, location: SavepointLocation, target: Path, chance: random.Random) -> None:
        self._location = location
        self._target = target
        self._chance = chance

    def __call__(self, stream: StreamStateHandle) -> StreamStateHandle:
        name = _name(self._chance)
        if isinstance(stream, ByteStreamStateHandle):
            return replace(stream, handle_name=name)
        old = Path(self._location.resolve(stream).path)
        is_shared = old.parent.name == "shared"
        folder = self._target.parent / "shared" if is_shared else self._target
        folder.mkdir(exist_ok=True)
        shutil.copyfile(old, folder / name)
        if is_shared:
            return FileStateHandle(state_size=stream.size_bytes, file_path=str(folder / name))
        return RelativeFileStateHandle(relative_path=name, state_size=stream.size_bytes)


def _regrouped(operator: OperatorState, number: int, chance: random.Random) -> OperatorState:
    """Return an operator whose key groups stand in another order, some of a canonical savepoint without their entries."""

    def changed(handle: StateObject | None) -> Any:
        if isinstance(handle, IncrementalRemoteKeyedStateHandle):
            return replace(
                handle,
                checkpoint_id=number,
                backend_identifier=_name(chance),
                state_handle_id=_name(chance),
            )
        if isinstance(handle, KeyGroupsStateHandle) and isinstance(handle.delegate, ByteStreamStateHandle):
            return _shuffled(handle, handle.delegate, chance)
        return handle

    def subtask(one: SubtaskState) -> SubtaskState:
        return replace(one, managed_keyed_state=changed(one.managed_keyed_state))

    return replace(operator, subtasks=tuple(map(subtask, operator.subtasks)))


def _shuffled(
    handle: KeyGroupsStateHandle, stream: ByteStreamStateHandle, chance: random.Random
) -> KeyGroupsStateHandle:
    begins = sorted({int(offset) for offset in handle.offsets if offset > 0})
    if not begins:
        return handle
    regions = list(zip(begins, [*begins[1:], len(stream.data)], strict=True))
    if isinstance(handle, KeyGroupsSavepointStateHandle) and len(regions) > 1:
        regions = chance.sample(regions, len(regions) - chance.randrange(len(regions) // 2 + 1))
    else:
        chance.shuffle(regions)
    data, places = bytearray(stream.data[: begins[0]]), {}
    for begin, end in regions:
        places[begin] = len(data)
        data += stream.data[begin:end]
    offsets = np.array([places.get(int(offset), 0) for offset in handle.offsets], dtype=np.int64)
    return replace(handle, offsets=offsets, delegate=replace(stream, data=bytes(data)))


def _name(chance: random.Random) -> str:
    return str(uuid.UUID(int=chance.getrandbits(128)))


def measure(root: Path, cache: Path) -> dict[str, float]:
    """Return the seconds of each step in this process, which has just begun, and the numbers of rows."""
    from service.base.machine import load_without_pandas  # first of all, as commands do

    load_without_pandas()
    from catalog import Catalog, Root
    from catalog.cache.states import StateCache
    from service.query.sql.schemas import information_schema_table

    times = [time.process_time()]
    found = Catalog([Root(path=str(root), label="bench")], cache=StateCache(cache, 1 << 30))
    times.append(time.process_time())
    rows = []
    for name in ("tables", "columns"):
        rows.append(information_schema_table(found, name).scan().to_arrow().num_rows)
        times.append(time.process_time())
    roots, tables, columns = (after - before for before, after in itertools.pairwise(times))
    return {
        "roots": roots,
        "tables": tables,
        "columns": columns,
        "table_rows": rows[0],
        "column_rows": rows[1],
    }


def measure_history(root: Path) -> dict[str, float]:
    """Return the seconds of each query of the only job below `root`, in this process, which has just begun."""
    import savepointdb  # after the clock of the process

    found: dict[str, float] = {}
    with savepointdb.connect(root) as connection:
        sql = """SELECT value FROM "job-00__history".aggregate__count WHERE key = 'key_662'"""
        newest = sum(1 for _ in root.glob("*/chk-*"))
        for run in ("first", "later"):
            for name, condition in (("one", f" AND _checkpoint_id = {newest}"), ("all", "")):
                begun = time.process_time()
                rows = connection.sql(sql + condition).arrow().num_rows
                found[f"{run} {name}"] = time.process_time() - begun
                # Some of the checkpoints may lack the key group.
                assert rows <= 1 if condition else newest // 2 < rows <= newest
    return found


def main() -> None:
    """Write the savepoints, and print what lists of them cost."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lists", description=__doc__)
    parser.add_argument("--savepoints", type=int, default=3000, help="how many")
    parser.add_argument(
        "--folder",
        type=Path,
        help="where they are written, or were written before; a temporary one by default",
    )
    parser.add_argument("--measure", nargs=2, type=Path, metavar=("ROOT", "CACHE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        root, cache = options.measure
        print(json.dumps(measure(root, cache) if cache.name else measure_history(root)))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        for name, write in (("copies", write_copies), ("checkpoints", write_checkpoints)):
            root = folder / name
            if not root.exists():
                write(root, options.savepoints)
            for run in range(RUNS):
                cache = Path(temporary) / f"cache-{name}-{run}"
                for state in ("cold", "restart"):
                    command = [sys.executable, "-m", "benchmarks.lists", "--measure", str(root), str(cache)]
                    found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
                    print(
                        f"{name:<12} {state:<8} {found['table_rows']:>8,} tables {found['column_rows']:>9,} columns: "
                        f"roots {found['roots']:.2f} s, tables {found['tables']:.2f} s, columns {found['columns']:.2f} s"
                    )
        for name, source in HISTORIES.items():
            root = folder / f"history-{name}"
            if not root.exists():
                write_checkpoints(root, options.savepoints, [FLINK / source], 1)
            for _ in range(RUNS):
                command = [sys.executable, "-m", "benchmarks.lists", "--measure", str(root), ""]
                found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
                print(f"history of {name:<20}", ", ".join(f"{one}: {found[one]:.2f} s" for one in found))


if __name__ == "__main__":
    main()
