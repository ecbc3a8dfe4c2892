"""The savepoints of `benchmarks.growth`: a job's two checkpoints, of which the second has other counts for a thousand keys.

The job has one state, `count`, a Long of each key, so that a hundred million keys are three gigabytes. Arguments: the folder, the
layout, the number of keys.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tools.synthetic.rocksdb import write_native_savepoint, write_next_checkpoint
from tools.synthetic.savepoints import write_savepoint

CHANGED_KEYS = 1000
_STATES = ("count",)


def main(folder: Path, layout: str, keys: int) -> None:
    """Write what is missing, and anew what was not finished."""
    write, change = LAYOUTS[layout]
    first, second = folder / "chk-1", folder / "chk-2"
    for made in (first, second):
        if not (made / "_metadata").exists():
            shutil.rmtree(made, ignore_errors=True)
    if not first.exists():
        write(first, keys, _STATES)
    if not second.exists():
        change(first, second, range(0, keys, max(1, keys // CHANGED_KEYS)))


def write_edited(savepoint: Path, directory: Path, keys: range) -> None:
    """Write a savepoint in which `keys` have other counts."""
    script = f"UPDATE aggregate__count SET value = value + 1 WHERE CAST(substr(key, 5) AS BIGINT) % {keys.step} = 0"
    command = [sys.executable, "-m", "service.cli", "write", str(savepoint), script, "--to", str(directory)]
    subprocess.run(command, check=True, capture_output=True)


LAYOUTS: dict[
    str, tuple[Callable[[Path, int, tuple[str, ...]], object], Callable[[Path, Path, range], object]]
] = {
    "hashmap-canonical": (partial(write_savepoint, is_sorted=False), write_edited),
    "rocksdb-canonical": (write_savepoint, write_edited),
    "rocksdb-native": (write_native_savepoint, write_next_checkpoint),
}


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
