"""The one signal of this package: RocksDB itself has to read these files."""

from __future__ import annotations


class NotReadHereError(Exception):
    """Something whose meaning our reader does not know for certain; caught by `RocksDatabase.entries`, never seen outside."""
