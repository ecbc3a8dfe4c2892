"""Aliases: other names by which a database is called, as long as only one database has them.

| alias | of |
|---|---|
| `latest`, `<label>_latest`, `<job>_latest` | the newest savepoint: of all, under the root with that label, of the job in that folder |
| `chk-4`, `jobA/chk-4`, `jobA__chk-4` | a savepoint whose path ends so |
| `prod/jobA/chk-4` | the label and the path, as Flink's own catalog writes them |
| `prod/2026-09-01T12:00:00Z/jobA/chk-4` | the same with the time of `_metadata` |

No folder can take the meaning of another alias away, or of a name: `latest` and `<label>_latest` are fixed, and what begins with
the label of a root is under that root, or is nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import UTC, datetime

from catalog.freshness import LATEST, DatabaseSchema, RootDatabase, Schema, aliases_of, newest_of
from catalog.jobs.grouping import Job
from catalog.naming import SEPARATOR, database_name

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(Z|[+-]\d\d(:?\d\d)?)", re.IGNORECASE)
_JOB_LATEST = f"_{LATEST}"
_NANOSECONDS = 1_000_000_000


def schemas_called(
    name: str, databases: Sequence[RootDatabase], labels: Collection[str], jobs: Callable[[], Sequence[Job]]
) -> list[DatabaseSchema]:
    """Return the databases that an alias in any case may mean: none, one, or several that it does not tell apart.

    Args:
        name: the alias.
        databases: under all roots.
        labels: of all roots.
        jobs: returns the jobs of the databases.
    """
    folded = name.casefold()
    for alias, candidates in aliases_of(databases).items():
        if alias.casefold() == folded:
            return [newest_of(alias, candidates)]
    first, *rest = parts = folded.split("/")
    reserved = {label.casefold() for label in labels}
    if first in reserved:
        return [
            Schema("/".join((one.label, *one.folders)), one.database)
            for one in databases
            if first == one.label.casefold() and _is_at(one, rest)
        ]
    if "/" not in folded and folded.split(SEPARATOR)[0] in {
        database_name(label).casefold() for label in reserved
    }:
        return []
    tails = [
        Schema("/".join(one.tail[-len(parts) :]), one.database)
        for one in databases
        if _ends_with(one, folded, tuple(parts))
    ]
    return [*tails, *_latest_of_jobs(folded, databases, jobs)]


def upstream_name(one: RootDatabase) -> str:
    """Return the name of a database in Flink's State Catalog: label, time of `_metadata`, and path below the root."""
    made = datetime.fromtimestamp(one.modified_ns // _NANOSECONDS, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return "/".join((one.label, *([made] if one.modified_ns else []), *one.folders))


def _is_at(one: RootDatabase, rest: Sequence[str]) -> bool:
    if _folded(one.folders) == tuple(rest):
        return True
    if not rest or not _TIME.fullmatch(rest[0]) or _folded(one.folders) != tuple(rest[1:]):
        return False
    try:
        seconds = datetime.fromisoformat(rest[0].upper()).timestamp()
    except ValueError:
        return False
    return int(seconds) == one.modified_ns // _NANOSECONDS


def _ends_with(one: RootDatabase, folded: str, parts: tuple[str, ...]) -> bool:
    return _folded(one.tail[-len(parts) :]) == parts or one.database.name.casefold().endswith(
        SEPARATOR + folded
    )


def _latest_of_jobs(
    folded: str, databases: Sequence[RootDatabase], jobs: Callable[[], Sequence[Job]]
) -> Iterator[DatabaseSchema]:
    """Yield the newest savepoint of each job whose name is before `_latest`: several jobs may have one title."""
    if not folded.endswith(_JOB_LATEST):
        return
    wanted = folded.removesuffix(_JOB_LATEST)
    rooted = {id(one.database): one for one in databases}
    for job in jobs():
        candidates = [rooted[id(one)] for one in job.databases if id(one) in rooted]
        if candidates and job.is_called(wanted):
            yield newest_of(f"{job.title}{_JOB_LATEST}", candidates)


def _folded(folders: Sequence[str]) -> tuple[str, ...]:
    return tuple(folder.casefold() for folder in folders)
