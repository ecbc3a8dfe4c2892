"""The one signal of this package: these files are for RocksDB itself to read."""

from __future__ import annotations


class NotReadHereError(Exception):
    """Something that is not known here for certain to the last bit; never seen outside of `readers.formats.rocksdb.database`."""
