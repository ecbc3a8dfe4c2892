"""Rules for Avro: the writer's schema in the snapshot, resolved to the schema of the new job by Avro's specification.

A reader's schema can read a writer's if they match type by type: equal types, numbers that widen (int → long → float → double), string ↔
bytes, records whose every field of the reader is in the writer's or has a default, enums whose symbols the reader has or that
have a default, unions of which each branch of the writer is read by some branch of the reader. Aliases of the reader count.

Flink: AvroSerializerSnapshot#resolveSchemaCompatibility, by Avro's SchemaCompatibility#checkReaderWriterCompatibility
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from doctor.rules.rule import (
    FAILS_REGISTER,
    FAILS_RESTORE,
    FINE,
    LOSES,
    RISK,
    UNKNOWN,
    UNREADABLE_SNAPSHOT,
    Comparison,
    Context,
    Path,
    Verdict,
    found,
    joined,
    refused,
)
from doctor.rules.types import class_changed
from readers import AvroSerializer

Schema: TypeAlias = Any  # JSON

_WIDENED = {
    ("int", "long"), ("int", "float"), ("int", "double"), ("long", "float"), ("long", "double"),
    ("float", "double"), ("string", "bytes"), ("bytes", "string"),
}  # fmt: skip
_ELEMENTS = {"array": "items", "map": "values"}
_NUMBERS = ("int", "long", "float", "double")
_NAMED = ("record", "error", "enum", "fixed")
_MAX_DEPTH = 64
_GENERIC = "org.apache.avro.generic.GenericRecord"
RESOLVES = FINE.but(verdict=Verdict.MIGRATION).rule(
    id="avro-resolves",
    change="another schema, which reads data of the old one: defaults for new fields, wider numbers, aliases, more symbols",
    effect="the values are migrated",
    shown_by="avro-specific-add-default avro-nullable avro-enum-add avro-rename-alias",
)
FIELD_REMOVED = LOSES.but(verdict=Verdict.MIGRATION).rule(
    id="avro-field-removed",
    change="a field removed from an Avro schema",
    effect="the values of the field are dropped; hashmap keeps them in a GenericRecord until it is written anew",
    remedy="keep the field in the schema",
    shown_by="avro-remove avro-specific-remove avro-reflect-remove-field",
)
FIELD_RENAMED = RISK.but(verdict=Verdict.MIGRATION).rule(
    id="avro-field-renamed",
    change="a field of an Avro schema renamed, with an alias",
    effect="the values are kept under the new name; hashmap shows them under the old one until they are written anew",
    remedy="look fields up by the new name, and by the old one until the next savepoint",
    shown_by="avro-rename-alias",
)
INCOMPATIBLE = refused(
    id="avro-incompatible",
    change="a schema that does not read data of the old one (GenericRecord, or POJO fields)",
    remedy="give new fields a default, renamed ones an alias; keep symbols and types",
    shown_by="avro-add-nodefault avro-long-to-string avro-not-nullable avro-enum-remove org.apache.avro.SchemaCompatibility",
)
SPECIFIC_INCOMPATIBLE = FAILS_RESTORE.but(verdict=Verdict.INCOMPATIBLE, rocksdb=FAILS_REGISTER).rule(
    id="avro-specific-incompatible",
    change="a schema that does not read data of the old one (SpecificRecord, reflect)",
    effect="hashmap fails when it decodes values into the new class; rocksdb refuses the state when it is declared",
    flink="AvroTypeException",
    remedy="give new fields a default, renamed ones an alias; keep symbols and types",
    shown_by="avro-specific-add-nodefault avro-specific-retype",
)
GENERIC_ADDED = UNREADABLE_SNAPSHOT.but(verdict=Verdict.MIGRATION, rocksdb=FAILS_REGISTER).rule(
    id="avro-generic-field-added",
    change=(
        "a GenericRecord gains a field, loses one before others, or its fields are reordered or retyped (string → bytes), although the "
        "schemas resolve: at the place of a field the old record has none, or one of another type"
    ),
    effect=(
        "Flink writes the old record with the new schema, field by field in their order: rocksdb fails while it migrates, hashmap "
        "restores and fails at the next savepoint"
    ),
    flink="ArrayIndexOutOfBoundsException, ClassCastException",
    remedy="add fields at a time when the state is written anew, or use a SpecificRecord",
    shown_by="avro-add-default avro-generic-remove-first avro-generic-string-to-bytes o.a.f.formats.avro.typeutils.AvroSerializer",
)
GENERIC_SHIFTED = LOSES.but(verdict=Verdict.MIGRATION).rule(
    id="avro-generic-field-shifted",
    change="a GenericRecord loses a field before others, or its fields are reordered: at its place the old record has another of its type",
    effect="the field gets the values of the other one without an error: rocksdb while it migrates, hashmap at the next savepoint",
    remedy="keep the order of the fields, and remove only the last ones; or use a SpecificRecord",
    shown_by="avro-generic-swap o.a.f.formats.avro.typeutils.AvroSerializer",
)
UNRESOLVED = UNKNOWN.rule(
    id="avro-schema-unreadable",
    change="a schema that cannot be parsed",
    effect="check cannot decide whether the new schema reads the old data",
    remedy="compare the schemas by hand",
    shown_by="org.apache.avro.Schema$Parser",
)


@dataclass(slots=True)
class Resolution:
    """What the resolution of a writer's schema to a reader's found.

    Attributes:
        problems: paths and reasons for which it cannot be read.
        added, removed: fields that only the reader's, only the writer's record has.
        displaced: fields of the reader at whose place the writer's record has no field, or one of a type that is not written as this.
        shifted: fields of the reader at whose place the writer's record has another field, of a type that is written like this.
        renamed: fields of the reader that an alias finds in the writer's record.
    """

    problems: list[str] = field(default_factory=list)
    added: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    displaced: list[str] = field(default_factory=list)
    shifted: list[str] = field(default_factory=list)
    renamed: list[str] = field(default_factory=list)


def resolve(writer: str, reader: str) -> Resolution:
    """Resolve two schemas, given as JSON text.

    Raises:
        ValueError: a text is no Avro schema.
    """
    resolution = Resolution()
    try:
        _Resolver(resolution, _Names(json.loads(writer)), _Names(json.loads(reader))).run()
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"expected an Avro schema, found {error!r:.100}") from error
    return resolution


class _Names:
    """A schema, with its named types by their full names."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.types: dict[str, Schema] = {}
        self.full: dict[int, str] = {}
        self._collect(schema, "", 0)

    def _collect(self, schema: Schema, namespace: str, depth: int) -> None:
        if depth > _MAX_DEPTH:
            raise ValueError(f"expected an Avro schema of at most {_MAX_DEPTH} levels")
        if isinstance(schema, list):
            for branch in schema:
                self._collect(branch, namespace, depth + 1)
            return
        if not isinstance(schema, dict):
            return
        kind = schema["type"]
        if kind in _NAMED:
            name = full_name(schema["name"], schema.get("namespace", namespace))
            self.types[name] = schema
            self.full[id(schema)] = name
            inner = name.rpartition(".")[0]
            for member in schema.get("fields", ()):
                self._collect(member["type"], inner, depth + 1)
        elif kind == "array":
            self._collect(schema["items"], namespace, depth + 1)
        elif kind == "map":
            self._collect(schema["values"], namespace, depth + 1)
        elif isinstance(kind, dict | list):
            self._collect(kind, namespace, depth + 1)

    def resolved(self, schema: Schema, namespace: str) -> Schema:
        """Return the schema that a name stands for, without a wrapper around it."""
        while True:
            if isinstance(schema, str):
                named = self.types.get(full_name(schema, namespace), self.types.get(schema))
                return schema if named is None else named
            if isinstance(schema, dict) and isinstance(schema["type"], dict | list):
                schema = schema["type"]
            else:
                return schema


def full_name(name: str, namespace: str | None) -> str:
    """Return the full name of a named type."""
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _kind(schema: Schema) -> str:
    if isinstance(schema, list):
        return "union"
    return schema if isinstance(schema, str) else str(schema["type"])


class _Resolver:
    def __init__(self, resolution: Resolution, writer: _Names, reader: _Names) -> None:
        self.resolution = resolution
        self.writer = writer
        self.reader = reader
        # Recursive types are compared once.
        self.seen: set[tuple[int, int]] = set()

    def run(self) -> None:
        self.resolution.problems += self.problems(self.writer.schema, self.reader.schema, "", "", "")

    def problems(self, old: Schema, new: Schema, at: str, space_old: str, space_new: str) -> list[str]:
        """Return why data of `old` cannot be read with `new`; fields that come and go are noted."""
        old, new = self.writer.resolved(old, space_old), self.reader.resolved(new, space_new)
        kinds = _kind(old), _kind(new)
        where = at or "the record"
        if kinds[0] == "union":
            return [
                problem for branch in old for problem in self.problems(branch, new, at, space_old, space_new)
            ]
        if kinds[1] == "union":
            return self._branch(old, new, at, space_old, space_new)
        if kinds[0] != kinds[1]:
            return [] if kinds in _WIDENED else [f"{where}: {kinds[0]} → {kinds[1]}"]
        if kinds[0] in _NAMED:
            return self._named(old, new, at)
        if kinds[0] == "array":
            return self.problems(old["items"], new["items"], f"{at}[]", space_old, space_new)
        if kinds[0] == "map":
            return self.problems(old["values"], new["values"], f"{at}{{}}", space_old, space_new)
        return []

    def _branch(self, old: Schema, new: Schema, at: str, space_old: str, space_new: str) -> list[str]:
        # A branch of the same type comes before one to which the value must be widened.
        ranked = sorted(new, key=lambda branch: _kind(self.reader.resolved(branch, space_new)) != _kind(old))
        for branch in ranked:
            if not self.problems(old, branch, at, space_old, space_new):
                return []
        return [f"{at or 'the record'}: {_kind(old)} is in no branch of the union"]

    def _named(self, old: Schema, new: Schema, at: str) -> list[str]:
        names = self.writer.full[id(old)], self.reader.full[id(new)]
        inner = names[1].rpartition(".")[0]
        aliases = {full_name(alias, inner) for alias in new.get("aliases", ())}
        # Avro compares records by their names without the namespace, as `SchemaCompatibility` does.
        if _simple(names[0]) != _simple(names[1]) and names[0] not in aliases:
            return [f"{at or 'the record'}: {names[0]} is now {names[1]}, without an alias"]
        if (id(old), id(new)) in self.seen:
            return []
        self.seen.add((id(old), id(new)))
        if _kind(old) == "fixed":
            return (
                [] if old["size"] == new["size"] else [f"{at}: fixed of {old['size']} → {new['size']} bytes"]
            )
        if _kind(old) == "enum":
            gone = [symbol for symbol in old["symbols"] if symbol not in new["symbols"]]
            return [f"{at}: no symbols {', '.join(gone)}"] if gone and "default" not in new else []
        return self._fields(old, new, at, names[0].rpartition(".")[0], inner)

    def _fields(self, old: Schema, new: Schema, at: str, space_old: str, space_new: str) -> list[str]:
        found: list[str] = []
        written = {member["name"]: member for member in old["fields"]}
        places = [member["name"] for member in old["fields"]]
        order: list[str] = []
        for place, member in enumerate(new["fields"]):
            path = f"{at}.{member['name']}" if at else member["name"]
            known = [name for name in (member["name"], *member.get("aliases", ())) if name in written]
            stands = places[place] if place < len(places) else None
            is_written = stands is not None and self._is_written_alike(
                written[stands]["type"], member["type"], space_old, space_new
            )
            if not is_written:
                self.resolution.displaced.append(path)
            elif stands != (known[0] if known else None):
                self.resolution.shifted.append(path)
            if known:
                order.append(known[0])
                if known[0] != member["name"]:
                    self.resolution.renamed.append(f"{known[0]} → {path}")
                found += self.problems(written[known[0]]["type"], member["type"], path, space_old, space_new)
            else:
                self.resolution.added.append(path)
                if "default" not in member:
                    found.append(f"{path}: a new field without a default")
        self.resolution.removed += [f"{at}.{name}" if at else name for name in written if name not in order]
        return found

    def _is_written_alike(self, old: Schema, new: Schema, space_old: str, space_new: str) -> bool:
        """Return whether a value of one type can be written as one of another: all numbers can, a union takes those of its branches."""
        one, other = self.writer.resolved(old, space_old), self.reader.resolved(new, space_new)
        if _kind(one) == "union" or _kind(other) == "union":
            kinds = [
                {
                    _kind(names.resolved(branch, space))
                    for branch in (schema if _kind(schema) == "union" else [schema])
                }
                for names, schema, space in ((self.writer, one, space_old), (self.reader, other, space_new))
            ]
            return kinds[0] <= kinds[1]
        if _kind(one) == _kind(other) and _kind(one) in _ELEMENTS:
            element = _ELEMENTS[_kind(one)]
            return self._is_written_alike(one[element], other[element], space_old, space_new)
        return _kind(one) == _kind(other) or (_kind(one) in _NUMBERS and _kind(other) in _NUMBERS)


def _simple(name: str) -> str:
    return name.rpartition(".")[2]


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
