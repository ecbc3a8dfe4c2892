"""What changes in a savepoint: operators that go, operators with another uid.

An edit takes the metadata and returns other metadata. It writes no file: new bytes stand in the metadata, as `NewBytes`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

from readers import SavepointLocation, operator_id_of
from readers import metadata as model
from writers.errors import RefusedEditError
from writers.metadata.writer import NAMES_SINCE, PROPERTIES_SINCE
from writers.warnings import RestoreWarning

# Since which release of Flink, newest first → the newest version of `_metadata` that it reads.
_NEWEST_VERSIONS = (((2, 1), 6), ((2, 0), 5), ((1, 16), 4), ((1, 11), 3))
# Since this release canonical key groups have a handle of their own, in the same version of `_metadata` as before.
FIRST_WITH_SAVEPOINT_HANDLES = (1, 13)


def newest_version(release: tuple[int, int]) -> int:
    """Return the newest version of `_metadata` that a release of Flink reads.

    Raises:
        RefusedEditError: none that is written here.
    """
    newest = next((version for since, version in _NEWEST_VERSIONS if release >= since), None)
    if newest is None:
        raise RefusedEditError(
            "expected Flink {}.{} or later, found {}.{}".format(*_NEWEST_VERSIONS[-1][0], *release)
        )
    return newest


class Edit(ABC):
    """One change of a savepoint's metadata."""

    @abstractmethod
    def applied(
        self, metadata: model.SavepointMetadata, source: SavepointLocation
    ) -> model.SavepointMetadata:
        """Return the metadata after the change.

        Args:
            metadata: before the change.
            source: opens the files of the source savepoint.

        Raises:
            RefusedEditError: Flink would not restore the result, or lose state.
        """

    @property
    def warnings(self) -> tuple[RestoreWarning, ...]:
        """What is to be known of the result before it is made."""
        return ()


@dataclass(frozen=True, slots=True)
class DropOperator(Edit):
    """Leave out an operator: a job that has it starts it without state."""

    operator_id: str

    def applied(
        self, metadata: model.SavepointMetadata, source: SavepointLocation
    ) -> model.SavepointMetadata:
        find_operator(metadata, self.operator_id)
        return replace(
            metadata,
            operators=tuple(one for one in metadata.operators if one.operator_id != self.operator_id),
        )


@dataclass(frozen=True, slots=True)
class RenameOperator(Edit):
    """Give an operator a uid: the job's operator with this uid gets its state. Flink: StreamGraphHasherV2."""

    operator_id: str
    uid: str

    def applied(
        self, metadata: model.SavepointMetadata, source: SavepointLocation
    ) -> model.SavepointMetadata:
        operator = find_operator(metadata, self.operator_id)
        if not self.uid:
            raise RefusedEditError("expected a uid, found an empty text")
        operator_id = operator_id_of(self.uid)
        for other in metadata.operators:
            if other.operator_id == operator_id and other is not operator:
                raise RefusedEditError(
                    f"the savepoint has an operator with the uid {self.uid!r} already ({operator_id}): "
                    "Flink would give both states to one operator"
                )
        # Versions before 5 store the id of the uid, and not the uid.
        uid = self.uid if metadata.version >= NAMES_SINCE else None
        renamed = replace(operator, operator_id=operator_id, uid=uid)
        return with_operator(metadata, operator, renamed)


@dataclass(frozen=True, slots=True)
class ForFlink(Edit):
    """Write `_metadata` in a version that a release of Flink reads: the source's, or an older one without names and uids.

    Attributes:
        release: major and minor number.
    """

    release: tuple[int, int]

    def applied(
        self, metadata: model.SavepointMetadata, source: SavepointLocation
    ) -> model.SavepointMetadata:
        newest = newest_version(self.release)
        if metadata.version <= newest:
            return metadata
        operators = metadata.operators
        if newest < NAMES_SINCE:
            operators = tuple(replace(one, name=None, uid=None) for one in operators)
        return replace(
            metadata,
            version=newest,
            operators=operators,
            properties=metadata.properties if newest >= PROPERTIES_SINCE else None,
        )


@dataclass(frozen=True, slots=True)
class WithNewerFlink(Edit):
    """Write `_metadata` in the newest version that a release of Flink reads, as a savepoint of its own: the source's is older.

    The version says which Kryo wrote the objects of a savepoint, so it must be that of the Flink whose Kryo they are written for.

    Attributes:
        release: major and minor number.
    """

    release: tuple[int, int]

    def applied(
        self, metadata: model.SavepointMetadata, source: SavepointLocation
    ) -> model.SavepointMetadata:
        newest = next((version for since, version in _NEWEST_VERSIONS if self.release >= since), 0)
        if metadata.version >= newest:
            return metadata
        if metadata.version < PROPERTIES_SINCE:
            raise RefusedEditError(
                f"expected a savepoint of Flink 1.16 or later, found `_metadata` of version {metadata.version}, which has no "
                "properties: let a later Flink take a new savepoint"
            )
        return replace(metadata, version=newest)


def with_plain_key_groups(metadata: model.SavepointMetadata) -> model.SavepointMetadata:
    """Return the metadata with the handles of canonical key groups that Flink 1.11 and 1.12 read, and later Flinks with RocksDB."""

    def plain(handle: model.KeyedStateHandle | None) -> model.KeyedStateHandle | None:
        if not isinstance(handle, model.KeyGroupsSavepointStateHandle):
            return handle
        return model.KeyGroupsStateHandle(
            key_group_range=handle.key_group_range, offsets=handle.offsets, delegate=handle.delegate
        )

    def changed(subtask: model.SubtaskState) -> model.SubtaskState:
        return replace(subtask, managed_keyed_state=plain(subtask.managed_keyed_state))

    operators = (replace(one, subtasks=tuple(map(changed, one.subtasks))) for one in metadata.operators)
    return replace(metadata, operators=tuple(operators))


@dataclass(frozen=True, slots=True, kw_only=True)
class NewBytes(model.ByteStreamStateHandle):
    """Bytes that no file has yet: `writers.files` decides whether they stay in `_metadata`."""


def with_operator(
    metadata: model.SavepointMetadata, old: model.OperatorState, new: model.OperatorState
) -> model.SavepointMetadata:
    """Return the metadata with another operator in the place of `old`."""
    return replace(metadata, operators=tuple(new if one is old else one for one in metadata.operators))


def find_operator(metadata: model.SavepointMetadata, operator_id: str) -> model.OperatorState:
    """Return the operator of an id.

    Raises:
        RefusedEditError: there is none.
    """
    for operator in metadata.operators:
        if operator.operator_id == operator_id:
            return operator
    raise RefusedEditError(f"expected an operator {operator_id}, found none: an earlier statement removed it")
