"""Two savepoints that differ in what this says: one of real Flink, and another that the project's writer made of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import savepointdb
from tests.support.paths import DATA

BEFORE = DATA / "flink" / "2.3.0" / "wordcount-hashmap-savepoints" / "canonical"
SCRIPT = """
UPDATE aggregate__count SET value = value + 1 WHERE key = 'key_662';
DELETE FROM aggregate__count WHERE key = 'key_0';
INSERT INTO aggregate__count (key, value) VALUES ('new', 5);
UPDATE source_offsets SET starting_offset = 24000 WHERE topic = 'words' AND "partition" = 2;
"""
# change, key, value_before, value_after
ROWS: list[tuple[Any, ...]] = [
    ("added", "new", None, 5),
    ("changed", "key_662", 11290, 11291),
    ("removed", "key_0", 1, None),
]


def write_after(folder: Path) -> Path:
    """The savepoint after the changes, in a folder of this name below another."""
    target = folder / "after"
    with savepointdb.connect(BEFORE) as db:
        db.write(str(target), SCRIPT)
    return target
