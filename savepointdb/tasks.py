"""The use cases of `service.tasks` → functions."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from catalog import Database
from doctor import NEWEST_FLINK
from savepointdb.connection import Path, connect
from savepointdb.errors import translated
from savepointdb.results import (
    BisectResult,
    ConvertResult,
    ExportResult,
    RowsResult,
    SampleResult,
    TaskResult,
    TestResult,
    WriteResult,
)
from savepointdb.values import CallerTables
from service.base.errors import InvalidRequestError
from service.query.engines.registry import AUTO
from service.tasks.copies.export.files.conversion import PARQUET
from service.tasks.registry import TASKS
from service.tasks.task import Outcome, options_of
from service.tasks.time.test.testing import Brought, TestRequest, prepared, rules_of, subjects_of

Parameters = Sequence[Any] | Mapping[str, Any]


def run_task(name: str, path: Path | Mapping[str, Path], **given: Any) -> TaskResult[Any]:
    """Run a use case.

    Args:
        name: a name of `service.tasks.registry.TASKS`.
        path: as for `connect`.
        **given: fields of its request, and other arguments of `connect`; `database` is both.

    Raises:
        QueryError: as the use case says.
    """
    names = {one.name for one in options_of(TASKS[name].load().request)}
    options = {key: value for key, value in given.items() if key in names}
    how = {key: value for key, value in given.items() if key not in names - {"database"}}
    with connect(path, **how) as connection:
        outcome = connection.run(name, **options)
        return RowsResult(outcome) if hasattr(outcome, "rows") else TaskResult(outcome)


def xray(path: Path, *, quick: bool = False, **how: Any) -> TaskResult[Outcome]:
    """Return how much state there is, where, and how much of it is garbage.

    Args:
        path: a savepoint or checkpoint, or a folder with several, of which the newest is looked at.
        quick: True to skip what reads every entry.
        **how: the other arguments of `connect`, such as `path_map`, `uids`, `threads`.

    Raises:
        SavepointError: nothing is there, or no savepoint that can be read.
    """
    return run_task("xray", path, quick=quick, **how)


def lookup(path: Path, key: str | int, *, database: str | None = None, **how: Any) -> RowsResult[Outcome]:
    """Return all states and timers of one key; its rows have values as JSON text, its `tables` with their own types.

    Args:
        path: a savepoint or checkpoint, or a folder with several, of which all are searched.
        key: text, number, or JSON if the key has several fields.
        database: the only one to search, by its name; None for all.
        **how: the other arguments of `connect`, such as `path_map`, `uids`, `threads`.

    Raises:
        SavepointError: nothing is there, or no savepoint that can be read.
        DatabaseNotFoundError: near names in the error.
    """
    found = run_task("lookup", path, key=str(key), database=database, **how)
    assert isinstance(found, RowsResult)
    return found


def inspect(path: Path, *, database: str | None = None, **how: Any) -> RowsResult[Outcome]:
    """Return the states of savepoints as rows: types, sizes, and whether they decode; `tables` has operators and missing files, too.

    Args:
        path: a savepoint or checkpoint, or a folder with several, all of which are shown.
        database: the only one to show, by its name; None for all.
        **how: the other arguments of `connect`, such as `path_map`, `uids`, `threads`.

    Raises:
        SavepointError: nothing is there, or no savepoint that can be read.
        DatabaseNotFoundError: near names in the error.
    """
    found = run_task("inspect", path, database=database, **how)
    assert isinstance(found, RowsResult)
    return found


def mask(path: Path, masks: Path, *, database: str | None = None, **how: Any) -> RowsResult[Outcome]:
    """Return each column of a savepoint, the rule of a file of masks that covers it, and a value before and after.

    Args:
        path: a savepoint or checkpoint.
        masks: the file, `masks.toml`.
        database: the savepoint, by its name, in a folder with several.
        **how: the other arguments of `connect`, such as `path_map`, `uids`, `threads`.

    Raises:
        InvalidRequestError: the file is no file of masks, or names a column that does not exist.
        SavepointError: nothing is there, or no savepoint that can be read.
    """
    found = run_task("mask", path, masks=os.fspath(masks), database=database, **how)
    assert isinstance(found, RowsResult)
    return found


def bisect(
    root: Path,
    sql: str,
    *,
    job: str | None = None,
    start: str | int | None = None,
    end: str | int | None = None,
    check_all: bool = False,
    parameters: Parameters = (),
    engine: str = AUTO,
    **how: Any,  # as connect
) -> BisectResult:
    """Return the first checkpoint of a job for which a query returns a row; asks about log2 of the checkpoints.

    Args:
        root: a folder with the checkpoints of a job, or of several.
        sql: the query; it returns a row if something is wrong. FROM may name files and data frames, as in `Connection.sql`.
        job: the name of the job, if there are several.
        start, end: the oldest and the newest checkpoint to ask: a number, a name or a time; None for all.
        check_all: True to ask every checkpoint. Without it all later ones are taken to have a row once one has.
        parameters, engine: as for `Connection.sql`.
        **how: the other arguments of `connect`, such as `path_map`, `uids`, `threads`.

    Raises:
        InvalidRequestError: there are several jobs, no such job, or no such checkpoint.
        SavepointError: no checkpoint can be read.
        QueryError: the query means nothing, is not allowed, or fails.
    """
    if not isinstance(sql, str):
        raise TypeError(f"expected a query as str, found {type(sql).__name__}")
    about = {"parameters": parameters, "system_tables": CallerTables.of(sql, sys._getframe(1))}
    with connect(root, **how) as connection:
        found = connection.run(
            "bisect",
            about,
            sql=sql,
            job=job,
            start=None if start is None else str(start),
            end=None if end is None else str(end),
            check_all=check_all,
            engine=engine,
        )
    return BisectResult(found)


def write(
    path: Path,
    target: Path | None,
    script: str,
    *,
    dry_run: bool = False,
    files: str = "link",
    flink: str | None = None,
    expect: Mapping[str, int] | None = None,
    engine: str = AUTO,
    parallelism: int = 1,
    max_parallelism: int = 128,
    allow_empty: bool = False,
    **how: Any,  # as connect
) -> WriteResult:
    """Write a new savepoint: one that is there, changed by a script. It is only read.

    Args:
        path: a savepoint or checkpoint, or a folder with several, of which the newest is written from.
        target, script, dry_run, files, flink, expect, engine, parallelism, max_parallelism, allow_empty: as for `Connection.write`.
        **how: the other arguments of `connect`, such as `path_map`, `jars`, `state_info`.

    Raises:
        QueryError: as `Connection.write`.
    """
    with connect(path, **how) as connection:
        return connection.write(
            target,
            script,
            dry_run=dry_run,
            files=files,
            flink=flink,
            expect=expect,
            engine=engine,
            parallelism=parallelism,
            max_parallelism=max_parallelism,
            allow_empty=allow_empty,
        )


def convert(
    path: Path,
    target: Path | None,
    against: Path | Sequence[Path] | None = None,
    flink: str = NEWEST_FLINK,
    *,
    dry_run: bool = False,
    files: str = "link",
    **how: Any,  # as connect
) -> ConvertResult:
    """Rewrite a savepoint for another version of Flink or another job.

    Args:
        path: a savepoint or checkpoint, or a folder with several, of which the newest is converted; it is only read.
        target, against, flink, dry_run, files: as for `Connection.convert`.
        **how: the other arguments of `connect`, such as `path_map`, `jars`, `state_info`.

    Raises:
        ConflictError: the target exists.
        SavepointError: the savepoint, or what it is compared with, cannot be read.
        InvalidRequestError: there is no target, or an argument has a wrong value.
    """
    with connect(path, **how) as connection:
        return connection.convert(target, against, flink, dry_run=dry_run, files=files)


def forget(
    path: Path,
    target: Path | None,
    keys: str,
    *,
    group: Sequence[str] = (),
    masks: str | None = None,
    report: str | None = None,
    verify: bool = False,
    dry_run: bool = False,
    allow_empty: bool = False,
    **how: Any,  # as connect
) -> TaskResult[Outcome]:
    """Write a savepoint without all that belongs to ids, or search one for them.

    Args:
        path: a savepoint or checkpoint; it is only read.
        target: the directory of the new savepoint; it must not exist yet. None is enough for a dry run or a search.
        keys: the path of a CSV file with the ids in its first column; only a first line `key` is a header.
        group: names of groups of columns that have ids; without any the keys of all operators.
        masks: the path of the file with the columns of the groups.
        report: the path of a file for the report, which has no id and no value.
        verify: True to search the new savepoint for the ids, or without a target the savepoint itself.
        dry_run: True to say what would be removed, and write nothing.
        allow_empty: True to write even if nothing of the ids is found.
        **how: the other arguments of `connect`.

    Raises:
        QueryError: nothing belongs to the ids, something may and cannot be read, or the target cannot be written.
    """
    return run_task(
        "forget",
        path,
        target=None if target is None else os.fspath(target),
        keys=keys,
        group=tuple(group),
        masks=masks,
        report=report,
        verify=verify,
        dry_run=dry_run,
        allow_empty=allow_empty,
        **how,
    )


def sample(
    path: Path,
    target: Path | None,
    fraction: float | None = None,
    *,
    seed: str = "0",
    keys: str | None = None,
    where: str | None = None,
    mask: str | None = None,
    group: str | None = None,
    parallelism: int | None = None,
    offsets: str = "keep",
    drop: Sequence[str] = (),
    dry_run: bool = False,
    files: str = "link",
    engine: str = AUTO,
    **how: Any,  # as connect
) -> SampleResult:
    """Write a savepoint with some of the keys: a key is in or out in every state, with its timers and windows.

    Args:
        path: a savepoint or checkpoint, or a folder with several, of which the newest is used; it is only read.
        target: the directory of the new savepoint, or a URL; it must not exist yet. None is enough for a dry run.
        fraction: the share of the keys that stay, above 0 and up to 1.
        seed: another one chooses other keys of a fraction.
        keys: the path of a CSV file of the keys that stay, in place of a fraction.
        where: `table: condition`: the keys of these rows stay.
        mask: the path of a file of masks: the new savepoint has others for the values and keys that it covers.
        group: of columns in that file: a field of a key that belongs to it decides in place of the whole key.
        parallelism: most subtasks that an operator has then; None for those of the source.
        offsets: `latest` drops the state of sources, so that the job's own settings say where they start; `keep`.
        drop: names of operators and of tables of states that go.
        dry_run: True to say what would be written, and write nothing.
        files: how files of operators without keyed state come along: `link`, `copy`, or `reference`.
        engine: makes the new state: `auto`, `local` for this process, or a cluster.
        **how: the other arguments of `connect`, such as `path_map`, `jars`, `state_info`.

    Raises:
        ConflictError: the target exists.
        SavepointError: the savepoint cannot be read.
        InvalidRequestError: no key stays, there is no target, or an argument has a wrong value.
    """
    chosen = {"seed": seed, "keys": keys, "where": where}
    options = {**chosen, "mask": mask, "group": group, "parallelism": parallelism, "offsets": offsets}
    with connect(path, **how) as connection:
        return connection.sample(
            target, fraction, drop=drop, dry_run=dry_run, files=files, engine=engine, **options
        )


def export(
    path: Path,
    to: Path,
    format: str = PARQUET,
    *,
    tables: Sequence[str] = (),
    partition_by: str | None = None,
    nanoseconds: str | None = None,
    mask: Path | None = None,
    allow_partial: bool = False,
    engine: str = AUTO,
    namespace: str = "",
    catalog: str = "",
    **how: Any,  # as connect
) -> ExportResult:
    """Write tables as Parquet files, or all checkpoints of a job as Iceberg or Delta tables.

    Args:
        path: a savepoint or checkpoint, or a folder with several; of these parquet has the newest.
        to: a folder, or a URL: empty, or an export that goes on.
        format: `parquet`; `iceberg` or `delta`, with a snapshot or version for each checkpoint.
        tables: names, or patterns with `*`; empty for all that do not repeat others.
        partition_by: `_key_group` for a folder for each key group; None for none.
        nanoseconds: `micros`, `bigint` or `text`; None for what the format has.
        mask: a file of masks, `masks.toml`; None for the values themselves.
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
            mask=None if mask is None else os.path.expanduser(os.fspath(mask)),
            allow_partial=allow_partial,
            engine=engine,
            namespace=namespace,
            catalog=catalog,
        )


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
