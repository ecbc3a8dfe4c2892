"""Other programs read what an export has written: DuckDB and polars, in all three formats, every row and as of each checkpoint."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.service.tasks.copies.export.conftest import (
    NAMESPACE,
    delta_table,
    expected,
    iceberg_table,
    manifest_of,
    rows,
)
from tests.support.paths import DATA

WORDCOUNT = DATA / "flink/2.3.0/wordcount-rocksdb-savepoints/native"
HISTORY = DATA / "flink/2.3.0/wordcount-rocksdb-checkpoint-incremental/checkpoint"
TYPES = DATA / "corpus/1.20.3/alltypes-hashmap/native"
WINDOWS = DATA / "corpus/1.20.3/sql-window-hashmap/canonical"
AVRO = "2db22d27d82fbf10fa0696f892366d9a__v_"
# Values that are easily read as something else: nested, NULL in every place, of nanoseconds, without a zone, beyond the year 9999.
NAMES = (
    *(f"{AVRO}{name}" for name in ("row", "list_map", "avro_specific", "arr_byte", "byte", "bigdec")),
    *(f"{AVRO}{name}" for name in ("instant", "local_datetime", "local_time", "local_date", "sql_date")),
    *(f"{AVRO}{name}" for name in ("nullable_long", "nullable_list", "map_string_int", "arr_tuple2")),
    "StateMeta",
    "files",
    "timers",
)
CASES: dict[str, tuple[Path, tuple[str, ...]]] = {
    "types": (TYPES, NAMES),
    "decimals": (WINDOWS, ("*window-aggs", "*watermark")),
}

NANOSECONDS = (pa.timestamp("ns"), pa.time64("ns"))

# What a reader is given: the folder of an export, the name of the folder of a table, and a checkpoint.
Reading = Callable[[Path, str, int], pa.Table]


def duckdb_over_parquet(target: Path, folder: str, _: int) -> pa.Table:
    paths = [str(path) for path in (target / folder).rglob("*.parquet")]
    with duckdb.connect() as connection:
        return connection.read_parquet(paths, hive_partitioning=False).to_arrow_table()


def polars_over_parquet(target: Path, folder: str, _: int) -> pa.Table:
    return polars.scan_parquet(target / folder / "*.parquet").collect().to_arrow()


def duckdb_over_iceberg(target: Path, folder: str, checkpoint: int) -> pa.Table:
    with iceberg_table(target, folder, checkpoint) as (table, snapshot):
        return table.scan(snapshot_id=snapshot).to_duckdb("found").sql("FROM found").to_arrow_table()


def polars_over_iceberg(target: Path, folder: str, checkpoint: int) -> pa.Table:
    """Rows by the reader of polars itself, and not by pyiceberg's."""
    with iceberg_table(target, folder, checkpoint) as (table, snapshot):
        scan = polars.scan_iceberg(table, snapshot_id=snapshot, reader_override="native")
        return scan.collect().to_arrow()


def duckdb_over_delta(target: Path, folder: str, checkpoint: int) -> pa.Table:
    rows_of_table = delta_table(target, folder, checkpoint).to_pyarrow_dataset()
    with duckdb.connect() as connection:
        return connection.register("found", rows_of_table).sql("FROM found").to_arrow_table()


def polars_over_delta(target: Path, folder: str, checkpoint: int) -> pa.Table:
    version = delta_table(target, folder, checkpoint).version()
    return polars.read_delta(str(target / NAMESPACE / folder), version=version).to_arrow()


READERS: dict[str, tuple[str, Reading]] = {
    "parquet-duckdb": ("parquet", duckdb_over_parquet),
    "parquet-polars": ("parquet", polars_over_parquet),
    "iceberg-duckdb": ("iceberg", duckdb_over_iceberg),
    "iceberg-polars": ("iceberg", polars_over_iceberg),
    "delta-duckdb": ("delta", duckdb_over_delta),
    "delta-polars": ("delta", polars_over_delta),
}
histories = pytest.mark.parametrize("reader", [one for one in READERS if not one.startswith("parquet")])


def same_types(found: pa.Table, wanted: pa.Schema) -> pa.Table:
    """Rows in the types of a savepoint, but for text of nanoseconds: an error if a value does not fit, so none is rounded."""
    assert found.schema.names == wanted.names
    types = [
        pa.string() if name.type in NANOSECONDS and not pa.types.is_integer(own.type) else name.type
        for own, name in zip(found.schema, wanted, strict=True)
    ]
    return found.cast(pa.schema(zip(wanted.names, types, strict=True)))


@pytest.fixture(autouse=True)
def _planned_by_pyiceberg(monkeypatch: pytest.MonkeyPatch) -> None:
    """Polars warns where its own planner, which is another package, is not there."""
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")


def test_duckdb_reads_exact_rows_and_types_of_files(export: Any, tmp_path: Path) -> None:
    export(WINDOWS, tmp_path / "to", "--tables", "*window-aggs")

    (savepoint,) = manifest_of(tmp_path / "to")["savepoints"]
    (table,) = savepoint["tables"]
    with duckdb.connect() as connection:
        found = connection.sql(f"FROM '{tmp_path}/to/{table['folder']}/*.parquet'")
        assert str(found.types[2]) == "STRUCT(f0 BIGINT, f1 DECIMAL(38,2), __row_kind VARCHAR)"
        assert rows(found.to_arrow_table()) == rows(expected(WINDOWS, table["name"]))


@pytest.mark.slow
def test_duckdb_skips_folders_of_other_key_groups(export: Any, tmp_path: Path) -> None:
    export(WORDCOUNT, tmp_path / "to", "--partition-by", "_key_group", "--tables", "aggregate__count")
    wanted = expected(WORDCOUNT, "aggregate__count")
    (group,) = wanted["_key_group"][:1].to_pylist()
    query = f"FROM read_parquet('{tmp_path}/to/aggregate__count/*/*.parquet', hive_partitioning = true)"

    with duckdb.connect() as connection:
        every = connection.sql(query).to_arrow_table()
        some = connection.sql(f"{query} WHERE key_group = {group}").to_arrow_table()

    assert rows(every.drop_columns(["key_group"])) == rows(wanted)
    in_group = wanted.filter(pa.compute.equal(wanted["_key_group"], group))
    assert rows(some.drop_columns(["key_group"])) == rows(in_group)
    assert some["key_group"].to_pylist() == some["_key_group"].to_pylist()


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("nanoseconds", ["text", "bigint"])
@pytest.mark.parametrize("format", ["parquet", "iceberg", "delta"])
def test_every_reader_finds_the_same_values(
    export: Any, tmp_path: Path, format: str, nanoseconds: str, case: str
) -> None:
    source, tables = CASES[case]
    options = () if format == "parquet" else ("--namespace", NAMESPACE)

    ended = export(
        source,
        tmp_path,
        "--format",
        format,
        "--nanoseconds",
        nanoseconds,
        "--tables",
        ",".join(tables),
        *options,
    )

    assert ended.code == 0, ended.err
    (savepoint,) = manifest_of(tmp_path)["savepoints"]
    assert len(savepoint["tables"]) == len(tables)
    for table in savepoint["tables"]:
        wanted = expected(source, table["name"])
        for name, (of_format, reading) in READERS.items():
            if of_format == format:
                found = same_types(
                    reading(tmp_path, table["folder"], savepoint["checkpoint_id"]), wanted.schema
                )
                assert rows(found) == rows(wanted), (name, table["name"])


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--partition-by", "_key_group")], ids=["whole", "partitioned"])
@histories
def test_a_table_as_of_each_checkpoint(
    export: Any, tmp_path: Path, reader: str, options: tuple[str, ...]
) -> None:
    format, reading = READERS[reader]
    job, target = tmp_path / NAMESPACE, tmp_path / "to"
    shutil.copytree(HISTORY, job)

    export(job, target, "--format", format, "--tables", "aggregate__count,operators", *options)

    counts = []
    for checkpoint in (1, 2):
        for table in ("aggregate__count", "operators"):
            wanted = expected(job / f"chk-{checkpoint}", table)
            found = same_types(reading(target, table, checkpoint), wanted.schema)
            assert rows(found) == rows(wanted)
            counts.append(found.num_rows)
    assert counts[0] != counts[2]


# Types of Iceberg's format 2 for which Trino's connector has one of its own; each of its others is of format 3.
OF_TRINO = {
    *("boolean", "int", "long", "float", "double", "string", "binary", "date", "time", "timestamp"),
    *("timestamptz", "uuid"),
}


@pytest.mark.slow
def test_tables_of_iceberg_have_nothing_that_trino_lacks(export: Any, tmp_path: Path) -> None:
    from pyiceberg.types import DecimalType, ListType, MapType, StructType

    def parts(kind: Any) -> Iterator[Any]:
        """Fields of a type, and those within them: each has a number."""
        if isinstance(kind, StructType):
            found = kind.fields
        elif isinstance(kind, MapType):
            found = (kind.key_field, kind.value_field)
        else:
            found = (kind.element_field,) if isinstance(kind, ListType) else ()
        for field in found:
            yield field
            yield from parts(field.field_type)

    export(TYPES, tmp_path, "--format", "iceberg", "--namespace", NAMESPACE, "--nanoseconds", "text")

    (savepoint,) = manifest_of(tmp_path)["savepoints"]
    assert len(savepoint["tables"]) > 60
    for exported in savepoint["tables"]:
        with iceberg_table(tmp_path, exported["folder"], savepoint["checkpoint_id"]) as (table, snapshot):
            fields = list(parts(table.schema().as_struct()))
            files = [(task.file, task.delete_files) for task in table.scan(snapshot_id=snapshot).plan_files()]
        assert (table.format_version, table.spec().is_unpartitioned()) == (2, True)
        for field in fields:
            kind = field.field_type
            assert str(kind) in OF_TRINO or isinstance(kind, DecimalType | StructType | ListType | MapType)
            assert field.initial_default is None
        names = [field.name.casefold() for field in table.schema().fields]
        assert len(set(names)) == len(names)
        for file, deleted in files:
            assert (deleted, file.file_format.name) == (set(), "PARQUET")
            schema = parquet.ParquetFile(file.file_path.removeprefix("file://")).schema_arrow
            assert sorted(numbers(schema)) == sorted(field.field_id for field in fields)


def numbers(fields: Any) -> Iterator[int]:
    """The numbers that fields of a file have, those within others included."""
    for field in fields:
        yield int(field.metadata[b"PARQUET:field_id"])
        kind = field.type
        if pa.types.is_struct(kind):
            yield from numbers(list(kind))
        elif pa.types.is_map(kind):
            yield from numbers([kind.key_field, kind.item_field])
        elif pa.types.is_list(kind):
            yield from numbers([kind.value_field])
