"""Enumerators without state: the source's coordinator writes only its framing.

Bounded test sources have such enumerators, and sources that assign all splits at once. The bytes do not name the source.
"""

from __future__ import annotations

from typing import Any

from readers.connectors.layout import coordinator_layout
from readers.cursor import Cursor
from readers.schemas import struct_of


def read_enumerator(version: int, cursor: Cursor) -> dict[str, Any]:
    """Return only the version; the caller raises an error if bytes follow."""
    return {"enumerator_version": version}


ENUMERATOR = coordinator_layout(
    "source",
    "org.apache.flink.api.connector.source.SplitEnumerator",
    struct_of("enumerator_version int"),
    read_enumerator,
)
