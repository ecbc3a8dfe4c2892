"""Names from job plans of Flink's REST API and from compiled SQL plans, for operators that a savepoint stores by id only.

| document | is | holds |
|---|---|---|
| `/jobs/:id/plan` | `{"plan": {"nodes": [{"id", "description"}]}}` | the names of a chain; `id` is the head's operator id |
| `/jobs/:id` | `{"vertices": [{"id", "name"}]}` | the same |
| compiled SQL plan | `{"flinkVersion", "nodes": [{"id", "type", "outputType", …}], "edges"}` | operators, keys, columns |

A uid is never guessed: its hash must be an operator id of the savepoint. Operators are often named after their uid, and
those of SQL have the uid `<id>_<transformation>` and the name `Transformation[id]`.
"""

from __future__ import annotations

import html
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from readers.errors import CorruptDataError
from readers.keygroups import operator_id_of
from readers.stateinfo.file import loaded_json, read_bounded

_ARROW = re.compile(r"<br/>|->")
_TREE = " :+-"
_ROLE = re.compile(r"^(?:Source|Sink): |: (?:Writer|Committer|Global Committer)$")
_SQL_NAME = re.compile(r"(\w+)\[(\d+)\]")
_SQL_TYPE = re.compile(r"stream-exec-([\w-]+)_(\d+)")
_OPERATOR_ID = re.compile(r"[0-9a-f]{32}")
_COLUMN = re.compile(r"`((?:[^`]|``)*)`|[<>]")
_FUNCTION = re.compile(r"\$?([\w ]+?)(?:\$\d+)?")
_NO_ALIAS = re.compile(r"(?:EXPR)?\$\w*")

Columns = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedOperator:
    """The facts of a plan about one operator.

    Attributes:
        uid, name: None where the plan does not hold it.
        parallelism: of the heads of chains in plans of Flink's REST API; None elsewhere.
        chain: how many operators its vertex has, of these heads; 0 where the id is not in the plan, but derived from a name.
        key: the columns of the keys.
        rows: state name → the columns of its rows, for each row type that it may have.
    """

    uid: str | None = None
    name: str | None = None
    parallelism: int | None = None
    chain: int = 0
    key: Columns = ()
    rows: Mapping[str, tuple[Columns, ...]] = field(default_factory=dict)


JobPlan = Mapping[str, PlannedOperator]
"""Operator id → facts. An id that is derived from a name may belong to no operator."""


def load_job_plan(path: str | os.PathLike[str]) -> JobPlan:
    """Read a plan from a file.

    Raises:
        MissingFileError: the file does not exist.
        CorruptDataError: it is none of the documents above.
    """
    return read_job_plan(read_bounded(path, "a job plan"), os.fspath(path))


def read_job_plan(data: bytes, path: str | None = None) -> JobPlan:
    """Read a plan; for errors see `load_job_plan`."""
    document = loaded_json(data, path)
    # The documents have no schema and vary between versions: they are read as far as they are as expected.
    try:
        if "flinkVersion" in document:
            return dict(_compiled(document))
        plan = document.get("plan", document)
        return dict(_deployed(plan.get("vertices") or plan["nodes"]))
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise CorruptDataError(
            f"expected a job plan of Flink's REST API or a compiled SQL plan, found {error!r:.200}", path=path
        ) from error


# ---- deployed jobs ----


def _deployed(vertices: list[dict[str, Any]]) -> Iterator[tuple[str, PlannedOperator]]:
    for vertex in vertices:
        text = html.unescape(vertex.get("description") or vertex["name"])
        # The description draws the chain as a tree of text.
        names = [line.strip(_TREE) for line in _ARROW.split(text)]
        # Only the hash of the right uid is the id of an operator, so a wrong one does no harm.
        for name in filter(None, names):
            for uid in _possible_uids(name):
                yield operator_id_of(uid), PlannedOperator(uid=uid, name=name)
        if not _OPERATOR_ID.fullmatch(vertex["id"]):
            raise ValueError(vertex["id"])
        head = names[0]
        uids = [uid for uid in _possible_uids(head) if operator_id_of(uid) == vertex["id"]]
        # The sources of an operator with several inputs stand in brackets behind its name.
        inside = sum(name.count(" [") for name in names)
        parallelism = vertex.get("parallelism")
        yield (
            vertex["id"],
            PlannedOperator(
                uid=uids[0] if uids else None,
                name=head or None,
                parallelism=parallelism if isinstance(parallelism, int) and parallelism > 0 else None,
                chain=max(1, len([name for name in names if name])) + inside,
            ),
        )


def _possible_uids(name: str) -> Iterator[str]:
    yield name
    bare = _ROLE.sub("", name)
    if bare != name:
        yield bare
    match = _SQL_NAME.fullmatch(bare)
    if match is not None:
        # `group-aggregate` for `GroupAggregate`
        kind = re.sub(r"(?<!^)(?=[A-Z])", "-", match[1]).lower()
        yield f"{match[2]}_{kind}"


# ---- compiled SQL plans ----


@dataclass(frozen=True, slots=True)
class _Node:
    """A node of a compiled plan, with the columns of its inputs, in order."""

    members: Mapping[str, Any]
    inputs: tuple[Columns, ...]

    def columns(self, indexes: list[int], side: int = 0) -> Columns:
        return tuple(self.inputs[side][index] for index in indexes)


def _compiled(plan: dict[str, Any]) -> Iterator[tuple[str, PlannedOperator]]:
    outputs = {node["id"]: _columns(node["outputType"]) for node in plan["nodes"]}
    inputs: dict[int, list[Columns]] = {}
    for edge in plan["edges"]:
        inputs.setdefault(edge["target"], []).append(outputs[edge["source"]])
    for members in plan["nodes"]:
        match = _SQL_TYPE.fullmatch(members["type"])
        if match is None:
            continue
        transformation, version = match.groups()
        node = _Node(members, tuple(inputs.get(members["id"], ())))
        describe = SQL_OPERATORS.get(transformation, _nothing)
        key, rows = describe(node)
        title = "".join(word.capitalize() for word in transformation.split("-"))
        called = TRANSFORMATIONS.get(transformation, transformation)
        # The form of uids is an option of the job (`table.exec.uid.format`): both are tried.
        for uid in (
            f"{members['id']}_{called}",
            f"{members['id']}_stream-exec-{transformation}_{version}_{called}",
        ):
            yield (
                operator_id_of(uid),
                PlannedOperator(uid=uid, name=f"{title}[{members['id']}]", key=key, rows=rows),
            )


def _columns(row_type: Any) -> Columns:
    """Return the column names of `ROW<`a` INT, …>`, or of its long form as an object."""
    if isinstance(row_type, dict):
        return tuple(column["name"] for column in row_type["fields"])
    names, depth = [], 0
    for match in _COLUMN.finditer(row_type):
        if match[0] == "<":
            depth += 1
        elif match[0] == ">":
            depth -= 1
        elif depth == 1:
            names.append(match[1].replace("``", "`"))
    return tuple(names)


_KeyAndRows = tuple[Columns, Mapping[str, tuple[Columns, ...]]]


def _nothing(node: _Node) -> _KeyAndRows:
    return (), {}


def _aggregate(node: _Node) -> _KeyAndRows:
    """Return a column for each field of the accumulators, where the function determines their number."""
    arguments = (
        _columns(node.members["localAggInputRowType"]) if "localAggInputRowType" in node.members else ()
    )
    calls = node.members["aggCalls"]
    names: list[str] = []
    for call in calls:
        fields = ACCUMULATORS.get(_function(call))
        if fields is None:
            return node.columns(node.members["grouping"]), {}
        name = _call_name(call, arguments or node.inputs[0])
        names += [f"{name}.{suffix}" if suffix else name for suffix in fields]
    distinct = len({tuple(call["argList"]) for call in calls if call["distinct"]})
    views = tuple(f"distinct_{index}" for index in range(distinct))
    rows = dict.fromkeys(("accState", "window-aggs"), ((*names, *views),))
    return node.columns(node.members["grouping"]), rows


def _function(call: Mapping[str, Any]) -> str:
    match = _FUNCTION.fullmatch(call.get("internalName") or call.get("catalogName") or "")
    return match[1] if match else ""


def _call_name(call: Mapping[str, Any], arguments: Columns) -> str:
    """Return the alias, else the call: `SUM(d)`."""
    alias: str = call.get("name") or ""
    if alias and not _NO_ALIAS.fullmatch(alias):
        return alias
    columns = ", ".join(arguments[index] for index in call["argList"]) or "*"
    return f"{_function(call)}({'DISTINCT ' if call['distinct'] else ''}{columns})"


def _join(node: _Node) -> _KeyAndRows:
    left, right = node.inputs
    rows = {"left-records": (left,), "right-records": (right,)}
    return node.columns(node.members["joinSpec"]["leftKeys"]), rows


def _interval_join(node: _Node) -> _KeyAndRows:
    left, right = node.inputs
    rows = {"IntervalJoinLeftCache": (left,), "IntervalJoinRightCache": (right,)}
    return node.columns(node.members["intervalJoinSpec"]["joinSpec"]["leftKeys"]), rows


def _deduplicate(node: _Node) -> _KeyAndRows:
    return node.columns(node.members["uniqueKeys"]), {"deduplicate-state": (node.inputs[0],)}


def _rank(node: _Node) -> _KeyAndRows:
    order = node.columns([column["index"] for column in node.members["orderBy"]["fields"]])
    key = node.columns(node.members["partition"]["fields"])
    states = ("data-state-with-append", "data-state-with-update", "data-state", "Top1-Rank-State")
    return key, dict.fromkeys(states, (node.inputs[0], order))


SQL_OPERATORS = {
    "group-aggregate": _aggregate,
    "window-aggregate": _aggregate,
    "global-window-aggregate": _aggregate,
    "global-group-aggregate": _aggregate,
    "group-window-aggregate": _aggregate,
    "join": _join,
    "window-join": _join,
    "interval-join": _interval_join,
    "deduplicate": _deduplicate,
    "changelog-normalize": _deduplicate,
    "rank": _rank,
    "sort-limit": _rank,
    "limit": _rank,
}
"""Kind of node → the function that returns its key and the rows of its states."""

TRANSFORMATIONS = {"sort-limit": "rank", "limit": "rank"}
"""Kind of node → its transformation, where that has another name; uids contain it."""

ACCUMULATORS: dict[str, tuple[str, ...]] = {
    "COUNT": ("",),
    "SUM": ("",),
    "$SUM0": ("",),
    "MIN": ("",),
    "MAX": ("",),
    "AVG": ("sum", "count"),
}
"""Function → the fields of its accumulator, over a stream without retractions; "" stands for the result itself."""
