"""`compare`: two type trees → Flink's verdict, and the rules that they meet. One line of the table per family.

The one table of all rules: `docs/reference/rules.md` shows it.
"""

from __future__ import annotations

from types import ModuleType

from doctor.rules import avro, kryo, pojo, states, types, untold, upgrade
from doctor.rules.avro import compare_avro
from doctor.rules.kryo import compare_kryo
from doctor.rules.pojo import POJO_TO_KRYO, POJO_TO_KRYO_READABLE, POJO_TO_OTHER, compare_pojos
from doctor.rules.rule import CompareAlike, Comparison, Context, Path, Rule, found, retype
from doctor.rules.types import COMPARISONS, TYPE_CHANGED, compare_case_classes, compare_own, same_class
from readers import (
    AvroSerializer,
    KryoSerializer,
    OpaqueSerializer,
    PojoSerializer,
    ScalaCaseClassSerializer,
    Serializer,
)


def compare(old: Serializer, new: Serializer, context: Context, path: Path) -> Comparison:
    """Compare the type of a savepoint with that of the new job."""
    if isinstance(old, OpaqueSerializer) or isinstance(new, OpaqueSerializer):
        return compare_own(old, new, context, path)
    if type(old) is not type(new):
        return _other_type(old, new, context, path)
    return _COMPARISONS.get(type(old), same_class)(old, new, context, path)


def _other_type(old: Serializer, new: Serializer, context: Context, path: Path) -> Comparison:
    detail = f"{old.type_name} → {new.type_name}"
    if (
        isinstance(old, PojoSerializer)
        and isinstance(new, KryoSerializer)
        and old.pojo_class == new.type_class
    ):
        is_made = context.classes.jar.constructs(old.pojo_class)
        return found(POJO_TO_KRYO_READABLE if is_made else POJO_TO_KRYO, path, detail)
    if isinstance(old, PojoSerializer) or isinstance(new, PojoSerializer):
        return found(POJO_TO_OTHER, path, detail)
    return found(TYPE_CHANGED, path, detail, mend=retype(path, new))


_COMPARISONS: dict[type[Serializer], CompareAlike] = {
    **COMPARISONS,
    PojoSerializer: compare_pojos,
    KryoSerializer: compare_kryo,
    AvroSerializer: compare_avro,
    ScalaCaseClassSerializer: compare_case_classes,
}


def _rules_of(module: ModuleType, *ids: str) -> tuple[Rule, ...]:
    rules = (rule for rule in vars(module).values() if isinstance(rule, Rule))
    return tuple(rule for rule in rules if rule.id.startswith(ids or ("",)))


FAMILIES = {
    "job graph, states, keys, TTL": _rules_of(states),
    "types, case classes of Scala": _rules_of(types),
    "POJOs and records": _rules_of(pojo),
    "Kryo": _rules_of(kryo),
    "Avro": _rules_of(avro),
    "jars": _rules_of(untold, "jar-"),
    "plans, stateInfo": _rules_of(untold, "plan-", "state-info-"),
    "upgrades, SQL, CEP": _rules_of(upgrade),
    "the first stored values": _rules_of(untold, "sample-"),
    "stored values (`--values`)": _rules_of(untold, "values-"),
}
"""Title, as the documentation shows it → the rules of one family: those that its module names, or those of them whose ids begin so."""
