"""Entries in the hashmap backend's own layout → canonical entries: decoded by one program, encoded by another.

| state | own layout | canonical |
|---|---|---|
| VALUE, REDUCING, AGGREGATING | namespace, key, value | composite key, value |
| LIST | …, count and elements | one value, the elements joined |
| MAP | …, count, keys and values | an entry for each key of the map |
| TIMER | timestamp, key, namespace | the same as a key, no value |

Nothing records where an entry ends in the own layout, so entries that cannot be told apart are refused, and so are those whose
columns do not hold all of their bytes. A list of many megabytes comes in several pages: its value is joined from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from readers import UNDECODED, WHOLE_MAP, Batch, Page, StateKind, StatePart
from writers.encode.encoder import Encoder
from writers.encode.fitting import shown
from writers.encode.losses import equal_values_loss
from writers.errors import RefusedEditError

_SEGMENTS = 2
_DELIMITER = b","  # between the elements of a list


class Composer:
    """Makes canonical entries of one state.

    Args:
        part: the state in its own layout.
        composed: the same state in the canonical layout.
    """

    def __init__(self, part: StatePart, composed: StatePart) -> None:
        self._part = part
        # Flink has two ways to write null in binary rows: the entries say which.
        self._ways = [
            (
                Encoder.of_part(part, 1, reserves_nulls=reserves),
                Encoder.of_part(composed, _SEGMENTS, reserves_nulls=reserves),
            )
            for reserves in (True, False)
        ]

    def composed(self, pages: Iterable[Page]) -> Iterator[Page]:
        """Yield the entries of pages as canonical entries, in the same order.

        Raises:
            RefusedEditError: an entry is not decoded as a whole, or its columns do not hold all of its bytes.
            ReaderError: the bytes contradict the format.
        """
        waiting: list[Page] = []
        for page in pages:
            if page.undivided:
                raise self._refused("expected entries whose ends are known, found some that are not decoded")
            for batch in self._part.decoded([page]):
                found = self._page(batch)
                if not len(found):
                    continue
                if batch.page.first_index and self._part.entry.kind is StateKind.LIST:
                    waiting.append(found)
                    continue
                yield from _joined(waiting)
                waiting = [found]
        yield from _joined(waiting)

    def _page(self, batch: Batch) -> Page:
        names = self._ways[0][0].schema.names
        columns = dict(zip(names, batch.arrays, strict=True))
        self._check_decoded(batch, columns)
        composer = self._lossless(batch)
        groups = np.ascontiguousarray(batch.page.key_groups)
        whole = columns.pop(WHOLE_MAP, None)
        if whole is not None:
            parents = _parents(whole)
            repeated = pa.array(parents)
            for name in ("key", "namespace"):
                columns[name] = columns[name].take(repeated)
            pairs = whole.flatten()
            columns["map_key"], columns["value"] = pairs.field(0), pairs.field(1)
            groups = np.ascontiguousarray(groups[parents])
        rows = len(groups)
        if UNDECODED in composer.schema.names and (UNDECODED not in columns or whole is not None):
            columns[UNDECODED] = pa.nulls(rows, pa.binary())
        arrays = [columns[name] for name in composer.schema.names]
        encoded, error = composer.encode_arrays(arrays, rows, groups)
        if error is not None:
            raise self._refused(error.message) from error
        # An empty list is no entry.
        kept = (
            np.flatnonzero(np.asarray(pc.list_value_length(columns["value"])))
            if self._part.entry.kind is StateKind.LIST
            else np.arange(rows)
        )
        page = batch.page
        bounds = encoded.starts, encoded.ends
        return Page.of(encoded.data, bounds, groups, page.subtask, page.path).only(kept)

    def _check_decoded(self, batch: Batch, columns: dict[str, pa.Array]) -> None:
        is_undescribed = UNDECODED in columns and columns[UNDECODED].null_count < len(batch.page)
        entry = self._part.entry
        # The bytes of one value are the same in both layouts, those of a list or map are not.
        if entry.kind in (StateKind.LIST, StateKind.MAP):
            if is_undescribed:
                raise self._refused("expected classes that the savepoint describes, found another")
            if entry.is_raw("value") or entry.is_raw("map_key"):
                raise self._refused("expected elements that are decoded, found some that are not")
        if batch.outliers:
            path = ".".join(map(str, batch.outliers[0].path))
            raise self._refused(
                f"expected values that columns can hold, found {batch.outliers[0].json} in {path}"
            )

    def _lossless(self, batch: Batch) -> Encoder:
        """Return the encoder to canonical entries whose counterpart gives back the bytes of the batch."""
        for own, composer in self._ways:
            if own.restores(batch).all():
                return composer
        own = self._ways[0][0]
        row = int(np.flatnonzero(~own.restores(batch))[0])
        key = shown(batch.arrays[own.schema.get_field_index("key")][row])
        _, codes = self._part.programs()
        reason = equal_values_loss(codes[0]) or "its columns do not hold all of its bytes"
        raise self._refused(
            f"expected an entry that is the same when it is written again, found key {key}: {reason}"
        )

    def _refused(self, message: str) -> RefusedEditError:
        return RefusedEditError(
            f"{self._part.name.name}, in {self._part.source.path}: {message}; entries in the hashmap backend's own layout "
            "record no lengths, so they must be decoded to be written: take a canonical savepoint"
        )


def _parents(lists: pa.Array) -> NDArray[np.int64]:
    """Return the entry of each element of lists without nulls."""
    offsets: NDArray[np.int64] = np.asarray(lists.offsets, dtype=np.int64)
    counts = offsets[1:] - offsets[:-1]
    return np.repeat(np.arange(len(lists), dtype=np.int64), counts)


def _joined(pages: list[Page]) -> Iterator[Page]:
    """Yield pages as one where the pages behind the first one continue its last entry, which is a list."""
    if len(pages) < 2:
        yield from pages
        return
    first = pages[0]
    values = [page.data[int(page.starts[-1, 1]) : int(page.ends[-1, 1])].tobytes() for page in pages]
    joined = np.frombuffer(_DELIMITER.join(values), dtype=np.uint8)
    data = np.concatenate([first.data, joined])
    starts, ends = first.starts.copy(), first.ends.copy()
    starts[-1, 1], ends[-1, 1] = len(first.data), len(data)
    yield replace(first, data=data, starts=starts, ends=ends)
