"""Saved queries: the file that people write, the folder of those that clients save, and the values of parameters."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service.base.errors import ConflictError, LimitExceededError, QueryError
from service.cli import main
from service.query.running.request import QueryRequest
from service.tasks.saved.query import (
    MOST_QUERIES,
    InvalidParameterError,
    InvalidSavedQueryError,
    NoSuchSavedQueryError,
    SavedQuery,
    SavedQueryFileError,
    parameter,
    parameter_names,
    saved_query,
)
from service.tasks.saved.store import SavedQueries
from tests.support.paths import DATA
from tests.support.waiting import wait_until

NATIVE = DATA / "flink" / "2.3.0" / "wordcount-rocksdb-savepoints" / "native"
FILE = """\
# Ours: ask Ada before you change it.
[queries.count-of]
description = "The count of one key."   # people look here first
database = "native"
sql = '''
SELECT key, value FROM aggregate WHERE key = :key'''

[queries.large]
sql = "SELECT count(*) AS n FROM aggregate WHERE value >= :least"
parameters.least.default = 1000
"""
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=60)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "queries.toml"
    path.write_text(FILE)
    return path


def bound(query: SavedQuery, given: dict[str, str]) -> tuple[str, Any]:
    asked = query.asked(QueryRequest(sql=""), given)
    return asked.sql, asked.parameters


def rows(native: Any, store: SavedQueries, name: str, **given: str) -> list[tuple[Any, ...]]:
    sql, values = bound(store.get(name), given)
    found: list[tuple[Any, ...]] = native.rows(sql, parameters=values)
    return found


def test_a_query_of_the_file_runs_with_the_values_of_its_caller(native: Any, file: Path) -> None:
    store = SavedQueries(file)

    assert store.names() == ["count-of", "large"]
    found = store.get("count-of")
    assert (found.database, found.description) == ("native", "The count of one key.")
    assert [(one.name, one.type, one.default) for one in found.parameters] == [("key", "text", None)]
    assert rows(native, store, "count-of", key="key_662") == [("key_662", 11290)]
    assert rows(native, store, "count-of", key="' OR true --") == []
    one_key = native.bytes_read
    assert rows(native, store, "large") == rows(native, store, "large", least="1000")
    assert rows(native, store, "large", least="11290") < rows(native, store, "large", least="-1")
    # A value prunes as a constant does.
    assert one_key < native.bytes_read


@pytest.mark.parametrize(
    ("name", "given", "told"),
    [
        ("count-of", {}, "expected a value for key, found none"),
        ("count-of", {"key": "a", "kye": "b"}, "expected key, found kye"),
        ("large", {"least": "many"}, "expected an integer for least, found 'many'"),
        ("large", {"least": "9223372036854775808"}, "expected an integer"),
        ("large", {"least": "1; DROP TABLE aggregate"}, "expected an integer"),
        ("large", {"least": ""}, "expected an integer"),
        ("large", {"least": "1" * 200_000}, "expected at most 100000 characters"),
    ],
)
def test_values_that_do_not_fit_are_named(file: Path, name: str, given: dict[str, str], told: str) -> None:
    with pytest.raises(InvalidParameterError, match="expected") as caught:
        bound(SavedQueries(file).get(name), given)

    assert told in caught.value.message
    assert len(caught.value.message) < 300


def test_an_unknown_name_has_near_ones(file: Path) -> None:
    with pytest.raises(NoSuchSavedQueryError, match="no saved query 'lrage'") as caught:
        SavedQueries(file).get("lrage")

    assert caught.value.hint == 'did you mean "large"?'


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("SELECT :a, :b+:a", ("a", "b")),
        ("SELECT 1 WHERE k=:k AND (:x) > -:y OR list_contains([:p, :q], z)", ("k", "x", "y", "p", "q")),
        ("SELECT ARRAY[:a], x IN (:b)", ("a", "b")),
        ("SELECT x FROM t LIMIT :limit", ("limit",)),
        ("EXPLAIN SELECT :a", ("a",)),
        ("SELECT ':a', \":b\", $$ :c $$ -- :d\n/* :e */", ()),
        ("SELECT x::INT, l[1:n], l[:n], l[-1:], {'a':b}, {'a': b}, m['k'][:n], a: 1, x:b", ()),
        ("SELECT :1, : a, :_a, :ä", ()),
    ],
)
def test_parameters_are_told_from_other_colons(sql: str, names: tuple[str, ...]) -> None:
    assert parameter_names(sql) == names


@pytest.mark.slow
@settings(
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=25,
)
@given(text=TEXTS)
def test_a_value_never_becomes_sql(native: Any, text: str) -> None:
    query = saved_query("echo", sql="SELECT :text AS a, 'x' || :text AS b, :text = :other AS c")
    sql, values = bound(query, {"text": text, "other": text + "'"})

    assert native.rows(sql, parameters=values) == [(text, f"x{text}", False)]


@pytest.mark.parametrize(
    ("kind", "text", "sql", "found"),
    [
        ("integer", "-5", "SELECT :v + 1, typeof(:v + 1)", (-4, "INTEGER")),
        ("number", "1.50", "SELECT :v * 2 = 3, :v", (True, None)),
        ("number", "1e3", "SELECT :v = 1000", (True,)),
        ("boolean", "TRUE", "SELECT NOT :v, typeof(:v)", (False, "BOOLEAN")),
        ("date", "2026-01-31", "SELECT :v + 1 = DATE '2026-02-01', typeof(:v)", (True, "DATE")),
        (
            "timestamp",
            "2026-01-31T12:00",
            "SELECT :v = TIMESTAMP '2026-01-31 12:00:00', typeof(:v)",
            (True, "TIMESTAMP"),
        ),
    ],
)
def test_values_have_the_types_of_their_parameters(
    native: Any, kind: str, text: str, sql: str, found: tuple[Any, ...]
) -> None:
    query = saved_query("typed", sql=sql, declared={"v": parameter("v", type=kind)})
    statement, values = bound(query, {"v": text})

    [row] = native.rows(statement, parameters=values)
    assert [got for got, wanted in zip(row, found, strict=True) if wanted is not None and got != wanted] == []
    for wrong in ("", "a", "2026-13-01", "1 OR 1=1", "nan", "--", "2026-01-31'"):
        with pytest.raises(InvalidParameterError):
            bound(query, {"v": wrong})


def test_the_dialect_of_a_query_is_kept(native: Any) -> None:
    declared = {"a": parameter("a", type="integer")}
    query = saved_query("trino", sql="SELECT :a / 2, ARRAY[:a][1]", dialect="trino", declared=declared)
    sql, values = bound(query, {"a": "7"})

    assert native.rows(sql, parameters=values, dialect="trino") == [(3, 7)]


def test_an_error_stands_where_it_is_in_the_saved_text(native: Any) -> None:
    query = saved_query("wrong", sql="SELECT :a,\n  nothing_of_it FROM native.aggregate WHERE key = :a")
    sql, values = bound(query, {"a": "x" * 100})

    with pytest.raises(QueryError) as caught:
        native.rows(sql, parameters=values)
    assert caught.value.position is not None
    assert (caught.value.position.line, caught.value.position.column) == (2, 3)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(sql=TEXTS, description=TEXTS, default=TEXTS, database=TEXTS, user=TEXTS)
def test_what_a_client_saves_is_read_again(
    tmp_path: Path, sql: str, description: str, default: str, database: str, user: str
) -> None:
    try:
        query = saved_query(
            "x",
            sql=f"SELECT :a, {sql}",
            description=description,
            database=database,
            declared={"a": parameter("a", default=default)},
            saved_by=user,
            saved_at="2026-01-31T12:00:00+00:00",
        )
    except InvalidSavedQueryError:  # such as a text without an end
        return
    path = tmp_path / "any.toml"

    SavedQueries(path, is_writable=True).put(query)

    assert SavedQueries(path).get("x") == query


def test_what_clients_save_leaves_the_file_as_it_is(file: Path) -> None:
    store = SavedQueries(file)

    store.put(saved_query("mine", sql="SELECT 1;"))
    store.put(saved_query("mine", sql="SELECT 2"))
    with pytest.raises(ConflictError, match="'large' in the file"):
        store.put(saved_query("large", sql="SELECT 3"))
    with pytest.raises(ConflictError, match="'large' in the file"):
        store.delete("large")

    assert file.read_text() == FILE
    assert store.names() == ["count-of", "large", "mine"]
    assert store.get("mine").sql == "SELECT 2"
    # In the form of the file: it may be moved there.
    saved = file.with_name("queries.toml.d") / "mine.toml"
    assert saved.read_text() == "[queries.mine]\ndialect = \"duckdb\"\nsql = '''\nSELECT 2'''\n"
    store.delete("mine")
    assert list(saved.parent.iterdir()) == []
    with pytest.raises(NoSuchSavedQueryError):
        store.delete("mine")


def test_a_query_of_the_file_hides_a_saved_one_of_its_name(file: Path) -> None:
    SavedQueries(file).put(saved_query("new", sql="SELECT 'saved'"))
    file.write_text(FILE + "[queries.new]\nsql = \"SELECT 'written'\"\n")

    assert SavedQueries(file).get("new").sql == "SELECT 'written'"


@pytest.mark.slow
def test_services_share_a_folder(file: Path) -> None:
    one, other = SavedQueries(file), SavedQueries(file)
    outcomes: list[object] = []
    barrier = threading.Barrier(2)

    def save(store: SavedQueries, sql: str) -> None:
        barrier.wait()
        try:
            store.put(saved_query("both", sql=sql), is_new=True)
            outcomes.append(sql)
        except ConflictError as error:
            outcomes.append(error.code)

    threads = [
        threading.Thread(target=save, args=(store, f"SELECT {at}")) for at, store in enumerate((one, other))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    [kept] = [outcome for outcome in outcomes if outcome != "SAVED_QUERY_EXISTS"]
    assert len(outcomes) == 2
    for store in (one, other):
        wait_until(partial(lambda names: "both" in names(), store.names))
        assert store.get("both").sql == kept
    one.delete("both")
    wait_until(lambda: "both" not in other.names())


@pytest.mark.parametrize("name", ["../x", "x/y", "..", "", ".x", "X", "x.csv", "ä", "x\n", "a" * 65, "x\0", "-x", "con:"])  # fmt: skip
def test_a_name_is_no_path(file: Path, name: str) -> None:
    store = SavedQueries(file)
    before = sorted(path.name for path in file.parent.rglob("*"))

    with pytest.raises(InvalidSavedQueryError, match="expected a name"):
        store.put(saved_query(name, sql="SELECT 1"))
    with pytest.raises(InvalidSavedQueryError, match="expected a name"):
        store.delete(name)
    assert sorted(path.name for path in file.parent.rglob("*")) == before


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        ({"sql": ""}, "expected sql"),
        ({"sql": " ; "}, "expected sql"),
        ({"sql": "SELECT '"}, "has no end"),
        ({"sql": f"SELECT '{'x' * 300_000}'"}, "at most 262144 bytes"),
        ({"sql": "SELECT '\ud800'"}, "half a character"),
        ({"sql": "SELECT '\0'"}, "NUL"),
        ({"sql": "SELECT 1", "description": "x" * 3000}, "at most 2000 bytes"),
        ({"sql": "SELECT 1", "database": "x" * 3000}, "at most 1000 bytes"),
        ({"sql": f"SELECT {', '.join(f':p{n}' for n in range(101))}"}, "at most 100 parameters"),
        ({"sql": "SELECT 1", "declared": {"a": parameter("a")}}, "expected :a in the statement"),
    ],
)
def test_a_query_that_is_none_is_refused(facts: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidSavedQueryError, match=told) as caught:
        saved_query("x", **facts)

    assert len(caught.value.message) < 300


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[", "expected TOML"),
        ("[" * 100_000, "expected TOML"),
        ("a = 1", "found 'a'"),
        ("queries = 1", "expected each query as"),
        ("[queries]\nx = 1", "expected each query as"),
        ("[queries.x]\nsql = 1", "query 'x': expected sql as a text"),
        ("[queries.x]\nslq = 'SELECT 1'", "is it sql?"),
        ("[queries.x]\ndescription = ''", "expected sql, found none"),
        ("[queries.X]\nsql = 'SELECT 1'", "expected a name"),
        ("[queries.x]\nsql = 'SELECT :a'\nsaved_by = 'me'", "found 'saved_by'"),
        ("[queries.x]\nsql = 'SELECT :a'\nparameters = 1", "expected parameters as tables"),
        ("[queries.x]\nsql = 'SELECT :a'\nparameters.a = 1", "expected parameters.a.default"),
        ("[queries.x]\nsql = 'SELECT :a'\nparameters.b.default = 1", "expected :b"),
        ("[queries.x]\nsql = 'SELECT :a'\nparameters.a.default = []", "as default of a"),
        ("[queries.x]\nsql = 'SELECT :a'\nparameters.a.type = 'int'", "expected a type of a"),
        ("[queries.x]\nsql = 'SELECT :a'\nparameters.a = {type = 'date', default = 1}", "expected a date"),
        ("\n".join(f"[queries.q{n}]\nsql='SELECT 1'" for n in range(MOST_QUERIES + 1)), "at most 1000"),
        ("#" * (5 << 20), "at most"),
        (b"\xff", "expected UTF-8"),
    ],
)
def test_a_file_that_is_none_says_what_and_where(tmp_path: Path, text: str | bytes, told: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())

    with pytest.raises(SavedQueryFileError, match="expected") as caught:
        SavedQueries(path)
    assert told in caught.value.message
    assert caught.value.message.startswith("mine.toml: ")
    assert str(tmp_path) not in caught.value.message
    assert len(caught.value.message) < 400


def test_a_file_that_is_missing_is_an_error_unless_clients_save(tmp_path: Path) -> None:
    with pytest.raises(SavedQueryFileError, match="found none"):
        SavedQueries(tmp_path / "none.toml")
    assert SavedQueries(tmp_path / "none.toml", is_writable=True).names() == []
    assert SavedQueries().names() == []


def test_there_are_so_many_at_most(tmp_path: Path) -> None:
    path = tmp_path / "many.toml"
    path.write_text("\n".join(f"[queries.q{n}]\nsql='SELECT 1'" for n in range(MOST_QUERIES)))

    with pytest.raises(LimitExceededError, match="at most 1000 saved queries"):
        SavedQueries(path).put(saved_query("one-more", sql="SELECT 1"))
    assert not path.with_name("many.toml.d").exists()


def test_a_damaged_file_of_the_folder_is_named(file: Path) -> None:
    store = SavedQueries(file)
    store.put(saved_query("mine", sql="SELECT 1"))
    damaged = file.with_name("queries.toml.d") / "mine.toml"
    damaged.write_text(damaged.read_text().replace("queries.mine", "queries.other"))

    with pytest.raises(SavedQueryFileError, match=r"mine.toml: expected \[queries.mine\] alone, found other"):
        SavedQueries(file)


# ---- the command line ----


def test_a_saved_query_runs_on_the_command_line(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ["--savepoint", f"native={NATIVE}", "--format", "csv"]
    run: Callable[..., int] = lambda *words: main(["query", *words, *options])  # noqa: E731
    monkeypatch.setenv("SAVEPOINTDB_SAVED_QUERIES", str(file))

    assert run("--saved", "count-of", "--param", "key=key_662") == 0
    assert capsys.readouterr().out.split() == ['"key","value"', '"key_662",11290']
    assert run("SELECT value FROM aggregate WHERE key = :k", "--param", "k=key_662") == 0
    assert capsys.readouterr().out.split() == ['"value"', "11290"]
    assert (
        main(["query", str(NATIVE), "--saved", "count-of", "--param", "key=key_662", "--format", "csv"]) == 0
    )
    assert capsys.readouterr().out.split() == ['"key","value"', '"key_662",11290']
    assert run("--saved", "count-of") == 1
    assert "expected a value for key" in capsys.readouterr().err
    assert run("--saved", "nothing") == 1
    assert run("SELECT 1", "--saved", "large") == 2
    assert run() == 2
    assert run("--saved", "large", "--param", "least") == 2
    assert run("SELECT 1", "--param", "k=1") == 1
    monkeypatch.delenv("SAVEPOINTDB_SAVED_QUERIES")
    assert run("--saved", "large") == 2
