"""Canonical entries of one state ↔ rows of its table, with the checks that nothing of an entry is lost.

| kind | rows of an entry |
|---|---|
| value, reducing, aggregating, map | one |
| timer | one, with the time of the key in `timestamp` |
| list | one for each element |
| any with TTL | `value` and `ttl_timestamp` are the two fields of the entry's value |
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from readers import ROW, Batch, StateKind, StatePart, VoidNamespaceSerializer
from writers.changes import GroupChanges, UpdatedRows, array_of, united
from writers.encode.encoder import Encoder
from writers.encode.fitting import shown
from writers.errors import RefusedEditError, UnencodableTypeError, UnencodableValueError
from writers.keyed.segments import EntrySegments
from writers.warnings import RestoreWarning

_SEGMENTS = 2
_VALUE = "value"
_TTL = "ttl_timestamp"
_TIMESTAMP = "timestamp"
_NAMES = ("key", "namespace", "map_key", _TIMESTAMP)
_EXPIRED = "a ttl_timestamp of 1970 is long past: Flink takes the value for expired and drops it"


class EntryCoder:
    """Rows of one state ↔ its canonical entries.

    Args:
        part: the state, in the layout of canonical entries.

    Attributes:
        warnings: what was noticed so far.
    """

    def __init__(self, part: StatePart) -> None:
        self.warnings: list[RestoreWarning] = []
        self.part = part
        self.name = part.name.name
        self.kind = part.entry.kind
        self._has_ttl = part.entry.ttl and not part.entry.is_raw(_VALUE)

    @property
    def is_list(self) -> bool:
        """True if a row is an element."""
        return self.kind is StateKind.LIST and not self.part.entry.is_raw(_VALUE)

    @cached_property
    def encoder(self) -> Encoder:
        """Encodes entries: key and value apart."""
        return Encoder.of_part(self.part, _SEGMENTS)

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of rows; of lists, those of an entry's only element, without its index."""
        empty = {field.name: pa.nulls(0, field.type) for field in self.encoder.schema}
        if self.is_list:
            empty[_VALUE] = empty[_VALUE].values
        return pa.table(self._as_rows(empty)).schema

    def rows(self, batch: Batch) -> dict[str, pa.Array]:
        """Return the columns of entries as rows have them; of lists, `value` is the column of the lists."""
        columns = dict(zip(self.encoder.schema.names, batch.arrays, strict=True))
        return columns if self.is_list else self._as_rows(columns)

    def elements(self, values: pa.Array) -> dict[str, pa.Array]:
        """Return the columns that elements have, of the values of lists."""
        return self._as_rows({_VALUE: values})

    def encoded(self, rows: pa.Table, group: int) -> EntrySegments:
        """Return the entries of rows: of lists, each element is one.

        Raises:
            UnencodableValueError: a value that its type cannot hold; it names the key.
        """
        columns = self._as_entries({name: array_of(rows, name) for name in self.schema.names})
        if self.is_list:
            offsets = pa.array(np.arange(rows.num_rows + 1, dtype=np.int32))
            columns[_VALUE] = pa.ListArray.from_arrays(offsets, columns[_VALUE])
        return self._encode(columns, rows, group)

    def encoded_lists(self, elements: pa.Table, starts: NDArray[np.int64], group: int) -> EntrySegments:
        """Return the entries of lists.

        Args:
            elements: of all lists, in order.
            starts: the first element of each.
            group: the key group.
        """
        columns = self._as_entries({name: array_of(elements, name) for name in self.schema.names})
        offsets = pa.array(np.append(starts, elements.num_rows).astype(np.int32))
        firsts = elements.take(pa.array(starts))
        lists = {name: array_of(firsts, name) for name in columns if name != _VALUE}
        lists[_VALUE] = pa.ListArray.from_arrays(offsets, columns[_VALUE])
        return self._encode(lists, firsts, group)

    def check_restorable(self, batch: Batch, exempt: NDArray[np.bool_]) -> None:
        """Check that entries that are changed in part hold nothing that their columns do not.

        Args:
            batch: the entries.
            exempt: bool (entries,), those of which nothing is kept.

        Raises:
            RefusedEditError: one does.
        """
        if exempt.all():
            return
        lost = ~(self.encoder.restores(batch) | exempt)
        if not lost.any():
            return
        row = int(np.flatnonzero(lost)[0])
        key = shown(batch.arrays[self.encoder.schema.get_field_index("key")][row])
        raise RefusedEditError(
            f"{self.name}, key {key}: expected a value whose columns hold all of its bytes, found one that would lose some "
            "if a part of it changed: set the whole value, or leave the row out by a WHERE"
        )

    def check_set(self, rows: pa.Table, is_set: NDArray[np.bool_]) -> None:
        """Check the values that statements set, and the namespaces.

        Args:
            rows: the rows after all changes.
            is_set: bool (rows,), whose value is set as a whole.

        Raises:
            UnencodableValueError: a NULL that Flink would not have stored, or could not store again; a namespace where there is none.
        """
        if isinstance(self.part.entry.namespace, VoidNamespaceSerializer):
            found = np.flatnonzero(np.asarray(pc.is_valid(array_of(rows, "namespace"))))
            if len(found):
                raise self._unencodable(
                    rows, int(found[0]), "expected NULL, as the state has no namespaces", "namespace"
                )
        if _VALUE not in rows.schema.names:
            return
        missing = np.flatnonzero(np.asarray(array_of(rows, _VALUE).is_null()) & is_set)
        if not len(missing):
            return
        if self.kind is not StateKind.MAP:
            what = "element" if self.is_list else "entry"
            reason = f"Flink keeps no {what} without one, DELETE it"
        elif self._holds_nulls:
            return
        else:
            reason = "the serializer of the map's values has no null, and the next savepoint of the hashmap backend would fail"
        raise self._unencodable(rows, int(missing[0]), f"expected a value, found NULL: {reason}", _VALUE)

    def notice(self, rows: pa.Table) -> None:
        """Keep a warning of rows that Flink would drop."""
        if _TTL not in rows.schema.names:
            return
        times = array_of(rows, _TTL).cast(pa.int64())
        found = np.flatnonzero(np.asarray(pc.less_equal(times, 0).fill_null(False)))
        if len(found):
            example = self.key_of(rows, int(found[0]))
            self.warnings.append(
                RestoreWarning(state=self.name, rows=len(found), example=example, text=_EXPIRED)
            )

    def key_of(self, rows: pa.Table, row: int) -> str:
        """Return the key of a row as text, with the namespace, map key or time that belong to it."""
        parts = []
        for name in _NAMES:
            if name in rows.schema.names:
                value = array_of(rows, name)[row]
                if value.is_valid or name == "key":
                    parts.append(f"{name} {shown(value)}")
        return ", ".join(parts)

    def _encode(self, columns: dict[str, pa.Array], rows: pa.Table, group: int) -> EntrySegments:
        """Return entries; `rows` has the key of each, for errors."""
        names = self.encoder.schema.names
        try:
            encoded = self.encoder.encode(
                pa.RecordBatch.from_arrays([columns[name] for name in names], names),
                np.full(rows.num_rows, group, dtype=np.int32),
            )
        except (UnencodableValueError, UnencodableTypeError) as error:
            raise self.located(error, rows) from error
        return EntrySegments.of(encoded.data, encoded.starts, encoded.ends)

    def located(
        self, error: UnencodableValueError | UnencodableTypeError, rows: pa.Table
    ) -> UnencodableValueError | UnencodableTypeError:
        """Return the error with the state and the key of the row."""
        key = f"{self.key_of(rows, error.row)}: " if 0 <= error.row < rows.num_rows else ""
        return type(error)(f"{key}{error.message}", breadcrumbs=(self.name, *error.breadcrumbs))

    def _unencodable(self, rows: pa.Table, row: int, message: str, column: str) -> UnencodableValueError:
        return UnencodableValueError(f"{self.key_of(rows, row)}: {message}", breadcrumbs=(self.name, column))

    def _as_rows(self, columns: dict[str, pa.Array]) -> dict[str, pa.Array]:
        if self.kind is StateKind.TIMER:
            columns[_TIMESTAMP] = columns.pop(_VALUE)
        elif self._has_ttl:
            columns[_VALUE], columns[_TTL] = columns[_VALUE].flatten()
        return columns

    def _as_entries(self, columns: dict[str, pa.Array]) -> dict[str, pa.Array]:
        if self.kind is StateKind.TIMER:
            columns[_VALUE] = columns.pop(_TIMESTAMP)
        elif self._has_ttl:
            wrapped = self.encoder.schema.field(_VALUE).type
            wrapped = wrapped.value_type if self.is_list else wrapped
            arrays = [columns[_VALUE], columns.pop(_TTL)]
            fields = [field.with_type(array.type) for field, array in zip(wrapped, arrays, strict=True)]
            columns[_VALUE] = pa.StructArray.from_arrays(arrays, fields=fields)
        return columns

    @cached_property
    def _holds_nulls(self) -> bool:
        encoder = Encoder.of(self.part.entry.part(_VALUE))
        try:
            encoder.encode(pa.RecordBatch.from_arrays([pa.nulls(1, encoder.schema.types[0])], ["value"]))
        except (UnencodableValueError, UnencodableTypeError):
            return False
        return True


def numbers_set_whole(changes: GroupChanges) -> NDArray[np.int64]:
    """Return the numbers of the rows whose value is set as a whole, ascending."""
    return united(
        [
            np.asarray(rows.column(ROW))
            for layer, rows in changes.layers
            if isinstance(layer, UpdatedRows) and (_VALUE,) in layer.paths
        ]
    )
