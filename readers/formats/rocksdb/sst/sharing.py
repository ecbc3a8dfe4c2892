"""What is known of tables that several instances share: incremental checkpoints of a job have most files in common.

Ten checkpoints that share a table parse its footer, its properties and its index once. The file is known again by its identity, whatever
name and path an instance has for it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable

from readers.formats.rocksdb.sst.manifest import DataFile
from readers.formats.rocksdb.sst.table import IndexBlocks, Table

_MOST_TABLES = 2048
_INDEX_BLOCKS_BYTES = 32 << 20


class SharedTables:
    """The tables that were read last, by the identities of their files. Safe to share between threads.

    Attributes:
        index_blocks: the index blocks of these tables.
    """

    def __init__(self) -> None:
        self.index_blocks = IndexBlocks(_INDEX_BLOCKS_BYTES)
        self._lock = threading.Lock()
        self._tables: OrderedDict[Hashable, Table] = OrderedDict()

    def table(self, identity: Hashable, file: DataFile, read: Callable[[], Table]) -> Table:
        """Return the table of a file as some instance read it; reads it the first time.

        Args:
            identity: of the file.
            file: the file as the MANIFEST of this instance describes it: a table is checked against that.
            read: reads the table.

        Raises:
            ReaderError, NotReadHereError: as `read` does.
        """
        key = identity, file.size_bytes, file.smallest, file.largest
        with self._lock:
            known = self._tables.get(key)
            if known is not None:
                self._tables.move_to_end(key)
                return known
        table = read()
        with self._lock:
            self._tables[key] = table
            if len(self._tables) > _MOST_TABLES:
                self._tables.popitem(last=False)
        return table


SHARED = SharedTables()
