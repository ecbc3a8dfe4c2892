"""Rules for Avro: the writer's schema in the snapshot, resolved to the schema of the new job.

Flink: AvroSerializerSnapshot#resolveSchemaCompatibility, by Avro's SchemaCompatibility
"""

from __future__ import annotations

import json

from doctor.rules.avroschemas import Resolution, resolve
from doctor.rules.context import Comparison, Context, Path, found, joined
from doctor.rules.rule import (
    FAILS_REGISTER,
    FAILS_RESTORE,
    FINE,
    LOSES,
    RISK,
    UNKNOWN,
    UNREADABLE_SNAPSHOT,
    Rule,
    Verdict,
    refused,
)
from doctor.rules.types import class_changed
from readers import AvroSerializer

_GENERIC = "org.apache.avro.generic.GenericRecord"

RESOLVES = Rule(
    id="avro-resolves",
    change="another schema, which reads data of the old one: defaults for new fields, wider numbers, aliases, more symbols",
    effect="the values are migrated",
    verdict=Verdict.MIGRATION,
    heap=FINE,
    shown_by="avro-specific-add-default avro-nullable avro-enum-add avro-rename-alias",
)
FIELD_REMOVED = Rule(
    id="avro-field-removed",
    change="a field removed from an Avro schema",
    effect="the values of the field are dropped; hashmap keeps them in a GenericRecord until it is written anew",
    verdict=Verdict.MIGRATION,
    heap=LOSES,
    remedy="keep the field in the schema",
    shown_by="avro-remove avro-specific-remove avro-reflect-remove-field",
)
FIELD_RENAMED = Rule(
    id="avro-field-renamed",
    change="a field of an Avro schema renamed, with an alias",
    effect="the values are kept under the new name; hashmap shows them under the old one until they are written anew",
    verdict=Verdict.MIGRATION,
    heap=RISK,
    remedy="look fields up by the new name, and by the old one until the next savepoint",
    shown_by="avro-rename-alias",
)
INCOMPATIBLE = refused(
    id="avro-incompatible",
    change="a schema that does not read data of the old one (GenericRecord, or POJO fields)",
    remedy="give new fields a default, renamed ones an alias; keep symbols and types",
    shown_by="avro-add-nodefault avro-long-to-string avro-not-nullable avro-enum-remove org.apache.avro.SchemaCompatibility",
)
SPECIFIC_INCOMPATIBLE = Rule(
    id="avro-specific-incompatible",
    change="a schema that does not read data of the old one (SpecificRecord, reflect)",
    effect="hashmap fails when it decodes values into the new class; rocksdb refuses the state when it is declared",
    verdict=Verdict.INCOMPATIBLE,
    heap=FAILS_RESTORE,
    rocksdb=FAILS_REGISTER,
    flink="AvroTypeException",
    remedy="give new fields a default, renamed ones an alias; keep symbols and types",
    shown_by="avro-specific-add-nodefault avro-specific-retype",
)
GENERIC_ADDED = Rule(
    id="avro-generic-field-added",
    change=(
        "a GenericRecord gains a field, loses one before others, or its fields are reordered or retyped (string → bytes), although the "
        "schemas resolve: at the place of a field the old record has none, or one of another type"
    ),
    effect=(
        "Flink writes the old record with the new schema, field by field in their order: rocksdb fails while it migrates, hashmap "
        "restores and fails at the next savepoint"
    ),
    verdict=Verdict.MIGRATION,
    heap=UNREADABLE_SNAPSHOT,
    rocksdb=FAILS_REGISTER,
    flink="ArrayIndexOutOfBoundsException, ClassCastException",
    remedy="add fields at a time when the state is written anew, or use a SpecificRecord",
    shown_by="avro-add-default avro-generic-remove-first avro-generic-string-to-bytes o.a.f.formats.avro.typeutils.AvroSerializer",
)
GENERIC_SHIFTED = Rule(
    id="avro-generic-field-shifted",
    change="a GenericRecord loses a field before others, or its fields are reordered: at its place the old record has another of its type",
    effect="the field gets the values of the other one, and nothing says so: rocksdb while it migrates, hashmap at the next savepoint",
    verdict=Verdict.MIGRATION,
    heap=LOSES,
    remedy="keep the order of the fields, and remove only the last ones; or use a SpecificRecord",
    shown_by="avro-generic-swap o.a.f.formats.avro.typeutils.AvroSerializer",
)
UNRESOLVED = Rule(
    id="avro-schema-unreadable",
    change="a schema that cannot be parsed",
    effect="it cannot be told whether the new schema reads the old data",
    heap=UNKNOWN,
    remedy="compare the schemas by hand",
    shown_by="org.apache.avro.Schema$Parser",
)


def compare_avro(old: AvroSerializer, new: AvroSerializer, context: Context, path: Path) -> Comparison:
    """Compare two Avro types by their schemas."""
    # Snapshots of before 1.8 name no class.
    if old.runtime_class and new.runtime_class and old.runtime_class != new.runtime_class:
        return class_changed(old.runtime_class, new.runtime_class, context, path)
    try:
        if json.loads(old.schema) == json.loads(new.schema):
            return Comparison()
        resolution = resolve(old.schema, new.schema)
    except ValueError as error:
        return found(UNRESOLVED, path, str(error))
    return _result(resolution, path, is_generic=new.runtime_class in ("", _GENERIC))


def _result(resolution: Resolution, path: Path, *, is_generic: bool) -> Comparison:
    if resolution.problems:
        rule = INCOMPATIBLE if is_generic else SPECIFIC_INCOMPATIBLE
        return found(rule, path, "; ".join(resolution.problems))
    places = ((GENERIC_ADDED, resolution.displaced), (GENERIC_SHIFTED, resolution.shifted))
    names = ((FIELD_RENAMED, resolution.renamed), (FIELD_REMOVED, resolution.removed))
    met = [(rule, fields) for rule, fields in (*(places if is_generic else ()), *names) if fields]
    return (
        joined(found(rule, path, ", ".join(fields)) for rule, fields in met) if met else found(RESOLVES, path)
    )
