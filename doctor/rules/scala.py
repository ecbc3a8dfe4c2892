"""Rules for the Scala API of Flink 1.x: case classes are compared by the number and the types of their fields."""

from __future__ import annotations

from doctor.rules.context import Comparison, Context, Path, found, joined
from doctor.rules.rule import FAILS_REGISTER, FAILS_RESTORE, RISK, Rule, Verdict
from doctor.rules.types import class_changed
from readers import ScalaCaseClassSerializer

FIELDS_CHANGED = Rule(
    id="scala-fields-changed",
    change="a field of a Scala case class added, removed or retyped, with a default or not, nested or not",
    effect="hashmap cannot build the old values with the new class; rocksdb refuses the state when it is declared",
    verdict=Verdict.INCOMPATIBLE,
    heap=FAILS_RESTORE,
    rocksdb=FAILS_REGISTER,
    flink="ArrayIndexOutOfBoundsException, argument type mismatch",
    remedy="keep the case class, and give the state of the new one another name",
    shown_by="scala-case-add-field scala-case-retype scala-case-nested-add",
)
FIELD_NAMES = Rule(
    id="scala-field-names",
    change="a Scala case class: names of fields are not in the snapshot",
    effect="values stay by position: renamed or swapped fields hold the values of others",
    heap=RISK,
    remedy="compare the fields of the old and the new class by hand: they must stand in the same order",
    shown_by="scala-case-rename-field",
)


def compare_case_classes(
    old: ScalaCaseClassSerializer, new: ScalaCaseClassSerializer, context: Context, path: Path
) -> Comparison:
    """Compare two case classes."""
    if old.tuple_class != new.tuple_class:
        return class_changed(old.tuple_class, new.tuple_class, context, path)
    if old.width != new.width:
        return found(FIELDS_CHANGED, path, f"{old.type_name} → {new.type_name}")
    nested = joined(
        context.compare(one, other, context, (*path, name))
        for (name, one), (_, other) in zip(old.children, new.children, strict=True)
    )
    own = found(FIELD_NAMES, path, old.tuple_class)
    if nested.verdict is Verdict.INCOMPATIBLE:
        # Scala's own tuples take any value; the constructor of a case class does not.
        own |= found(FIELDS_CHANGED, path, f"{old.type_name} → {new.type_name}")
    return own | nested
