"""`test`: rules over savepoints; `export`: their tables as files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from catalog import Database
from savepointdb.connection import Path, connect
from savepointdb.errors import translated
from savepointdb.exported import ExportResult
from savepointdb.tested import TestResult
from service.base.errors import InvalidRequestError
from service.query.engines.registry import AUTO
from service.tasks.export.files.conversion import PARQUET
from service.tasks.test.files import parse_rules, read_rules, with_params
from service.tasks.test.results import RunReport
from service.tasks.test.rules import Rule, Severity
from service.tasks.test.running import Runner
from service.tasks.test.selection import all_of, newest_ones
from service.tasks.test.standard import standard_rules


def test(
    rules: Path | Sequence[Path] | None,
    path: Path,
    *,
    standard: bool = False,
    params: Mapping[str, Any] | None = None,
    previous: Path | None = None,
    all_savepoints: bool = False,
    fail_on: str = "error",
    engine: str = AUTO,
    **how: Any,  # as connect
) -> TestResult:
    """Test rules on a savepoint, or on the newest one of each job of a folder.

    Args:
        rules: a file of rules, .toml or .sql, several of them, or the text of one in TOML; None for the standard ones.
        path: a savepoint, or a folder with several.
        standard: True to test the rules that come with savepointdb, too.
        params: values of parameters of the rules, by name.
        previous: the savepoint before, if `path` is one savepoint.
        all_savepoints: True to test every savepoint of the folder.
        fail_on: the least severity of a violation that fails: `error`, `warning`, `info`.
        engine: as for `Connection.sql`.
        **how: the other arguments of `connect`, such as `path_map`, `uids`, `threads`.

    Raises:
        InvalidRulesError: a file of rules is not as documented.
        SavepointError: nothing is there, or no savepoint. Savepoints that cannot be read are in the result.
        InvalidRequestError: an argument has a wrong value.
    """
    with translated():
        chosen = with_params(_rules(rules, standard=standard), params or {})
        if fail_on not in set(Severity):
            raise InvalidRequestError(f"expected a severity of {', '.join(Severity)}, found {fail_on!r:.100}")
    with connect(path, **how) as connection, translated():
        catalog, queries = connection.opened.catalog, connection.opened.queries
        before = None if previous is None else _single(previous, how)
        if before is not None and (all_savepoints or len(catalog.databases) > 1):
            raise InvalidRequestError(f"expected one savepoint with previous, found {len(catalog.databases)}")
        subjects = all_of(catalog) if all_savepoints else newest_ones(catalog, before)
        runner = Runner(start=queries.start, rules=chosen, engine=engine)
        report = RunReport(savepoints=tuple(map(runner.run, subjects)), fail_on=Severity(fail_on))
    return TestResult(report)


def export(
    path: Path,
    to: Path,
    format: str = PARQUET,
    *,
    tables: Sequence[str] = (),
    partition_by: str | None = None,
    nanoseconds: str | None = None,
    allow_partial: bool = False,
    engine: str = AUTO,
    namespace: str = "",
    catalog: str = "",
    **how: Any,  # as connect
) -> ExportResult:
    """Write the tables of a savepoint as Parquet files, or all checkpoints of a job as tables of Iceberg or Delta.

    Args:
        path: a savepoint or checkpoint, or a folder with several; of these parquet has the newest.
        to: a folder, or a URL: empty, or an export that goes on.
        format: `parquet`; `iceberg` or `delta`, with a snapshot or version for each checkpoint.
        tables: names, or patterns with `*`; empty for all that do not repeat others.
        partition_by: `_key_group` for a folder for each key group; None for none.
        nanoseconds: `micros`, `bigint` or `text`; None for what the format has.
        allow_partial: whether rows of files that cannot be read are left out; `notes` of the result names them.
        engine: `duckdb` for this machine, `spark`, or `auto`.
        namespace, catalog: of Iceberg and Delta; empty for the job's name, and for a catalog in the folder.
        **how: the other arguments of `connect`, such as `path_map`, `uids`, `threads`.

    Raises:
        ConflictError: something else is there, or it is in a savepoint.
        SavepointError: a savepoint cannot be read.
        InvalidRequestError: an argument has a wrong value.
    """
    with connect(path, **how) as connection:
        return connection.export(
            to,
            format,
            tables=tables,
            partition_by=partition_by,
            nanoseconds=nanoseconds,
            allow_partial=allow_partial,
            engine=engine,
            namespace=namespace,
            catalog=catalog,
        )


def _single(path: Path, how: Mapping[str, Any]) -> Database:
    with connect(path, **how) as connection:
        found = connection.opened.catalog.default
    if found is None:
        raise InvalidRequestError(f"expected one savepoint before, found several: {os.fspath(path)}")
    return found


def _rules(rules: Path | Sequence[Path] | None, *, standard: bool) -> list[Rule]:
    own = standard_rules() if standard or rules is None else []
    if rules is None:
        return own
    if isinstance(rules, str) and "\n" in rules:
        return [*own, *parse_rules(rules, ".toml", "rules")]
    paths = [rules] if isinstance(rules, str | os.PathLike) else rules
    return read_rules([os.fspath(path) for path in paths], own)
