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
from service.tasks.test.testing import Brought, TestRequest, prepared, rules_of, subjects_of


def test(
    rules: Path | Sequence[Path] | None,
    path: Path,
    *,
    standard: bool = False,
    rule: Sequence[str] = (),
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
        rule: names of the rules to test, or patterns; empty for all.
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
    is_text = isinstance(rules, str) and "\n" in rules
    with translated():
        request = TestRequest(
            rules=str(rules) if is_text else "",
            standard=standard or rules is None,
            rule=tuple(rule),
            all=all_savepoints,
            fail_on=fail_on,
            engine=engine,
        )
        brought = Brought(files=() if is_text else _files(rules), params=params or {})
        # A mistake in the rules is told before a savepoint is looked for.
        rules_of(request, brought)
    with connect(path, **how) as connection, translated():
        before = None if previous is None else _single(previous, how)
        context = connection.opened.context()
        subjects = subjects_of(request, context.catalog, before)
        report = prepared(request, context, brought).report(subjects)
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


def _files(rules: Path | Sequence[Path] | None) -> list[str]:
    if rules is None:
        return []
    paths = [rules] if isinstance(rules, str | os.PathLike) else rules
    return [os.fspath(path) for path in paths]
