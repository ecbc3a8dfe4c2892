"""What columns and bytes hold of each other: which values fit a type, which rows are equal, what decoding loses.

`fitted` makes columns of any type columns of a program's types, where every value fits. `identities` numbers the rows by what Java's
`equals` says of their values, of any type and without a loop over rows.

A BigDecimal or BigInteger is text in a column. Many texts are one number (`1E+3`, `+1000`, `01000.0`): a script has any of them, and
readers show one. A row without a kind is written as `+I`. `comparable` makes values equal where their bytes are.

`int` and `Integer` have one serializer, so a savepoint does not say which of them a field of a POJO is. Flink cannot set a primitive
one to NULL, and refuses the whole restore: `null_fields` finds those that would be.

What decoding loses: why bytes that were decoded and encoded again may differ, or cannot be encoded.

| loss | bytes | encoded |
|---|---|---|
| OBJECT | objects of Kryo and Java, Protobuf, recursive Avro types: columns show text | refused; `StatePart.entries` keeps them |
| HIDDEN | a field that the class no longer has | refused |
| BEYOND | a value that its column cannot hold: the column has NULL, `_out_of_range` its text | refused |
| UNPAIRED | half of a surrogate pair, or bytes that are no text: U+FFFD in the column | U+FFFD |
| UNDER_NULL | bytes behind the flag of a map value that is null: the heap backend writes them | the flag alone |
| RESERVED | a null DECIMAL or TIMESTAMP of a binary row with or without room behind the slots | as `reserves_nulls` says |
| SCALE | a BigDecimal with a negative scale (`1E+3`): the column has plain digits | scale 0 |
| BIG_CONSTANT | a BigInteger 0, 1 or 10 written with its digits | Flink's constants |
| DIGITS | the nanoseconds of a TIMESTAMP(4) to (6) below a microsecond | 0 |
| CASE | a null side of an Either or of a union; two constants of a Scala enumeration with one name | the first that fits |
| GAPS | bytes of a binary row that no field uses: the row has more fields than its serializer | none |
| BLOCKS | an Avro array in several blocks | one block |

Flink itself writes what is encoded, so a reader of either takes the same value from both. Bytes that are compared (keys)
are written by Flink in one way only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from readers import (
    CLASS,
    NO_COLUMN,
    ROW_KINDS,
    Code,
    ColumnTree,
    Page,
    PojoField,
    PojoSerializer,
    Program,
    Serializer,
    TtlSerializer,
    json_text,
    sql_type,
)
from readers import instructions as op
from writers.errors import UnencodableTypeError, UnencodableValueError

_SHOWN = 100


def fitted(array: pa.Array, target: pa.DataType, path: tuple[str, ...]) -> pa.Array:
    """Return an array as the type `target`; fields that a struct does not have are null.

    Raises:
        UnencodableValueError: a value does not fit: it is beyond the type's range, or finer.
        UnencodableTypeError: the types have nothing in common.
    """
    if array.type.equals(target):
        _check_ends(array, target, path)
        return array
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), target)
    if pa.types.is_dictionary(array.type):
        return fitted(array.dictionary_decode(), target, path)
    if pa.types.is_struct(target) and pa.types.is_struct(array.type):
        return _fitted_struct(array, target, path)
    if pa.types.is_list(target) and _is_list(array.type):
        return _fitted_list(array, target, path)
    if pa.types.is_map(target) and pa.types.is_map(array.type):
        with _rows_of(array):
            keys = fitted(array.keys, target.key_type, (*path, "key"))
            items = fitted(array.items, target.item_type, (*path, "value"))
        return pa.MapArray.from_arrays(array.offsets, keys, items, type=target, mask=array.is_null())
    if pa.types.is_nested(target) or pa.types.is_nested(array.type):
        raise UnencodableTypeError(
            f"expected a column of type {sql_type(target)}, found {sql_type(array.type)}", breadcrumbs=path
        )
    return _cast(array, target, path)


def _fitted_struct(array: pa.Array, target: pa.DataType, path: tuple[str, ...]) -> pa.Array:
    names = [field.name for field in target]
    have = {field.name: index for index, field in enumerate(array.type)}
    # DuckDB gives these names to the fields of ROW(…), which has none.
    if list(have) == [f"element{number}" for number in range(1, len(names) + 1)]:
        have = {name: index for index, name in enumerate(names)}
    unknown = [name for name in have if name not in names]
    if unknown:
        raise UnencodableTypeError(
            f"expected the fields {', '.join(names)}, found {', '.join(unknown)}", breadcrumbs=path
        )
    children = [
        fitted(array.field(have[field.name]), field.type, (*path, field.name))
        if field.name in have
        else pa.nulls(len(array), field.type)
        for field in target
    ]
    if not children:
        return pa.array([None if null else {} for null in array.is_null().to_pylist()], target)
    return pa.StructArray.from_arrays(children, fields=list(target), mask=array.is_null())


def _is_list(data_type: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(data_type)
        or pa.types.is_large_list(data_type)
        or pa.types.is_fixed_size_list(data_type)
        or pa.types.is_list_view(data_type)
    )


def _fitted_list(array: pa.Array, target: pa.DataType, path: tuple[str, ...]) -> pa.Array:
    if not pa.types.is_list(array.type):
        array = array.cast(pa.list_(array.type.value_type))
    with _rows_of(array):
        values = fitted(array.values, target.value_type, (*path, "[]"))
    return pa.ListArray.from_arrays(array.offsets, values, type=target, mask=array.is_null())


def shown(value: pa.Scalar) -> str:
    """Return a value as text, for an error; Python has no date for some times."""
    if pa.types.is_nested(value.type) or pa.types.is_temporal(value.type):
        text = str(json_text(pa.repeat(value, 1))[0].as_py())
    else:
        text = repr(value.as_py())
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


@contextmanager
def _rows_of(lists: pa.Array) -> Iterator[None]:
    """Let an error of an element name the row that its list is in."""
    try:
        yield
    except UnencodableValueError as error:
        offsets = np.asarray(lists.offsets)
        error.row = int(np.searchsorted(offsets, error.row, side="right")) - 1
        raise


def _cast(array: pa.Array, target: pa.DataType, path: tuple[str, ...]) -> pa.Array:
    if pa.types.is_binary(target) and (
        pa.types.is_string(array.type)
        or pa.types.is_large_string(array.type)
        or pa.types.is_string_view(array.type)
    ):
        # An object of Kryo or Java is shown as text, and kept as bytes: its text is not its bytes.
        raise UnencodableTypeError(
            "expected bytes, found text, as objects of Kryo and Java are shown: they cannot be written",
            breadcrumbs=path,
        )
    if _family(array.type) != _family(target) and _TEXT not in (_family(array.type), _family(target)):
        raise _nothing_common(array.type, target, path)
    _check_ends(array, target, path)
    try:
        return _exact(array, target)
    except pa.ArrowNotImplementedError as error:
        raise _nothing_common(array.type, target, path) from error
    except pa.ArrowInvalid as error:
        row = _first_misfit(array, target)
        raise _misfit(array, row, target, path) from error


def _nothing_common(found: pa.DataType, target: pa.DataType, path: tuple[str, ...]) -> UnencodableTypeError:
    return UnencodableTypeError(
        f"expected a column of type {sql_type(target)}, found {sql_type(found)}", breadcrumbs=path
    )


def _misfit(array: pa.Array, row: int, target: pa.DataType, path: tuple[str, ...]) -> UnencodableValueError:
    is_endless = pa.types.is_date32(array.type) and abs(array[row].value) == _LAST_DAY
    text = ("infinity" if array[row].value > 0 else "-infinity") if is_endless else shown(array[row])
    return UnencodableValueError(
        f"expected a value of type {sql_type(target)}, found {text} ({sql_type(array.type)})",
        breadcrumbs=path,
        row=row,
    )


_LAST_DAY = 2**31 - 1


def _check_ends(array: pa.Array, target: pa.DataType, path: tuple[str, ...]) -> None:
    """Refuse the infinite dates of SQL: they are the last numbers, and Flink has days for these."""
    kind = array.type
    if pa.types.is_date32(kind):
        row = pc.index(pc.is_in(array.view(pa.int32()), pa.array([-_LAST_DAY, _LAST_DAY], pa.int32())), True)
        if row.as_py() >= 0:
            raise _misfit(array, row.as_py(), target, path)
    elif pa.types.is_struct(kind):
        for field, child in zip(kind, array.flatten(), strict=True):
            _check_ends(child, field.type, (*path, field.name))
    elif pa.types.is_map(kind):
        with _rows_of(array):
            _check_ends(array.keys, kind.key_type, (*path, "key"))
            _check_ends(array.items, kind.item_type, (*path, "value"))
    elif pa.types.is_list(kind):
        with _rows_of(array):
            _check_ends(array.values, kind.value_type, (*path, "[]"))


_TEXT = "text"


def _family(kind: pa.DataType) -> str:
    """Return what values of a type are: of days a number would be a guess of the unit, and of times of day a guess of the day."""
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return "moment"
    if pa.types.is_time(kind):
        return "time of day"
    if pa.types.is_temporal(kind):
        return "duration"
    if _is_number(kind) or pa.types.is_boolean(kind):
        return "number"
    return _TEXT


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _first_misfit(array: pa.Array, target: pa.DataType) -> int:
    """Return the number of the first item that does not fit."""
    first, end = 0, len(array)
    while end - first > 1:
        middle = (first + end) // 2
        if _fits(array.slice(first, middle - first), target):
            first = middle
        else:
            end = middle
    return first


def _fits(array: pa.Array, target: pa.DataType) -> bool:
    try:
        _exact(array, target)
    except pa.ArrowInvalid:
        return False
    return True


def _exact(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Return values as another type.

    A FLOAT or DOUBLE that is no integer is the number that its shortest text says: 0.1 is a value of DECIMAL, FLOAT and DOUBLE.

    Raises:
        pa.ArrowInvalid: a value is another one there.
    """
    kind = array.type
    if _is_number(kind) and _is_by_text(kind, target):
        made = array.cast(pa.string()).cast(target)
    elif _family(kind) == _TEXT and pa.types.is_float32(target):
        made = _exact(_exact(array, pa.float64()), target)
    else:
        made = array.cast(target)
    if not _reads_back(array, made):
        raise pa.ArrowInvalid("expected the same values")
    return made


def _is_by_text(kind: pa.DataType, target: pa.DataType) -> bool:
    """Return whether the text of numbers makes numbers of another type: Arrow's own way rounds, or asks for more digits."""
    if pa.types.is_decimal(kind):
        return bool(pa.types.is_floating(target))
    return bool(pa.types.is_decimal(target))


def _reads_back(array: pa.Array, made: pa.Array) -> bool:
    """Return whether values that Arrow made of others are those; it refuses itself what else does not fit."""
    kind, target = array.type, made.type
    if _family(kind) == _TEXT:
        endless = pc.match_substring_regex(array, "(?i)inf") if pa.types.is_floating(target) else None
        return endless is None or not pc.any(pc.and_not(pc.is_inf(made), endless)).as_py()
    if pa.types.is_floating(target):
        same = _same(array, made.cast(kind))
        if pc.any(pc.invert(same)).as_py():
            same = pc.or_(same, _same(array, made.cast(pa.string()).cast(kind)))
        return not pc.any(pc.invert(same)).as_py()
    if pa.types.is_boolean(target) or _family(target) == "moment":
        return not pc.any(pc.invert(_same(array, made.cast(kind)))).as_py()
    return True


def _same(array: pa.Array, other: pa.Array) -> pa.Array:
    """Return whether values are equal, as nulls and NaN are to each other."""
    same = pc.fill_null(pc.equal(array, other), True)
    if pa.types.is_floating(array.type):
        same = pc.or_(same, pc.fill_null(pc.and_(pc.is_nan(array), pc.is_nan(other)), True))
    return same


OBJECT = (
    "an object of Kryo, Java, Protobuf or a recursive Avro type: a column shows text of it, not its bytes"
)
HIDDEN = "a field that the class no longer has: no column shows its bytes"

_STRUCTURE = frozenset(
    {op.END, op.EXPECT_END, op.SEGMENT, op.SKIP, op.KEY_GROUP, op.MARK, op.LENGTH_SUFFIX, op.JUMP}
)


def refusals(tree: ColumnTree, code: Code) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield path and reason of each field of a program that cannot be encoded."""
    for instruction, path in zip(code.instructions.tolist(), code.paths, strict=True):
        if instruction[op.OPCODE] in _STRUCTURE:
            continue
        if instruction[op.COLUMN] == NO_COLUMN:
            yield path, HIDDEN
        elif instruction[op.OPCODE] == op.PYTHON and not pa.types.is_binary(
            tree.types[instruction[op.COLUMN]]
        ):
            yield path, OBJECT


# Instructions whose values can be written in more than one way, of which Flink writes another.
_SEVERAL_WAYS = {
    op.ROW: "a binary row with bytes that none of its fields uses, or nulls with and without room",
    op.BLOCKS: "an Avro array in several blocks",
    op.BIG_INTEGER: "a BigInteger 0, 1 or 10 written with its digits",
    op.BIG_DECIMAL: "a BigDecimal with a negative scale, or 0, 1 or 10 written with its digits",
    op.SWITCH: "a null side of an Either or of a union",
    op.SWITCH_I4: "a null branch of a union, or two constants of one name",
    op.TIMESTAMP_DATA: "the nanoseconds of a TIMESTAMP(4) to (6) below a microsecond",
}


def equal_values_loss(code: Code) -> str:
    """Return the reason why other bytes than were found have the same values; empty if none is known."""
    opcodes = set(code.instructions[:, op.OPCODE].tolist())
    return next((reason for opcode, reason in _SEVERAL_WAYS.items() if opcode in opcodes), "")


_PRIMITIVES = frozenset(
    f"org.apache.flink.api.common.typeutils.base.{name}Serializer"
    for name in ("Boolean", "Byte", "Short", "Int", "Long", "Float", "Double", "Char")
)


@dataclass(frozen=True, slots=True)
class NullField:
    """A field of a POJO that has NULL, and may be primitive.

    Attributes:
        java_class: the class that declares it, as far as that is known.
        name: of the field.
    """

    java_class: str
    name: str

    def __str__(self) -> str:
        return f"{self.java_class}.{self.name}"


def null_fields(serializer: Serializer, path: tuple[str, ...], array: pa.Array) -> Iterator[NullField]:
    """Yield the fields that have NULL in values, some of them several times.

    Args:
        serializer: of a column.
        path: the fields that lead from the column to the values.
        array: the values.
    """
    if isinstance(serializer, TtlSerializer):
        serializer = serializer.value
    if not path:
        yield from _of(serializer, array)
        return
    name, *rest = path
    if isinstance(serializer, PojoSerializer):
        owned = [(actual, field) for actual, _ in _classes(serializer) for field in actual.fields]
        owned = [(actual, field) for actual, field in owned if name in (field.name, _apart(actual, field))]
        for actual, field in owned[:1]:
            if not rest:
                yield from _of_field(actual, field, array)
            else:
                yield from null_fields(field.serializer, tuple(rest), array)
    else:
        child = dict(serializer.children).get(name)
        if child is not None:
            yield from null_fields(child, tuple(rest), array)


def _of(serializer: Serializer, array: pa.Array) -> Iterator[NullField]:
    array = array.drop_null()
    children = [child for _, child in serializer.children]
    if not len(array) or not children:
        return
    kind = array.type
    if isinstance(serializer, PojoSerializer):
        yield from _of_pojo(serializer, array)
    elif pa.types.is_map(kind) and len(children) == 2:
        yield from _of(children[0], array.keys)
        yield from _of(children[1], array.items)
    elif pa.types.is_list(kind) and len(children) == 1:
        yield from _of(children[0], array.flatten())
    elif pa.types.is_struct(kind) and len(children) == kind.num_fields:
        for number, child in enumerate(children):
            yield from _of(child, array.field(number))
    elif len(children) == 1:
        yield from _of(children[0], array)


def _of_pojo(serializer: PojoSerializer, array: pa.StructArray) -> Iterator[NullField]:
    names = [field.name for field in array.type]
    for actual, name in _classes(serializer):
        rows = array
        if CLASS in names:
            classes = array.field(CLASS)
            rows = array.filter(
                classes.is_null() if name is None else pc.fill_null(pc.equal(classes, name), False)
            )
        for field in actual.fields:
            column = _apart(actual, field) if _apart(actual, field) in names else field.name
            if not field.hidden and column in names:
                yield from _of_field(actual, field, rows.field(column))


def _of_field(actual: PojoSerializer, field: PojoField, array: pa.Array) -> Iterator[NullField]:
    if field.serializer.java_class not in _PRIMITIVES:
        yield from _of(field.serializer, array)
    elif array.null_count:
        yield NullField(field.declared_in or actual.pojo_class, field.name)


def _classes(serializer: PojoSerializer) -> Iterator[tuple[PojoSerializer, str | None]]:
    """Yield a class, and each known subclass with its name."""
    yield serializer, None
    for name, subclass in serializer.registered + serializer.non_registered:
        if isinstance(subclass, PojoSerializer):
            yield subclass, name


def _apart(actual: PojoSerializer, field: PojoField) -> str:
    """Return the column of a field that another class has with another type."""
    return f"{field.name}({actual.pojo_class})"


def value_program(serializer: Serializer) -> tuple[ColumnTree, Code]:
    """Return the program of single values of a serializer, and its columns: `value`."""
    tree = ColumnTree(pa.struct([pa.field("value", serializer.arrow())]))
    program = Program(tree)
    with program.field(0, "value"):
        serializer.emit(program)
    return tree, program.finish()


def comparable(serializer: Serializer, array: pa.Array) -> pa.Array:
    """Return values that are equal where their bytes are: one text for each number, and `+I` for a row without a kind.

    Args:
        serializer: of the values.
        array: of the type of its column.
    """
    tree, code = value_program(serializer)
    opcodes, columns = code.instructions[:, op.OPCODE], code.instructions[:, op.COLUMN]
    forms = dict.fromkeys(columns[np.isin(opcodes, [op.BIG_DECIMAL, op.BIG_INTEGER])].tolist(), _texts)
    forms |= dict.fromkeys(columns[np.isin(opcodes, [op.MASK_KIND, op.ROW_KIND])].tolist(), _row_kinds)
    return _comparable(tree, forms, tree.children[0][0], array)


def _comparable(
    tree: ColumnTree, forms: Mapping[int, Callable[[pa.Array], pa.Array]], column: int, array: pa.Array
) -> pa.Array:
    if column in forms:
        return forms[column](array)
    if forms.keys().isdisjoint(range(column, tree.next[column])):
        return array
    children = tree.children[column]
    below = partial(_comparable, tree, forms)
    kind = array.type
    if pa.types.is_struct(kind):
        fields = [below(child, array.field(number)) for number, child in enumerate(children)]
        return pa.StructArray.from_arrays(fields, fields=list(kind), mask=array.is_null())
    if pa.types.is_map(kind):
        items = [
            below(child, values)
            for child, values in zip(tree.children[children[0]], (array.keys, array.items), strict=True)
        ]
        return pa.MapArray.from_arrays(array.offsets, *items, type=kind, mask=array.is_null())
    return pa.ListArray.from_arrays(
        array.offsets, below(children[0], array.values), type=kind, mask=array.is_null()
    )


def _row_kinds(array: pa.Array) -> pa.Array:
    return pc.fill_null(array, ROW_KINDS[0])


def _texts(array: pa.Array) -> pa.Array:
    known = array.dictionary_encode()
    texts = [None if text is None else _text(Decimal(text)) for text in known.dictionary.to_pylist()]
    return pa.array(texts, array.type).take(known.indices)


def _text(number: Decimal) -> str:
    sign, digits, exponent = number.as_tuple()
    text = "".join(map(str, digits))
    kept = text.rstrip("0")
    # Leading zeros are no digits of a Decimal, except those of zero itself.
    return f"{'-' * sign}{kept}e{int(exponent) + len(text) - len(kept)}" if kept else "0"


# Canonical files mark the last entry of a state in the first bit of its key group, which is no part of the entry.
KEY_GROUP_BITS = 0x7F


def same_entries(
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    page: Page,
    *,
    has_key_group: bool,
) -> NDArray[np.bool_]:
    """Return which entries have the bytes of the entries of a page; bool (entries,).

    Args:
        data: the encoded bytes.
        starts, ends: int64 (entries, segments), in them; as many entries as the page has.
        page: the bytes that were read.
        has_key_group: whether the first segment begins with the key group.
    """
    sizes = page.ends - page.starts
    same: NDArray[np.bool_] = (sizes == ends - starts).all(axis=1)
    for segment in range(sizes.shape[1]):
        rows = np.flatnonzero(same)
        counts = sizes[rows, segment]
        owners = np.repeat(np.arange(len(rows)), counts)
        within = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
        found = page.data[page.starts[rows, segment][owners] + within]
        encoded = data[starts[rows, segment][owners] + within]
        if has_key_group and segment == 0:
            found = np.where(within == 0, found & KEY_GROUP_BITS, found)
        same[rows[owners[found != encoded]]] = False
    return same


_ITEM_BYTES = 8
_NULL = -1


def identities(columns: Sequence[pa.Array]) -> NDArray[np.int64]:
    """Return a number for each row, int64 (rows,): equal rows have the same, from 0 on.

    Nulls are equal to each other; so are all NaN; 0.0 and -0.0 are not.
    """
    numbers = _numbers(columns[0])
    for column in columns[1:]:
        numbers = _paired(numbers, _numbers(column))
    return np.unique(numbers, return_inverse=True)[1].astype(np.int64)


def differing(olds: Sequence[pa.Array], news: Sequence[pa.Array]) -> pa.Array:
    """Return whether any of the values of a row is another one; nulls and NaN as `identities` sees them.

    Args:
        olds: columns; at least one.
        news: as many columns, of the same types and lengths.
    """
    numbers = identities([pa.concat_arrays(pair) for pair in zip(olds, news, strict=True)])
    length = len(olds[0])
    return pa.array(numbers[:length] != numbers[length:])


def _numbers(array: pa.Array) -> NDArray[np.int64]:
    """Return a number for each value, -1 for null."""
    kind = array.type
    if pa.types.is_null(kind):
        return np.full(len(array), _NULL, dtype=np.int64)
    if pa.types.is_dictionary(kind):
        return _numbers(array.dictionary_decode())
    if pa.types.is_struct(kind):
        return _struct_numbers(array)
    if pa.types.is_list(kind) or pa.types.is_map(kind) or pa.types.is_large_list(kind):
        return _list_numbers(array)
    if pa.types.is_floating(kind):
        array = _bits(array)
    indices = array.dictionary_encode().indices
    return np.asarray(indices.cast(pa.int64()).fill_null(_NULL))


def _struct_numbers(array: pa.StructArray) -> NDArray[np.int64]:
    missing = np.asarray(array.is_null())
    numbers = np.zeros(len(array), dtype=np.int64)
    for child in array.flatten():
        numbers = _paired(numbers, _numbers(child))
    return np.where(missing, _NULL, numbers)


def _list_numbers(array: pa.Array) -> NDArray[np.int64]:
    """Return the numbers of lists or maps: a list is the bytes of its elements' numbers."""
    offsets = np.asarray(array.offsets, dtype=np.int64)
    values = array.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
    items = np.ascontiguousarray(_numbers(values))
    bounds = (offsets - offsets[0]) * _ITEM_BYTES
    lists = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(array), [None, pa.py_buffer(bounds), pa.py_buffer(items)]
    )
    numbers = _numbers(lists)
    return np.where(np.asarray(array.is_null()), _NULL, numbers)


def _bits(array: pa.Array) -> pa.Array:
    """Return numbers by their bits: Java tells 0.0 from -0.0, and takes every NaN for one."""
    known = array.cast(pa.float64()).fill_null(0.0)
    numbers = np.array(known)
    numbers[np.isnan(numbers)] = np.nan
    return pc.if_else(array.is_null(), pa.scalar(None, pa.int64()), pa.array(numbers.view(np.int64)))


def _paired(first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a number for each pair of numbers, below the number of rows."""
    if not len(first):
        return first
    pairs: NDArray[np.int64] = (first + 1) * (int(second.max()) + 2) + second + 1
    return np.unique(pairs, return_inverse=True)[1].astype(np.int64)
