"""A toy engine, added by its line in the registry alone, answers queries.

"I want to add an engine" touches:

    service/query/engines/NAME.py (or NAME/)   the engine: `Engine` and `Execution` of service/query/engines/engine.py
    service/query/engines/registry.py          its line in `ENGINES`
    service/base/settings                     its settings, if it has some
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import httpx
import pyarrow as pa
import pytest

from catalog import Catalog
from catalog.catalog import Root
from service.base.errors import EngineRefusesError, InvalidRequestError, QueryError
from service.base.settings import Settings
from service.cli import parser_of
from service.doors.app import create_app
from service.doors.trino.show import SESSION_PROPERTIES
from service.query.encode.formats import Column
from service.query.engines import registry
from service.query.engines.engine import Cluster, Engine, Execution, Progress
from service.query.engines.registry import ENGINES, RegisteredEngine, Role, open_engines
from service.query.running.request import QueryRequest
from service.query.serving.registry import Queries
from service.query.sql.plan import Plan
from service.query.sql.text import DIALECT
from tests.support.paths import DATA, PROJECT

WORDCOUNT = DATA / "flink" / "2.3.0" / "wordcount-rocksdb-savepoints" / "canonical"
COUNT = "SELECT count(*) AS n FROM w.aggregate__count"


class ToyExecution(Execution):
    """Answers every plan but EXPLAIN with 42."""

    columns = (Column("answer", "BIGINT"),)
    progress = Progress()

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def open(self) -> pa.RecordBatchReader:
        if self._plan.prefix:
            raise EngineRefusesError("the toy explains nothing")
        return pa.table({"answer": pa.array([42], pa.int64())}).to_reader()

    def cancel(self, error: QueryError) -> None:
        """It has ended already."""

    def close(self) -> None:
        """It holds nothing."""


class ToyEngine(Engine):
    name = "toy"
    cluster = Cluster(address="toy://cluster", threshold_bytes=0)

    def __init__(self, settings: Settings, local: Engine) -> None:
        self.settings = settings
        self.local = local

    def execution(self, plan: Plan, max_rows: int | None = None) -> Execution:
        return ToyExecution(plan)

    def close(self) -> None:
        """It holds nothing."""


@pytest.fixture
def role() -> Role:
    return Role.NAMED


@pytest.fixture(autouse=True)
def _toy(role: Role, monkeypatch: pytest.MonkeyPatch) -> None:
    toy = RegisteredEngine("toy", "Toy", role, f"{__name__}:ToyEngine")
    monkeypatch.setattr(registry, "ENGINES", (*ENGINES, toy))


@pytest.fixture(scope="module")
def wordcount() -> Catalog:
    return Catalog([Root(path=str(WORDCOUNT), label="w")])


@pytest.fixture
def queries(wordcount: Catalog) -> Iterator[Queries]:
    settings = Settings()
    with closing(Queries(wordcount, open_engines(settings), settings)) as queries:
        yield queries


def test_a_registered_engine_answers_a_request_that_names_it(queries: Queries) -> None:
    with queries.start(QueryRequest(sql=COUNT, engine="toy")) as query:
        rows = [row for batch in query.batches() for row in batch.to_pylist()]

    assert (query.engine, rows) == ("toy", [{"answer": 42}])


def test_a_named_engine_answers_no_other_request(queries: Queries) -> None:
    with queries.start(QueryRequest(sql=COUNT)) as query:
        rows = [row for batch in query.batches() for row in batch.to_pylist()]

    assert (query.engine, rows) == ("duckdb", [{"n": 1000}])


@pytest.mark.parametrize("role", [Role.CLUSTER])
def test_a_cluster_engine_answers_requests_that_read_more_than_its_threshold(queries: Queries) -> None:
    with queries.start(QueryRequest(sql=COUNT)) as query:
        rows = [row for batch in query.batches() for row in batch.to_pylist()]

    assert (query.engine, rows) == ("toy", [{"answer": 42}])
    assert query.engine_reason.endswith("to read, more than the threshold, 0 B: Toy at toy://cluster")


@pytest.mark.parametrize("role", [Role.CLUSTER])
def test_the_local_engine_answers_what_a_chosen_engine_refuses_as_it_starts(queries: Queries) -> None:
    with queries.start(QueryRequest(sql=f"EXPLAIN {COUNT}")) as query:
        list(query.batches())

    assert query.engine == "duckdb"
    assert query.engine_reason.endswith("Toy at toy://cluster; but the toy explains nothing")


def test_what_a_named_engine_refuses_is_an_error(queries: Queries) -> None:
    with (
        queries.start(QueryRequest(sql=f"EXPLAIN {COUNT}", engine="toy")) as query,
        pytest.raises(EngineRefusesError, match="the toy explains nothing"),
    ):
        list(query.batches())


def test_a_registered_engine_answers_over_http(wordcount: Catalog, serving: Callable[..., Any]) -> None:
    with serving(create_app(Settings().replaced({"workers": 1}), wordcount)) as address:
        response = httpx.post(f"{address}/api/query", json={"sql": COUNT, "engine": "toy"}, timeout=60)

    answer = response.json()
    assert (answer["engine"], answer["rows"]) == ("toy", [[42]])


def test_the_command_line_and_trino_know_a_registered_engine() -> None:
    options = parser_of().parse_args(["query", COUNT, "--savepoint", "x", "--engine", "toy"])

    assert options.engine == "toy"
    SESSION_PROPERTIES["engine"].check("toy")
    with pytest.raises(
        InvalidRequestError, match="expected one of auto, duckdb, spark, scan, toy, found 'other'"
    ):
        SESSION_PROPERTIES["engine"].check("other")


def test_a_request_for_an_unknown_engine_lists_those_that_there_are(queries: Queries) -> None:
    with pytest.raises(InvalidRequestError) as raised:
        queries.start(QueryRequest(sql=COUNT, engine="other"))

    assert raised.value.hint == "engines are auto, duckdb, spark, scan, toy"


def test_the_registry_is_light_to_import() -> None:
    program = "import sys, service.query.engines.registry; print(*sys.modules)"
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    assert {"pyarrow", "duckdb", "sqlglot", "pyspark"} & set(shown.split()) == set()


def test_no_other_module_names_an_engine() -> None:
    """Exceptions: the dialect of SQL that is DuckDB's, and the groups of settings."""
    names = {engine.name for engine in ENGINES}
    dialects = PROJECT / "service" / "doors" / "cli" / "parser.py"
    others = [
        path
        for path in (PROJECT / "service").rglob("*.py")
        if not {"engines", "settings", "spark", "sql"} & set(path.relative_to(PROJECT / "service").parts)
    ]

    assert others
    assert [
        f"{path}:{node.lineno}"
        for path in others
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and node.value in names
        and not (path == dialects and node.value == DIALECT)
    ] == []  # fmt: skip
