"""How savepoints and states are named for people, and referred to by splits: `database_name`, `SavepointReference`, `StateReference`.

A database is named after its root's label and the folders below the root, whatever else is there, so its name never changes:

| label | folders | name |
|---|---|---|
| `prod` | `jobA/chk-4` | `prod__jobA__chk-4` |
| `prod` | none: the root is the savepoint | `prod` |
| `prod` | `my job/_a__b` | `prod__my~20job__~5fa_~5fb` |

`__` stands between two parts. A part keeps ASCII letters, digits, `-`, `.` and single `_` inside it; each byte (of UTF-8) of
any other character is `~` and two hexadecimal digits, also a `.` at the beginning of a part. So a name needs no escapes in a
URL, two different paths have different names, and no folder is named like a folder under another label. A label of more than
100 characters and a name of more than 200 are cut, and end with `~~` and a hash of the whole.

An operator's table has the operator's uid, else its name, else its id; a state's table is `<operator>__<state>`. Names that
collide get a tail: the operator id, or the kind of the state.

A root without a label has the name of its folder as its label. The names of databases begin with the label, so no two roots
have the same one, in any case, and no root is inside another: a savepoint would have two names. Names are case-insensitive, and quoted
where SQL needs it.

`JobFacts`: what a cluster of Flink says of a job and its checkpoints, and `KnownFacts`, all that a catalog has learned. A path says to
which job a checkpoint belongs, and `_metadata` what is in it. Only the cluster knows the job's name, when a checkpoint was made, and
whether it is still to be kept. The id of a job in a path proves nothing: everybody can name a folder so. A savepoint belongs to a job of
a cluster if the cluster names its path, or another checkpoint in the same folder: Flink makes that folder for the job alone.

A reference is small, can be pickled, and is opened once in each process: `open_savepoint` keeps the savepoints of a process open,
however many scans and splits refer to them.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from itertools import permutations
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

import readers
from catalog.errors import ConflictingRootsError, InvalidDatabaseNameError
from readers import (
    DEFAULT_OPTIONS,
    METADATA_FILE_NAME,
    Location,
    MissingFileError,
    NotASavepointError,
    PathOutsideRootError,
    ReaderError,
    SavepointLocation,
    StorageError,
    StorageOptions,
    absolute,
    given_location,
)

if TYPE_CHECKING:
    from catalog.masks.columns import ColumnNames, MaskedColumns
    from catalog.masks.masks import Masks
    from readers import JobClasses, Savepoint, State


SEPARATOR = "__"
_ESCAPE = "~"
_CUT = "~~"
_LONGEST_LABEL = 100
_LONGEST_NAME = 200
_HASH_DIGITS = 32
# A `_` that is first, last, or behind another would look like a part of the separator; `.` and `..` are steps of a URL's path.
_ESCAPED = re.compile(r"[^A-Za-z0-9_.-]|^\.|^_|_$|(?<=_)_")
_ESCAPES = re.compile(r"(?:~[0-9a-f]{2})+")
_FREE = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*")
# Flink writes the first six digits of the job's id into the name of a savepoint: `savepoint-3f2a91-0c1d2e3f4a5b`.
_SAVEPOINT_OF_JOB = re.compile(r"savepoint-([0-9a-f]{6})-[^-]+")
_CHECKPOINT = re.compile(r"chk-(\d{1,18})")
_JOB_ID = re.compile(r"[0-9a-f]{32}")
# Each keeps the headers that were read, and the state files mapped.
_OPEN_SAVEPOINTS = 64
# All savepoints of a catalog have the same.
_OPEN_JARS = 4
_PATIENCE_S = 5.0  # for a mount that hangs
_MASKED_STATES = 1024


def database_name(label: str, folders: Sequence[str] = ()) -> str:
    """Return the name of the database in some folders below the root with a label."""
    spelled = SEPARATOR.join((_shortened(_spelled(label), _LONGEST_LABEL), *map(_spelled, folders)))
    return _shortened(spelled, _LONGEST_NAME)


def path_of(name: str) -> str:
    """Return the `label/folders` that a name spells; the hash at the end of a cut name stays."""
    return "/".join(
        _ESCAPES.sub(
            lambda found: bytes.fromhex(found[0].replace(_ESCAPE, "")).decode(errors="replace"), part
        )
        for part in name.split(SEPARATOR)
    )


def is_free_name(name: str) -> bool:
    """Return whether a user may choose this name for a database: it has no escapes, and needs none."""
    return len(name) <= _LONGEST_NAME and _FREE.fullmatch(name) is not None


def unique_names(wanted: Iterable[tuple[str, str]]) -> list[str]:
    """Return a name for each (name, tail): the name if only one has it, else with its tail, if need be with a number, too."""
    pairs = list(wanted)
    taken = Counter(name.casefold() for name, _ in pairs)
    return list(_numbered(f"{name}_{tail}" if taken[name.casefold()] > 1 else name for name, tail in pairs))


def _numbered(names: Iterable[str]) -> Iterable[str]:
    # Two operators of one name and tail, or a name that looks like another with its tail: a number decides.
    seen: Counter[str] = Counter()
    for name in names:
        seen[name.casefold()] += 1
        repeated = seen[name.casefold()]
        yield name if repeated == 1 else f"{name}_{repeated}"


def _spelled(part: str) -> str:
    return _ESCAPED.sub(_escaped, part)


def _escaped(match: re.Match[str]) -> str:
    # Names of files that are not UTF-8 are surrogates in Python.
    return "".join(f"{_ESCAPE}{byte:02x}" for byte in match[0].encode(errors="surrogatepass"))


def _shortened(spelled: str, longest: int) -> str:
    if len(spelled) <= longest:
        return spelled
    digest = hashlib.sha256(spelled.encode()).hexdigest()[:_HASH_DIGITS]
    return spelled[: longest - len(_CUT) - _HASH_DIGITS] + _CUT + digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """A folder in which a catalog looks for savepoints.

    Attributes:
        path: a savepoint, or a folder that holds some.
        label: the first part of its databases' names; if empty, the name of the folder.
    """

    path: str
    label: str = ""


def labelled(roots: Sequence[Root]) -> tuple[Root, ...]:
    """Return the roots with their labels.

    Raises:
        InvalidDatabaseNameError: a label has a `/`.
        ConflictingRootsError: two roots have the same label, or one is inside another.
    """
    for root in roots:
        if "/" in root.label:
            raise InvalidDatabaseNameError(f"expected a label without a slash, found {root.label!r}")
    for (one, (place, options)), (other, (above, others)) in permutations(
        zip(roots, _places(roots), strict=True), 2
    ):
        if options == others and place.is_inside(above):
            raise ConflictingRootsError(
                f"expected folders beside each other, found {one.path} inside {other.path}; leave one of them out"
                if place != above
                else f"expected different folders, found {one.path} twice; leave one of them out"
            )
    named = tuple(
        replace(root, label=root.label or _name(savepoint_location(root.path)) or "root") for root in roots
    )
    taken = Counter(root.label.casefold() for root in named)
    alike = [root for root in named if taken[root.label.casefold()] > 1]
    if alike:
        found = ", ".join(f"{root.label!r} of {root.path}" for root in alike)
        raise ConflictingRootsError(
            f"expected a different label for each folder, found {found}",
            list(_suggestions(alike, set(taken))),
        )
    return named


def folders_above(path: str) -> tuple[str, ...]:
    """Return the last two folders of the path of a savepoint, or the only one."""
    location = savepoint_location(path)
    return tuple(name for name in (_name(location.parent), _name(location)) if name)


def savepoint_location(path: str) -> Location:
    """Return the folder of a savepoint, or the file that is one; `path` may name its `_metadata`."""
    location, _ = given_location(path)
    return location.parent if location.name == METADATA_FILE_NAME else location


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlace:
    """The job of a savepoint, as far as the path of the savepoint says.

    Attributes:
        label: of the root, or the name of the database where it is under none.
        folders: of the job, below the root, or of the savepoint if that is the root; empty if the root is that folder.
        title: the name for people: the last folder, or the digits in the name of a savepoint; None if the path has neither.
        job_id: the id of the job, 32 hexadecimal digits; None where no folder has it.
        id_prefix: the first six digits of the id, in the name of a savepoint; None where that has none.
        checkpoint: the number in the name `chk-4`; None where that is another.
    """

    label: str
    folders: tuple[str, ...]
    title: str | None
    job_id: str | None = None
    id_prefix: str | None = None
    checkpoint: int | None = None


def job_place(label: str, folders: Sequence[str], path: str) -> JobPlace:
    """Return the place of the job that wrote a savepoint.

    Args:
        label: of the root.
        folders: from the root to the savepoint; empty if the savepoint is the root.
        path: of the savepoint.
    """
    last = folders_above(path)
    above = last[0] if len(last) > 1 else None
    found = _SAVEPOINT_OF_JOB.fullmatch(last[-1]) if last else None
    if found is not None:
        # A folder of savepoints may have those of many jobs.
        return JobPlace(label=label, folders=tuple(folders), title=found[1], id_prefix=found[1])
    number = _CHECKPOINT.fullmatch(last[-1]) if last else None
    return JobPlace(
        label=label,
        folders=tuple(folders[:-1]),
        title=label if len(folders) == 1 else above,
        job_id=above if above is not None and _JOB_ID.fullmatch(above) else None,
        checkpoint=None if number is None else int(number[1]),
    )


def _name(location: Location) -> str:
    return location.name or location.authority


def _places(roots: Sequence[Root]) -> list[tuple[Location, str]]:
    """Return where roots are, links followed, and the options of their URLs: other options may mean another store."""
    locations = [savepoint_location(root.path) for root in roots]
    followed = links_followed(one.path for one in locations if one.scheme == "file")
    return [
        (one._replace(path=followed[one.path]) if one.scheme == "file" else one, given_location(root.path)[1])
        for root, one in zip(roots, locations, strict=True)
    ]


def links_followed(paths: Iterable[str]) -> dict[str, str]:
    """Return each path of this machine → where its links lead, or the path itself while its mount hangs."""
    found = {path: path for path in paths}

    def follow(path: str) -> None:
        found[path] = os.path.realpath(path)

    # A thread of its own waits for a mount that does not answer, for ever if need be.
    threads = [threading.Thread(target=follow, args=(path,), daemon=True) for path in found]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + _PATIENCE_S
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return dict(found)


def _suggestions(alike: Sequence[Root], taken: set[str]) -> Iterator[str]:
    """Yield `label=PATH` for roots whose labels are alike: the folder above, if that tells them apart, else a number."""
    above = [_name(savepoint_location(root.path).parent) for root in alike]
    counts = Counter(name.casefold() for name in above)
    for number, (root, name) in enumerate(zip(alike, above, strict=True), start=1):
        is_unique = name and counts[name.casefold()] == 1 and name.casefold() not in taken
        yield f"{name if is_unique else f'{root.label}-{number}'}={root.path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFacts:
    """What a cluster says of a checkpoint.

    Attributes:
        checkpoint_id: its number.
        kind: `CHECKPOINT` or `SAVEPOINT`.
        created_at: when it was triggered, in UTC; None if the cluster does not say.
        status: the word of the cluster, such as `COMPLETED`.
    """

    checkpoint_id: int
    kind: str
    created_at: datetime | None = None
    status: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    """What a cluster says of a job.

    Attributes:
        job_id: 32 hexadecimal digits. Clusters that run one job each all call it zeros.
        cluster: the label of the cluster; jobs of two clusters are two jobs, also where they have one id.
        name: of the job.
        state: the word of the cluster, such as `RUNNING`.
        checkpoints: path, as this machine sees it → what the cluster says of the checkpoint there.
        operator_names: operator id → the name in the job graph.
        operator_uids: operator id → the uid, where the cluster says it.
    """

    job_id: str
    cluster: str = ""
    name: str | None = None
    state: str | None = None
    checkpoints: Mapping[str, CheckpointFacts] = field(default_factory=dict)
    operator_names: Mapping[str, str] = field(default_factory=dict)
    operator_uids: Mapping[str, str] = field(default_factory=dict)


class KnownFacts:
    """The newest facts of each job. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # By cluster and id.
        self._jobs: dict[tuple[str, str], JobFacts] = {}
        # Path of a checkpoint → cluster and id of its job, and what is known of it.
        self._checkpoints: dict[str, tuple[tuple[str, str], CheckpointFacts]] = {}
        # Path or folder of checkpoints → cluster and id of each job that made them.
        self._makers: dict[str, frozenset[tuple[str, str]]] = {}

    def learn(self, facts: JobFacts) -> None:
        """Replace what was known of a job."""
        key = facts.cluster, facts.job_id
        found = {_location(path): (key, one) for path, one in facts.checkpoints.items()}
        with self._lock:
            others = {path: one for path, one in self._checkpoints.items() if one[0] != key}
            makers = {place: keys - {key} for place, keys in self._makers.items() if keys - {key}}
            for place in found.keys() | checkpoint_folders(facts.job_id, found):
                makers[place] = makers.get(place, frozenset()) | {key}
            self._jobs = self._jobs | {key: facts}
            self._checkpoints = others | found
            self._makers = makers

    def of_job(self, paths: Iterable[str]) -> JobFacts | None:
        """Return what is known of the only job that made the savepoints at these paths; None for nothing."""
        makers, jobs = self._makers, self._jobs
        places = map(_location, paths) if makers else ()
        keys = {key for place in places for one in (place, folder_of(place)) for key in makers.get(one, ())}
        return jobs[keys.pop()] if len(keys) == 1 else None

    def of_checkpoint(self, path: str) -> CheckpointFacts | None:
        """Return what is known of the checkpoint at a path; None for nothing."""
        known = self._checkpoints
        return known[place][1] if known and (place := _location(path)) in known else None

    def job_id_of(self, path: str) -> str | None:
        """Return the id of the job that the cluster says made the checkpoint at a path; None for none."""
        known = self._checkpoints
        return known[place][0][1] if known and (place := _location(path)) in known else None

    def operator_uids_of(self, path: str, job_id: str | None) -> Mapping[str, str]:
        """Return operator id → uid of the job that made the savepoint at a path.

        Args:
            path: of the savepoint.
            job_id: of the job, as far as the path says it. It is enough here if one cluster has it: a uid counts only for
                the operator whose id is its hash.
        """
        if not self._jobs:
            return {}
        facts = self.of_job((path,))
        found = [facts] if facts else [one for one in self._jobs.values() if one.job_id == job_id]
        return found[0].operator_uids if len(found) == 1 else {}


# For databases that no catalog has: nothing is learned.
NO_FACTS = KnownFacts()


def checkpoint_folders(job_id: str, places: Collection[str]) -> set[str]:
    """Return the folders, called as the job's id, in which Flink keeps the checkpoints at these places."""
    return {folder for folder in map(folder_of, places) if folder.rpartition("/")[2] == job_id}


def folder_of(place: str) -> str:
    """Return the folder that a checkpoint is in."""
    return place.rpartition("/")[0]


def _location(path: str) -> str:
    try:
        return str(savepoint_location(path))
    except ReaderError:
        return path


@dataclass(frozen=True, slots=True)
class SavepointReference:
    """All that is needed to open a savepoint again, in this process or another.

    Attributes:
        path: its directory or `_metadata`.
        roots: more directories that it may refer to.
        path_map: recorded path prefixes and the present ones.
        version: changes when another savepoint is put in its place.
        state_info: a `stateInfo` file in place of that beside it; empty for none.
        jars: jars of the job.
        options: how files are reached.
        masks: what stands in place of values in all tables; None for the values themselves.
    """

    path: str
    roots: tuple[str, ...] = ()
    path_map: tuple[tuple[str, str], ...] = ()
    version: str = ""
    state_info: str = ""
    jars: tuple[str, ...] = ()
    options: StorageOptions = DEFAULT_OPTIONS
    masks: Masks | None = None

    def elsewhere(self) -> SavepointReference:
        """Return the reference for another folder or machine: absolute paths, and the credentials that its URLs name here."""
        path, *roots = map(absolute, (self.path, *self.roots))
        path_map = tuple((recorded, absolute(actual)) for recorded, actual in self.path_map)
        return replace(
            self,
            path=path,
            roots=tuple(roots),
            path_map=path_map,
            state_info=self.state_info and absolute(self.state_info),
            jars=tuple(map(absolute, self.jars)),
            options=self.options.elsewhere([path, *roots, *dict(path_map).values()]),
        )


class OpenSavepoints:
    """The savepoints that this process keeps open: the last ones asked for, and those whose tables somebody uses.

    An open savepoint keeps the errors of its files. One that failed for a reason that may pass, such as the network, is opened
    anew when it is asked for again.
    """

    def __init__(self, most: int) -> None:
        self._place = lru_cache(maxsize=most)(self._new_place)
        self._used: WeakValueDictionary[SavepointReference, Savepoint] = WeakValueDictionary()

    def __call__(self, reference: SavepointReference) -> Savepoint:
        """Return the open savepoint of a reference; opens it once.

        Raises:
            ReaderError: it cannot be opened, or its `state_info` or a jar cannot be read.
        """
        # Readers with masks and readers without them share what is open.
        if reference.masks is not None:
            reference = replace(reference, masks=None)
        place = self._place(reference)
        # One thread opens it, the others wait: each would read the same headers.
        with place.lock:
            known = place.savepoint
            if known is None or known.is_stale:
                try:
                    known = self._used[reference] = place.savepoint = open_anew(reference)
                except ReaderError as error:
                    if known is None:
                        raise
                    # What is open answers better than nothing; the next time for a try comes as after any failure.
                    known.location.note_failure(error)
            return known

    def _new_place(self, reference: SavepointReference) -> _Place:
        return _Place(self._used.get(reference))

    def cache_clear(self) -> None:
        """Forget all, as another process would know nothing."""
        self._place.cache_clear()
        self._used.clear()


class _Place:
    """The place of one open savepoint; empty if it could not be opened."""

    def __init__(self, savepoint: Savepoint | None) -> None:
        self.lock = threading.Lock()
        self.savepoint = savepoint


open_savepoint = OpenSavepoints(_OPEN_SAVEPOINTS)


def open_anew(reference: SavepointReference) -> Savepoint:
    """Return a savepoint that is not kept open.

    Raises:
        ReaderError: it cannot be opened, or its `state_info` or a jar cannot be read.
    """
    return readers.Savepoint(
        reference.path,
        roots=reference.roots,
        path_map=dict(reference.path_map),
        options=reference.options,
        state_info=readers.load_state_info(reference.state_info) if reference.state_info else None,
        jars=_job_classes(reference.jars, reference.version) if reference.jars else None,
    )


@lru_cache(maxsize=_OPEN_JARS)
def _job_classes(jars: tuple[str, ...], _version: str) -> JobClasses:
    return readers.JobClasses.open(jars)


def is_gone(reference: SavepointReference) -> bool:
    """Return whether a savepoint was removed; False where its storage does not say."""
    try:
        SavepointLocation(reference.path, options=reference.options)
    except NotASavepointError:
        return True
    except ReaderError:
        # No network, no permission: that says nothing about the savepoint.
        return False
    return False


@dataclass(frozen=True, slots=True)
class StateReference:
    """All that is needed to find a state again, and to notice that it is another one.

    Attributes:
        savepoint: that it is in.
        operator_id: of its operator.
        number: of the state among those of the operator.
        name: of the state.
        parts: how many it has.
        names: by which masks know its columns; None without masks.
    """

    savepoint: SavepointReference
    operator_id: str
    number: int
    name: str
    parts: int
    names: ColumnNames | None = None

    def elsewhere(self) -> StateReference:
        """Return the reference for another folder or machine."""
        return replace(self, savepoint=self.savepoint.elsewhere())

    @property
    def unmasked(self) -> StateReference:
        """The reference of the values themselves: what the cache keeps."""
        if self.savepoint.masks is None:
            return self
        return replace(self, savepoint=replace(self.savepoint, masks=None), names=None)

    @property
    def masked(self) -> MaskedColumns | None:
        """The masks of its columns; None without masks.

        Raises:
            MaskError: a rule cannot be applied to a column, or a column has no rule and must have one.
            ReaderError: the state cannot be opened.
        """
        return None if self.savepoint.masks is None else _masked(self)

    def state(self) -> State:
        """Return the state; reads the headers of its operator the first time.

        Raises:
            ReaderError: the savepoint cannot be opened, or less of the state than before: on another machine, or later.
        """
        states = _states_of(open_savepoint(self.savepoint), self.operator_id)
        found = states[self.number] if self.number < len(states) else None
        if found is not None and (found.name, len(found.parts)) == (self.name, self.parts):
            return found
        # A file that cannot be opened explains a missing part better than the number of parts does.
        for state in states:
            state.check(readers.Selection())
        raise MissingFileError(
            f"expected the state {self.name!r} in {self.parts} parts, found another", path=self.savepoint.path
        )


@lru_cache(maxsize=_MASKED_STATES)
def _masked(reference: StateReference) -> MaskedColumns:
    masks, names, state = reference.savepoint.masks, reference.names, reference.state()
    assert masks is not None
    assert names is not None
    schema = state.schema
    raw = {name for part in state.parts for name in schema.names if part.entry.is_raw(name)}
    # A namespace that is always null needs no rule.
    if state.entry is not None and isinstance(state.entry.namespace, readers.VoidNamespaceSerializer):
        schema = schema.remove(schema.get_field_index("namespace"))
    return masks.for_table(names.table, schema, names, raw=raw, hides_places=True)


# What the bytes of a state contradict is told with some of these bytes.
_SAY_NO_VALUE = (MissingFileError, StorageError, PathOutsideRootError, NotASavepointError)


@contextlib.contextmanager
def masked_errors(reference: SavepointReference) -> Iterator[None]:
    """Keep what errors say of the bytes of a savepoint from readers with masks."""
    try:
        yield
    except _SAY_NO_VALUE:
        raise
    except ReaderError as error:
        if reference.masks is None:
            raise
        raise without_values(error) from None


def without_values(error: ReaderError) -> ReaderError:
    """Return an error that says where it is, and nothing of the bytes there."""
    return type(error)(
        "expected bytes that can be decoded, found others; a mask hides which",
        path=error.path,
        breadcrumbs=error.breadcrumbs,
    )


def _states_of(savepoint: Savepoint, operator_id: str) -> tuple[State, ...]:
    return next(operator.states for operator in savepoint.operators if operator.operator_id == operator_id)
