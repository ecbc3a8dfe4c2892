"""The text of a statement → an immediate answer, or a query to run.

| statement | answer |
|---|---|
| a query | its rows |
| EXPLAIN [ANALYZE] query | the engine's plan |
| EXPLAIN (TYPE …, FORMAT …) query | the plan; the tables that it reads, as JSON; or whether it is valid |
| EXECUTE IMMEDIATE, EXECUTE | the answer of the statement with arguments in place of its question marks |
| PREPARE, DEALLOCATE PREPARE | a header: the client keeps prepared statements |
| DESCRIBE INPUT, DESCRIBE OUTPUT | parameters and columns of a prepared statement |
| USE, SET SESSION, RESET SESSION | a header: the client keeps the session |
| START TRANSACTION, COMMIT, ROLLBACK | a header: there is nothing to commit |
| SHOW …, DESCRIBE table | `show.py` |
| CALL system.runtime.kill_query | cancels a query of the same user |

Every other text goes to `service.query.sql`, which alone decides what a query is.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any
from urllib.parse import quote_plus

import orjson
import pyarrow as pa

from catalog import Catalog, CatalogError
from readers import ReaderError
from service.base.errors import (
    DatabaseNotFoundError,
    ForbiddenError,
    InvalidQueryError,
    InvalidRequestError,
    NotSupportedError,
    Position,
    QueryKilledError,
    QuerySyntaxError,
    query_error_of,
)
from service.base.settings import Settings
from service.base.version import installed_version
from service.doors.trino.lexer import Word, arguments_of, names_of, placeholders_of, with_arguments, words_of
from service.doors.trino.session import Session, data_size_bytes, duration_s, is_true
from service.doors.trino.show import SESSION_PROPERTIES, AnswerTable, ShowStatements
from service.doors.trino.systemtables import TrinoTables
from service.query.engines.registry import AUTO
from service.query.running.request import QueryRequest
from service.query.serving.registry import Queries
from service.query.sql.plan import Plan
from service.query.sql.planner import TRINO
from service.query.sql.schemas import CATALOG

_ISOLATION_WORDS = "ISOLATION LEVEL READ WRITE ONLY UNCOMMITTED COMMITTED REPEATABLE SERIALIZABLE ,"
_ISOLATION = frozenset(_ISOLATION_WORDS.split())
_DONE = AnswerTable([("result", pa.bool_())], [(True,)])


class Shape(Enum):
    """The use of a query's rows."""

    ROWS = auto()
    """The rows are the answer."""
    PLAN = auto()
    """The rows are an engine's plan: their last column is the answer."""
    COLUMNS = auto()
    """Names and types of the columns are the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryStatement:
    """A statement that is a query to run."""

    request: QueryRequest
    shape: Shape = Shape.ROWS


@dataclass(frozen=True, slots=True, kw_only=True)
class ImmediateAnswer:
    """The answer of a statement that needs no query.

    Attributes:
        table: columns and rows; one row `true` for statements without rows, because JDBC fails without columns.
        update_type: name of the change, for statements without rows.
        headers: changes of the client's session.
    """

    table: AnswerTable = _DONE
    update_type: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


class Interpreter:
    """Interprets the statements of a session.

    Args:
        catalog: the catalog that they read.
        queries: runs queries.
        settings: limits of queries.
        session: has the current catalog and schema.
        query_id: id for the query of the statement.
    """

    def __init__(
        self, catalog: Catalog, queries: Queries, settings: Settings, session: Session, query_id: str
    ) -> None:
        self.catalog = catalog
        self.queries = queries
        self.settings = settings
        self.session = session
        self.query_id = query_id
        self.tables = TrinoTables(catalog=catalog, queries=queries, session=session)
        self.show_statements = ShowStatements(catalog, self.tables, session)

    def interpret(self, sql: str) -> QueryStatement | ImmediateAnswer:
        """Interpret a text.

        Raises:
            QueryError: the text is a statement about the session, and is not valid.
        """
        words = words_of(sql)
        if not words:
            raise QuerySyntaxError("expected a statement, found none")
        known = _STATEMENTS.get(words[0].keyword)
        try:
            return known(self, sql, words) if known else self._query(sql)
        except (CatalogError, ReaderError) as error:
            raise query_error_of(error) from error

    def _query(self, sql: str, shape: Shape = Shape.ROWS) -> QueryStatement:
        return QueryStatement(request=self._request(sql), shape=shape)

    def _request(self, sql: str) -> QueryRequest:
        properties = self.session.properties
        durations = [
            properties[name]
            for name in ("query_max_run_time", "query_max_execution_time")
            if name in properties
        ]
        size = properties.get("query_max_scan_physical_bytes")
        return QueryRequest(
            sql=sql,
            dialect=TRINO,
            compat=self.settings.queries.compat,
            engine=properties.get("engine", AUTO),
            # Both limit the whole query here: the shorter one holds.
            timeout_s=min(map(duration_s, durations)) if durations else None,
            max_bytes=None if size is None else data_size_bytes(size),
            allow_partial=is_true(properties.get("allow_partial", "false")),
            user=self.session.user,
            principal=self.session.principal,
            source=self.session.source,
            schema=self.session.schema,
            system_tables=self.tables,
            constants={
                "current_user": self.session.user,
                "current_catalog": self.session.catalog or CATALOG,
                "current_schema": self.session.schema or "",
                "version": installed_version(),
            },
            abandoned_after_s=self.settings.queries.abandoned_after_s,
            query_id=self.query_id,
        )

    def _explain(self, sql: str, words: Sequence[Word]) -> QueryStatement | ImmediateAnswer:
        options, body = _explain_options(sql, words)
        kind = options.get("TYPE", "DISTRIBUTED")
        if kind == "VALIDATE":
            # The scans are planned, too.
            _ = self._plan(body).size_bytes
            return ImmediateAnswer(table=AnswerTable([("Valid", pa.bool_())], [(True,)]))
        if kind == "IO":
            return ImmediateAnswer(table=AnswerTable([("Query Plan", pa.string())], [(self._io(body),)]))
        analyze = "ANALYZE " if len(words) > 1 and words[1].keyword == "ANALYZE" else ""
        return self._query(f"EXPLAIN {analyze}{body}", Shape.PLAN)

    def _io(self, sql: str) -> str:
        """Return the tables that a query reads, with estimated sizes, as JSON."""
        inputs: list[dict[str, Any]] = [
            {
                "table": {
                    "catalog": CATALOG,
                    "schemaTable": {"schema": reference.database.name, "table": reference.table.name},
                },
                "columnConstraints": [],
                "estimate": _estimate(reference.table.size_bytes),
            }
            for reference in self._plan(sql).tables
            if reference.database is not None
        ]
        size_bytes = sum(entry["estimate"]["outputSizeInBytes"] for entry in inputs)
        return orjson.dumps({"inputTableColumnInfos": inputs, "estimate": _estimate(size_bytes)}).decode()

    def _plan(self, sql: str) -> Plan:
        return self._request(sql).plan(self.catalog, self.settings.queries.max_sql_bytes)

    def _execute(self, sql: str, words: Sequence[Word]) -> QueryStatement | ImmediateAnswer:
        if len(words) > 2 and words[1].keyword == "IMMEDIATE" and words[2].kind == "string":
            return self._bound(words[2].value, sql, words[3:])
        if len(words) < 2 or not words[1].is_name:
            raise _expected("the name of a prepared statement behind EXECUTE", sql, words)
        return self._bound(self._prepared(words[1].value), sql, words[2:])

    def _bound(self, statement: str, sql: str, words: Sequence[Word]) -> QueryStatement | ImmediateAnswer:
        """Interpret a statement with the arguments behind USING in place of its question marks."""
        if words and words[0].keyword != "USING":
            raise _expected("USING", sql, words)
        arguments = arguments_of(sql, words[1:])
        count = len(placeholders_of(statement))
        if len(arguments) != count or not all(arguments):
            raise InvalidQueryError(
                f"expected {count} arguments behind USING, found {len(arguments)}",
                position=Position.of(sql, 0),
            )
        bound = with_arguments(statement, arguments)
        # A statement that executes itself would never end.
        first = words_of(bound)
        if first and first[0].keyword in ("EXECUTE", "PREPARE", "DEALLOCATE"):
            raise ForbiddenError(f"{first[0].keyword} is not allowed in a prepared statement")
        return self.interpret(bound)

    def _prepared(self, name: str) -> str:
        statement = self.session.prepared.get(name.casefold())
        if statement is None:
            raise InvalidQueryError(f"there is no prepared statement {name!r}", code="NOT_FOUND")
        return statement

    def _prepare(self, sql: str, words: Sequence[Word]) -> ImmediateAnswer:
        if len(words) < 4 or not words[1].is_name or words[2].keyword != "FROM":
            raise _expected("PREPARE name FROM statement", sql, words)
        statement = sql[words[3].start : words[-1].end]
        if words[3].keyword in ("EXECUTE", "PREPARE", "DEALLOCATE"):
            raise ForbiddenError(f"{words[3].keyword} is not allowed in a prepared statement")
        # An invalid query fails here, not later at EXECUTE.
        if words[3].keyword in _QUERY_WORDS:
            self._checked(statement)
        added = f"{quote_plus(words[1].value)}={quote_plus(statement)}"
        return ImmediateAnswer(update_type="PREPARE", headers={"X-Trino-Added-Prepare": added})

    def _checked(self, statement: str) -> str:
        """Return a prepared query with NULL for every parameter.

        Raises:
            QueryError: the query is not valid.
        """
        bound = with_arguments(statement, ["NULL"] * len(placeholders_of(statement)))
        self._plan(bound)
        return bound

    def _deallocate(self, sql: str, words: Sequence[Word]) -> ImmediateAnswer:
        if len(words) != 3 or words[1].keyword != "PREPARE":
            raise _expected("DEALLOCATE PREPARE name", sql, words)
        self._prepared(words[2].value)
        dropped = quote_plus(words[2].value)
        return ImmediateAnswer(update_type="DEALLOCATE", headers={"X-Trino-Deallocated-Prepare": dropped})

    def _describe(self, sql: str, words: Sequence[Word]) -> QueryStatement | ImmediateAnswer:
        if len(words) == 3 and words[1].keyword in ("INPUT", "OUTPUT") and words[2].is_name:
            statement = self._prepared(words[2].value)
            if words[1].keyword == "INPUT":
                return ImmediateAnswer(table=_parameters(len(placeholders_of(statement))))
            if words_of(statement)[0].keyword not in _QUERY_WORDS:
                return ImmediateAnswer(table=AnswerTable(_OUTPUT_COLUMNS, []))
            bound = self._checked(statement)
            # The line break ends a comment at the end of the statement.
            return self._query(f"SELECT * FROM ({bound}\n) AS described LIMIT 0", Shape.COLUMNS)
        return ImmediateAnswer(table=self.show_statements.columns(names_of(sql, words[1:])))

    def _show(self, sql: str, words: Sequence[Word]) -> ImmediateAnswer:
        return ImmediateAnswer(table=self.show_statements.show(sql, words))

    def _start(self, sql: str, words: Sequence[Word]) -> ImmediateAnswer:
        # JDBC without autocommit starts a transaction before its first statement.
        rest = {word.keyword for word in words[2:]}
        if len(words) < 2 or words[1].keyword != "TRANSACTION" or not rest <= _ISOLATION:
            raise _expected("START TRANSACTION", sql, words)
        headers = {"X-Trino-Started-Transaction-Id": str(uuid.uuid4())}
        return ImmediateAnswer(update_type="START TRANSACTION", headers=headers)

    def _end(self, sql: str, words: Sequence[Word]) -> ImmediateAnswer:
        if [word.keyword for word in words[1:]] not in ([], ["WORK"]):
            raise _expected(f"{words[0].keyword} alone", sql, words)
        return ImmediateAnswer(update_type=words[0].keyword, headers={"X-Trino-Clear-Transaction-Id": "true"})

    def _use(self, sql: str, words: Sequence[Word]) -> ImmediateAnswer:
        names = names_of(sql, words[1:])
        if len(names) > 2:
            raise _expected("USE schema or USE catalog.schema", sql, words)
        catalog = names[0] if len(names) == 2 else self.session.catalog or CATALOG
        schema = self.show_statements.schema(catalog, names[-1])
        # The client keeps the session and sends it with its next statement: the service has no session of its own.
        headers = {"X-Trino-Set-Schema": _header(schema)}
        if len(names) == 2:
            headers["X-Trino-Set-Catalog"] = catalog.casefold()
        return ImmediateAnswer(update_type="USE", headers=headers)

    def _set(self, sql: str, words: Sequence[Word]) -> ImmediateAnswer:
        keywords = [word.keyword for word in words]
        if keywords[1:2] != ["SESSION"] or "=" not in keywords:
            raise NotSupportedError("only SET SESSION name = value is supported")
        equals = keywords.index("=")
        name = _property(names_of(sql, words[2:equals]))
        if len(words) != equals + 2 or words[-1].kind not in ("string", "number", "name"):
            raise _expected("a literal behind =", sql, words)
        value = words[-1].value
        SESSION_PROPERTIES[name].check(value)
        return ImmediateAnswer(
            update_type="SET SESSION", headers={"X-Trino-Set-Session": f"{name}={quote_plus(value)}"}
        )

    def _reset(self, sql: str, words: Sequence[Word]) -> ImmediateAnswer:
        if len(words) < 3 or words[1].keyword != "SESSION":
            raise NotSupportedError("only RESET SESSION name is supported")
        name = _property(names_of(sql, words[2:]))
        return ImmediateAnswer(update_type="RESET SESSION", headers={"X-Trino-Clear-Session": name})

    def _call(self, sql: str, words: Sequence[Word]) -> ImmediateAnswer:
        opening = next((index for index, word in enumerate(words) if word.text == "("), len(words))
        names = tuple(name.casefold() for name in names_of(sql, words[1:opening]))
        if names[-2:] != ("runtime", "kill_query") or words[-1].text != ")":
            raise ForbiddenError("only system.runtime.kill_query may be called")
        arguments = [_argument(text) for text in arguments_of(sql, words[opening + 1 : -1])]
        named = {
            name or position: value
            for position, (name, value) in zip(("query_id", "message"), arguments, strict=False)
        }
        query_id = named.get("query_id")
        if query_id is None:
            raise _expected("the argument query_id", sql, words)
        query = self.queries.find(query_id, self.session.principal)
        if query is not None:  # else its answer was already read, or dropped
            message = named.get("message")
            query.cancel(
                QueryKilledError(
                    f"Query killed. {f'Message: {message}' if message else 'No message provided.'}"
                )
            )
        return ImmediateAnswer(update_type="CALL")


def _explain_options(sql: str, words: Sequence[Word]) -> tuple[dict[str, str], str]:
    """Return the options of EXPLAIN, and the statement behind them."""
    first = 2 if len(words) > 1 and words[1].keyword in ("ANALYZE", "VERBOSE") else 1
    options: dict[str, str] = {}
    # EXPLAIN (SELECT …) is a query in brackets, not a list of options.
    if first + 1 < len(words) and words[first].text == "(" and words[first + 1].keyword in ("TYPE", "FORMAT"):
        closing = next((index for index, word in enumerate(words) if word.text == ")"), len(words))
        for option in arguments_of(sql, words[first + 1 : closing]):
            name, _, value = option.upper().partition(" ")
            options[name] = value.strip()
        first = closing + 1
    if first >= len(words):
        raise _expected("a query behind EXPLAIN", sql, words)
    return options, sql[words[first].start : words[-1].end]


def _estimate(size_bytes: int) -> dict[str, Any]:
    return {
        "outputRowCount": "NaN",
        "outputSizeInBytes": size_bytes,
        "cpuCost": size_bytes,
        "maxMemory": 0,
        "networkCost": 0,
    }


def _argument(text: str) -> tuple[str, str]:
    """Return name and value of an argument of CALL; the name of a positional argument is empty."""
    words = words_of(text)
    if len(words) == 3 and words[1].text == "=>" and words[2].kind == "string":
        return words[0].value.casefold(), words[2].value
    if len(words) == 1 and words[0].kind == "string":
        return "", words[0].value
    raise QuerySyntaxError("expected text as an argument")


def _parameters(count: int) -> AnswerTable:
    columns = [("Position", pa.int64()), ("Type", pa.string())]
    return AnswerTable(columns, [(position, "unknown") for position in range(count)])


def output_columns(names: Sequence[str], types: Sequence[str]) -> AnswerTable:
    """Return the answer of DESCRIBE OUTPUT."""
    return AnswerTable(
        _OUTPUT_COLUMNS,
        [(name, "", "", "", shown, 0, False) for name, shown in zip(names, types, strict=True)],
    )


def _property(names: Sequence[str]) -> str:
    name = names[-1].casefold()
    if len(names) > 2 or name not in SESSION_PROPERTIES:
        raise InvalidRequestError(
            f"there is no session property {'.'.join(names)!r}",
            hint="SHOW SESSION lists them",
            code="INVALID_SESSION_PROPERTY",
        )
    return name


def _header(value: str) -> str:
    """Return a value for a header.

    Raises:
        DatabaseNotFoundError: a header cannot hold it.
    """
    if not value.isprintable() or not value.isascii():
        raise DatabaseNotFoundError("a name with such characters cannot be used: name it in the query")
    return value


def _expected(what: str, sql: str, words: Sequence[Word]) -> QuerySyntaxError:
    return QuerySyntaxError(f"expected {what}", position=Position.of(sql, words[0].start if words else 0))


_OUTPUT_COLUMNS = [
    ("Column Name", pa.string()),
    ("Catalog", pa.string()),
    ("Schema", pa.string()),
    ("Table", pa.string()),
    ("Type", pa.string()),
    ("Type Size", pa.int64()),
    ("Aliased", pa.bool_()),
]
_QUERY_WORDS = frozenset({"SELECT", "WITH", "VALUES", "TABLE", "("})
_Interpret = Callable[[Interpreter, str, Sequence[Word]], QueryStatement | ImmediateAnswer]
_STATEMENTS: dict[str, _Interpret] = {
    "CALL": Interpreter._call,
    "COMMIT": Interpreter._end,
    "DEALLOCATE": Interpreter._deallocate,
    "DESC": Interpreter._describe,
    "DESCRIBE": Interpreter._describe,
    "EXECUTE": Interpreter._execute,
    "EXPLAIN": Interpreter._explain,
    "PREPARE": Interpreter._prepare,
    "RESET": Interpreter._reset,
    "ROLLBACK": Interpreter._end,
    "SET": Interpreter._set,
    "SHOW": Interpreter._show,
    "START": Interpreter._start,
    "USE": Interpreter._use,
}
