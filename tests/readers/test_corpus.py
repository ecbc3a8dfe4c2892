"""Every row of savepoints that real Flink wrote, against the values that their jobs put in."""

from __future__ import annotations

from fnmatch import fnmatch

import pytest

from readers.formats.entry import StateKind
from readers.jars.jobclasses import JobClasses
from readers.savepoint import Savepoint
from readers.states import DECODED, RAW, State
from tests.support.expected import Comparison, Snapshot, Treatment, shown_name, snapshots_of
from tests.support.paths import CORPUS, DATA
from tests.support.snapshots import COPIED, needs_corpus
from tests.support.thorough import thorough

# The classes of all these jobs.
JOBS = DATA / "classes" / "jobs.jar"

# Records in flight are compared in the tests of channel state.
ELSEWHERE = ("*/unaligned-*",)

# A class of which the savepoint describes no layout: Kryo stores no field names.
RAW_STATES = ("*/alltypes-*/*/[vlm]_kryo_generic",)

# The jobs' input does not tell what the committer of a Kafka sink keeps.
UNLISTED_STATES = ("*/source-kafka-*/*/streaming_committer_raw_states",)

# What connectors keep is compared in the tests of readers/connectors.
CONNECTOR_STATES = (
    "*/source-*/*/SourceReaderState",
    "*/source-*/*/coordinator",
    "*/source-kafka-*/*/writer_raw_states",
)

# Heap backends serialize with copies of the serializer that the snapshot was taken of, so a subclass that is not
# registered is in the values, but nothing in the savepoint says what its fields are. Such a value is shown as bytes; a
# map of a native heap snapshot that holds one is one row.
UNDESCRIBED_STATES = (
    "*/allstates-*/canonical/split-pojo",
    "*/alltypes-*hashmap/*/[vlm]_pojo",
    "*/alltypes-*hashmap/*/[vlm]_pojo_inner",
    "*/everything-hashmap-savepoints/*/v_pojo",
    "*/everything-hashmap-savepoints/*/v_pojo_subclasses",
)

# One of each layout; the others differ in their version of Flink, or in their job.
FAST = {
    "1.20.3/allstates-hashmap-compressed/canonical",
    "1.20.3/alltypes-hashmap/native",
    "1.20.3/sql-window-hashmap/canonical",
    "1.20.3/wordcount-rocksdb-checkpoint-incremental/chk-2",
    "2.3.0/everything-hashmap-savepoints/canonical",
    "2.3.0/everything-rocksdb-savepoints/native",
}

# RocksDB jobs with timers on the heap: Flink leaves them out of native savepoints.
WITHOUT_TIMERS = ("*/allstates-rocksdb-heaptimers/native",)


def _listed(snapshots: list[Snapshot]) -> list[Snapshot]:
    return [
        snapshot
        for snapshot in snapshots
        if snapshot.expected is not None and not _matches(snapshot.name, ELSEWHERE)
    ]


def _with_undescribed(snapshots: list[Snapshot]) -> list[Snapshot]:
    patterns = tuple(pattern.rsplit("/", 1)[0] for pattern in (*RAW_STATES, *UNDESCRIBED_STATES))
    return [snapshot for snapshot in _listed(snapshots) if _matches(snapshot.name, patterns)]


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)


@pytest.mark.parametrize("snapshot", thorough(_listed(COPIED), FAST), ids=lambda snapshot: snapshot.name)
def test_a_copied_savepoint_holds_what_its_job_put_in(snapshot):
    check(snapshot)


@pytest.mark.slow
@needs_corpus
@pytest.mark.parametrize("snapshot", _listed(snapshots_of(CORPUS)), ids=lambda snapshot: snapshot.name)
def test_a_savepoint_of_the_corpus_holds_what_its_job_put_in(snapshot):
    check(snapshot)


@pytest.mark.slow
@pytest.mark.parametrize("snapshot", _with_undescribed(COPIED), ids=lambda snapshot: snapshot.name)
def test_with_the_classes_of_its_job_a_copied_savepoint_is_decoded_to_its_last_value(snapshot):
    check(snapshot, JobClasses.open([JOBS]))


@pytest.mark.slow
@needs_corpus
@pytest.mark.parametrize("snapshot", _listed(snapshots_of(CORPUS)), ids=lambda snapshot: snapshot.name)
def test_with_the_classes_of_its_job_a_savepoint_of_the_corpus_is_decoded_to_its_last_value(snapshot):
    check(snapshot, JobClasses.open([JOBS]))


def check(snapshot: Snapshot, jars: JobClasses | None = None) -> None:
    savepoint = Savepoint(snapshot.directory, jars=jars)
    states = [
        (snapshot.label(operator), state) for operator in savepoint.operators for state in operator.states
    ]
    treatment = _treatment if jars is None else _treatment_with_jars
    treatments = {(label, shown_name(state)): treatment(snapshot, state) for label, state in states}
    comparison = Comparison(snapshot=snapshot, treatments=treatments)

    decoded = comparison.decoded(savepoint)
    expected = comparison.expected()
    if _matches(snapshot.name, WITHOUT_TIMERS):
        expected = type(expected)(
            {row: count for row, count in expected.items() if '"kind": "timer"' not in row}
        )

    assert list((expected - decoded).elements())[:5] == [], "missing"
    assert list((decoded - expected).elements())[:5] == [], "not expected"
    savepoint.close()


def _treatment_with_jars(snapshot: Snapshot, state: State) -> Treatment:
    """Return how the rows of a state are compared where all classes are known."""
    name = f"{snapshot.name}/{shown_name(state)}"
    if _matches(name, UNLISTED_STATES):
        return Treatment.UNLISTED
    assert state.status == DECODED or "_undecoded" not in state.schema.names, f"{name}: {state.note}"
    return Treatment.COUNT if _matches(name, CONNECTOR_STATES) else Treatment.VALUES


def _treatment(snapshot: Snapshot, state: State) -> Treatment:
    """Return how the rows of a state are compared: by value, unless the state is listed above."""
    name = f"{snapshot.name}/{shown_name(state)}"
    assert (state.status == RAW) == _matches(name, RAW_STATES), f"{name} is {state.status}: {state.note}"
    if _matches(name, UNDESCRIBED_STATES):
        whole_maps = state.kind is StateKind.MAP and state.backend == "hashmap"
        return Treatment.COUNT if whole_maps else Treatment.UNDESCRIBED
    if _matches(name, UNLISTED_STATES):
        return Treatment.UNLISTED
    return Treatment.COUNT if _matches(name, (*RAW_STATES, *CONNECTOR_STATES)) else Treatment.VALUES
