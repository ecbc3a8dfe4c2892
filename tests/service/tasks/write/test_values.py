"""Values that a script may give in several ways, and values that nothing holds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import savepointdb
from readers import type_named
from service.cli import main
from tests.support.paths import DATA
from tests.support.retained import WORDCOUNT
from writers import comparable

CREATED = (
    "CREATE TABLE a__decimal AS SELECT 'k' AS key, 1.5::DECIMAL(10, 2) AS value;"
    "CREATE TABLE a__integer WITH (value_type = 'BigInteger') AS SELECT 'k' AS key, '7' AS value;"
    "CREATE TABLE a__at AS SELECT 'k' AS key, TIMESTAMP '2020-01-01' AS value;"
    "CREATE TABLE a__numbers WITH (kind = 'LIST', value_type = 'BigDecimal') AS SELECT 'k' AS key, '1' AS value;"
    "CREATE TABLE a__by_number WITH (kind = 'MAP', map_key_type = 'BigInteger') AS "
    "SELECT 'k' AS key, '1' AS map_key, 1::BIGINT AS value"
)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("values") / "source"
    assert main(["create", str(path), CREATED]) == 0
    return path


@pytest.fixture(scope="module")
def connection(source: Path) -> Iterator[savepointdb.Connection]:
    with savepointdb.connect(source) as connection:
        yield connection


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("1E+3", "1000"),
        ("1e30", "1" + 30 * "0"),
        ("-0", "0"),
        ("-0.00", "0.00"),
        ("00012", "12"),
        ("+.5", "0.5"),
        ("5.", "5"),
        ("1e2000000000", "1E+2000000000"),
        ("-1e-9000", "-1E-9000"),
    ],
)
def test_a_number_may_be_written_in_any_way(
    text: str, read: str, connection: savepointdb.Connection, tmp_path: Path
) -> None:
    script = (
        f"UPDATE a__decimal SET value = '{text}'; INSERT INTO a__numbers (key, value) VALUES ('k', '{text}')"
    )

    connection.write(tmp_path / "new", script)

    with savepointdb.connect(tmp_path / "new") as new:
        assert new.sql("SELECT value FROM a__decimal").fetchall() == [(read,)]
        assert new.sql("SELECT value FROM a__numbers").fetchall() == [("1",), (read,)]


def test_a_whole_number_may_be_written_in_any_way(connection: savepointdb.Connection, tmp_path: Path) -> None:
    script = "UPDATE a__integer SET value = '+007'; UPDATE a__by_number SET map_key = '-02'"

    connection.write(tmp_path / "new", script)

    with savepointdb.connect(tmp_path / "new") as new:
        assert new.sql("SELECT value FROM a__integer").fetchall() == [("7",)]
        assert new.sql("SELECT map_key FROM a__by_number").fetchall() == [("-2",)]


def test_numbers_are_compared_wherever_they_are_and_nothing_else() -> None:
    serializer = type_named("Map<String, List<BigDecimal>>")
    given, same = (
        pa.array([[("01", [number, None])], None, []], serializer.arrow()) for number in ("1e1", "10.0")
    )
    other = pa.array([[("1", ["10", None])], None, []], serializer.arrow())

    found = [comparable(serializer, array).to_pylist() for array in (given, same, other)]

    assert found[0] == found[1] == [[("01", ["1e1", None])], None, []]
    assert found[2] != found[0]


def test_a_row_without_a_kind_is_an_insert(tmp_path: Path) -> None:
    with savepointdb.connect(DATA / "flink/2.3.0/everything-rocksdb-savepoints/canonical") as source:
        source.write(
            tmp_path / "new",
            "UPDATE types__v_row SET value.f2 = {'f0': 1, 'f1': 'x'} WHERE key = 'k1'; UPDATE types__v_row SET value.f2.f0 = 5 "
            "WHERE key = 'k2'; INSERT INTO types__v_row VALUES ('new', {'f0': 'n'})",
        )

    with savepointdb.connect(tmp_path / "new") as new:
        found: dict[str, object] = dict(
            new.sql("SELECT key, value FROM types__v_row WHERE key <> 'k0'").fetchall()
        )
    inner = {"f0": 1, "f1": "x", "__row_kind": "+I"}
    assert found == {
        "k1": {"f0": "x", "f1": None, "f2": inner, "__row_kind": "-D"},
        "k2": {"f0": None, "f1": None, "f2": {"f0": 5, "f1": None, "__row_kind": "+I"}, "__row_kind": "+I"},
        "new": {"f0": "n", "f1": None, "f2": None, "__row_kind": "+I"},
    }


@pytest.mark.parametrize(
    ("time", "shown"),
    [
        ("TIMESTAMP '20000-01-01'", '"+20000-01-01T00:00:00.000000"'),
        ("TIMESTAMP '0001-01-01' - INTERVAL 10 YEAR", '"-0009-01-01T00:00:00.000000"'),
        ("'infinity'::TIMESTAMP", '"+294247-01-10T04:00:54.775807"'),
    ],
)
def test_a_time_that_the_column_cannot_hold_is_refused_with_the_time(
    time: str, shown: str, connection: savepointdb.Connection, tmp_path: Path
) -> None:
    scripts = (
        f"UPDATE a__at SET value = {time}",
        f"INSERT INTO a__at (key, value) VALUES ('x', {time})",
        f"CREATE TABLE a__new WITH (value_type = 'LocalDateTime') AS SELECT 'k' AS key, {time} AS value",
    )
    for script in scripts:
        with pytest.raises(savepointdb.QueryError, match="expected a value of type TIMESTAMP") as refused:
            connection.write(tmp_path / "new", script)

        assert shown in str(refused.value)
        assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("UPDATE source_offsets SET starting_offset = {}", "expected a BIGINT for starting_offset"),
        ("CALL rewind_kafka('source', 'words', MAP {{0: {}}})", "found arguments of the types"),
        ("ALTER TABLE aggregate__count SET (ttl = {})", "expected ttl = true or ttl = false"),
        ("ALTER TABLE aggregate SET (parallelism = {})", "expected a number above 0 for parallelism"),
    ],
)
def test_a_time_beyond_python_is_an_ordinary_mistake(script: str, message: str, tmp_path: Path) -> None:
    with savepointdb.connect(WORDCOUNT) as connection, pytest.raises(savepointdb.QueryError, match=message):
        connection.write(tmp_path / "new", script.format("TIMESTAMP '20000-01-01'"))


EVERYTHING = DATA / "flink/2.3.0/everything-hashmap-savepoints/canonical"


@pytest.mark.parametrize(
    ("table", "value", "message"),
    [
        ("long", "TIMESTAMP '2020-01-01'", "value: expected a column of type BIGINT, found TIMESTAMP"),
        ("int", "DATE '2020-01-01'", "value: expected a column of type INTEGER, found DATE"),
        ("local_date", "5", "value: expected a column of type DATE, found INTEGER"),
        ("local_time", "5::BIGINT", "value: expected a column of type TIME_NS, found BIGINT"),
        ("instant", "5::BIGINT", "value: expected a column of type TIMESTAMP_NS, found BIGINT"),
        ("local_time", "TIMESTAMP '2020-01-01 13:00'", "value: expected a column of type TIME_NS, found TIMESTAMP"),
        (
            "local_date",
            "TIMESTAMP '2020-01-01 13:00'",
            'expected a value of type DATE, found "2020-01-01T13:00:00.000000" (TIMESTAMP)',
        ),
        (
            "local_date",
            "TIMESTAMPTZ '2020-01-01 13:00+00'",
            'expected a value of type DATE, found "2020-01-01T13:00:00.000000Z" (TIMESTAMP WITH TIME ZONE)',
        ),
        ("local_date", "'infinity'::DATE", "expected a value of type DATE, found infinity (DATE)"),
        ("local_date", "'-infinity'::DATE", "expected a value of type DATE, found -infinity (DATE)"),
        ("boolean", "0.5::DOUBLE", "expected a value of type BOOLEAN, found 0.5 (DOUBLE)"),
        ("boolean", "'NaN'::DOUBLE", "expected a value of type BOOLEAN, found nan (DOUBLE)"),
        ("boolean", "-3", "expected a value of type BOOLEAN, found -3 (INTEGER)"),
        ("boolean", "2", "expected a value of type BOOLEAN, found 2 (INTEGER)"),
        ("float", "123456789.1::DOUBLE", "expected a value of type FLOAT, found 123456789.1 (DOUBLE)"),
        ("float", "1::DOUBLE / 3", "expected a value of type FLOAT, found 0.3333333333333333 (DOUBLE)"),
        ("float", "5e-324", "expected a value of type FLOAT, found 5e-324 (DOUBLE)"),
        ("float", "16777217.0", "expected a value of type FLOAT, found Decimal('16777217.0') (DECIMAL(9,1))"),
        ("float", "16777217", "expected a value of type FLOAT, found 16777217 (INTEGER)"),
        ("float", "'16777217'", "expected a value of type FLOAT, found '16777217' (VARCHAR)"),
        ("double", "'1e400'", "expected a value of type DOUBLE, found '1e400' (VARCHAR)"),
        (
            "double",
            "12345678901234567.8::DECIMAL(38, 1)",
            "expected a value of type DOUBLE, found Decimal('12345678901234567.8') (DECIMAL(38,1))",
        ),
    ],
)  # fmt: skip
def test_a_value_that_would_be_another_one_is_refused(
    table: str, value: str, message: str, tmp_path: Path
) -> None:
    with savepointdb.connect(EVERYTHING) as connection:
        for script in (
            f"UPDATE types__v_{table} SET value = {value}",
            f"INSERT INTO types__v_{table} (key, value) VALUES ('new', {value})",
        ):
            with pytest.raises(savepointdb.QueryError) as refused:
                connection.write(tmp_path / "new", script)

            assert message in str(refused.value)
            assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("table", "value", "stored"),
    [
        ("float", "0.1", "0.1::FLOAT"),
        ("float", "0.1000000000", "0.1::FLOAT"),
        ("float", "0.1::DOUBLE", "0.1::FLOAT"),
        ("float", "123456792.0", "123456792::FLOAT"),
        ("float", "1.5::FLOAT * 1.1", "1.5::FLOAT * 1.1"),
        ("float", "'NaN'::DOUBLE", "'NaN'::FLOAT"),
        ("float", "'-inf'::DOUBLE", "'-inf'::FLOAT"),
        ("double", "0.1", "0.1::DOUBLE"),
        ("double", "123456.789", "123456.789::DOUBLE"),
        ("double", "1152921504606846976::HUGEINT", "1152921504606846976::DOUBLE"),
        ("boolean", "1", "true"),
        ("long", "2.0", "2"),
        ("local_date", "TIMESTAMP '2020-01-01 00:00'", "DATE '2020-01-01'"),
        ("instant", "DATE '2020-01-01'", "TIMESTAMP '2020-01-01'"),
        ("instant", "TIMESTAMP '2020-01-01 10:00'", "TIMESTAMP '2020-01-01 10:00'"),
    ],
)
def test_a_value_of_another_type_is_stored_as_it_is(
    table: str, value: str, stored: str, tmp_path: Path
) -> None:
    with savepointdb.connect(EVERYTHING) as connection:
        connection.write(tmp_path / "new", f"UPDATE types__v_{table} SET value = {value}")

    with savepointdb.connect(tmp_path / "new") as new:
        found = new.sql(f"SELECT DISTINCT value = {stored} FROM types__v_{table}").fetchall()
    assert found == [(True,)]


@pytest.mark.parametrize(
    ("columns", "value", "message"),
    [
        ("key VARCHAR, value BIGINT", "'k', 1.5", "value: expected a value of type BIGINT, found Decimal('1.5')"),
        ("key BIGINT, value BIGINT", "1.4, 1", "key: expected a value of type BIGINT, found Decimal('1.4')"),
        ("key VARCHAR, value BIGINT", "'k', '1.5'", "value: expected a value of type BIGINT, found '1.5'"),
        (
            "key VARCHAR, value DECIMAL(10, 2)",
            "'k', 1.005",
            "value: expected a value of type DECIMAL(10,2), found Decimal('1.005')",
        ),
        (
            "key VARCHAR, value DATE",
            "'k', TIMESTAMP '2020-01-01 13:00'",
            'value: expected a value of type DATE, found "2020-01-01T13:00:00.000000" (TIMESTAMP)',
        ),
        ("key VARCHAR, value DATE", "'k', 'infinity'::DATE", "value: expected a value of type DATE, found infinity"),
        ("key VARCHAR, value BOOLEAN", "'k', 2", "value: expected a value of type BOOLEAN, found 2 (INTEGER)"),
        (
            "key VARCHAR, value STRUCT(a BIGINT)",
            "'k', {'a': 1.5}",
            "value.a: expected a value of type BIGINT, found Decimal('1.5')",
        ),
        (
            "key BIGINT, list_index INTEGER, value BIGINT",
            "1.4, 0, 1",
            "key: expected a value of type BIGINT, found Decimal('1.4')",
        ),
    ],
)  # fmt: skip
def test_a_created_table_takes_no_value_that_would_be_another_one(
    columns: str, value: str, message: str, connection: savepointdb.Connection, tmp_path: Path
) -> None:
    options = "WITH (kind = 'LIST')" if "list_index" in columns else ""

    with pytest.raises(savepointdb.QueryError) as refused:
        connection.write(tmp_path / "new", f"CREATE TABLE a__new ({columns}) {options} AS SELECT {value}")

    assert message in str(refused.value)
    assert not (tmp_path / "new").exists()


def test_a_created_table_takes_values_of_other_types_that_fit(tmp_path: Path) -> None:
    script = (
        "CREATE TABLE a__decimal (key VARCHAR, value DECIMAL(10, 2)) AS SELECT 5, 7;"
        "CREATE TABLE a__float (key VARCHAR, value FLOAT) AS SELECT 1.0::DOUBLE, 0.1;"
        "CREATE TABLE a__date (key VARCHAR, value DATE) AS SELECT 'k', '2020-01-01';"
        "CREATE TABLE a__bytes (key VARCHAR, value BLOB) AS SELECT 'k', 'x';"
        "CREATE TABLE b__list (key BIGINT, list_index INTEGER, value BIGINT) WITH (kind = 'LIST') AS "
        "VALUES (1.0, 1, '6'), (1.0, 0, '5')"
    )

    assert main(["create", str(tmp_path / "new"), script]) == 0

    with savepointdb.connect(tmp_path / "new") as new:
        found = {
            name: new.sql(f"SELECT key, value::VARCHAR FROM {name} ORDER BY ALL").fetchall()
            for name in ("a__decimal", "a__float", "a__date", "a__bytes", "b__list")
        }
    assert found == {
        "a__decimal": [("5", "7.00")],
        "a__float": [("1.0", "0.1")],
        "a__date": [("k", "2020-01-01")],
        "a__bytes": [("k", "x")],
        "b__list": [(1, "5"), (1, "6")],
    }
