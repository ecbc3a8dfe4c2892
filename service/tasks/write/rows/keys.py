"""DELETE KEY and RENAME KEY: all rows of keys, in every state, timer, window and map of operators.

A key is a text, as in a lookup: each operator takes it as a key of its own type, so `42` is a number for one and a text for another.
Only the key groups of the keys are read and written, where the hash of their type is known.

What may hold a key and cannot be read is an error that names it. Raw keyed state of the operator's own code, and keys that are shown
as bytes, are left as they are: a warning names them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from catalog import Key, NotAKeyError, parse_key
from catalog.changedtables import WritableState, state_key, writable_states_of
from catalog.errors import near_names
from catalog.scan import ANYTHING
from catalog.statetables import StateTable, TableState, timer_service_of
from readers import ROW, Operator, Selection, State, StateKind, is_keyed, json_text
from service.base.errors import InvalidQueryError, NothingChangesError, translated
from service.query.encode import counted
from service.tasks.write.changes import ALLOW_EMPTY, Changes, Effect, Sample, ScriptContext
from service.tasks.write.rows.found import moved
from service.tasks.write.rows.layers import Layer, check_not_assumed, reader_of, samples_of, shared_group
from service.tasks.write.rows.tables import RowChanges
from service.tasks.write.statements.keys import KEY, DeleteKey, KeyConflict, KeyStatement, RenameKey
from writers import (
    GROUP,
    Edit,
    RefusedEditError,
    RestoreWarning,
    UnencodableValueError,
    WriterError,
    key_groups_of,
)

_KEY = "key"
_NUMBER = "number"
_PLACES = pa.schema([(GROUP, pa.int32()), (ROW, pa.int64()), (_NUMBER, pa.int32())])
_MOST_EXAMPLES = 10_000
_MOST_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRows:
    """The rows of keys in one state.

    Attributes:
        table: the name of its table.
        operator: the name of its operator.
        what: the state, for people.
        writable: the state.
        keys: each key by the number of its text.
        places: of the rows: `_group`, `_row`, and the number of the text.
    """

    table: str
    operator: str
    what: str
    writable: WritableState
    keys: Mapping[int, Key]
    places: pa.Table

    def of(self, numbers: Iterable[int]) -> pa.Table:
        """Return the places of the rows of some keys."""
        wanted = pa.array(sorted(numbers), pa.int32())
        return self.places.filter(pc.is_in(self.places.column(_NUMBER), wanted)).select([GROUP, ROW])


@dataclass(slots=True)
class KeySearch:
    """What a statement looks for, and what it has met.

    Attributes:
        texts: the keys as they are written.
        is_named: whether the statement names the operators.
        is_own_text: see `parse_key`.
        fitting: the numbers of texts that are keys of some operator.
        reasons: why a text is no key of an operator.
        parsed: the keys of each type of keys, by the numbers of their texts.
    """

    texts: Sequence[str]
    is_named: bool
    is_own_text: bool = False
    fitting: set[int] = field(default_factory=set)
    reasons: dict[str, None] = field(default_factory=dict)
    parsed: dict[tuple[str, bool], dict[int, Key]] = field(default_factory=dict)

    def keys_of(self, key_type: pa.DataType, name: str, *, is_unquoted: bool) -> dict[int, Key]:
        """Return the keys of a type that the texts stand for, by the numbers of these."""
        found = self.parsed.get((str(key_type), is_unquoted))
        if found is None:
            found = self.parsed[str(key_type), is_unquoted] = {}
            for number, text in enumerate(self.texts):
                try:
                    found[number] = parse_key(
                        text, key_type, is_unquoted=is_unquoted, is_own_text=self.is_own_text
                    )
                except NotAKeyError as error:
                    if len(self.reasons) < _MOST_NAMED:
                        self.reasons.setdefault(f"{name}: {error}")
            self.fitting |= found.keys()
        return found


class KeyChanges(Changes):
    """DELETE KEY and RENAME KEY."""

    writers = (RowChanges,)

    def __init__(self, context: ScriptContext) -> None:
        super().__init__(context)
        self._warnings: list[RestoreWarning] = []

    def edits(self) -> Iterator[Edit]:
        return iter(())

    @property
    def warnings(self) -> tuple[RestoreWarning, ...]:
        """What may hold a key, and stays as it is."""
        return tuple(dict.fromkeys(self._warnings))

    # ---- statements ----

    def _delete(self, statement: DeleteKey) -> Effect:
        texts = statement.keys
        found = self._found(statement, texts)
        held = {number for one in found for number in one.places.column(_NUMBER).unique().to_pylist()}
        missing = [text for number, text in enumerate(texts) if number not in held]
        self._check_found(statement, found, missing)
        effects = []
        for one in found:
            places = one.of(range(len(texts)))
            if places.num_rows:
                layer = self.context.states.spool.removed(reader_of(places))
                effects.append(self._effect(one, [layer], "removed"))
        return _summed(effects, _listed(texts), " removed")

    def _rename(self, statement: RenameKey) -> Effect:
        texts = (statement.key, statement.new_key)
        found = self._found(statement, texts)
        for one in found:
            if one.keys.keys() == {0, 1} and one.keys[0].json == one.keys[1].json:
                raise InvalidQueryError(
                    f"expected another key than {statement.key!r}, found {statement.new_key!r}"
                )
            if 0 in one.keys and 1 not in one.keys:
                raise InvalidQueryError(
                    f"{statement.new_key!r} is no key of {one.operator}, and {statement.key!r} is"
                )
        has = [one for one in found if one.of([0]).num_rows]
        self._check_found(statement, found, [] if has else [statement.key])
        movers = list(dict.fromkeys(one.operator for one in has))
        taken = [one for one in found if one.operator in movers and one.of([1]).num_rows]
        if taken and statement.conflict is KeyConflict.REFUSE:
            raise InvalidQueryError(
                f"the key {statement.new_key!r} exists already: "
                + ", ".join(
                    f"{counted(one.of([1]).num_rows, 'row')} of {one.what}" for one in taken[:_MOST_NAMED]
                ),
                hint="ON CONFLICT DO NOTHING keeps both keys in these operators, ON CONFLICT DO REPLACE removes all rows of the "
                "existing key there",
            )
        kept = {one.operator for one in taken} if statement.conflict is KeyConflict.NOTHING else set()
        effects = []
        for one in found:
            if one.operator not in movers or one.operator in kept:
                continue
            if (places := one.of([1])).num_rows:
                layer = self.context.states.spool.removed(reader_of(places))
                effects.append(self._effect(one, [layer], "removed"))
            if one.of([0]).num_rows:
                effects.append(self._moved(one))
        stays = f"; {statement.key!r} stays in {', '.join(sorted(kept))}, which has both" if kept else ""
        return _summed(effects, f"key {statement.key!r} becomes {statement.new_key!r}", stays)

    def _moved(self, one: KeyRows) -> Effect:
        writable, places = one.writable, one.of([0])
        with translated(WriterError):
            key_type = writable.state.schema.field(_KEY).type
            keys = pa.repeat(one.keys[1].array[0], places.num_rows).cast(key_type)
            layer = self.context.states.spool.updated(reader_of(places.append_column("0", keys)), [(_KEY,)])
            layers = moved(self.context, writable, layer)
        return self._effect(one, layers, "moved", samples_of(writable, [layer], self.context.states.now_ms))

    def _effect(
        self, one: KeyRows, layers: Sequence[Layer], done: str, samples: Sequence[Sample] | None = None
    ) -> Effect:
        """Add what changes in a state, and return what it is."""
        states, key = self.context.states, one.writable.key
        rows = layers[0].rows.num_rows
        if samples is None:
            samples = samples_of(one.writable, layers, states.now_ms)
        groups = {int(group) for layer in layers for group in layer.groups}
        states.add(key, *layers)
        is_moved = done == "moved"
        return Effect(
            table=one.table,
            changed=rows if is_moved else 0,
            removed=0 if is_moved else rows,
            key_groups=len(groups),
            samples=tuple(samples),
            text=f"{counted(rows, 'row')} of {one.what} {'is' if rows == 1 else 'are'} {done}",
        )

    # ---- what is there ----

    def _found(self, statement: KeyStatement, texts: Sequence[str]) -> list[KeyRows]:
        """Return the states for which a text is a key, with the rows of the keys.

        Raises:
            QueryError: a text is no key of any operator, or what may hold a key cannot be changed.
        """
        search = KeySearch(texts, is_named=bool(statement.operators))
        found = [one for pair in self.operators_of(statement) for one in self.of_operator(*pair, search)]
        for number, text in enumerate(texts):
            if number not in search.fitting:
                where = ", ".join(".".join(path) for path in statement.operators) or "any operator"
                raise InvalidQueryError(
                    f"{text!r:.200} is no key of {where}",
                    hint="; ".join([*search.reasons][:_MOST_NAMED])
                    or "no operator has keyed state that can be read",
                )
        return found

    def operators_of(self, statement: KeyStatement) -> Iterator[tuple[str, str]]:
        """Yield the id in the source and the name of each operator of a statement."""
        names = self.context.database.operator_names
        if not statement.operators:
            yield from (
                (source_id, names[source_id])
                for source_id, now in self.context.operator_ids.items()
                if now is not None
            )
            return
        chosen = {}
        for path in statement.operators:
            self.context.check_qualifier(path)
            chosen[self.context.operator(path[-1])[0]] = path[-1]
        yield from chosen.items()

    def of_operator(self, source_id: str, name: str, search: KeySearch) -> Iterator[KeyRows]:
        operator = self.context.in_source(source_id)
        groups: set[int] | None = set()
        for known, what, table in self.states_of(operator, name):
            state = known.state
            if state.entry is None or state.entry.is_raw(_KEY):
                self._note_unknown(what, search, "its keys are shown as bytes, as their type is not known")
                continue
            keys = self._keys(state, name, search)
            if not keys:
                continue
            check_not_assumed(table, state)
            if state_key(known) in self.context.states.retyped:
                raise InvalidQueryError(
                    f"an earlier statement altered {table!r}: change its keys in a script of their own"
                )
            own = _groups_of(state, keys)
            groups = None if groups is None or own is None else groups | own
            found = self._rows(known, what, table, keys, own)
            yield KeyRows(
                table=table, operator=name, what=what, writable=found[0], keys=keys, places=found[1]
            )
        self.check_unread(operator, name, groups, search)

    def states_of(self, operator: Operator, name: str) -> Iterator[tuple[TableState, str, str]]:
        """Yield the keyed states of an operator that are left, each with its name for people and the name of its table."""
        tables = {state_key(table.states[0]): table.name for _, table in self.context.database.state_tables()}
        for number, state in enumerate(operator.states):
            known = TableState(state, number, operator.metadata.uid)
            if not is_keyed(state.kind) or not state.parts or state_key(known) in self.context.states.dropped:
                continue
            if state.kind is StateKind.TIMER:
                domain, service = timer_service_of(state.name)
                yield known, f"timers of {name} ({service}, {domain})", "timers"
            else:
                table = tables[state_key(known)]
                yield known, table, table

    def _keys(self, state: State, name: str, search: KeySearch) -> dict[int, Key]:
        """Return the keys of a state that texts stand for, by the numbers of these."""
        return search.keys_of(state.schema.field(_KEY).type, name, is_unquoted=_KEY in state.unquoted)

    def _rows(
        self, known: TableState, what: str, table: str, keys: Mapping[int, Key], groups: set[int] | None
    ) -> tuple[WritableState, pa.Table]:
        """Return a state, and the places of the rows of keys.

        Raises:
            QueryError: a row may have any key, or a state cannot be changed.
        """
        writable = self.writable(known, what, table)
        predicate = ANYTHING if groups is None else ANYTHING.and_(GROUP, tuple(sorted(groups)))
        with translated(WriterError):
            scan = writable.rows.plan(predicate).narrowed([_KEY, GROUP, ROW])
        numbers = list(keys)
        wanted = pa.concat_arrays([key.array for key in keys.values()])
        is_nested = pa.types.is_nested(wanted.type)
        texts = json_text(wanted) if is_nested else wanted
        batches = []
        for batch in scan.to_reader():
            column = batch.column(_KEY)
            if column.null_count:
                raise InvalidQueryError(
                    f"{what} has entries that cannot be told apart, among which the key may be: it cannot be changed",
                    hint=known.state.note or "take a canonical savepoint",
                )
            found = pc.index_in(json_text(column) if is_nested else column, value_set=texts)
            rows = batch.append_column(_NUMBER, found).filter(found.is_valid())
            if rows.num_rows:
                number = pa.array(numbers, pa.int32()).take(rows.column(_NUMBER))
                batches.append(
                    pa.RecordBatch.from_arrays([rows.column(GROUP), rows.column(ROW), number], schema=_PLACES)
                )
        places = pa.Table.from_batches(batches, _PLACES)
        self.check_written(known, what, places.num_rows)
        return writable, places

    def check_written(self, known: TableState, what: str, rows: int) -> None:
        """Refuse rows of timers in raw keyed state.

        Raises:
            InvalidQueryError: there are some.
        """
        # Operator state has no such header either.
        is_raw = is_keyed(known.state.kind) and any(
            part.source.stored_header() is None for part in known.state.parts
        )
        if rows and is_raw:
            raise InvalidQueryError(
                f"{counted(rows, 'row')} of {what} {'is' if rows == 1 else 'are'} in raw keyed state, which "
                "cannot be changed",
                hint="take a canonical savepoint: it has timers on the heap beside the other states",
            )

    def writable(self, known: TableState, what: str, table: str) -> WritableState:
        """Return a state by itself, as the statements so far have left it.

        Raises:
            QueryError: two of its files have rows of one key group.
        """
        own = StateTable(table, "", self.context.database.reference, lambda: (known,))
        [writable] = writable_states_of(own, self.context.states.table_changes)
        shared = shared_group(known.state)
        if shared is not None:
            raise InvalidQueryError(
                f"expected rows of {what} in one place each, found {writable.table.group_column} {shared} in two state files: "
                "it cannot be changed"
            )
        return writable

    def check_unread(self, operator: Operator, name: str, groups: set[int] | None, search: KeySearch) -> None:
        """Refuse, or note, what may hold keys and is not read.

        Args:
            operator, name: of which.
            groups: the key groups of the keys; None if they are not known.
            search: what the statement looks for.
        """
        if groups is not None and not groups:
            # No text is a key of its states; of an operator without a state that can be read nobody knows.
            if any(is_keyed(state.kind) and state.parts for state in operator.states):
                return
            groups = None
        selection = Selection(key_groups=None if groups is None else frozenset(groups))
        for handle in operator.unread:
            if handle.key_groups is not None and handle.may_hold(selection):
                raise InvalidQueryError(
                    f"keyed state of {name} cannot be read, and may hold the key: {handle.error}",
                    hint="FROM names the operators that can be read",
                )
        for state in operator.states:
            if state.kind is not StateKind.RAW_KEYED:
                continue
            held = {
                group
                for part in state.parts
                for group, size in part.source.key_group_bytes(part.name) or ()
                if size
            }
            if held if groups is None else held & groups:
                self._note_unknown(
                    f"raw keyed state of {name}", search, "it is written by the operator itself"
                )

    def _note_unknown(self, what: str, search: KeySearch, reason: str) -> None:
        if search.is_named:
            raise InvalidQueryError(f"{what} may hold the key, and cannot be changed: {reason}")
        self._warnings.append(
            RestoreWarning(state=what, text=f"it may hold a key that changes, and stays as it is: {reason}")
        )

    def _check_found(self, statement: KeyStatement, found: Sequence[KeyRows], missing: Sequence[str]) -> None:
        """Refuse a statement about keys that no state has.

        Raises:
            NothingChangesError: there are some, and the client has not allowed that.
        """
        if not missing or self.context.may_find_nothing(statement.name):
            return
        near = near_names(missing[0], _first_keys(found))
        hint = f"near keys: {', '.join(near)}; " if near else ""
        raise NothingChangesError(f"no state has the {_listed(missing)}", hint=hint + ALLOW_EMPTY)

    appliers: ClassVar = {DeleteKey: _delete, RenameKey: _rename}


def _groups_of(state: State, keys: Mapping[int, Key]) -> set[int] | None:
    """Return the key groups of keys; None if the hash of their type is not known."""
    assert state.entry is not None
    assert state.entry.key is not None
    wanted = pa.concat_arrays([key.array for key in keys.values()])
    try:
        return set(np.unique(key_groups_of(state.entry.key, wanted, state.max_parallelism)).tolist())
    except (RefusedEditError, UnencodableValueError):
        return None


def _first_keys(found: Sequence[KeyRows]) -> set[str]:
    """Return the first keys of the first state that has some, as texts."""
    for one in found:
        texts: set[str] = set()
        for batch in one.writable.rows.plan().narrowed([_KEY]).to_reader():
            keys = batch.column(_KEY).drop_null()
            shown = keys if pa.types.is_string(keys.type) else json_text(keys)
            texts.update(text.strip('"') for text in shown.unique().to_pylist())
            if len(texts) > _MOST_EXAMPLES:
                break
        if texts:
            return texts
    return set()


def _listed(texts: Sequence[str]) -> str:
    named = ", ".join(f"{text!r:.100}" for text in texts[:_MOST_NAMED])
    more = f" and {len(texts) - _MOST_NAMED:,} more" if len(texts) > _MOST_NAMED else ""
    return f"{'key' if len(texts) == 1 else 'keys'} {named}{more}"


def _summed(effects: Sequence[Effect], keys: str, done: str) -> Effect:
    """Return what a statement did in all states: `keys: 3 rows of 2 states done`."""
    changed, removed = sum(one.changed for one in effects), sum(one.removed for one in effects)
    where = f"{counted(changed + removed, 'row')} of {counted(len(effects), 'state')}"
    return Effect(
        table=KEY,
        changed=changed,
        removed=removed,
        key_groups=sum(one.key_groups for one in effects),
        text=f"{keys}: {where}{done}",
        states=tuple(effects),
    )
