"""The edit of an operator's keyed state, and the file that each subtask gets.

| source | a subtask gets |
|---|---|
| canonical, no key group touched | the file of the source |
| canonical, few bytes touched | the file, copied, and the touched key groups behind it |
| canonical | a file: key groups as they are, and the touched ones anew |
| any other layout | a file: all key groups anew |

All subtasks of an operator become canonical: Flink does not rescale an operator with handles of several kinds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from readers import (
    Operator,
    Page,
    RawTimerSource,
    SavepointLocation,
    Selection,
    Source,
    StateKind,
    StateName,
    StateRun,
    StoredGroup,
    StoredGroups,
    StoredHeader,
    is_keyed,
    key_groups_of_subtask,
)
from readers import metadata as model
from writers.changes import StateChanges
from writers.edits import (
    Create,
    DeferredKeyedState,
    Edit,
    KeyedStateMaker,
    find_operator,
    with_operator,
)
from writers.errors import RefusedEditError, RestoreWarning
from writers.evolution import StateAlteration
from writers.keyed.assembly import (
    AddedState,
    AddedStatesMaker,
    EntrySegments,
    KeyGroupAssembler,
    StateFile,
    add_states,
    groups_within,
    made_file,
    page_of,
)
from writers.keyed.carry import (
    AlteredHeader,
    TypeEditor,
    altered_header,
    carrier_of,
    check_carried,
    composed_part,
    state_names,
)
from writers.keyed.masking import RowMask
from writers.keyed.resharding import (
    MOST_KEY_GROUPS,
    ReshardedMaker,
    Resharding,
    SubtaskRanges,
    check_new_subtasks,
)
from writers.keyed.sampling import KeyChoice, kept_raw_timers, raw_key_groups, raw_key_groups_of
from writers.keyed.values import editor_of
from writers.keyed.windows import LateState, WindowWatch, late_states

# A copy of a whole file may share the bytes of the source on disk; more than this share of it is not left behind as waste.
_MOST_WASTE = 1 / 8
_PIECE_BYTES = 4 << 20
_DROPPED = StateAlteration(dropped=True)
# Flink: ForStSyncKeyedStateBackendBuilder#getForStDBRestoreOperation, "Not support restoring yet for ForStStateBackend".
_NOT_FOR_FORST = (
    "ForSt does not restore what is written here: restore the job with the rocksdb backend, or with hashmap once every operator "
    "with keyed state is written so"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteKeyedState(Edit):
    """Write the keyed state of an operator as canonical key groups, with the changes of its states.

    Attributes:
        operator: the operator in the source.
        changes: of each state that statements changed.
        alterations: of each state that goes, becomes empty, or gets another name or other types.
        added: states that it gets.
        max_parallelism: the new number of key groups; None for that of the source.
        parallelism: the new number of subtasks; None for that of the source.
        keep: which keys stay, in every state and timer; None for all.
        masks: of the rows of states; keys of all states get theirs together.
        leaves_nothing: whether no byte of what goes stays in a file, as it may in a copy of the source's.
    """

    operator: Operator
    changes: Mapping[StateName, StateChanges] = field(default_factory=dict)
    alterations: Mapping[StateName, StateAlteration] = field(default_factory=dict)
    added: tuple[AddedState, ...] = ()
    max_parallelism: int | None = None
    parallelism: int | None = None
    keep: KeyChoice | None = None
    masks: Mapping[StateName, RowMask] = field(default_factory=dict)
    leaves_nothing: bool = False

    def merged(self, other: RewriteKeyedState) -> RewriteKeyedState:
        """Return both edits of one operator as one."""
        return replace(
            self,
            changes={**self.changes, **other.changes},
            alterations={**self.alterations, **other.alterations},
            added=(*self.added, *other.added),
            max_parallelism=other.max_parallelism or self.max_parallelism,
            parallelism=other.parallelism or self.parallelism,
            keep=other.keep or self.keep,
            masks={**self.masks, **other.masks},
            leaves_nothing=other.leaves_nothing or self.leaves_nothing,
        )

    def applied(
        self, metadata: model.SavepointMetadata, source: SavepointLocation
    ) -> model.SavepointMetadata:
        found = find_operator(metadata, self.operator.operator_id)
        operator = self._with_kept_timers(self._without_repeated_timers(found))
        for unread in self.operator.unread:
            if is_keyed(unread.family):
                raise RefusedEditError(
                    f"keyed state of {_shown(self.operator)} cannot be read: {unread.error}"
                )
        sources = {id(one.recorded): one for one in self.operator.sources if one.recorded is not None}
        recorded = {one.index: one.managed_keyed_state for one in self.operator.metadata.subtasks}
        self._check_states()
        if self.max_parallelism is not None or self.parallelism is not None or self.masks:
            resharded = self._resharded(operator, [sources.get(id(one)) for one in recorded.values()])
            return with_operator(metadata, found, resharded)
        subtasks = tuple(
            self._rewritten(one, sources.get(id(recorded.get(one.index))), source)
            for one in self._with_all_subtasks(operator)
        )
        self._check_groups(subtasks)
        return with_operator(metadata, found, replace(operator, subtasks=subtasks))

    def _without_repeated_timers(self, operator: model.OperatorState) -> model.OperatorState:
        """Return the operator without raw timers that its managed keyed state has, too: what changes there would come back."""
        repeated = self.operator.repeated_timers
        if not repeated:
            return operator
        subtasks = tuple(
            replace(one, raw_keyed_state=None) if one.index in repeated else one for one in operator.subtasks
        )
        return replace(operator, subtasks=subtasks)

    def _with_kept_timers(self, operator: model.OperatorState) -> model.OperatorState:
        """Return the operator with the raw timers of the keys that stay.

        Raises:
            RefusedEditError: it has other raw keyed state, whose keys are not known.
        """
        if self.keep is None:
            return operator
        sources = {one.subtask: one for one in self.operator.sources if isinstance(one, RawTimerSource)}
        return replace(operator, subtasks=tuple(self._kept_timers(one, sources) for one in operator.subtasks))

    def _kept_timers(
        self, subtask: model.SubtaskState, sources: Mapping[int, RawTimerSource]
    ) -> model.SubtaskState:
        handle = subtask.raw_keyed_state
        if handle is None or self.keep is None:
            return subtask
        source = sources.get(subtask.index)
        if source is None or not isinstance(handle, model.KeyGroupsStateHandle):
            if any(_is_raw(one) and one.subtask == subtask.index for one in self.operator.sources):
                raise RefusedEditError(
                    f"{_shown(self.operator)} has raw keyed state that it wrote itself, whose keys are not known: drop the operator"
                )
            # It has no timer.
            return replace(subtask, raw_keyed_state=None)
        kept = dict(kept_raw_timers(source, self.keep))
        return replace(subtask, raw_keyed_state=raw_key_groups(kept, handle.key_group_range))

    @property
    def warnings(self) -> tuple[RestoreWarning, ...]:
        if all(source.backend != "forst" for source in self.operator.sources):
            return ()
        return (RestoreWarning(state=_shown(self.operator), text=_NOT_FOR_FORST),)

    def _rewritten(
        self, subtask: model.SubtaskState, source: Source | None, location: SavepointLocation
    ) -> model.SubtaskState:
        handle = subtask.managed_keyed_state
        if handle is None or source is None:
            # A handle without states holds no entry.
            return replace(subtask, managed_keyed_state=self._added_alone(subtask))
        most = max(self.operator.metadata.max_parallelism, 1)
        groups = handle.key_group_range
        if not 0 <= groups.start <= groups.end < most <= MOST_KEY_GROUPS:
            raise RefusedEditError(
                f"expected key groups of subtask {subtask.index} below the max parallelism, which is at most {MOST_KEY_GROUPS}, "
                f"found {groups.start} to {groups.end} of {most}"
            )
        header = check_carried(source, source.stored_header())
        added = (*self.added, *self._late(groups, source))
        altered = altered_header(header, source, self.alterations, added)
        if all(state is None for state in altered.ids):
            return replace(subtask, managed_keyed_state=self._added_alone(subtask))
        maker = _SubtaskMaker(
            source,
            header,
            altered,
            added,
            location,
            self.changes,
            self.alterations,
            groups,
            most,
            self.keep,
            self.leaves_nothing,
        )
        if (
            isinstance(handle, model.KeyGroupsStateHandle)
            and source.stored_groups() is not None
            and not maker.touched
            and self.keep is None
            and not self.leaves_nothing
            and altered.data == header.data
        ):
            return replace(subtask, managed_keyed_state=canonical_handle(handle))
        deferred = DeferredKeyedState(key_group_range=handle.key_group_range, maker=maker)
        return replace(subtask, managed_keyed_state=deferred)

    def _with_all_subtasks(self, operator: model.OperatorState) -> tuple[model.SubtaskState, ...]:
        """Return the subtasks; with added states also those that had no state."""
        known = {one.index: one for one in operator.subtasks}
        if not self.added and not self._reach_beyond(operator.subtasks):
            return operator.subtasks
        return tuple(
            known.get(index, model.SubtaskState(index=index)) for index in range(operator.parallelism)
        )

    def _reach_beyond(self, subtasks: Iterable[model.SubtaskState]) -> bool:
        """Return whether changes are in key groups that no handle has."""
        ranges = [one.managed_keyed_state.key_group_range for one in subtasks if one.managed_keyed_state]
        for changes in self.changes.values():
            left = changes.groups
            for one in ranges:
                left = left[(left < one.start) | (left > one.end)]
            if len(left):
                return True
        return False

    def _late(self, groups: model.KeyGroupRange, source: Source | None) -> tuple[LateState, ...]:
        """Return the changed states that a subtask with these key groups does not have.

        Raises:
            RefusedEditError: one of them also gets another name or other types.
        """
        own = source.entries if source is not None else {}
        missing = {name: one for name, one in self.changes.items() if name not in own}
        most = max(self.operator.metadata.max_parallelism, 1)
        late = late_states(self.operator.sources, missing, groups, most) if missing else ()
        for state in late:
            if state.part.name in self.alterations:
                raise RefusedEditError(
                    f"{state.name}: expected the state in each subtask whose key groups change, found none of this name in one: "
                    "its job has not used the state there; alter the state in a script of its own"
                )
        return late

    def _added_alone(self, subtask: model.SubtaskState) -> DeferredKeyedState | None:
        """Return the keyed state of a subtask that keeps none."""
        handle, metadata = subtask.managed_keyed_state, self.operator.metadata
        groups = (
            model.KeyGroupRange(
                *key_groups_of_subtask(subtask.index, metadata.parallelism, max(metadata.max_parallelism, 1))
            )
            if handle is None
            else handle.key_group_range
        )
        added = (*self.added, *self._late(groups, None))
        if not added:
            return None
        return DeferredKeyedState(key_group_range=groups, maker=AddedStatesMaker(added, groups))

    def _resharded(
        self, operator: model.OperatorState, sources: Sequence[Source | None]
    ) -> model.OperatorState:
        """Return the operator with other key groups and subtasks.

        Raises:
            RefusedEditError: they cannot be dealt out so.
        """
        old = SubtaskRanges(max(operator.max_parallelism, 1), operator.parallelism)
        new = SubtaskRanges(self.max_parallelism or old.max_parallelism, self.parallelism or old.parallelism)
        dropped = frozenset(name for name, one in self.alterations.items() if one == _DROPPED)
        if self.changes or self.added or len(dropped) < len(self.alterations):
            what = "masks" if self.masks else "other key groups or subtasks"
            raise RefusedEditError(
                f"{_shown(self.operator)} gets {what}: change its states in a script of its own"
            )
        if not 1 <= new.parallelism <= new.max_parallelism <= MOST_KEY_GROUPS:
            raise RefusedEditError(
                f"expected at most {MOST_KEY_GROUPS} key groups and no more subtasks than these, found max_parallelism "
                f"{new.max_parallelism} and parallelism {new.parallelism}"
            )
        if new.parallelism > old.parallelism:
            check_new_subtasks(_shown(self.operator), new.parallelism)
        if operator.fully_finished:
            raise RefusedEditError(f"{_shown(self.operator)} had finished: it has no state to deal out")
        others = {one.index: replace(one, managed_keyed_state=None) for one in operator.subtasks}
        if self.masks and any(isinstance(one, RawTimerSource) for one in self.operator.sources):
            raise RefusedEditError(
                f"{_shown(self.operator)} has timers in raw keyed state, whose keys cannot be masked: take a canonical savepoint, or "
                "drop the operator"
            )
        timers = {} if self.keep is None else dict(self._dealt_timers(others, new))
        for index, subtask in others.items():
            if subtask.raw_keyed_state is not None:
                raise RefusedEditError(
                    f"{_shown(self.operator)} has raw keyed state, as timers on the heap: it cannot be dealt out anew"
                )
            if index >= new.parallelism and any(True for _ in subtask.recorded()):
                raise RefusedEditError(
                    f"subtask {index} of {_shown(self.operator)} has operator state: expected a parallelism above {index}, "
                    f"found {new.parallelism}"
                )
        found = [(one, check_carried(one, one.stored_header())) for one in sources if one is not None]
        resharding = Resharding(found, old, new, self.keep, dropped, self.masks) if found else None
        if resharding is not None and resharding.is_empty:
            resharding = None
        subtasks = []
        for index in range(new.parallelism):
            kept = others.get(index)
            if resharding is not None:
                maker = ReshardedMaker(resharding=resharding, groups=new.of(index))
                handle = DeferredKeyedState(key_group_range=maker.groups, maker=maker)
                kept = replace(kept or model.SubtaskState(index=index), managed_keyed_state=handle)
            if index in timers:
                kept = replace(kept or model.SubtaskState(index=index), raw_keyed_state=timers[index])
            if kept is not None:
                subtasks.append(kept)
        return replace(
            operator,
            parallelism=new.parallelism,
            max_parallelism=new.max_parallelism,
            subtasks=tuple(subtasks),
        )

    def _dealt_timers(
        self, subtasks: dict[int, model.SubtaskState], new: SubtaskRanges
    ) -> Iterator[tuple[int, model.KeyGroupsStateHandle]]:
        """Take the raw timers of the keys that stay out of subtasks; yield each new subtask with those of its key groups."""
        kept: dict[int, bytes] = {}
        for index, subtask in subtasks.items():
            handle = subtask.raw_keyed_state
            if isinstance(handle, model.KeyGroupsStateHandle):
                kept |= raw_key_groups_of(handle)
                subtasks[index] = replace(subtask, raw_keyed_state=None)
        for index in range(new.parallelism if kept else 0):
            yield index, raw_key_groups(kept, new.of(index))

    def _check_states(self) -> None:
        known = {name for source in self.operator.sources for name in source.entries}
        for name in (*self.changes, *self.alterations):
            if name not in known:
                raise RefusedEditError(f"expected a state {name.name} of {_shown(self.operator)}, found none")

    def _check_groups(self, subtasks: tuple[model.SubtaskState, ...]) -> None:
        """Refuse changes of key groups that no subtask has state of."""
        handles = [one.managed_keyed_state for one in subtasks if one.managed_keyed_state is not None]
        covered = [
            np.arange(one.key_group_range.start, one.key_group_range.end + 1, dtype=np.int32)
            for one in handles
        ]
        every = np.concatenate([np.zeros(0, dtype=np.int32), *covered])
        touched: dict[str, NDArray[Any]] = {
            name.name: changes.groups for name, changes in self.changes.items()
        }
        touched |= {one.name: one.groups for one in self.added}
        if self.added and len(np.unique(every)) < len(every):
            raise RefusedEditError(
                f"expected subtasks of {_shown(self.operator)} with key groups of their own, found some that share them"
            )
        for name, groups in touched.items():
            outside = np.setdiff1d(groups, every)
            if len(outside):
                raise RefusedEditError(
                    f"{name}: expected a subtask with keyed state of key group {outside[0]}, found none"
                )


def merged_edits(edits: Iterable[Edit]) -> list[Edit]:
    """Return the edits in order; those of the keyed state of one operator are one, at the place of the first."""
    found: list[Edit] = []
    places: dict[str, int] = {}
    for edit in edits:
        if isinstance(edit, RewriteKeyedState):
            place = places.setdefault(edit.operator.operator_id, len(found))
            if place < len(found):
                first = found[place]
                assert isinstance(first, RewriteKeyedState)
                found[place] = first.merged(edit)
                continue
        found.append(edit)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _SubtaskMaker(KeyedStateMaker):
    is_independent = True

    source: Source
    header: StoredHeader
    altered: AlteredHeader
    added: tuple[AddedState, ...]
    location: SavepointLocation
    changes: Mapping[StateName, StateChanges]
    alterations: Mapping[StateName, StateAlteration]
    groups: model.KeyGroupRange
    max_parallelism: int
    keep: KeyChoice | None
    leaves_nothing: bool
    noticed: list[RestoreWarning] = field(default_factory=list)

    @property
    def warnings(self) -> tuple[RestoreWarning, ...]:
        return tuple(self.noticed)

    @property
    def size_bytes(self) -> int:
        return self.source.size_bytes

    @property
    def touched(self) -> frozenset[int]:
        """The key groups that change."""
        changed = {group for name in state_names(self.header) for group in self.touched_of(name)}
        return frozenset(changed | self.extended)

    @property
    def extended(self) -> frozenset[int]:
        """The key groups that get entries of added states."""
        found = {group for state in self.added for group in state.groups.tolist()}
        return frozenset(group for group in found if group in self.groups)

    def touched_of(self, name: StateName) -> frozenset[int]:
        """The key groups in which entries of a state change."""
        alteration = self.alterations.get(name)
        if alteration is not None and alteration.is_of_entries:
            return frozenset(range(self.groups.start, self.groups.end + 1))
        return self.edited_of(name)

    def edited_of(self, name: StateName) -> frozenset[int]:
        """The key groups in which statements changed rows of a state."""
        if name not in self.changes:
            return frozenset()
        return frozenset(groups_within(self.changes[name].groups, self.groups).tolist())

    def make(self, create: Create) -> model.KeyedStateHandle | None:
        def write(file: StateFile) -> model.Offsets:
            state_file = _SubtaskFile(self, file)
            offsets = state_file.write()
            self.noticed[:] = state_file.warnings()
            return offsets

        return made_file(create, self.groups, write)


class _SubtaskFile:
    """The file of one subtask, while it is written."""

    def __init__(self, maker: _SubtaskMaker, file: StateFile) -> None:
        self._maker = maker
        self._file = file
        self._assembler = KeyGroupAssembler(file, compressed=maker.header.header.compressed)
        self._names = state_names(maker.header)
        self._editors = {
            name: editor_of(composed_part(maker.source, name, maker.max_parallelism), changes)
            for name, changes in maker.changes.items()
            if name in maker.source.entries
        }
        self._types = {
            name: TypeEditor(composed_part(maker.source, name, maker.max_parallelism), alteration.types)
            for name, alteration in maker.alterations.items()
            if alteration.types and name in maker.source.entries
        }
        self._touched = [maker.touched_of(name) for name in self._names]
        self._edited = [maker.edited_of(name) for name in self._names]
        self._offsets: NDArray[np.int64] = np.zeros(maker.groups.number_of_key_groups, dtype=np.int64)

    def write(self) -> NDArray[np.int64]:
        """Write all of it; return the position of each key group."""
        stored = self._maker.source.stored_groups()
        if stored is None or self._maker.leaves_nothing or self._maker.keep is not None:
            self._write_anew()
        else:
            self._write_stored(stored)
        return self._offsets

    def warnings(self) -> Iterator[RestoreWarning]:
        """Yield what was noticed while it was written."""
        for editor in self._editors.values():
            yield from editor.coder.warnings
        maker = self._maker
        if maker.changes and any(name.timers for name in maker.source.entries):
            watch = WindowWatch(maker.source, maker.header, maker.changes, maker.max_parallelism)
            yield from watch.warnings(maker.touched)

    def _write_anew(self) -> None:
        self._file.write(self._maker.altered.data)
        maker = self._maker
        carrier = carrier_of(maker.source, maker.header, maker.max_parallelism, maker.keep)
        left = set(self._maker.touched)
        for group in carrier.groups:
            self._assembler.begin()
            for state, pages in carrier.states(group):
                self._add(group, state, pages)
            self._end(group)
            left.discard(group)
        for group in sorted(left):
            # Groups that the source has no entries of.
            self._assembler.begin()
            for state in range(len(self._names)):
                self._add(group, state, iter(()))
            self._end(group)

    def _write_stored(self, stored: StoredGroups) -> None:
        location, touched = self._maker.location, self._maker.touched
        handle = stored.delegate
        file = location.resolve(handle) if handle.path is not None else None
        regions = stored.regions
        with location.open_stream(handle) as stream:
            size = sum(end - start for group, (start, end) in regions.items() if group in touched)
            is_same = self._maker.altered.data == self._maker.header.data
            if is_same and size <= stream.size_bytes * _MOST_WASTE:
                self._file.copy(stream, file, 0, stream.size_bytes)
                for group, (start, _) in regions.items():
                    self._place(group, start)
            else:
                self._file.write(self._maker.altered.data)
                for groups, start, end in _runs(regions, touched):
                    shift = self._file.position - start
                    self._file.copy(stream, file, start, end)
                    for group in groups:
                        self._place(group, regions[group][0] + shift)
        for group in sorted(touched):
            self._assembler.begin()
            self._add_stored(group, stored if group in regions else None)
            self._end(group)

    def _add_stored(self, group: int, stored: StoredGroups | None) -> None:
        """Add the states of a touched key group, those that do not change as they are."""
        found = stored.group(group) if stored is not None else None
        source = self._maker.source
        selection = Selection(key_groups=frozenset({group}))
        pages = partial(source.pages, selection=selection) if found is None else found.pages
        done: set[int] = set()
        runs = found.runs if found is not None else ()
        unknown = [run.state for run in runs if run.state >= len(self._names)]
        if unknown:
            raise RefusedEditError(
                f"{source.path}, key group {group}: expected the id of one of {len(self._names)} states, found {unknown[0]}"
            )
        for run in runs:
            if not self._is_touched(run.state, group):
                assert found is not None
                self._add_run(found, run)
            elif run.state not in done:
                self._add(group, run.state, pages(self._names[run.state]))
            done.add(run.state)
        for state, name in enumerate(self._names):
            if state not in done and (found is None or self._is_touched(state, group)):
                self._add(group, state, pages(name))
        if found is not None:
            for run in runs:
                found.release(run.start, run.end)

    def _add_run(self, stored: StoredGroup, run: StateRun) -> None:
        self._assembler.state(self._new_id(run.state))
        for start in range(run.start, run.end, _PIECE_BYTES):
            end = min(start + _PIECE_BYTES, run.end)
            self._assembler.add_run(stored.data[start:end])
            # The memory of a mapped file is returned piece by piece.
            stored.release(start, end)

    def _is_touched(self, state: int, group: int) -> bool:
        return state < len(self._names) and group in self._touched[state]

    def _new_id(self, state: int) -> int:
        new = self._maker.altered.ids[state]
        assert new is not None
        return new

    def _add(self, group: int, state: int, pages: Iterator[Page]) -> None:
        name = self._names[state]
        alteration = self._maker.alterations.get(name)
        if alteration is not None and alteration.dropped:
            return
        if alteration is not None and alteration.truncated:
            pages = iter(())
        self._assembler.state(self._new_id(state))
        is_edited = group in self._edited[state]
        if name in self._types:
            if is_edited:
                changed = self._editors[name].edited(group, pages)
                pages = (page_of(entries, group, self._maker.source) for entries in changed)
            added = self._types[name].edited(pages)
        elif is_edited:
            added = self._editors[name].edited(group, pages)
        else:
            added = (EntrySegments.of_page(page) for page in pages)
        for entries in added:
            self._assembler.add(entries)

    def _end(self, group: int) -> None:
        add_states(self._assembler, self._maker.added, self._maker.altered.first_added, group)
        self._place(group, self._assembler.end())

    def _place(self, group: int, position: int) -> None:
        self._offsets[group - self._maker.groups.start] = position


def canonical_handle(handle: model.KeyGroupsStateHandle) -> model.KeyGroupsSavepointStateHandle:
    """Return the handle that canonical savepoints have of key groups; full checkpoints of RocksDB had another class."""
    return model.KeyGroupsSavepointStateHandle(
        key_group_range=handle.key_group_range, offsets=handle.offsets, delegate=handle.delegate
    )


def _runs(
    regions: Mapping[int, tuple[int, int]], touched: frozenset[int]
) -> Iterator[tuple[list[int], int, int]]:
    """Yield the untouched key groups that follow each other in a file, and where they begin and end."""
    groups: list[int] = []
    first = behind = 0
    for group, (start, end) in regions.items():
        if group in touched or start != behind:
            if groups:
                yield groups, first, behind
            groups, first = [], start
        if group not in touched:
            groups, behind = [*groups, group], end
    if groups:
        yield groups, first, behind


def _is_raw(source: Source) -> bool:
    return any(entry.kind is StateKind.RAW_KEYED for entry in source.entries.values())


def _shown(operator: Operator) -> str:
    return operator.metadata.uid or operator.metadata.name or operator.operator_id
