"""Record batches → a stream of bytes, in each format; columns of answers, and the SQL names of their types.

Answers, `information_schema` and `inspect` show Arrow types by DuckDB's names. A column is converted for the formats by these:

| function | result | for |
|---|---|---|
| plain | the same values in types that all formats have | Arrow, Parquet |
| json_column | JSON text of each value, `null` for NULL | JSON, JSON lines |
| text_column | text of each value, NULL for NULL | CSV, tables for people |

JSON text follows `readers.jsontext`. Types that only engines return: a UNION is an object of all its members, all but
one of them null; an INTERVAL is an ISO 8601 duration; a HUGEINT is a number if it fits into 64 bits, else a string;
decimals have no exponent.

Each format has a function:

| name | media type | content |
|---|---|---|
| json | application/json | an array of objects (over HTTP, `json_rows` within the answer's object) |
| jsonl | application/jsonl | one object per line |
| csv | text/csv | RFC 4180 with a header; strings are quoted, so that NULL (no text) differs from the empty string (`""`) |
| csv | text/csv; formulas=escape | with `'` before text that begins with `=`, `+`, `-`, `@`, TAB or CR (formulas in spreadsheets) |
| arrow | application/vnd.apache.arrow.stream | the Arrow IPC stream |
| parquet | application/vnd.apache.parquet | row groups of some megabytes, zstd; dictionaries where values repeat |

It yields bytes after each batch (Parquet: after each row group), so an answer of any size streams. Arrow's
kernels convert rows to text column by column. In formats with unique names a repeated name gets a number: `key`, `key_1`.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from readers import json_text, sql_type
from service.base.rowgroups import leaves, popped, repeating, row_groups, short


@dataclass(frozen=True, slots=True)
class Column:
    """A column of an answer.

    Attributes:
        name: its name in the statement; several columns may have the same name.
        type: the SQL name of its type.
    """

    name: str
    type: str


def is_kept(arrow_type: pa.DataType) -> bool:
    """Return whether DuckDB returns a column of this type in the same type."""
    if pa.types.is_struct(arrow_type):
        return all(is_kept(field.type) for field in arrow_type) and arrow_type.num_fields > 0
    if pa.types.is_map(arrow_type):
        return is_kept(arrow_type.key_type) and is_kept(arrow_type.item_type)
    if pa.types.is_list(arrow_type):
        return is_kept(arrow_type.value_type)
    if pa.types.is_timestamp(arrow_type):
        return arrow_type.tz is None and arrow_type.unit != "s"
    return any(test(arrow_type) for test in _KEPT)


_KEPT = (
    pa.types.is_boolean, pa.types.is_signed_integer, pa.types.is_float32, pa.types.is_float64,
    pa.types.is_string, pa.types.is_binary, pa.types.is_date32, pa.types.is_decimal128,
)  # fmt: skip


# The SQL type of columns that already hold JSON text.
JSON_TEXT = "JSON TEXT"

# JSON text may be many times as long as its batch, so only a slice is text at a time.
_SLICE_BYTES = 256 * 1024
_SLICE_CELLS = 512 * 1024
_HUGE = frozenset({"HUGEINT", "UHUGEINT"})
# Text of this length always fits into 64 bits, so only longer text is parsed.
_SAFE_DIGITS = 18
_INT64 = range(-(2**63), 2**63)


def columns_of(schema: pa.Schema, json: Container[str] = ()) -> list[Column]:
    """Return the names and SQL types of the columns of a schema.

    Args:
        schema: of rows.
        json: columns that hold JSON text.
    """
    return [Column(field.name, JSON_TEXT if field.name in json else sql_type(field.type)) for field in schema]


def plain(array: pa.Array) -> pa.Array:
    """Convert types that some formats do not have: unions, intervals, dictionaries, extensions, large lists."""
    for test, convert in _PLAIN:
        if test(array.type):
            return convert(array)
    return array


def plain_type(arrow_type: pa.DataType) -> pa.DataType:
    """Return the type of the result of `plain`."""
    return plain(pa.nulls(0, arrow_type)).type


def decoded(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Decode the dictionaries of a batch: every row may refer to one long value, which the size of the batch hides."""
    if not any(map(_has_dictionary, batch.schema.types)):
        return batch
    columns = [plain(array) if _has_dictionary(array.type) else array for array in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=decoded_schema(batch.schema))


def decoded_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema of the result of `decoded`."""
    fields = [
        field.with_type(plain_type(field.type)) if _has_dictionary(field.type) else field for field in schema
    ]
    return pa.schema(fields, schema.metadata)


def _has_dictionary(arrow_type: pa.DataType) -> bool:
    if isinstance(arrow_type, pa.BaseExtensionType):
        return _has_dictionary(arrow_type.storage_type)
    children = (arrow_type.field(index).type for index in range(arrow_type.num_fields))
    return pa.types.is_dictionary(arrow_type) or any(map(_has_dictionary, children))


def json_column(array: pa.Array, sql_type: str = "") -> pa.Array:
    """Return JSON text of each value; `sql_type` distinguishes HUGEINT from DECIMAL, and JSON from other text."""
    if sql_type == JSON_TEXT:
        return pc.fill_null(array, "null")
    text = _huge(array) if sql_type in _HUGE else json_text(_without_decimals(plain(array)))
    return pc.fill_null(text, "null")


def slices(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield slices of a batch whose text is short, so that little text is in memory at once."""
    by_bytes = _SLICE_BYTES * batch.num_rows // max(1, batch.nbytes)
    rows = max(1, min(by_bytes, _SLICE_CELLS // max(1, batch.num_columns)))
    if 0 < batch.num_rows <= rows:
        yield batch
        return
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


def counted(count: int, noun: str) -> str:
    """Return `1 row`, `2 rows`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def printable(text: str) -> str:
    """Return a text with the codes of its control characters: the terminal would obey those of a state."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def text_column(array: pa.Array, sql_type: str = "") -> pa.Array:
    """Return text of each value: strings unchanged, other values as in JSON but without quotes around them."""
    array = plain(array)
    if pa.types.is_string(array.type):
        return array
    text = _huge(array) if sql_type in _HUGE else json_text(_without_decimals(array))
    return text if pa.types.is_nested(array.type) else pc.utf8_trim(text, '"')


def is_number(arrow_type: pa.DataType) -> bool:
    """Return whether values of a type are written as numbers."""
    return any(test(arrow_type) for test in (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal))


def _huge(array: pa.Array) -> pa.Array:
    text = array.cast(pa.string())
    long = pc.fill_null(pc.greater(pc.utf8_length(text), _SAFE_DIGITS), False)
    if not pc.any(long).as_py():
        return text
    # JSON parsers read longer numbers as doubles, which would change them.
    exact = [digits if int(digits) in _INT64 else f'"{digits}"' for digits in text.filter(long).to_pylist()]
    return pc.replace_with_mask(text, long, pa.array(exact, pa.string()))


def _without_decimals(array: pa.Array) -> pa.Array:
    """Convert decimals to strings, also nested ones."""
    if pa.types.is_decimal(array.type):
        return decimal_text(array)
    if pa.types.is_nested(array.type):
        return _with_children(array, _without_decimals)
    return array


def decimal_text(array: pa.Array) -> pa.Array:
    """Return decimals as text without exponents."""
    text = array.cast(pa.string())
    odd = pc.fill_null(pc.match_substring(text, "E"), False)
    if not pc.any(odd).as_py():
        return text
    digits = [f"{value:f}" for value in array.filter(odd).to_pylist()]
    return pc.replace_with_mask(text, odd, pa.array(digits, pa.string()))


def _with_children(array: pa.Array, convert: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """Convert the values of a struct, list or map; returns the array itself if no type changes."""
    if pa.types.is_struct(array.type):
        before = [array.field(index) for index in range(array.type.num_fields)]
    elif pa.types.is_map(array.type):
        before = [array.keys, array.items]
    else:
        before = [array.values]
    after = [convert(child) for child in before]
    if all(one.type.equals(other.type) for one, other in zip(before, after, strict=True)):
        return array
    nulls = array.is_null()
    if pa.types.is_struct(array.type):
        fields = [pa.field(field.name, child.type) for field, child in zip(array.type, after, strict=True)]
        return pa.StructArray.from_arrays(after, fields=fields, mask=nulls)
    # Arrow refuses a mask if the offsets are a slice of an array.
    offsets = pa.array(array.offsets.to_numpy())
    made = pa.MapArray if pa.types.is_map(array.type) else pa.ListArray
    return made.from_arrays(offsets, *after, mask=nulls)


def _plain_nested(array: pa.Array) -> pa.Array:
    return _with_children(array, plain)


def _union(array: pa.Array) -> pa.Array:
    """Convert a union to a struct of all members."""
    codes = array.type_codes
    dense = array.type.mode == "dense"
    children = []
    for code, index in zip(array.type.type_codes, range(array.type.num_fields), strict=True):
        chosen = pc.equal(codes, code)
        member = array.field(index)
        if dense:
            children.append(plain(member.take(pc.if_else(chosen, array.offsets, None))))
        else:
            children.append(plain(pc.if_else(chosen, member, None)))
    fields = [pa.field(field.name, child.type) for field, child in zip(array.type, children, strict=True)]
    return pa.StructArray.from_arrays(children, fields=fields)


def _interval(array: pa.Array) -> pa.Array:
    return pa.array(
        [None if value is None else _iso_duration(*value) for value in array.to_pylist()], pa.string()
    )


def _iso_duration(months: int, days: int, nanoseconds: int) -> str:
    seconds, rest = divmod(abs(nanoseconds), 1_000_000_000)
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    sign = "-" if nanoseconds < 0 else ""
    parts = [f"{value}{unit}" for value, unit in ((months, "M"), (days, "D")) if value]
    if nanoseconds or not parts:
        parts.append(f"T{sign}{seconds}{fraction}S")
    return "P" + "".join(parts)


def _any_of(*tests: _Test) -> _Test:
    return lambda kind: any(test(kind) for test in tests)


_OTHER_BINARIES = (pa.types.is_large_binary, pa.types.is_fixed_size_binary, pa.types.is_binary_view)
_OTHER_LISTS = (
    pa.types.is_large_list, pa.types.is_fixed_size_list, pa.types.is_list_view, pa.types.is_large_list_view,
)  # fmt: skip
_Test = Callable[[pa.DataType], bool]
_Convert = Callable[[pa.Array], pa.Array]
_PLAIN: tuple[tuple[_Test, _Convert], ...] = (
    (lambda kind: isinstance(kind, pa.BaseExtensionType), lambda array: plain(array.storage)),
    (pa.types.is_dictionary, lambda array: plain(array.dictionary_decode())),
    (pa.types.is_union, _union),
    (pa.types.is_interval, _interval),
    (_any_of(*_OTHER_LISTS), lambda array: _plain_nested(array.cast(pa.list_(array.type.value_type)))),
    (_any_of(pa.types.is_large_string, pa.types.is_string_view), lambda array: array.cast(pa.string())),
    (_any_of(*_OTHER_BINARIES), lambda array: array.cast(pa.binary())),
    (pa.types.is_nested, _plain_nested),
)


_Batches = Iterable[pa.RecordBatch]
_FORMULA_STARTS = r"=+\-@\t\r"
_ROW_GROUP_BYTES = 8 << 20
_FEW_ROWS = 16
_SIMPLE = (pa.types.is_string, pa.types.is_signed_integer, pa.types.is_boolean)
_Write = Callable[[Sequence[Column], pa.Schema, _Batches], Iterator[bytes]]


@dataclass(frozen=True, slots=True)
class Format:
    """A format of answers.

    Attributes:
        name: its name on the command line.
        media_type: its name over HTTP.
        suffix: suffix of its files.
        write: (columns, their Arrow schema, batches) → byte strings.
    """

    name: str
    media_type: str
    suffix: str
    write: _Write


def split_suffix(name: str) -> tuple[str, Format | None]:
    """Return the name of a file without its suffix, and the format that the suffix names; the name and None for another."""
    stem, dot, suffix = name.rpartition(".")
    known = _SUFFIXES.get(suffix) if dot else None
    return (name, None) if known is None else (stem, known)


def json_rows(columns: Sequence[Column], batch: pa.RecordBatch) -> list[str]:
    """Return each row as the text of a JSON array."""
    is_simple = all(any(test(kind) for test in _SIMPLE) for kind in batch.schema.types) and all(
        one.type != JSON_TEXT for one in columns
    )
    if is_simple and batch.num_rows <= _FEW_ROWS:
        # Each function of Arrow costs as much as all of some rows.
        rows = zip(*(array.to_pylist() for array in batch.columns), strict=True)
        return [orjson.dumps(row).decode() for row in rows]
    return _joined(_json_columns(columns, batch), [""] * len(columns), ("[", "]"))


def _write_json(columns: Sequence[Column], schema: pa.Schema, batches: _Batches) -> Iterator[bytes]:
    separator = "[\n"
    for batch in batches:
        if batch.num_rows:
            yield (separator + ",\n".join(_json_objects(columns, batch))).encode()
            separator = ",\n"
    yield b"[]\n" if separator == "[\n" else b"\n]\n"


def _write_json_lines(columns: Sequence[Column], schema: pa.Schema, batches: _Batches) -> Iterator[bytes]:
    for batch in batches:
        if batch.num_rows:
            yield ("\n".join(_json_objects(columns, batch)) + "\n").encode()


def _without_formulas(text: pa.Array) -> pa.Array:
    return pc.replace_substring_regex(text, f"^([{_FORMULA_STARTS}])", r"'\1")


def _write_csv(
    columns: Sequence[Column],
    schema: pa.Schema,
    batches: _Batches,
    written: Callable[[pa.Array], pa.Array] = lambda text: text,
) -> Iterator[bytes]:
    names = written(pa.array([column.name for column in columns], pa.string()))
    yield (",".join(_quoted(names).to_pylist()) + "\r\n").encode()
    for batch in batches:
        if not batch.num_rows:
            continue
        cells = []
        for column, array in zip(columns, batch.columns, strict=True):
            text = text_column(array, column.type)
            bare = is_number(array.type) or pa.types.is_boolean(array.type)
            if not bare:
                text = _quoted(written(text))
            cells.append(pc.fill_null(text, ""))
        lines = _joined(cells, [""] * len(cells), ("", ""))
        yield ("\r\n".join(lines) + "\r\n").encode()


def _write_arrow(columns: Sequence[Column], schema: pa.Schema, batches: _Batches) -> Iterator[bytes]:
    schema = _plain_schema(columns, schema)
    sink = _Chunks()
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(_plain_batch(batch, schema))
            yield sink.take()
    yield sink.take()


def _write_parquet(columns: Sequence[Column], schema: pa.Schema, batches: _Batches) -> Iterator[bytes]:
    schema = _plain_schema(columns, schema)
    sink = _Chunks()
    rest = (_plain_batch(batch, schema) for batch in batches)
    # Parquet's options are fixed before the first row: the first batch stands for all.
    first = list(islice(rest, 1))
    found = leaves(schema, first)
    pool = pa.system_memory_pool()  # Arrow's own pool keeps freed memory: 33 MiB of 516 MiB
    with parquet.ParquetWriter(
        sink,
        schema,
        compression="zstd",
        use_dictionary=repeating(found),
        write_statistics=short(found),
        memory_pool=pool,
    ) as writer:
        del found
        for group in row_groups(chain(popped(first), rest), schema, _ROW_GROUP_BYTES):
            writer.write_table(group)
            del group  # freed before the next group is read
            yield sink.take()
    yield sink.take()


class _Chunks(io.RawIOBase):
    """A file to write to; `take` removes and returns the bytes written so far."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._taken = 0

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        view = memoryview(data)  # type: ignore[arg-type]  # as io.RawIOBase: anything with the buffer protocol
        self._buffer += view
        return view.nbytes

    def tell(self) -> int:
        return self._taken + len(self._buffer)

    def take(self) -> bytes:
        chunk = bytes(self._buffer)
        self._taken += len(chunk)
        self._buffer.clear()
        return chunk


def _json_objects(columns: Sequence[Column], batch: pa.RecordBatch) -> list[str]:
    labels = [orjson.dumps(name).decode() + ":" for name in unique(columns)]
    return _joined(_json_columns(columns, batch), labels, ("{", "}"))


def _json_columns(columns: Sequence[Column], batch: pa.RecordBatch) -> list[pa.Array]:
    return [json_column(array, column.type) for column, array in zip(columns, batch.columns, strict=True)]


def _joined(cells: Sequence[pa.Array], labels: Sequence[str], around: tuple[str, str]) -> list[str]:
    """Join the cells of each row, with labels before them and commas between them."""
    parts: list[pa.Array | str] = []
    for number, (label, cell) in enumerate(zip(labels, cells, strict=True)):
        parts += [("," if number else around[0]) + label, cell]
    rows: list[str] = pc.binary_join_element_wise(*parts, around[1], "").to_pylist()
    return rows


def _quoted(text: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise('"', pc.replace_substring(text, '"', '""'), '"', "")


def _plain_schema(columns: Sequence[Column], schema: pa.Schema) -> pa.Schema:
    types = [plain_type(field.type) for field in schema]
    return pa.schema(list(zip(unique(columns), types, strict=True)), schema.metadata)


def _plain_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([plain(array) for array in batch.columns], schema=schema)


def unique(columns: Sequence[Column]) -> list[str]:
    """Return the names of columns; a repeated one has a number."""
    names: list[str] = []
    taken = {column.name for column in columns}
    seen: Counter[str] = Counter()
    for column in columns:
        name = column.name
        while name in names or (seen[column.name] and name in taken):
            name = f"{column.name}_{seen[column.name]}"
            seen[column.name] += 1
        seen[column.name] = max(seen[column.name], 1)
        names.append(name)
    return names


SPREADSHEET_CSV = Format("csv", "text/csv", "csv", partial(_write_csv, written=_without_formulas))
"""CSV that is safe in spreadsheets: text of a state must not run as a formula."""
FORMATS: dict[str, Format] = {
    known.name: known
    for known in (
        Format("json", "application/json", "json", _write_json),
        Format("jsonl", "application/jsonl", "jsonl", _write_json_lines),
        Format("csv", "text/csv", "csv", _write_csv),
        Format("arrow", "application/vnd.apache.arrow.stream", "arrows", _write_arrow),
        Format("parquet", "application/vnd.apache.parquet", "parquet", _write_parquet),
    )
}
_SUFFIXES = FORMATS | {known.suffix: known for known in FORMATS.values()}
