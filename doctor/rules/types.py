"""Rules for types in general: composites, basic types, enums, own serializers, case classes; what is compared alike in all families.

A case class of the Scala API of Flink 1.x is compared by the number and the types of its fields.

Flink: CompositeTypeSerializerSnapshot, SimpleTypeSerializerSnapshot, EnumSerializer$EnumSerializerSnapshot
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from itertools import zip_longest

from doctor.report import DROPPED, Mend
from doctor.rules.rule import (
    FAILS_REGISTER,
    FAILS_RESTORE,
    FINE,
    RISK,
    CompareAlike,
    Comparison,
    Context,
    Path,
    Verdict,
    found,
    joined,
    refused,
    retype,
)
from readers import (
    EnumSerializer,
    OpaqueSerializer,
    RowDataSerializer,
    RowSerializer,
    ScalaCaseClassSerializer,
    Serializer,
    TupleSerializer,
)

TYPE_CHANGED = refused(
    id="type-changed",
    change="another type: any basic type, list element, map key or value, arity, side of an Either, SQL type",
    effect="the state is refused when it is declared; there is no widening anywhere",
    remedy="keep the old type, give the state a new name and copy its values, or write it anew with `CREATE TABLE … AS SELECT`",
    shown_by=(
        "basic-string-to-long list-element-type map-key-type tuple-arity tuple-field-type row-arity "
        "row-type sql-column-type sql-add-agg o.a.f.api.common.typeutils.CompositeTypeSerializerSnapshot"
    ),
)
SETTING_CHANGED = FINE.but(verdict=Verdict.MIGRATION).rule(
    id="serializer-setting-changed",
    change="a flag of a composite serializer, such as nulls in a list or kinds of rows",
    effect="the values are migrated",
    shown_by="o.a.f.api.common.typeutils.CompositeTypeSerializerSnapshot",
)
ROW_NAMES = RISK.rule(
    id="row-names",
    change="a Row, or an SQL row: names of fields, and what they mean, are not in the snapshot",
    effect="values stay by position: renamed, swapped or reinterpreted fields hold the values of others",
    remedy="compare the fields of the old and the new job by hand: they must stand in the same order",
    shown_by="row-names o.a.f.api.java.typeutils.runtime.RowSerializer",
)
ENUM_CHANGED = FINE.but(verdict=Verdict.RECONFIGURED).rule(
    id="enum-constants-added",
    change="constants of an enum added or reordered",
    effect="the values are the same",
    shown_by="enum-add-middle enum-reorder enum-map-key-add enum-list-reorder pojo-field-enum-add",
)
ENUM_REMOVED = FAILS_RESTORE.but(verdict=Verdict.INCOMPATIBLE).rule(
    id="enum-constant-removed",
    change="a constant of an enum removed or renamed, even if no value uses it and no state is declared with it",
    effect="the whole operator fails when its state file is opened",
    flink="Could not create a restore serializer for enum class",
    remedy="keep the constant in the enum",
    shown_by="enum-remove pojo-field-enum-remove o.a.f.api.common.typeutils.base.EnumSerializer",
)
CLASS_GONE = FAILS_RESTORE.but(verdict=Verdict.INCOMPATIBLE).rule(
    id="class-gone",
    change="a class that the savepoint names is not in the new job (removed, renamed or moved), declared or not",
    effect="the whole operator fails when its state file is opened",
    flink="ClassNotFoundException",
    remedy="keep the class in the jar, under its old name; or drop the state from the savepoint with `DROP TABLE …`",
    shown_by=(
        "pojo-class-renamed kryo-class-renamed avro-specific-renamed own-serializer-renamed "
        "state-removed-kryo-class-gone pojo-subclass-registered-gone"
    ),
)
CLASS_CHANGED = refused(
    id="class-changed",
    change="the state is declared with another class; the old one is still in the jar",
    remedy="keep the old class in the declaration, or give the state a new name and copy its values",
    shown_by="pojo-class-renamed-kept kryo-class-renamed-kept",
)
CLASS_NEEDED = RISK.rule(
    id="class-needed",
    change="a class that the savepoint names and no state of the new job does",
    effect="the operator fails when its state file is opened, if the class is not in the jar",
    remedy="check against the jar too: it shows whether the class is there",
    shown_by="state-removed-kryo-class-gone pojo-subclass-class-gone pojo-subclass-registered-gone pojo-remove-nested-class-gone",
)
OWN_SERIALIZER = RISK.rule(
    id="own-serializer",
    change="a serializer of the job's own, of the same class",
    effect="Flink compares the classes only: if the bytes that it reads have changed, it reads garbage and says nothing",
    remedy="make sure that the serializer reads the bytes of its old version",
    shown_by="own-serializer-same o.a.f.api.common.typeutils.SimpleTypeSerializerSnapshot",
)
OWN_TO_OTHER = refused(
    id="own-serializer-replaced",
    change="a serializer of the job's own gives way to one of Flink's, or the reverse",
    remedy="keep the serializer, or give the state a new name and copy its values",
    shown_by="own-serializer-to-pojo",
)
NULLABILITY_CHANGED = refused(
    id="sql-nullability-changed",
    change="SQL: a column, or a field in one, becomes NOT NULL or nullable",
    effect="the state is refused when it is declared, although the bytes are the same",
    remedy="keep the column as it was declared",
    shown_by="o.a.f.table.runtime.typeutils.RowDataSerializer$RowDataSerializerSnapshot o.a.f.table.types.logical.LogicalType",
)

# Names that a reader gives to fields; Flink does not record them.
_UNRECORDED = frozenset({"names"})
FIELDS_CHANGED = FAILS_RESTORE.but(verdict=Verdict.INCOMPATIBLE, rocksdb=FAILS_REGISTER).rule(
    id="scala-fields-changed",
    change="a field of a Scala case class added, removed or retyped, with a default or not, nested or not",
    effect="hashmap cannot build the old values with the new class; rocksdb refuses the state when it is declared",
    flink="ArrayIndexOutOfBoundsException, argument type mismatch",
    remedy="keep the case class, and give the state of the new one another name",
    shown_by="scala-case-add-field scala-case-retype scala-case-nested-add",
)
FIELD_NAMES = RISK.rule(
    id="scala-field-names",
    change="a Scala case class: names of fields are not in the snapshot",
    effect="values stay by position: renamed or swapped fields hold the values of others",
    remedy="compare the fields of the old and the new class by hand: they must stand in the same order",
    shown_by="scala-case-rename-field",
)


def same_class(old: Serializer, new: Serializer, context: Context, path: Path) -> Comparison:
    """Compare two composite serializers of one class: their settings, then the nested serializers in pairs."""
    settings = _settings(old), _settings(new)
    if len(old.children) != len(new.children):
        mend = _narrowed(old, new, path)
        return found(TYPE_CHANGED, path, f"{old.type_name} → {new.type_name}", mend=mend)
    if settings[0] != settings[1]:
        # Flags of nulls and kinds are migrated; all other settings must be equal.
        flags = all(
            isinstance(one, bool) for one, other in zip_longest(*settings, fillvalue=None) if one != other
        )
        rule = SETTING_CHANGED if flags else TYPE_CHANGED
        changed = found(rule, path, f"{old.type_name} → {new.type_name}")
    else:
        changed = Comparison()
    return changed | _parts(old, new, context, path)


def _parts(old: Serializer, new: Serializer, context: Context, path: Path) -> Comparison:
    """Compare the parts of two types that have as many."""
    return joined(
        context.compare(one, other, context, (*path, name))
        for (name, one), (_, other) in zip(old.children, new.children, strict=True)
    )


def _narrowed(old: Serializer, new: Serializer, path: Path) -> Mend | None:
    """Return the change of a record that lost its last field; None for others."""
    before, after = ([child for _, child in one.children] for one in (old, new))
    return replace(DROPPED, path=(*path, old.children[-1][0])) if before[:-1] == after else None


def _settings(serializer: Serializer) -> list[object]:
    if not is_dataclass(serializer):
        return []
    values = [
        getattr(serializer, field.name) for field in fields(serializer) if field.name not in _UNRECORDED
    ]
    return [value for value in values if not _is_nested(value)]


def _is_nested(value: object) -> bool:
    return isinstance(value, Serializer) or (isinstance(value, tuple) and any(map(_is_nested, value)))


def _compare_enums(old: EnumSerializer, new: EnumSerializer, context: Context, path: Path) -> Comparison:
    if old.enum_class != new.enum_class:
        return class_changed(old.enum_class, new.enum_class, context, path, retype(path, new))
    return compare_constants(old, new, path)


def compare_constants(old: EnumSerializer, new: EnumSerializer, path: Path) -> Comparison:
    """Compare the constants of an enum."""
    now = frozenset(new.constants)
    gone = [constant for constant in old.constants if constant not in now]
    if gone:
        text = f"{old.enum_class} no longer has {', '.join(gone)}"
        return found(ENUM_REMOVED, path, text, mend=retype(path, new))
    if old.constants != new.constants:
        return found(ENUM_CHANGED, path, f"{old.enum_class} has the constants {', '.join(new.constants)}")
    return Comparison()


def _compare_tuples(old: TupleSerializer, new: TupleSerializer, context: Context, path: Path) -> Comparison:
    # A tuple and its user subclass have one snapshot: only the fields count.
    if old.width != new.width:
        return found(TYPE_CHANGED, path, f"{old.type_name} → {new.type_name}", mend=_narrowed(old, new, path))
    return _parts(old, new, context, path)


def _compare_rows(old: Serializer, new: Serializer, context: Context, path: Path) -> Comparison:
    return found(ROW_NAMES, path, old.type_name) | same_class(old, new, context, path)


def _compare_sql_rows(
    old: RowDataSerializer, new: RowDataSerializer, context: Context, path: Path
) -> Comparison:
    # Names of a row's own fields are not in the snapshot; a reader may know them all the same.
    if old.field_types != new.field_types:
        return found(TYPE_CHANGED, path, f"{old.type_name} → {new.type_name}", mend=retype(path, new))
    if old.nullability and new.nullability and old.nullability != new.nullability:
        return found(NULLABILITY_CHANGED, path, old.type_name)
    return Comparison()


def compare_own(old: Serializer, new: Serializer, context: Context, path: Path) -> Comparison:
    """Compare serializers of which at least one is of no known class."""
    if isinstance(old, OpaqueSerializer) and isinstance(new, OpaqueSerializer):
        if old.java_class == new.java_class:
            return found(OWN_SERIALIZER, path, old.java_class)
        return class_changed(old.java_class, new.java_class, context, path)
    # Its class need not be named by any other state: where it is gone, the class path says so.
    return found(OWN_TO_OTHER, path, f"{old.java_class} → {new.java_class}")


def class_changed(
    before: str, after: str, context: Context, path: Path, mend: Mend | None = None
) -> Comparison:
    """Return the finding about a state that is declared with another class."""
    if context.classes.has(before):
        return found(CLASS_CHANGED, path, f"{before} → {after}", mend=mend)
    known = "" if context.classes.has(before) is False else ", unless it is still in the jar"
    return found(CLASS_GONE, path, f"{before} → {after}{known}", mend=mend)


COMPARISONS: dict[type[Serializer], CompareAlike] = {
    EnumSerializer: _compare_enums,
    TupleSerializer: _compare_tuples,
    RowSerializer: _compare_rows,
    RowDataSerializer: _compare_sql_rows,
}


def compare_case_classes(
    old: ScalaCaseClassSerializer, new: ScalaCaseClassSerializer, context: Context, path: Path
) -> Comparison:
    """Compare two case classes."""
    if old.tuple_class != new.tuple_class:
        return class_changed(old.tuple_class, new.tuple_class, context, path)
    if old.width != new.width:
        return found(FIELDS_CHANGED, path, f"{old.type_name} → {new.type_name}")
    nested = _parts(old, new, context, path)
    own = found(FIELD_NAMES, path, old.tuple_class)
    if nested.verdict is Verdict.INCOMPATIBLE:
        # Scala's own tuples take any value; the constructor of a case class does not.
        own |= found(FIELDS_CHANGED, path, f"{old.type_name} → {new.type_name}")
    return own | nested
