"""What a comparison is asked; two savepoints → the query that compares them → `Comparison`, or the rows that differ."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain

import pyarrow as pa

from catalog import Catalog, CatalogError, Database, KeyedState, NoSuchTableError
from catalog.errors import near_names
from readers import ReaderError
from service.base import errors
from service.query.encode.formats import columns_of
from service.query.sql.schemas import PREVIOUS, one_before
from service.tasks.task import Context, Exits, RowStream, Task, TaskRequest, option
from service.tasks.time.diff.comparison import (
    KEY_JSON,
    KEY_SCHEMA,
    Comparison,
    compared_key,
    comparison_of,
    gone_or,
    rows_statement,
    states_of_keys,
    states_statement,
    summary_statement,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffRequest(TaskRequest):
    """Two savepoints to compare."""

    before: str = option(
        "name or alias of the database before; `previous`: the one before `after` in its job",
        default=PREVIOUS,
    )
    after: str | None = option("name or alias of the database after; default: the newest", default=None)
    operator: str | None = option(
        "Compare the states of this operator: its uid, name or id.", default=None, metavar="NAME"
    )
    state: str | None = option(
        "Show the rows of this state that differ; also a table such as timers.",
        default=None,
        metavar="NAME",
        only_cli=True,
    )
    key: str | None = option(
        "Show the rows of this key that differ: text, number, or JSON if the key has several fields.",
        default=None,
        only_cli=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Two savepoints that are compared.

    Attributes:
        before, after: the databases.
        operator_id: of the only operator to compare; None for all.
        skipped: savepoints between the two that cannot be read, in sentences.
    """

    before: Database
    after: Database
    operator_id: str | None
    skipped: tuple[str, ...]

    def failure(self, error: errors.QueryError | ReaderError) -> errors.QueryError:
        """Return the error of the comparison for one of its savepoints, which may be gone."""
        return gone_or(errors.query_error_of(error), (self.before, self.after))


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferingRows:
    """The rows of a state, or of a key, that differ.

    Attributes:
        rows: these.
        exit_code: see `Outcome`: 1 if there are some.
    """

    rows: RowStream
    exit_code: int

    def to_dict(self) -> dict[str, object]:
        """See `Outcome`: nothing, because the rows may be too many."""
        return {}

    def lines(self, width: int | None) -> Iterator[str]:
        """See `Outcome`: nothing, because the rows are shown."""
        return iter(())


def run(request: DiffRequest, context: Context) -> Comparison | DifferingRows:
    """Compare two savepoints.

    Raises:
        CatalogError: there is no such database.
        QueryError: there is none before it, or no such operator, state or key; or the query fails.
    """
    compared = compared_of(request, context.catalog)
    for sentence in compared.skipped:
        context.warn(sentence)
    try:
        if request.key is not None:
            return _rows_of_key(compared, request, request.key, context)
        if request.state is not None:
            return _rows_of_state(compared, request.state, context)
        return comparison_by(compared, context)
    except (errors.QueryError, ReaderError) as error:
        raise compared.failure(error) from error


def compared_of(request: DiffRequest, catalog: Catalog) -> Compared:
    """Return what is compared.

    Raises:
        CatalogError: there is no such database.
        DatabaseNotFoundError: there is no savepoint, or none before it.
        TableNotFoundError: there is no such operator.
    """
    after = catalog.newest if request.after is None else catalog.database(request.after)
    if after is None:
        raise errors.DatabaseNotFoundError("expected two savepoints of a job, found none")
    before, skipped = _before(catalog, request.before, after)
    operator_id = None if request.operator is None else _operator_id(request.operator, before, after)
    return Compared(before=before, after=after, operator_id=operator_id, skipped=skipped)


def comparison_by(compared: Compared, context: Context) -> Comparison:
    """Return the comparison that a query of the caller finds.

    Raises:
        QueryError: the query fails.
        ReaderError: a savepoint cannot be read any more.
    """
    statement = summary_statement(compared.before.name, compared.after.name, compared.operator_id)
    found = comparison_of(compared.before, compared.after, context.query(statement), compared.operator_id)
    return replace(found, skipped=compared.skipped)


def _rows_of_state(compared: Compared, name: str, context: Context) -> DifferingRows:
    """Return the differing rows of a table."""
    statement = rows_statement(compared.before.name, compared.after.name, _table(compared, name, context))
    query = context.start(replace(context.asked, sql=statement))
    # A query that has been read to its end has no columns any more.
    columns, schema = query.columns, query.schema

    def batches() -> Iterator[pa.RecordBatch]:
        with query:
            try:
                yield from query.batches()
            except (errors.QueryError, ReaderError) as error:
                raise compared.failure(error) from error

    found = batches()
    first = next(found, None)
    rows = () if first is None else chain([first], found)
    stream = RowStream(columns=columns, schema=schema, batches=rows)
    return DifferingRows(rows=stream, exit_code=int(first is not None))


def _rows_of_key(compared: Compared, request: DiffRequest, key: str, context: Context) -> DifferingRows:
    """Return the differing rows of a key."""
    table = None if request.state is None else _table(compared, request.state, context).casefold()
    states = [
        state
        for state in states_of_keys(compared.before, compared.after)
        if compared.operator_id in (None, state.operator_id) and table in (None, state.table.name.casefold())
    ]
    if not any(_has_key(state, key) for state in states):
        raise errors.InvalidRequestError(
            f"key: no state has keys like {key!r}"
            if states
            else "key: expected a state with keys, found none"
        )
    found = (batch for state in states for batch in compared_key(compared.before, compared.after, state, key))
    first = next(found, None)
    if first is None:
        context.warn(f"the key {key!r} differs in nothing: both have the same of it, or neither has it")
    rows = () if first is None else chain([first], found)
    stream = RowStream(columns=columns_of(KEY_SCHEMA, KEY_JSON), schema=KEY_SCHEMA, batches=rows)
    return DifferingRows(rows=stream, exit_code=int(first is not None))


def _table(compared: Compared, name: str, context: Context) -> str:
    """Return the table of a state, by its name in Flink or that of its table."""
    names = states_statement(compared.before.name, compared.after.name, compared.operator_id)
    rows = context.query(names).to_pylist()
    known = {row["table_name"]: row["state_name"] for row in rows if row["table_name"] is not None}
    folded = name.casefold()
    found = [table for table, state in known.items() if folded in (table.casefold(), state.casefold())]
    if len(found) > 1:
        listed = ", ".join(sorted(found))
        raise errors.InvalidRequestError(
            f"state: {len(found)} states are called {name!r}: {listed}; name one of these"
        )
    if found:
        return str(found[0])
    if compared.operator_id is None:
        for database in (compared.after, compared.before):
            try:
                return database.table(name).name
            except NoSuchTableError:
                continue
    raise errors.InvalidRequestError(
        f"state: there is no state {name!r}",
        hint=errors.near_names_hint(near_names(name, [*known, *known.values()])),
    )


def _has_key(state: KeyedState, text: str) -> bool:
    try:
        state.parse(text)
    except CatalogError:
        return False
    return True


def _before(catalog: Catalog, name: str, after: Database) -> tuple[Database, tuple[str, ...]]:
    """Return the database of a name, which may be that of the one before another, as in SQL."""
    if name.casefold() != PREVIOUS or PREVIOUS in map(str.casefold, catalog.databases):
        return catalog.database(name), ()
    before, skipped = one_before(after, catalog.jobs())
    if before is None:
        raise errors.DatabaseNotFoundError(
            f"there is no savepoint before {after.name!r} in its job that can be read",
            hint="name the savepoint to compare it with",
        )
    return before, skipped


def _operator_id(name: str, before: Database, after: Database) -> str:
    """Return the id of an operator of either database, by any of its names."""
    for database in (after, before):
        try:
            return database.operator_of(name)
        except NoSuchTableError as error:
            near = error.near
    raise errors.TableNotFoundError(
        f"operator: there is no operator {name!r}", hint=errors.near_names_hint(near)
    )


# After an unknown error 1 would say that they differ.
TASK = Task(
    request=DiffRequest,
    run=run,
    has_rows=True,
    exits=Exits(failed=2, unexpected=3, answers=frozenset({0, 1})),
    is_query=True,
)
