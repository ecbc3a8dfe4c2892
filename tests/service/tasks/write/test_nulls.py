"""NULL in a field of a POJO: Java may have an `int` there, and no savepoint says so."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import savepointdb
from readers import type_named
from savepointdb import QueryError
from service.cli import main
from tests.support.paths import DATA
from writers import NullField, null_fields

CLASS = "acme.Shapes$Numbers"
TYPE = f"Pojo({CLASS}: i Integer, bi Integer, name String)"
JARS = [DATA / "classes/jobs.jar"]
WARNING = "gets NULL: if the field is primitive in Java"


def created(target: Path, kind: str, value: str) -> Path:
    script = (
        f"CREATE TABLE a__state WITH (kind = '{kind}', value_type = '{TYPE}') AS SELECT key, {value} AS value"
    )
    rows = "FROM (VALUES ('x', 1, 2), ('y', 3, NULL)) t(key, i, bi)"
    assert main(["create", str(target), f"{script} {rows}"]) == 0
    return target


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state whose field `bi` has NULL already."""
    return created(
        tmp_path_factory.mktemp("nulls") / "source", "VALUE", "{'i': i, 'bi': bi, 'name': NULL::VARCHAR}"
    )


def warnings(source: Path, script: str, jars: list[Path] | None = None) -> tuple[str, ...]:
    with savepointdb.connect(source, jars=jars or ()) as connection:
        return connection.write(None, script, dry_run=True, allow_empty=True).summary.warnings


@pytest.mark.parametrize(
    "script",
    [
        "UPDATE a__state SET value.i = NULL WHERE key = 'x'",
        "UPDATE a__state SET value = {'i': NULL, 'bi': 1, 'name': 'n'}",
        "INSERT INTO a__state (key, value) VALUES ('z', {'bi': 1})",
    ],
)
def test_a_null_that_may_be_in_a_primitive_field_is_told(script: str, source: Path) -> None:
    (warning,) = warnings(source, script)

    assert warning.startswith(f"state: {CLASS}.i {WARNING}")


@pytest.mark.parametrize(
    "script",
    [
        "UPDATE a__state SET value.bi = NULL",
        "UPDATE a__state SET value.name = NULL",
        "UPDATE a__state SET value.i = 7",
        "DELETE FROM a__state WHERE key = 'x'",
    ],
)
def test_a_field_that_has_null_or_can_have_it_is_not_told_of(script: str, source: Path) -> None:
    assert warnings(source, script) == ()


@pytest.mark.parametrize("kind", ["VALUE", "MAP"])
def test_the_other_fields_of_an_object_that_a_write_makes_are_told_of(kind: str, tmp_path: Path) -> None:
    value = f"Pojo(acme.Outer: inner {TYPE})" if kind == "VALUE" else TYPE
    whole = "{'i': 1, 'bi': 2}"
    values = f"{{'inner': {whole}}}, {{'inner': NULL}}" if kind == "VALUE" else f"{whole}, NULL"
    map_key = ", 'm' AS map_key" if kind == "MAP" else ""
    script = (
        f"CREATE TABLE a__state WITH (kind = '{kind}', value_type = '{value}') AS "
        f"SELECT 'k' || n AS key, [{values}][n] AS value{map_key} FROM range(1, 3) t(n)"
    )
    assert main(["create", str(tmp_path / "source"), script]) == 0
    field = "value.inner.name" if kind == "VALUE" else "value.name"

    told = warnings(tmp_path / "source", f"UPDATE a__state SET {field} = 'x'")

    assert [one.partition(" gets NULL")[0] for one in told] == [f"state: {CLASS}.bi", f"state: {CLASS}.i"]
    assert warnings(tmp_path / "source", f"UPDATE a__state SET {field} = 'x' WHERE key = 'k1'") == ()


def test_a_jar_decides(source: Path) -> None:
    with pytest.raises(
        QueryError, match=r"acme\.Shapes\$Numbers\.i, which is primitive in the jar, found NULL"
    ):
        warnings(source, "UPDATE a__state SET value.i = NULL WHERE key = 'x'", JARS)

    assert warnings(source, "INSERT INTO a__state VALUES ('z', {'i': 1})", JARS) == ()


def test_a_new_state_is_told_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    created(tmp_path / "new", "LIST", "{'i': i, 'bi': bi}")

    output = capsys.readouterr().out
    assert f"warning: state: {CLASS}.bi {WARNING}" in output
    assert f"{CLASS}.i " not in output


def test_fields_are_found_wherever_the_object_is() -> None:
    serializer = type_named("Map<String, List<Pojo(acme.Point: x Integer, at Pojo(acme.At: t Long))>>")
    kind = serializer.arrow()
    whole = {"x": 1, "at": {"t": 2}}

    def found(value: object) -> set[NullField]:
        return set(null_fields(serializer, (), pa.array([value], kind)))

    assert found([("k", [whole, None])]) == set()
    assert found([("k", [whole, {"x": None, "at": None}])]) == {NullField("acme.Point", "x")}
    assert found([("k", [whole, {"x": 1, "at": {"t": None}}])]) == {NullField("acme.At", "t")}
