"""`test`: rules over savepoints."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from catalog import Database
from savepointdb.connection import Path, connect
from savepointdb.errors import translated
from savepointdb.results import TestResult
from service.base.errors import InvalidRequestError
from service.query.engines.registry import AUTO
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
