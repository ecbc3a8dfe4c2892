"""An operator of another savepoint, as it is: its states, timers and types keep their bytes, whatever they are.

`_metadata` describes each operator by itself, so formats, backends and versions of Flink may differ within one savepoint. One backend
must read all of its keyed state:

| keyed state | is restored by |
|---|---|
| canonical | hashmap, rocksdb |
| of hashmap, its own layout | hashmap |
| of rocksdb or forst, its own layout | rocksdb, forst |

RocksDB of Flink 1 does not read files that RocksDB of Flink 2 wrote. A changelog is restored by what restores its base. The version of
`_metadata` says which Kryo wrote objects, so an operator with such objects stays among versions of its Flink: before 2.0, or since.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from readers import (
    KryoSerializer,
    Operator,
    Savepoint,
    SavepointLocation,
    Serializer,
    Source,
    State,
    operator_id_of,
)
from readers import metadata as model
from writers.edits import Edit, HandleElsewhere, check_no_records_in_flight, find_operator
from writers.errors import RefusedEditError, RestoreWarning
from writers.metadata import NAMES_SINCE, provable_metadata, with_leaves

_ALL = frozenset({"hashmap", "rocksdb", "forst"})
_ROCKSDB = frozenset({"rocksdb", "forst"})
# ForSt does not restore canonical savepoints: whoever restores with it is told so where such state is written.
_RESTORED_BY = {
    "canonical": _ALL,
    "changelog": _ALL,
    "hashmap": frozenset({"hashmap"}),
    "rocksdb": _ROCKSDB,
    "forst": _ROCKSDB,
}
_FIRST_OF_FLINK_2 = 5  # version of `_metadata`; Kryo 5 came with it


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeOperator(Edit):
    """Add an operator of another savepoint.

    Attributes:
        operator: the operator there.
        other: that savepoint.
        uid: the uid that it gets, or is known to have; None to keep what that savepoint records.
        source: the savepoint that it is added to.
    """

    operator: Operator
    other: Savepoint
    uid: str | None
    source: Savepoint

    @property
    def title(self) -> str:
        """The operator as people know it."""
        return _title(self.operator)

    @property
    def operator_id(self) -> str:
        """Its id in the new savepoint."""
        return self.operator.operator_id if self.uid is None else operator_id_of(self.uid)

    def applied(
        self, metadata: model.SavepointMetadata, source: SavepointLocation
    ) -> model.SavepointMetadata:
        location = self.other.location
        recorded = find_operator(provable_metadata(location), self.operator.operator_id)
        self._check(recorded, metadata)
        has_names = metadata.version >= NAMES_SINCE
        taken = replace(
            with_leaves(recorded, lambda handle: _elsewhere(handle, location)),
            operator_id=self.operator_id,
            uid=(self.uid or self.operator.metadata.uid) if has_names else None,
            name=recorded.name if has_names else None,
        )
        return replace(metadata, operators=(*metadata.operators, taken))

    def _check(self, recorded: model.OperatorState, metadata: model.SavepointMetadata) -> None:
        for known in metadata.operators:
            if known.operator_id == self.operator_id:
                raise RefusedEditError(
                    f"expected a new operator, found one with the id {known.operator_id} of {self.title} in the savepoint: drop it, "
                    "or give the copy a uid of its own, with TO"
                )
        for unread in self.operator.unread:
            raise RefusedEditError(f"state of {self.title} cannot be read: {unread.error}")
        if recorded.fully_finished or any(one.finished for one in recorded.subtasks):
            raise RefusedEditError(
                f"{self.title} had finished in {self.other.path}: Flink restores finished tasks only with those before them"
            )
        check_no_records_in_flight((recorded,))
        if self.other.metadata.version >= _FIRST_OF_FLINK_2 > metadata.version and self._is_native_rocksdb:
            raise RefusedEditError(
                f"{self.title} is native state of rocksdb, of Flink 2, and the new savepoint is of Flink 1, whose RocksDB does not read "
                "its files (unknown checksum type): take a canonical savepoint of that job"
            )
        check_objects(self.operator.states, self.other.metadata.version, metadata.version)

    @property
    def _is_native_rocksdb(self) -> bool:
        return any(not source.layouts.isdisjoint(("rocksdb", "forst")) for source in self.operator.sources)


def check_objects(states: Iterable[State], old: int, new: int) -> None:
    """Refuse states with objects of another Kryo than that of a new savepoint.

    Args:
        states: the states.
        old, new: the version of `_metadata` in their savepoint, and in the new one.

    Raises:
        RefusedEditError: one has such objects.
    """
    if (old < _FIRST_OF_FLINK_2) == (new < _FIRST_OF_FLINK_2):
        return
    for state in states:
        if state.entry is not None and any(map(_has_objects, state.entry.serializers())):
            raise RefusedEditError(
                f"{state.name} has objects of Kryo, of {_flinks(old)}, and the new savepoint is of {_flinks(new)}, whose Kryo misreads "
                "them: convert the other savepoint first, with savepointdb convert"
            )


def _flinks(version: int) -> str:
    return "Flink 2" if version >= _FIRST_OF_FLINK_2 else "Flink 1"


def _has_objects(serializer: Serializer) -> bool:
    return isinstance(serializer, KryoSerializer) or any(_has_objects(one) for _, one in serializer.children)


def _elsewhere(handle: model.StreamStateHandle, location: SavepointLocation) -> model.StreamStateHandle:
    return handle if handle.inline_data is not None else HandleElsewhere(handle=handle, location=location)


def check_backends(
    metadata: model.SavepointMetadata, taken: Sequence[TakeOperator]
) -> Iterator[RestoreWarning]:
    """Check that a backend reads all keyed state of a savepoint with copied operators; yield which backends no longer do.

    Args:
        metadata: after the edits, which have written some operators anew.
        taken: the copied operators.

    Raises:
        RefusedEditError: none does.
        ReaderError: the header of a state file cannot be read.
    """
    kept = {one.managed_keyed_state for operator in metadata.operators for one in operator.subtasks}
    known = [
        (_title(operator), [source for source in operator.sources if source.recorded in kept])
        for operator in taken[0].source.operators
    ]
    for edit in taken:
        before, own = _common(known), _restored_by(edit.operator.sources)
        if before and not before & own:
            other = next(name for name, sources in known if not _restored_by(sources) & own)
            raise RefusedEditError(
                f"no backend restores the result: {edit.title} is native state of {_listed(own)}, {other} native state of "
                f"{_listed(before)}; take a canonical savepoint of one of the jobs, or change the state of {other} by a statement, which "
                "writes it as canonical"
            )
        if before - own:
            yield RestoreWarning(
                state=edit.title,
                text=f"it is native state of {_listed(own)}: {_listed(before - own)} no longer restores the savepoint",
            )
        known.append((edit.title, list(edit.operator.sources)))


def _common(known: Iterable[tuple[str, Iterable[Source]]]) -> frozenset[str]:
    return _ALL.intersection(*(_restored_by(sources) for _, sources in known))


def _restored_by(sources: Iterable[Source]) -> frozenset[str]:
    """Return the backends that restore the keyed state of all these sources."""
    layouts = (one for source in sources if source.key_serializer is not None for one in source.layouts)
    return _ALL.intersection(*map(_RESTORED_BY.__getitem__, layouts))


def _listed(backends: frozenset[str]) -> str:
    return " and ".join(sorted(backends & {"hashmap", "rocksdb"}))


def _title(operator: Operator) -> str:
    return operator.metadata.uid or operator.metadata.name or operator.operator_id
