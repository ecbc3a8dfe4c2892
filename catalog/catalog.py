"""`Catalog`: the databases under all roots, by name and by alias."""

from __future__ import annotations

import contextlib
import copy
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from catalog import errors
from catalog.aliases import (
    LATEST,
    AnySchema,
    DatabaseSchema,
    Schema,
    aliases_of,
    schemas_called,
    upstream_name,
)
from catalog.cache.states import StateCache
from catalog.database import Database
from catalog.history import HISTORY, Histories, HistoryDatabase, Job, jobs_of
from catalog.references import SEPARATOR, JobFacts, KnownFacts, Root
from catalog.roots import (
    DatabaseSource,
    KnownDatabases,
    OpeningOptions,
    RootDatabases,
    VisibleDatabases,
    savepoint_version,
)
from catalog.table import Table
from readers import DEFAULT_OPTIONS, ReaderError, StorageOptions

if TYPE_CHECKING:
    from catalog.masks.masks import Masks

__all__ = ["Catalog", "Root", "connect"]

# On an object store each `_metadata` is a request that mostly waits.
_READERS = 16


class Catalog:
    """All databases under some roots. Safe to share between threads.

    Args:
        roots: where to look.
        allowed_roots: more directories that savepoints may refer to.
        path_map: recorded path prefixes and the present ones.
        uids: uids of operators of which savepoints store only the ids.
        state_info: a `stateInfo` file in place of those beside the savepoints.
        jars: jars of the job, whose classes say how objects are laid out that the savepoints do not describe.
        rescan_after_s: seconds after which a request looks at the roots again; None for never.
        allow_missing_roots: whether roots may be missing as long as one is there; the log names them.
        cache: of decoded states; None for none.
        options: how files are reached.
        masks: by their names.

    Raises:
        NotASavepointError: a root does not exist.
        ConflictingRootsError: two roots have one label, or one is inside another.
    """

    def __init__(
        self,
        roots: Iterable[Root] = (),
        *,
        allowed_roots: Sequence[str] = (),
        path_map: Mapping[str, str] | None = None,
        uids: Sequence[str] = (),
        state_info: str | os.PathLike[str] | None = None,
        jars: Sequence[str | os.PathLike[str]] = (),
        rescan_after_s: float | None = None,
        allow_missing_roots: bool = False,
        cache: StateCache | None = None,
        options: StorageOptions = DEFAULT_OPTIONS,
        masks: Mapping[str, Masks] | None = None,
    ) -> None:
        self.cache = cache
        self._masks = masks or {}
        self._facts = KnownFacts()
        opening = OpeningOptions(
            allowed_roots=tuple(allowed_roots),
            path_map=tuple(sorted((path_map or {}).items())),
            uids=tuple(uids),
            state_info="" if state_info is None else os.fspath(state_info),
            jars=tuple(os.fspath(jar) for jar in jars),
            cache=cache,
            storage=options,
            facts=self._facts,
        )
        self._source: DatabaseSource = RootDatabases(
            roots, opening, rescan_after_s, allow_missing=allow_missing_roots
        )
        self._kept_aliases: dict[str, DatabaseSchema | None] | None = None

    @classmethod
    def of(cls, databases: Iterable[Database], names: Mapping[str, Database | None] | None = None) -> Catalog:
        """Return the catalog of databases that are known already, under their own names.

        Args:
            databases: the databases.
            names: more databases by names in lower case that only this catalog has, None for a name without a database; they are
                not listed, and hide databases and aliases of these names.
        """
        made = cls()
        made._source = KnownDatabases(databases, names or {})
        return made

    def known(self) -> list[Database]:
        """Return all databases; opens none."""
        return self._source.all()

    def refresh(self) -> None:
        """Look at the roots again: new savepoints appear, removed ones disappear; opens none of the others.

        Raises:
            ReaderError: a root is missing or cannot be listed; the databases stay as they were.
        """
        self._source.refresh()

    @property
    def databases(self) -> list[str]:
        """The names of the databases; `schemas` has the aliases, too."""
        return [database.name for database in self._source.all()]

    # ---- jobs ----

    def jobs(self) -> list[Job]:
        """Return the jobs of all databases, by their paths; opens no savepoint."""
        return jobs_of(self._source.all(), self._facts)

    def job(self, name: str) -> Job:
        """Return a job by its name, its id, or its title if no other job has it, in any case.

        Raises:
            NoSuchJobError: near names in the error.
            AmbiguousJobError: several jobs have this title.
        """
        jobs = self.jobs()
        folded = name.casefold()
        found = (
            [job for job in jobs if job.name == name]
            or [job for job in jobs if job.name.casefold() == folded]
            or [job for job in jobs if job.is_called(folded)]
        )
        if len(found) > 1:
            raise errors.AmbiguousJobError(name, [job.name for job in found])
        if not found:
            raise errors.NoSuchJobError(name, [word for job in jobs for word in (job.name, job.title)])
        return found[0]

    def learn(self, facts: JobFacts) -> None:
        """Replace what is known of a job of a cluster of Flink; catalogs of some of its databases learn it, too."""
        self._facts.learn(facts)

    def facts_of(self, job: Job) -> JobFacts | None:
        """Return what a cluster of Flink says of a job; None if none does."""
        return self._facts.of_job(database.path for database in job.databases)

    def history(self, job: Job) -> HistoryDatabase:
        """Return the tables of all checkpoints of a job; opens no savepoint."""
        return self._histories.of(job)

    @cached_property
    def _histories(self) -> Histories:
        return Histories()

    @property
    def histories(self) -> list[Schema[HistoryDatabase]]:
        """The histories of the jobs that have several databases; those of all others can be named, too. Opens no savepoint."""
        return [Schema(job.history, self.history(job)) for job in self.jobs() if len(job.databases) > 1]

    def _history_called(self, name: str) -> Schema[HistoryDatabase] | None:
        """Return the history of this name in any case; None if there is none."""
        folded = name.casefold()
        if HISTORY not in folded:
            return None
        jobs = self.jobs()
        found = [job for job in jobs if job.history == name]
        return self._only_history(name, found or [job for job in jobs if job.history.casefold() == folded])

    def _history_of_titled(self, folded: str) -> Schema[HistoryDatabase] | None:
        """Return the history that is called `<title of a job>__history`; None if there is none."""
        title = folded.removesuffix(SEPARATOR + HISTORY)
        if title == folded:
            return None
        return self._only_history(folded, [job for job in self.jobs() if job.is_called(title)])

    def _only_history(self, name: str, jobs: Sequence[Job]) -> Schema[HistoryDatabase] | None:
        if len(jobs) > 1:
            raise errors.AmbiguousDatabaseError(name, [job.history for job in jobs])
        return Schema(jobs[0].history, self.history(jobs[0])) if jobs else None

    # ---- names ----

    def schemas(self) -> list[DatabaseSchema]:
        """Return all databases, then `latest` and `<label>_latest`, if roots hold several databases; not the other aliases."""
        databases = self._source.all()
        aliases = (self._alias(name.casefold()) for name in self._aliases(databases))
        return [*(Schema(one.name, one) for one in databases), *(one for one in aliases if one is not None)]

    def all_schemas(self) -> list[AnySchema]:
        """Return `schemas`, then `histories`."""
        return [*self.schemas(), *self.histories]

    def schemas_named(self, names: Iterable[str]) -> list[AnySchema]:
        """Return those of `all_schemas` that have these names in any case, then the others that are not listed."""
        wanted = {name.casefold(): name for name in names}
        listed = [schema for schema in self.all_schemas() if schema.name.casefold() in wanted]
        others = wanted.keys() - {schema.name.casefold() for schema in listed}
        for folded in sorted(others):
            # A name that means nothing, or several databases, is no schema.
            with contextlib.suppress(errors.NoSuchDatabaseError, errors.AmbiguousDatabaseError):
                listed.append(replace(self.schema(folded), name=wanted[folded]))
        return listed

    @property
    def all_schema_names(self) -> list[str]:
        """The names of `all_schemas`; opens no savepoint."""
        return [*self.schema_names, *(history.name for history in self.histories)]

    @property
    def schema_names(self) -> list[str]:
        """The names of `schemas`; opens no savepoint."""
        databases = self._source.all()
        return [*(database.name for database in databases), *self._aliases(databases)]

    def upstream_names(self) -> list[str]:
        """Return the names that Flink's State Catalog gives to the databases under the roots; opens no savepoint."""
        return [upstream_name(one) for one in self._source.under_roots()]

    def _aliases(self, databases: Iterable[Database]) -> list[str]:
        under_roots = self._source.under_roots()
        # Of a single database `latest` would be but a second name; it still answers to that (`schema`).
        if len(under_roots) < 2:
            return []
        taken = {database.name.casefold() for database in databases}
        return [
            name
            for name, candidates in aliases_of(under_roots).items()
            if name.casefold() not in taken and (name == LATEST or candidates[0].has_latest)
        ]

    def described(self) -> list[Database]:
        """Return all databases after one attempt to read each `_metadata`, several at a time; never reads one twice."""
        databases = self._source.all()
        unread = [database for database in databases if not database.is_described]
        if len(unread) > 1:
            with ThreadPoolExecutor(min(_READERS, len(unread)), thread_name_prefix="catalog") as readers:
                list(readers.map(_describe, unread))
        return databases

    @property
    def default(self) -> Database | None:
        """The only database; None if there are several, or none."""
        names = self.databases
        return self.database(names[0]) if len(names) == 1 else None

    @property
    def latest(self) -> DatabaseSchema | None:
        """The newest database under the roots that can be read: what `latest` stands for; None if there is none under them.

        If none can be read, it is the newest one all the same, and its own error says why.
        """
        return self._alias(LATEST)

    @property
    def newest(self) -> Database | None:
        """The database of `latest`."""
        latest = self.latest
        return None if latest is None else latest.database

    @property
    def implied(self) -> Database | None:
        """The database that is meant where none is named: the only one, or else the newest; None if there is none."""
        return self.default or self.newest

    def database(self, name: str) -> Database:
        """Return a database by name or alias, in any case; its `name` is its own one.

        Raises:
            NoSuchDatabaseError: near names in the error.
            AmbiguousDatabaseError: several databases have this alias.
        """
        return self.database_schema(name).database

    def schema(self, name: str) -> AnySchema:
        """Return the database of a name in any case, the history of that name, or else what an alias stands for, listed or not.

        Raises:
            NoSuchDatabaseError: near names in the error.
            AmbiguousDatabaseError: several databases have this alias, or their names differ only in case.
        """
        found: AnySchema | None = (
            self._named(name)
            or self._history_called(name)
            or self._alias(name.casefold())
            or self._history_of_titled(name.casefold())
        )
        if found is None:
            raise errors.NoSuchDatabaseError(name, near=self.near(name))
        return found

    def database_schema(self, name: str) -> DatabaseSchema:
        """Return what `schema` returns, if that is a database.

        Raises:
            NoSuchDatabaseError: near names in the error.
            AmbiguousDatabaseError: several databases have this alias, or their names differ only in case.
        """
        found = self._named(name) or self._alias(name.casefold())
        if found is None:
            raise errors.NoSuchDatabaseError(name, near=self.near(name))
        return found

    def _named(self, name: str) -> DatabaseSchema | None:
        found = self._source.find(name)
        if len(found) > 1:
            raise errors.AmbiguousDatabaseError(name, [one.name for one in found])
        return Schema(found[0].name, found[0]) if found else None

    def claims(self, name: str) -> bool:
        """Return whether a name in any case is that of a database, or kept for none, so that it can mean nothing else; opens none."""
        try:
            return bool(self._source.find(name))
        except errors.NoSuchDatabaseError:
            return True

    def near(self, name: str) -> tuple[str, ...]:
        """Return the names most like this one; if there are none, those of databases whose last folder is like it."""
        # A history of this name is none where a database is meant.
        others = [one for one in self.all_schema_names if one.casefold() != name.casefold()]
        near = errors.near_names(name, others)
        if near:
            return near
        last: dict[str, list[str]] = {}
        for one in self._source.under_roots():
            last.setdefault(one.tail[-1], []).append(one.database.name)
        return tuple(found for folder in errors.near_names(name, last) for found in last[folder])

    def _alias(self, folded: str) -> DatabaseSchema | None:
        """Return what an alias stands for: always the same if this catalog keeps its aliases."""
        if self._kept_aliases is None:
            return self._current(folded)
        if folded not in self._kept_aliases:
            # Threads of one query may come here at the same time: the first answer holds for all.
            self._kept_aliases.setdefault(folded, self._current(folded))
        return self._kept_aliases[folded]

    def _current(self, folded: str) -> DatabaseSchema | None:
        """Return what an alias stands for now; looks at the roots at once if that was removed since the last look."""
        found = self._called(folded)
        if not all(_is_as_found(schema.database) for schema in found):
            self._source.look_again()
            found = self._called(folded)
        if len(found) > 1:
            raise errors.AmbiguousDatabaseError(folded, [schema.database.name for schema in found])
        return found[0] if found else None

    def _called(self, folded: str) -> list[DatabaseSchema]:
        found = schemas_called(folded, self._source.under_roots(), self._source.labels, self.jobs)
        return list({id(schema.database): schema for schema in found}.values())

    def table(self, name: str) -> Table:
        """Return a table of the default database.

        Raises:
            NoSuchDatabaseError: there are several databases, or none.
            NoSuchTableError: near names in the error.
        """
        default = self.default
        if default is None:
            raise errors.NoSuchDatabaseError("(default)", self.databases)
        return default.table(name)

    def add(self, name: str, path: str) -> Database:
        """Register one savepoint, whether or not it is under a root.

        Raises:
            ReaderError: it cannot be opened.
            InvalidDatabaseNameError: a URL would have to escape the name.
            DuplicateDatabaseError: the name is taken by another path, or a savepoint under a root may get it.
        """
        return self._source.add(name, path)

    def masks(self, name: str) -> Masks:
        """Return the masks of a name.

        Raises:
            NoSuchMaskError: there are none, so that nothing may be shown to whom they are for.
        """
        if name not in self._masks:
            raise errors.NoSuchMaskError(name)
        return self._masks[name]

    def visible(self, sees: Callable[[str], bool], masks: Masks | None = None) -> Catalog:
        """Return this catalog with only those databases for whose names `sees` is True, and with masks in their tables.

        An alias keeps its meaning in the returned catalog: a query that names `latest` twice reads one checkpoint.
        """
        # The source has the locks and the threads; the catalog itself is small enough for a copy a query.
        part = copy.copy(self)
        part._source = VisibleDatabases(self._source, sees, masks)
        part._kept_aliases = {}
        return part


def connect(
    path: str | os.PathLike[str], *, name: str | None = None, roots: Sequence[str] = (), **options: Any
) -> Catalog:
    """Return the catalog of one path: a savepoint, a checkpoint, a `_metadata` file, or a folder that holds several.

    Args:
        path: local or remote.
        name: of the database, if the path is a savepoint; else the label before their names; if not given, that of its folder.
        roots: more directories that savepoints may refer to.
        options: as for `Catalog`.

    Raises:
        NotASavepointError: nothing is there, or no savepoint.
    """
    return Catalog([Root(path=os.fspath(path), label=name or "")], allowed_roots=roots, **options)


def _describe(database: Database) -> None:
    with contextlib.suppress(ReaderError):
        database.describe()


def _is_as_found(database: Database) -> bool:
    """True if a local savepoint is what it was at the last look; always true for remote ones: to ask is a request."""
    reference = database.reference
    return reference.version == savepoint_version(database.path, reference.state_info, reference.jars)
