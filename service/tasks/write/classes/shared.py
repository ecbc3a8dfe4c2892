"""Classes that several states have: ALTER changes one state, and the job has one class for all of them.

Flink compares the fields in a savepoint with those of the class by their names. A field that has another type in the class is refused
with the whole restore; one that has another name in the class is lost without a word. A field that is added or goes is no matter: Flink
fills it, or leaves it out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from readers import PojoSerializer, Serializer
from service.base.errors import InvalidQueryError
from writers import RenamedField, TypeChange


@dataclass(frozen=True, slots=True, kw_only=True)
class StateTypes:
    """The types of a state before and after a script.

    Attributes:
        table: the name of its table.
        before, after: the trees of its types.
        changes: what ALTER did to them.
    """

    table: str
    before: tuple[Serializer, ...]
    after: tuple[Serializer, ...]
    changes: tuple[TypeChange, ...] = ()


def check_shared_classes(states: Iterable[StateTypes]) -> None:
    """Check that no state keeps a field as another state no longer has it.

    Raises:
        InvalidQueryError: one does.
    """
    known = list(states)
    for altered in known:
        now = dict(_classes(altered.after))
        renamed = {change.path[-1] for change in altered.changes if isinstance(change, RenamedField)}
        for name, old in _classes(altered.before):
            for field, kind in old.items():
                new = now.get(name, {}).get(field)
                if name in now and (field in renamed if new is None else new != kind):
                    _check_gone(name, field, kind, altered, known)


def _check_gone(name: str, field: str, kind: str, altered: StateTypes, known: Iterable[StateTypes]) -> None:
    left = [
        one.table
        for one in known
        if any(owner == name and fields.get(field) == kind for owner, fields in _classes(one.after))
    ]
    if left:
        raise InvalidQueryError(
            f"the field {field} of {name} changes in {altered.table}, and stays as it was in {', '.join(left)}: the job has one class "
            "for all of them, so Flink would refuse the restore, or lose the field",
            hint="alter all of these states in one script",
        )


def _classes(trees: Iterable[Serializer]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield each POJO class in type trees, with the types of its fields."""
    for tree in trees:
        if isinstance(tree, PojoSerializer):
            yield tree.pojo_class, {field.name: field.serializer.type_name for field in tree.fields}
        yield from _classes(child for _, child in tree.children)
