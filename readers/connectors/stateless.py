"""Enumerators that keep nothing: what a source's coordinator then writes is its framing, and no more.

Those of bounded test sources, and of sources whose splits are all assigned at once. Which source it is does not stand there.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from readers.connectors.layout import coordinator_layout
from readers.cursor import Cursor


def read_enumerator(version: int, cursor: Cursor) -> dict[str, Any]:
    """The version alone; the bytes behind it are for the caller to miss."""
    return {"enumerator_version": version}


ENUMERATOR = coordinator_layout(
    "source",
    "org.apache.flink.api.connector.source.SplitEnumerator",
    pa.struct([pa.field("enumerator_version", pa.int32())]),
    read_enumerator,
)
