"""`MaskedColumns`: the masks of the columns of one table, applied to its rows.

The first rule of the file that covers a value, or a field that holds it, decides. Fields of rows, elements of lists, keys and values of
maps are masked where they stand: the shape of a value stays.

The key of an operator is one column: what covers the key in one of its tables covers it in all, its timers among them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from catalog.errors import UncoveredColumnsError, UnknownMaskColumnError, UnmaskableValueError, near_names
from catalog.masks.patterns import ColumnPattern, Path
from catalog.masks.rules import DropRow, Keep, Null, Rule, check_fits, derived_key, masked_values
from readers import CLASS, KEY_GROUP, OUT_OF_RANGE, ROW, ROW_KIND, SUBTASK, UNDECODED

KEY = "key"
# They hold no value of a state.
TECHNICAL = frozenset({KEY_GROUP, SUBTASK, ROW, "list_index", UNDECODED, OUT_OF_RANGE})
_TYPE_FIELDS = frozenset({ROW_KIND, CLASS})
# Where the bytes of a value stand that cannot be decoded.
_UNDECODED_IN = ("value", "map_key")
_DROP = "drop"

# So many rows are masked together, and reordered among themselves.
_GATHERED_ROWS = 1 << 17
_GATHERED_BYTES = 32 << 20
# Where their order tells nothing, so many are enough.
_ENOUGH_ROWS = 1 << 12

Change = Callable[[pa.Array], pa.Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskRule:
    """A rule of the file.

    Attributes:
        columns: what it covers.
        rule: what becomes of the values.
        group: whose columns have equal masks for equal values; None for each column its own.
        raw: what becomes of values that cannot be decoded: `drop`, `null`; None if they are an error.
    """

    columns: tuple[ColumnPattern, ...]
    rule: Rule
    group: str | None = None
    raw: str | None = None


@dataclass(frozen=True, slots=True)
class ColumnNames:
    """The names by which the rules may know the columns of a table.

    Attributes:
        table: its name.
        operator: the name of the table of its operator; empty if it has none.
        others: more tables that have all its columns by the same names.
        siblings: the tables of the other states of the operator, whose key is the same.
        views: tables that show its values in columns of their own: the name of the table, and of each column the name and the path.
    """

    table: str
    operator: str = ""
    others: tuple[str, ...] = ()
    siblings: tuple[str, ...] = ()
    views: tuple[tuple[str, tuple[tuple[str, Path], ...]], ...] = ()

    def covers(self, pattern: ColumnPattern, path: Path) -> bool:
        """Return whether a name covers a column or field, by whichever of its tables."""
        tables = [self.table, *self.others, *([self.operator] if self.operator else ())]
        if path[0] == KEY:
            tables += self.siblings
        return any(pattern.covers(table, path) for table in tables) or any(
            pattern.covers(view, (column, *path[len(shown) :]))
            for view, columns in self.views
            for column, shown in columns
            if path[: len(shown)] == shown
        )

    def reaches(self, pattern: ColumnPattern, column: str) -> bool:
        """Return whether a name may match something inside a column, whatever is in there."""
        tables = [self.table, *self.others, *([self.operator] if self.operator else ())]
        return any(pattern.reaches(table, column) for table in tables)

    def label(self, path: Path) -> str:
        """Return what tells the masks of a column from those of all others."""
        return "\0".join((self.operator or self.table, *path) if path[0] == KEY else (self.table, *path))


@dataclass(frozen=True, slots=True)
class Coverage:
    """A column or field, and the rule that covers it; None if none does."""

    path: Path
    type: pa.DataType
    rule: MaskRule | None

    @property
    def name(self) -> str:
        """The column and the fields, with dots."""
        return ".".join(self.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskedColumns:
    """The masks of a table.

    Attributes:
        table: its name.
        coverage: its columns and fields without parts, in order; none that hold no value of a state.
        changes: column → what masks its values; columns that stay are not among them.
        drops: column → what returns True for each row that is left out.
        needs_all_rows: whether a value depends on the other rows, so that no condition may choose rows before.
        order: decides the order of rows whose key is masked; 16 bytes.
    """

    table: str
    coverage: tuple[Coverage, ...]
    changes: Mapping[str, Change]
    drops: Mapping[str, Change]
    needs_all_rows: bool
    order: bytes

    @property
    def is_whole(self) -> bool:
        """True if nothing is masked."""
        return not self.changes and not self.drops

    @property
    def masks_key(self) -> bool:
        """True if the key is masked."""
        return KEY in self.changes

    def hides(self, column: str) -> bool:
        """Return whether a column shows other values than it holds."""
        return column in self.changes

    def needed(self, columns: Iterable[str]) -> set[str]:
        """Return the columns that must be read for the masked rows of some columns."""
        return {*columns, *self.drops}

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows with their masks, without those that are left out; they have some columns of the table, `needed` among them."""
        names = batch.schema.names
        arrays = [
            self.changes[name](array) if name in self.changes else array
            for name, array in zip(names, batch.columns, strict=True)
        ]
        found = pa.RecordBatch.from_arrays(arrays, schema=batch.schema) if arrays else batch
        for name, is_dropped in self.drops.items():
            kept = pc.invert(is_dropped(batch.column(names.index(name))))
            found, batch = found.filter(kept), batch.filter(kept)
        return found

    def gathered(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the same rows in larger batches: to mask many rows takes little longer than to mask few."""
        held: list[pa.RecordBatch] = []
        rows = size_bytes = 0
        # A batch may be a key group, whose rows are to be among others if their order is to tell nothing.
        enough_rows = _GATHERED_ROWS if self.masks_key or self.needs_all_rows else _ENOUGH_ROWS
        for batch in batches:
            is_enough = not held and batch.num_rows >= enough_rows
            if self.is_whole or not batch.num_columns or is_enough:
                # Rows without columns are alike, and only their number counts.
                yield batch
                continue
            held.append(batch)
            rows += batch.num_rows
            size_bytes += batch.nbytes
            if rows >= _GATHERED_ROWS or size_bytes >= _GATHERED_BYTES:
                yield pa.concat_batches(held)
                held, rows, size_bytes = [], 0, 0
        if held:
            yield pa.concat_batches(held)

    def reordered(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows in another order if the key is masked: Flink stores them by key group and key, so their order tells of the keys."""
        if not self.masks_key or not batch.num_columns:
            return batch
        mixer = np.random.Generator(np.random.PCG64(int.from_bytes(self.order, "little")))
        return batch.take(pa.array(mixer.permutation(batch.num_rows)))

    def mask_key(self, keys: pa.Array) -> pa.Array:
        """Return the masks of keys of the table: no two keys have one."""
        return self.changes[KEY](keys) if self.masks_key else keys


def masked_columns(
    rules: tuple[MaskRule, ...],
    groups: Mapping[str, tuple[ColumnPattern, ...]],
    secret: bytes,
    names: ColumnNames,
    schema: pa.Schema,
    raw: Collection[str],
    *,
    refuses: bool,
    hides_places: bool,
) -> MaskedColumns:
    """Return the masks of a table; see `Masks.for_table`.

    Raises:
        UncoveredColumnsError: no rule covers a column, and `refuses`.
        UnknownMaskColumnError: a rule names this table, and a column that it does not have.
        UnmaskableValueError: a rule cannot mask the values that it covers.
    """
    made = _Masking(rules, groups, secret, names, refuses=refuses)
    changes: dict[str, Change] = {}
    drops: dict[str, Change] = {}
    for column in schema:
        if column.name in TECHNICAL:
            continue
        if column.name in raw:
            made.raw(column.name, column.name, changes, drops)
            continue
        change = made.change(column.type, (column.name,))
        if change is not None:
            changes[column.name] = change
        if made.drops_rows((column.name,), column.type):
            drops[column.name] = partial(made.dropped, path=(column.name,))
    if UNDECODED in schema.names:
        for source in _UNDECODED_IN:
            made.raw(source, UNDECODED, changes, drops)
    # The text has values that their columns cannot hold, whichever these are.
    if OUT_OF_RANGE in schema.names and (changes or drops):
        changes[OUT_OF_RANGE] = partial(Null().masked, key=b"")
    if hides_places and KEY in changes:
        changes |= dict.fromkeys((KEY_GROUP, SUBTASK), partial(Null().masked, key=b""))
    made.check(schema)
    coverage = tuple(made.coverage.values())
    return MaskedColumns(
        table=names.table,
        coverage=coverage,
        changes=changes,
        drops=drops,
        needs_all_rows=any(one.rule is not None and one.rule.rule.needs_all_rows for one in coverage),
        order=derived_key(secret, f"order\0{names.table}"),
    )


class _Masking:
    """Makes the masks of one table."""

    def __init__(
        self,
        rules: tuple[MaskRule, ...],
        groups: Mapping[str, tuple[ColumnPattern, ...]],
        secret: bytes,
        names: ColumnNames,
        *,
        refuses: bool,
    ) -> None:
        self._rules, self._groups, self._secret, self._names = rules, groups, secret, names
        self._refuses = refuses
        self.coverage: dict[Path, Coverage] = {}

    def rule_of(self, path: Path) -> MaskRule | None:
        """Return the first rule that covers a column or field."""
        return next((rule for rule in self._rules if self._is_covered(rule.columns, path)), None)

    def _is_covered(self, patterns: Iterable[ColumnPattern], path: Path) -> bool:
        return any(self._names.covers(pattern, path) for pattern in patterns)

    def change(self, data_type: pa.DataType, path: Path, *, is_key: bool = False) -> Change | None:
        """Return what masks the values of a column or field; None if they stay."""
        is_key = is_key or path == (KEY,) or path == ("map_key",)
        own = [(leaf, self.rule_of(leaf)) for leaf, _ in _leaves(data_type, path)]
        if own and all(rule is not None and isinstance(rule.rule, Null) for _, rule in own) and not is_key:
            self._note(data_type, path)
            return partial(Null().masked, key=b"")
        if pa.types.is_struct(data_type):
            return self._struct(data_type, path, is_key=is_key)
        if pa.types.is_map(data_type):
            return self._map(data_type, path, is_key=is_key)
        if pa.types.is_list(data_type) or pa.types.is_large_list(data_type):
            element = self.change(data_type.value_type, path, is_key=is_key)
            return None if element is None else partial(_masked_list, change=element)
        self._note(data_type, path)
        return self._leaf(data_type, path, is_key=is_key)

    def _note(self, data_type: pa.DataType, path: Path) -> None:
        for leaf, kind in _leaves(data_type, path):
            self.coverage[leaf] = Coverage(leaf, kind, self.rule_of(leaf))

    def _leaf(self, data_type: pa.DataType, path: Path, *, is_key: bool) -> Change | None:
        found = self.rule_of(path)
        if found is None or isinstance(found.rule, Keep):
            return None
        place = f"{self._names.table}.{'.'.join(path)}"
        if is_key and not found.rule.is_injective:
            raise UnmaskableValueError(
                f"expected keys that stay different, found {found.rule.text} for {place}: two keys could become one; "
                "pseudonym and hash mask keys"
            )
        kind = data_type.value_type if pa.types.is_dictionary(data_type) else data_type
        check_fits(found.rule, kind, place)
        group = found.group or next(
            (name for name, patterns in self._groups.items() if self._is_covered(patterns, path)), None
        )
        label = f"column\0{self._names.label(path)}" if group is None else f"group\0{group}"
        return partial(masked_values, found.rule, key=derived_key(self._secret, label))

    def _struct(self, data_type: Any, path: Path, *, is_key: bool) -> Change | None:
        changes = {
            index: change
            for index, field in enumerate(data_type)
            if field.name not in _TYPE_FIELDS
            and (change := self.change(field.type, (*path, field.name), is_key=is_key)) is not None
        }
        return partial(_masked_struct, changes=changes) if changes else None

    def _map(self, data_type: Any, path: Path, *, is_key: bool) -> Change | None:
        keys = self.change(data_type.key_type, (*path, "key"), is_key=True)
        items = self.change(data_type.item_type, (*path, "value"), is_key=is_key)
        return None if keys is None and items is None else partial(_masked_map, keys=keys, items=items)

    def drops_rows(self, path: Path, data_type: pa.DataType) -> bool:
        """Return whether rows with a value in a column, or in a field of it, may be left out."""
        return any(self._is_drop(leaf) for leaf, _ in _leaves(data_type, path))

    def _is_drop(self, path: Path) -> bool:
        found = self.rule_of(path)
        return found is not None and isinstance(found.rule, DropRow)

    def dropped(self, array: pa.Array, path: Path) -> pa.Array:
        """Return True for each row that has a value where the rule is `drop-row`."""
        found = np.zeros(len(array), dtype=bool)
        kind = array.type
        if pa.types.is_struct(kind):
            for index, field in enumerate(kind):
                if field.name not in _TYPE_FIELDS and self.drops_rows((*path, field.name), field.type):
                    found |= np.asarray(self.dropped(pc.struct_field(array, [index]), (*path, field.name)))
        elif pa.types.is_map(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind):
            offsets = np.asarray(array.offsets)
            parents = np.repeat(np.arange(len(array)), np.diff(offsets))
            inside = (
                [(array.keys, (*path, KEY)), (array.items, (*path, "value"))]
                if pa.types.is_map(kind)
                else [(array.values, path)]
            )
            for values, place in inside:
                if self.drops_rows(place, values.type):
                    own = values.slice(offsets[0], offsets[-1] - offsets[0])
                    found[parents[np.asarray(self.dropped(own, place))]] = True
        elif self._is_drop(path):
            found = np.asarray(array.is_valid())
        return pa.array(found)

    def raw(self, column: str, holder: str, changes: dict[str, Change], drops: dict[str, Change]) -> None:
        """Note what becomes of values of a column that cannot be decoded, whose bytes `holder` has."""
        found = next(
            (
                rule
                for rule in self._rules
                if any(self._names.reaches(pattern, column) for pattern in rule.columns)
                and (rule.raw is not None or type(rule.rule) is not Keep)
            ),
            None,
        )
        if holder == column:
            self.coverage[(column,)] = Coverage((column,), pa.binary(), found)
        if found is None:
            return
        if found.raw == _DROP or isinstance(found.rule, DropRow):
            drops[holder] = pc.is_valid
        elif found.raw is not None or isinstance(found.rule, Null):
            changes[holder] = partial(Null().masked, key=b"")
        else:
            told = (
                f"expected values that can be decoded, found bytes in {self._names.table}.{column}, which "
                f'{found.rule.text} cannot mask; add raw = "drop" or raw = "null" to the rule'
            )
            if holder == column:
                raise UnmaskableValueError(told)
            changes[holder] = partial(_refused, told=told)

    def check(self, schema: pa.Schema) -> None:
        """Check that all columns are covered, and that all that is named exists."""
        uncovered = [one.name for one in self.coverage.values() if one.rule is None]
        if self._refuses and uncovered:
            raise UncoveredColumnsError(self._names.table, uncovered)
        paths = [*self.coverage, *((column.name,) for column in schema)]
        for rule in self._rules:
            for pattern in rule.columns:
                if pattern.names_table(self._names.table) and not any(
                    self._names.covers(pattern, path) for path in paths
                ):
                    near = near_names(
                        pattern.text, [f"{self._names.table}.{'.'.join(path)}" for path in paths]
                    )
                    hint = f"; near: {', '.join(near)}" if near else ""
                    raise UnknownMaskColumnError(
                        f"expected a column of {self._names.table}, found no column {pattern.text!r}{hint}"
                    )


def leaves_of(schema: pa.Schema) -> Iterator[tuple[Path, pa.DataType]]:
    """Yield the columns and fields of a table that have no parts, with their types; none that hold no value of a state."""
    for column in schema:
        if column.name not in TECHNICAL:
            yield from _leaves(column.type, (column.name,))


def _leaves(data_type: Any, path: Path) -> Iterator[tuple[Path, pa.DataType]]:
    if pa.types.is_struct(data_type):
        for field in data_type:
            if field.name not in _TYPE_FIELDS:
                yield from _leaves(field.type, (*path, field.name))
    elif pa.types.is_map(data_type):
        yield from _leaves(data_type.key_type, (*path, "key"))
        yield from _leaves(data_type.item_type, (*path, "value"))
    elif pa.types.is_list(data_type) or pa.types.is_large_list(data_type):
        yield from _leaves(data_type.value_type, path)
    else:
        yield path, data_type


def _refused(array: pa.Array, told: str) -> pa.Array:
    """Return the bytes of values that cannot be decoded if there are none: objects of most classes may have subclasses."""
    if array.null_count < len(array):
        raise UnmaskableValueError(told)
    return array


# ---- values with parts ----


def _masked_struct(array: pa.Array, changes: Mapping[int, Change]) -> pa.Array:
    fields = [array.field(index) for index in range(array.type.num_fields)]
    masked = [changes[index](field) if index in changes else field for index, field in enumerate(fields)]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(masked, fields=list(array.type), mask=mask)


def _masked_list(array: pa.Array, change: Change) -> pa.Array:
    return _with_children(array, change(array.values))


def _masked_map(array: pa.Array, keys: Change | None, items: Change | None) -> pa.Array:
    own_keys, own_items = array.keys, array.items
    entries = pa.StructArray.from_arrays(
        [keys(own_keys) if keys else own_keys, items(own_items) if items else own_items],
        fields=[array.type.key_field, array.type.item_field],
    )
    return _with_children(array, entries)


def _with_children(array: pa.Array, children: pa.Array) -> pa.Array:
    """Return lists with other elements in the same places."""
    return pa.Array.from_buffers(
        array.type, len(array), array.buffers()[:2], array.null_count, array.offset, [children]
    )
