"""Pages whose entries were written in two versions of a layout.

RocksDB rewrites only what a job touches: after an upgrade a state holds bytes of Kryo 2 beside those of Kryo 5. No entry records
its version, so an entry is read in the version in which its bytes end where the format says that they end.

| bytes end rightly in | entry |
|---|---|
| the newer version | is read in it |
| the older version only | is read in it |
| both, with different values, in a batch that holds entries of the older version only | is not certain: shown as bytes |
| neither | shown as bytes |
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from readers.decode.decoder import Batch, Decoder, Page
from readers.errors import CorruptDataError, UnsupportedSerializerError
from readers.jsontext import json_text

_NEWER, _OLDER, _UNREAD = 0, 1, 2
_UNREADABLE = (CorruptDataError, UnsupportedSerializerError)


class VersionedDecoder:
    """Decodes pages entry by entry in the version that fits.

    Args:
        newer, older: of the two versions.
        unread: show values as bytes; the first whose key can be read is used.
    """

    def __init__(self, newer: Decoder, older: Decoder, unread: Sequence[Decoder]) -> None:
        self._newer = newer
        self._older = older
        self._unread = unread

    def anew(self) -> VersionedDecoder:
        """Return a decoder of the same programs for another thread, or another read."""
        unread = [decoder.anew() for decoder in self._unread]
        return VersionedDecoder(self._newer.anew(), self._older.anew(), unread)

    def decode(self, page: Page) -> Iterator[Batch]:
        """Yield the page's entries in batches, in their order.

        Raises:
            CorruptDataError: a key is of neither version.
        """
        start = 0
        while start < len(page):
            stop = self._newer.batch_end(page, start)
            chunk = page.slice(start, stop)
            start = stop
            try:
                batches = list(self._newer.decode(chunk))
            except _UNREADABLE:
                yield from self._mixed(chunk)
                continue
            yield from batches

    def _mixed(self, page: Page) -> Iterator[Batch]:
        newer, older = (decoder.readable(page) for decoder in (self._newer, self._older))
        choice = np.where(newer, _NEWER, np.where(older, _OLDER, _UNREAD))
        if (older & ~newer).any():
            for start, stop in _runs(newer & older, wanted=True):
                differs = self._differs(page.slice(start, stop))
                choice[start:stop][differs] = _UNREAD
        for start, stop in _runs(choice):
            entries = page.slice(start, stop)
            if choice[start] == _UNREAD:
                yield from self._as_bytes(entries)
            else:
                yield from (self._older if choice[start] == _OLDER else self._newer).decode(entries)

    def _differs(self, page: Page) -> NDArray[np.bool_]:
        """Return which entries have different values in the two versions."""
        newer, older = (_texts(decoder, page) for decoder in (self._newer, self._older))
        return np.asarray(pc.not_equal(newer, older))

    def _as_bytes(self, page: Page) -> Iterator[Batch]:
        for number in range(len(page)):
            entry = page.slice(number, number + 1)
            for decoder in self._unread[:-1]:
                if decoder.readable(entry).all():
                    break
            else:
                decoder = self._unread[-1]
            yield from decoder.decode(entry)


def _texts(decoder: Decoder, page: Page) -> pa.ChunkedArray:
    texts = []
    for batch in decoder.decode(page):
        names = [str(number) for number in range(len(batch.arrays))]
        texts.append(json_text(pa.StructArray.from_arrays(batch.arrays, names)))
    return pa.chunked_array(texts, pa.string())


def _runs(values: NDArray[np.generic], *, wanted: bool | None = None) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of equal neighbours; of those with one value if it is given."""
    edges = [0, *(np.flatnonzero(values[1:] != values[:-1]) + 1).tolist(), len(values)]
    for start, stop in pairwise(edges):
        if wanted is None or values[start] == wanted:
            yield start, stop
