"""The writer of `_metadata`: a `SavepointMetadata` → bytes, versions 3 to 6.

The layout is the one that `readers.metadata` reads, so the two packages have modules of the same names.

    writer.py    header, operators, subtasks; one function for each object
    handles.py   the handles, each with the tag that holds all of its fields
    leaves.py    a copy with other leaves: how files move
"""

from writers.metadata.writer import NEWEST_VERSION, OLDEST_VERSION, write_metadata

__all__ = ["NEWEST_VERSION", "OLDEST_VERSION", "write_metadata"]
