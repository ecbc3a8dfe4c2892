"""A new state like one that a savepoint has: its registration, and its entries as they are.

The registration keeps the bytes of the serializer snapshots, so a type needs no name: Kryo, Avro, SQL's rows. Entries that come along
keep their bytes, too: columns need not hold all of a value, and the key's hash need not be known, for the key group stays the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from readers import (
    OperatorSource,
    Selection,
    State,
    StatePart,
    TtlSerializer,
    VoidNamespaceSerializer,
    is_keyed,
)
from writers.changes import StateChanges
from writers.creation.spool import SpooledEntries
from writers.creation.states import NewState, kind_named
from writers.errors import RefusedEditError, UnencodableTypeError
from writers.headers import RegisteredState, registered_state
from writers.keyed.assembly import EntrySegments
from writers.keyed.carry import Composer, check_carried, composed_part, key_block, state_names
from writers.keyed.values import editor_of

_COLUMNS = ("key", "namespace", "map_key", "value")


def state_like(state: State, name: str) -> NewState:
    """Return a new state with the kind and the types of another one.

    Args:
        state: the other one.
        name: of the new state.

    Raises:
        RefusedEditError: its types are not known, or such a state cannot be created.
        UnencodableTypeError: no state of its kind can be created.
        ReaderError: the header of its file cannot be read.
    """
    for unread in state.unread:
        raise RefusedEditError(f"{state.name} cannot be read: {unread.error}")
    entry = state.entry
    if entry is None or not state.parts:
        raise RefusedEditError(f"expected a state with types and entries, found {state.name} without")
    kind = kind_named(state.kind.value)
    types = {column: tree for column in _COLUMNS if (tree := getattr(entry, column)) is not None}
    if isinstance(types.get("namespace"), VoidNamespaceSerializer):
        del types["namespace"]
    value = types.get("value")
    if isinstance(value, TtlSerializer):
        types["value"] = value.value
    found = [_registered(part) for part in state.parts]
    registration, keys = max(found, key=lambda one: _size(one[0]))
    if any(one.blocks != registration.blocks for one, _ in found):
        # Subtasks have met other subclasses of a POJO. The types have all of them; the longest snapshot has most.
        with suppress(UnencodableTypeError):
            return NewState(name=name, kind=kind, types=types, ttl=entry.ttl)
    return NewState(name=name, kind=kind, types=types, ttl=entry.ttl, registration=registration, keys=keys)


def _registered(part: StatePart) -> tuple[RegisteredState, bytes]:
    """Return the registration of a state, and the snapshot of its keys."""
    source = part.source
    if isinstance(source, OperatorSource):
        data = bytes(source.stream.view(0, source.stream.size_bytes))
        states = (*source.header.operator_states, *source.header.broadcast_states)
        return registered_state(next(one for one in states if one.name == part.name.name), data), b""
    header = check_carried(source, source.stored_header())
    number = state_names(header).index(part.name)
    return registered_state(header.header.states[number], header.data), key_block(header)


def _size(registration: RegisteredState) -> int:
    return sum(map(len, registration.blocks.values()))


def carry(entries: SpooledEntries, state: State, changes: StateChanges) -> None:
    """Add the entries of a state as they are, but for the rows that changes remove.

    Args:
        entries: get them; they have as many key groups.
        state: a keyed state, with each key group in one part.
        changes: remove rows.

    Raises:
        RefusedEditError: an entry must be decoded, and is not.
        ReaderError: a file contradicts its format.
    """
    assert is_keyed(state.kind)
    for part in state.parts:
        entries.add_entries(_carried(part, changes, entries.max_parallelism))


def _carried(
    part: StatePart, changes: StateChanges, max_parallelism: int
) -> Iterator[tuple[int, EntrySegments]]:
    """Yield the entries of a part, each with its key group."""
    source, name = part.source, part.name
    own = replace(part, entry=source.entries[name])
    composed = composed_part(source, name, max_parallelism)
    composer = None if source.is_composite else Composer(own, composed)
    touched = frozenset(changes.groups.tolist())
    editor = editor_of(composed, changes) if touched else None
    groups = source.key_group_range
    assert groups is not None
    for group in range(groups.start, groups.end + 1):
        pages = source.pages(name, Selection(key_groups=frozenset({group})))
        if composer is not None:
            pages = composer.composed(pages)
        if editor is None or group not in touched:
            yield from ((group, EntrySegments.of_page(page)) for page in pages)
        else:
            yield from ((group, entries) for entries in editor.edited(group, pages))
