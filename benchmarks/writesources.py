"""The sources of `benchmarks.write`, and writes in a process that has written before.

Arguments: the folder, the number of keys, and the name of the work that is measured; without it the missing sources are written.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import savepointdb
from benchmarks.write import WORKS, Work, arguments_of, parquet_of, source_of
from readers.metadata import read_metadata
from service.cli import main as command
from tools.synthetic.rocksdb import write_native_savepoint
from tools.synthetic.savepoints import UID, write_savepoint
from writers.metadata import write_metadata

_JOB = Path(__file__).parents[1] / "tests/data/flink/2.3.0/wordcount-hashmap-savepoints/canonical"
_WARM_RUNS = 3
_BATCH_ROWS = 1 << 17


def main(folder: Path, keys: int, *work: str) -> None:
    """Write the sources, or print the seconds of each write."""
    if work:
        print(json.dumps(_warm(WORKS[work[0]], folder, keys)))
    else:
        _prepare(folder, keys)


def _prepare(folder: Path, keys: int) -> None:
    """Write the sources that are missing: the generated operator in the metadata of a real job."""
    for layout, write in (("canonical", write_savepoint), ("native", write_native_savepoint)):
        generated, source = folder / f"{layout}-{keys}", source_of(folder, layout, keys)
        if not generated.exists():
            write(generated, keys)
        if source.exists():
            continue
        shutil.copytree(generated, source, copy_function=os.link)
        found = read_metadata((generated / "_metadata").read_bytes())
        job = read_metadata((_JOB / "_metadata").read_bytes())
        [aggregate] = [one for one in found.operators if one.uid == UID]
        others = [one for one in job.operators if one.uid != UID]
        (source / "_metadata").unlink()
        (source / "_metadata").write_bytes(
            write_metadata(replace(job, operators=(aggregate, *others), version=6))
        )
    parquet = parquet_of(folder, keys)
    if not parquet.exists():
        with pq.ParquetWriter(parquet, pa.schema({"key": pa.string(), "value": pa.int64()})) as rows:
            for start in range(0, keys, _BATCH_ROWS):
                numbers = range(start, min(start + _BATCH_ROWS, keys))
                rows.write_table(pa.table({"key": [f"key_{one}" for one in numbers], "value": list(numbers)}))


def _warm(work: Work, folder: Path, keys: int) -> list[float]:
    """Return the seconds of the processor for writes in this process, after a first one."""
    seconds = []
    with tempfile.TemporaryDirectory(dir=folder) as made:
        for number in range(_WARM_RUNS + 1):
            target = Path(made) / str(number)
            started = time.process_time()
            if work.layout:
                with savepointdb.connect(source_of(folder, work.layout, keys)) as savepoint:
                    savepoint.write(target, work.script)
            elif command(arguments_of(work, folder, keys, target)):
                raise SystemExit(f"{work.name}: expected to write, failed")
            seconds.append(time.process_time() - started)
            shutil.rmtree(target)
    return seconds[1:]


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
