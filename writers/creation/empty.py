"""A savepoint without operators: what a new savepoint is made from.

Its `_metadata` has version 3, the one version that holds no object of Java, and that Flink 1.11 to 2.3 reads.
"""

from __future__ import annotations

from pathlib import Path

from readers import METADATA_FILE_NAME
from readers.metadata import SavepointMetadata
from writers.metadata import write_metadata
from writers.metadata.writer import OLDEST_VERSION

_CHECKPOINT_ID = 1  # the job's first checkpoint gets the next number


def write_empty_savepoint(folder: Path) -> None:
    """Write `_metadata` of a savepoint without operators into a folder."""
    metadata = SavepointMetadata(version=OLDEST_VERSION, checkpoint_id=_CHECKPOINT_ID)
    (folder / METADATA_FILE_NAME).write_bytes(write_metadata(metadata))
