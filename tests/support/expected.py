"""Savepoints with known answers: where they are, what they hold, and decoded rows in the same notation.

A folder of savepoints (the corpus, `tests/data/corpus`, `tests/data/flink`) has `<flink version>/<case>/case.json`, the
snapshots that it names, and what the job that wrote them put in: `expected/<snapshot>/all.jsonl`, else
`expected/all.jsonl` for every savepoint of the case. Both sides become multisets of JSON texts with sorted keys, so nothing
is equal by accident: 1 is not 1.0, 0.0 is not -0.0. A list is one row, as the job saw it; empty ones have none.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import pyarrow as pa

from readers.formats.entry import Entry, StateKind
from readers.keygroups import operator_id_of
from readers.operators import Operator
from readers.savepoint import Savepoint
from readers.schemas import UNDECODED
from readers.serializers.base import Serializer, nodes
from readers.serializers.kryo.serializer import KryoSerializer
from readers.serializers.operators import TtlSerializer
from readers.serializers.primitives import BytePrimitiveArraySerializer
from readers.states import State
from tests.support.notation import json_text, normal, notation, plain_values, without_types

Rows = Counter[str]

_NO_UID = "no uid"
_COUNTED = "counted"
_TIMER_STATE = re.compile(r"_timer_state/(event|processing)_(.*)")
_KINDS = {
    StateKind.OPERATOR_LIST: "operator-list",
    StateKind.UNION_LIST: "operator-union-list",
}
_UNORDERED = frozenset({"merging-window-set"})  # Flink writes it from a HashMap


class Treatment(Enum):
    """How far the rows of a state are compared."""

    VALUES = "all of it"
    COUNT = "how many rows there are"
    UNDESCRIBED = (
        "all of it, but values with an object of a class that the savepoint does not describe are bytes"
    )
    UNLISTED = "nobody wrote down what it holds: it is read, no more"


_BYTES = "(bytes of a class that the savepoint does not describe)"
_UNDESCRIBED_CLASS = re.compile(r"corpus\.T\$InnerSub|Pojos\$UnregisteredAddress")


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A savepoint or checkpoint of a folder, and the file that says what is in it.

    Attributes:
        version: of Flink.
        case: the job.
        directory: the savepoint's.
        kind: `canonical-savepoint`, `native-savepoint`, or a kind of checkpoint.
        operators: name → operator id; None where it has no uid, and Flink derived the id from the job's graph.
        expected: None where nobody wrote down what it holds.
    """

    version: str
    case: str
    directory: Path
    kind: str
    operators: dict[str, str | None]
    expected: Path | None

    @property
    def name(self) -> str:
        """Tells the snapshots of a folder apart."""
        return f"{self.version}/{self.case}/{self.directory.name}"

    def operator_of(self, row: dict[str, Any]) -> str:
        """The operator that an expected row names by uid, by name, or by what its name may begin with."""
        if row.get("operator_uid") is not None:
            return operator_id_of(row["operator_uid"])
        if "operator_name" in row:
            return self.operators[row["operator_name"]] or _NO_UID
        names = row["operator_name_like"].split("|")
        (found,) = (operator for name, operator in self.operators.items() if name.split("[")[0] in names)
        return found or _NO_UID

    def label(self, operator: Operator) -> str:
        """A decoded operator, named as `operator_of` does: at most one in a case has no uid."""
        return operator.operator_id if operator.operator_id in self.operators.values() else _NO_UID


def snapshots_of(folder: Path) -> list[Snapshot]:
    """All snapshots in a folder."""
    found = []
    for file in sorted(folder.glob("*/*/case.json")):
        root, case = file.parent, json.loads(file.read_text(encoding="utf-8"))
        for snapshot in case["snapshots"]:
            directory = root / snapshot["dir"]
            expected = root / "expected" / directory.name / "all.jsonl"
            if not expected.exists() and snapshot["kind"].endswith("savepoint"):
                expected = root / "expected" / "all.jsonl"
            found.append(
                Snapshot(
                    version=root.parent.name,
                    case=root.name,
                    directory=directory,
                    kind=snapshot["kind"],
                    operators={operator["name"]: operator["operator_id"] for operator in case["operators"]},
                    expected=expected if expected.exists() else None,
                )
            )
    return [snapshot for snapshot in found if snapshot.directory.is_dir()]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What a snapshot holds against what its job put in.

    Attributes:
        snapshot: must have an `expected` file.
        treatments: (operator, state) → how far it is compared; all of it where nothing is said.
        kryo: (operator, state) of those that hold Kryo objects, whose JSON text does not tell maps from lists.
    """

    snapshot: Snapshot
    treatments: dict[tuple[str, str], Treatment]
    kryo: set[tuple[str, str]] = field(default_factory=set)

    def decoded(self, savepoint: Savepoint) -> Rows:
        """What the readers find in the savepoint."""
        rows: Rows = Counter()
        for operator in savepoint.operators:
            label = self.snapshot.label(operator)
            for state in operator.states:
                name = shown_name(state)
                if state.entry is not None and _has_kryo(state.entry):
                    self.kryo.add((label, name))
                treatment = self.treatments.get((label, name), Treatment.VALUES)
                shown = [self._text(row | {"operator": label}) for row in rows_of(state)]
                if treatment is not Treatment.UNLISTED:
                    rows.update(shown)
        return self._counted(rows)

    def expected(self) -> Rows:
        """What the job put in; to be asked for behind `decoded`."""
        assert self.snapshot.expected is not None
        rows: Rows = Counter()
        with self.snapshot.expected.open(encoding="utf-8") as lines:
            for line in lines:
                row = json.loads(line)
                shown = {
                    name: normal(value) for name, value in row.items() if not name.startswith("operator_")
                }
                shown |= {
                    "operator": self.snapshot.operator_of(row),
                    "kind": row["kind"].replace("-unordered", ""),
                }
                if "operator_name_like" in row and isinstance(row.get("value"), dict):
                    shown["value"] = _fields_in_order(row["value"])
                place = (shown["operator"], row["state_name"])
                if self.treatments.get(place) is Treatment.UNDESCRIBED and _UNDESCRIBED_CLASS.search(line):
                    shown["value"] = _BYTES
                if row.get("state_name") in _UNORDERED:
                    shown["value"] = sorted(shown["value"], key=json_text)
                if not self._is_absent(shown):
                    rows[self._text(shown)] += 1
        return self._counted(rows)

    def _counted(self, rows: Rows) -> Rows:
        """A map that the heap backend wrote is one row while its entries have no known end: count maps."""
        marks = f'["{_COUNTED}", ', ', "map", '
        return Counter(
            {text: 1 if all(mark in text for mark in marks) else count for text, count in rows.items()}
        )

    def _is_absent(self, row: dict[str, Any]) -> bool:
        """Whether an expected row has no counterpart: an empty list."""
        return bool(row["kind"].startswith("list") and row["value"] == [])

    def _text(self, row: dict[str, Any]) -> str:
        place = (row["operator"], row["state_name"])
        if self.treatments.get(place) is Treatment.COUNT:
            return json_text([_COUNTED, *place, row["kind"], row.get("key")])
        if place in self.kryo:
            row = {name: without_types(value) for name, value in row.items()}
        return json_text(row)


def shown_name(state: State) -> str:
    """The name of a state as expected rows have it: of timers, their service."""
    timers = _TIMER_STATE.fullmatch(state.name)
    if timers is not None:
        return timers[2]
    return "coordinator" if state.kind is StateKind.COORDINATOR else state.name


def rows_of(state: State) -> Iterator[dict[str, Any]]:
    entry = state.entry
    assert entry is not None, state.note
    common: dict[str, Any] = {"state_name": shown_name(state)}
    timers = _TIMER_STATE.fullmatch(state.name)
    if timers is not None:
        common |= {"kind": "timer", "time_domain": timers[1]}
    else:
        ttl = "-ttl" if isinstance(entry.value, TtlSerializer) else ""
        common["kind"] = _KINDS.get(state.kind, state.kind.name.lower()) + ttl
    rows = [row for batch in state.read() for row in _columns(batch, entry)]
    if state.kind is StateKind.LIST and not entry.is_raw("value"):
        rows = _gathered(rows, unordered=state.name in _UNORDERED)
    for row in rows:
        yield common | row


def _columns(batch: pa.RecordBatch, entry: Entry) -> Iterator[dict[str, Any]]:
    """The rows of a batch, with those columns that the expected rows list."""
    columns = {name: plain_values(batch.column(name)) for name in batch.schema.names}
    for name in ("key", "namespace", "map_key", "value"):
        if name in columns:
            serializer = _serializer(entry, name)
            columns[name] = [notation(serializer, value) for value in columns[name]]
    shown = _SHOWN.get(entry.kind, {})
    for index, undecoded in enumerate(columns.get(UNDECODED, [None] * batch.num_rows)):
        row = {name: columns[source][index] if source in columns else None for name, source in shown.items()}
        if undecoded is not None:
            assert row["value"] is None
            assert _UNDESCRIBED_CLASS.search(undecoded.decode("latin-1"))
            row["value"] = _BYTES
        yield row


def _serializer(entry: Entry, name: str) -> Serializer:
    if entry.is_raw(name):
        return BytePrimitiveArraySerializer()
    serializer: Serializer = getattr(entry, name)
    return serializer.value if isinstance(serializer, TtlSerializer) else serializer


def _gathered(rows: list[dict[str, Any]], *, unordered: bool) -> list[dict[str, Any]]:
    """Elements with the same key and namespace as one list, in the order of their index."""
    lists: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        lists[json_text([row["key"], row["namespace"]])].append(row)
    gathered = []
    for elements in lists.values():
        if any(row["value"] == _BYTES for row in elements):
            # The elements behind an undescribed one are bytes, too: that there is one is all that can be compared.
            gathered.append(
                {name: value for name, value in elements[0].items() if name != "index"} | {"value": _BYTES}
            )
            continue
        elements.sort(key=lambda row: int(row["index"]))
        assert [row["index"] for row in elements] == list(range(len(elements)))
        values = [row["value"] for row in elements]
        whole = {name: value for name, value in elements[0].items() if name != "index"}
        gathered.append(whole | {"value": sorted(values, key=json_text) if unordered else values})
    return gathered


def _fields_in_order(value: dict[str, Any]) -> Any:
    """An accumulator of SQL: the expected object names its fields, the row has them in this order."""
    return (
        normal(value)
        if any(name.startswith("$") for name in value)
        else [normal(part) for part in value.values()]
    )


def _has_kryo(entry: Entry) -> bool:
    return any(isinstance(node, KryoSerializer) for node in nodes(tuple(entry.serializers())))


_KEYED = {name: name for name in ("key", "namespace", "map_key", "value")}
_ELEMENT = {"subtask": "_subtask", "index": "list_index", "value": "value"}
_SHOWN: dict[StateKind, dict[str, str]] = {
    StateKind.VALUE: _KEYED,
    StateKind.REDUCING: _KEYED,
    StateKind.AGGREGATING: _KEYED,
    StateKind.FOLDING: _KEYED,
    StateKind.MAP: _KEYED,
    StateKind.LIST: _KEYED | {"index": "list_index"},
    StateKind.TIMER: {name: name for name in ("key", "namespace", "timestamp")},
    StateKind.OPERATOR_LIST: _ELEMENT,
    StateKind.UNION_LIST: _ELEMENT,
    StateKind.BROADCAST: {name: name for name in ("map_key", "value")},
}
