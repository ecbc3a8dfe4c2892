"""Paths → what is there, told apart by content: `against_of`. Plans and stateInfo files are read here.

A job plan is that of Flink's REST API, which lists the heads of chains with their parallelism, or a compiled SQL plan, which lists uids.

A stateInfo file has the operators, and the names and types of their states. Types stand there by their names: one that has the name of
the old type is taken for unchanged, another one is compared where its name alone tells its layout, as `Long` or `List<String>` do.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import readers
from doctor.against.jars import JarAgainst
from doctor.against.savepoint import SavepointAgainst
from doctor.job import Against, Fact, FlinkVersion, Job, JobOperator, JobState
from doctor.report import Risk
from doctor.rules.rule import note_of
from doctor.rules.untold import OPERATOR_UNLISTED, TYPE_UNKNOWN, TYPES_BY_NAME

_METADATA = readers.MAGIC.to_bytes(4, "big")
_METADATA_FILE = "_metadata"
_ZIP = b"PK\x03\x04"
_KINDS = "a savepoint, a jar, a job plan or a stateInfo file"
Path = str | os.PathLike[str]


class PlanAgainst(Against):
    """A plan of the new job.

    Args:
        path: a local file.

    Raises:
        MissingFileError: it does not exist.
        CorruptDataError: it is no job plan.
    """

    order = 5

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.fspath(path)
        self._plan = readers.load_job_plan(path)

    @property
    def description(self) -> str:
        return self._path

    def inform(self, new: Job, old: Job, flink: FlinkVersion) -> Job:
        operators = dict(new.operators)
        for operator_id, planned in self._plan.items():
            known = operators.get(operator_id)
            if known is not None:
                # The savepoint of the new job may be of a test with fewer subtasks.
                operators[operator_id] = replace(known, parallelism=planned.parallelism or known.parallelism)
            elif Fact.OPERATORS not in new.knows and (planned.chain or operator_id in old.operators):
                operators[operator_id] = JobOperator(
                    operator_id=operator_id,
                    uid=planned.uid,
                    name=planned.name,
                    parallelism=planned.parallelism,
                )
        knows = new.knows | {Fact.PARALLELISM}
        if _is_whole(self._plan):
            return replace(new, knows=knows | {Fact.OPERATORS}, operators=operators)
        risks = () if Fact.OPERATORS in new.knows else tuple(unlisted(old, operators))
        return replace(new, knows=knows, operators=operators, risks=new.risks + risks)


def unlisted(old: Job, operators: dict[str, JobOperator]) -> Iterator[Risk]:
    """Yield a risk for each operator with state that is not among those of the new job that are known."""
    for operator in old.operators.values():
        if operator.has_state and operator.operator_id not in operators:
            yield note_of(OPERATOR_UNLISTED, operator.title)


def _is_whole(plan: readers.JobPlan) -> bool:
    """Return whether every operator of the job is a head, so that the plan has all ids."""
    heads = [planned for planned in plan.values() if planned.chain]
    return bool(heads) and all(planned.chain == 1 for planned in heads)


class StateInfoAgainst(Against):
    """A stateInfo file of the new job.

    Args:
        path: a local file.

    Raises:
        MissingFileError: it does not exist.
        CorruptDataError: it is no stateInfo file.
        UnsupportedVersionError: it is of a later version.
    """

    order = 5

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.fspath(path)
        self._info = readers.load_state_info(path)

    @property
    def description(self) -> str:
        return self._path

    def inform(self, new: Job, old: Job, flink: FlinkVersion) -> Job:
        # The savepoint of the new job tells all of it, and more.
        if Fact.STATES in new.knows:
            return new
        risks: list[Risk] = []
        operators = dict(new.operators)
        for operator in old.operators.values():
            info = self._info.operators.get(operator.operator_id)
            known = new.operators.get(operator.operator_id)
            if info is not None:
                operators[operator.operator_id] = _described(operator, info, known, risks)
        if Fact.OPERATORS not in new.knows:
            listed = {
                operator_id: JobOperator(operator_id=operator_id) for operator_id in self._info.operators
            }
            risks += unlisted(old, listed)
        return replace(
            new,
            knows=new.knows | {Fact.STATES, Fact.MAX_PARALLELISM},
            operators=operators,
            risks=new.risks + tuple(risks),
        )


def _described(
    old: JobOperator, info: readers.OperatorInfo, known: JobOperator | None, risks: list[Risk]
) -> JobOperator:
    """Return an operator of the new job; what its description does not tell is added to the risks."""
    states = tuple(_states(old, info, risks))
    key = _type(old.key, info.key, old.title, risks)
    return JobOperator(
        operator_id=old.operator_id,
        uid=info.uid or old.uid,
        name=info.name or old.name,
        parallelism=(known and known.parallelism) or info.parallelism,
        max_parallelism=info.max_parallelism,
        has_state=bool(states),
        key=key,
        states=states,
    )


def _states(old: JobOperator, info: readers.OperatorInfo, risks: list[Risk]) -> Iterator[JobState]:
    for state in old.states:
        # Timers and connectors' own bytes have no types of the job: the file need not have them.
        listed = info.state(state.name, state.entry.kind)
        if listed is None:
            if state.entry.value is None:
                yield state
            continue
        yield _state(state, listed, f"{state.name} of {old.title}", risks)


def _state(old: JobState, info: readers.StateInfo, title: str, risks: list[Risk]) -> JobState:
    entry = old.entry
    inner = entry.value.value if isinstance(entry.value, readers.TtlSerializer) else entry.value
    value = _type(inner, info.value, title, risks)
    has_ttl = entry.ttl if info.ttl is None else info.ttl
    if value is not None and has_ttl:
        value = (
            replace(entry.value, value=value)
            if isinstance(entry.value, readers.TtlSerializer)
            else readers.TtlSerializer(value=value)
        )
    changed = replace(
        entry,
        kind=info.kind,
        namespace=_type(entry.namespace, info.namespace, title, risks),
        map_key=_type(entry.map_key, info.map_key, title, risks),
        value=value,
    )
    return replace(old, entry=changed)


def _type(
    old: readers.Serializer | None, info: readers.TypeInfo | None, title: str, risks: list[Risk]
) -> readers.Serializer | None:
    """Return the type of the new job: the old one where it has its name, or where the name alone does not tell another."""
    if old is None or info is None or info.type is None:
        return old
    if info.type == old.type_name:
        # The name of a basic type, or of a collection of these, tells its layout.
        if _named(info.type) is None:
            risks.append(note_of(TYPES_BY_NAME, f"{old.type_name}, {title}"))
        return old
    named = _named(info.type)
    if named is None:
        risks.append(note_of(TYPE_UNKNOWN, f"{old.type_name} → {info.type}, {title}"))
    return named or old


def _named(text: str) -> readers.Serializer | None:
    try:
        return readers.type_named(text)
    except readers.UnsupportedSerializerError:
        return None


def against_of(
    paths: Sequence[Path],
    *,
    roots: Iterable[str] = (),
    path_map: Mapping[str, str] | None = None,
    options: readers.StorageOptions = readers.DEFAULT_OPTIONS,
) -> tuple[Against, ...]:
    """Return what is known of a new job by files and savepoints of it.

    Args:
        paths: of savepoints, local or remote; of local jars, folders of jars, job plans and stateInfo files.
        roots: more directories that the savepoints may refer to.
        path_map: recorded path prefixes of the savepoints and the present ones.
        options: how files of savepoints are reached.

    Raises:
        ReaderError: nothing is at a path, or something else.
    """
    found: list[Against] = []
    jars: list[Path] = []
    for path in paths:
        inside = _jars_in(path)
        if inside:
            jars += inside
            continue
        start = _start_of(path)
        if start is None or start == _METADATA:
            found.append(
                SavepointAgainst(readers.Savepoint(path, roots=roots, path_map=path_map, options=options))
            )
        elif start == _ZIP:
            jars.append(path)
        else:
            found.append(_recognised(path))
    # Several jars are one class path.
    return (*found, JarAgainst(*jars)) if jars else tuple(found)


def _recognised(path: Path) -> Against:
    """Return the plan, or the stateInfo file, at a path: both are JSON."""
    try:
        return StateInfoAgainst(path)
    except readers.CorruptDataError as no_state_info:
        try:
            return PlanAgainst(path)
        except readers.CorruptDataError as error:
            data = readers.read_bounded(path, _KINDS).lstrip()
            if not data.startswith(b"{"):
                raise readers.NotASavepointError(
                    f"expected {_KINDS}, found another file", path=os.fspath(path)
                ) from error
            # Of the two errors, that of the kind which it is.
            raise (no_state_info if b'"operators"' in data else error) from error


def _jars_in(path: Path) -> list[Path]:
    """Return the jars of a local folder, by name; none where it is a savepoint, or elsewhere."""
    folder = os.fspath(path)
    if "://" in folder or not os.path.isdir(folder) or os.path.exists(os.path.join(folder, _METADATA_FILE)):
        return []
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise readers.StorageError(f"expected {_KINDS}, found {error.strerror}", path=folder) from error
    jars: list[Path] = [os.path.join(folder, name) for name in names if name.casefold().endswith(".jar")]
    if not jars:
        raise readers.NotASavepointError(
            f"expected {_KINDS}, found a folder without jars and without {_METADATA_FILE}", path=folder
        )
    return jars


def _start_of(path: Path) -> bytes | None:
    """Return how a local file begins; None for directories and for what is elsewhere."""
    if "://" in os.fspath(path) or os.path.isdir(path):
        return None
    name = os.fspath(path)
    try:
        with open(path, "rb") as file:
            return file.read(len(_METADATA))
    except FileNotFoundError as error:
        raise readers.MissingFileError(f"expected {_KINDS}, found nothing", path=name) from error
    except OSError as error:
        raise readers.StorageError(f"expected {_KINDS}, found {error.strerror}", path=name) from error
