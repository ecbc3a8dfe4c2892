"""The classes that a savepoint names, and what is known of the classes of the new job."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.job import Job, JobOperator
from doctor.report import RequiredClass
from doctor.rules.context import KnownClasses, walk
from readers import EnumSerializer, KryoSerializer, OpaqueSerializer, PojoSerializer, Serializer

_CLASS_NAME = re.compile(r"[A-Za-z_$][\w$]*(\.[\w$]+)*")
# Classes of the JDK, of Flink and of Scala are not in the jar of a job.
NOT_OF_THE_JOB = ("java.", "javax.", "org.apache.flink.", "scala.", "org.apache.avro.")
DECLARES = "declares a field"
_ROLES = (
    ("pojo_class", "POJO"),
    ("enum_class", "enum"),
    ("type_class", "Kryo class"),
    ("runtime_class", "Avro class"),
    ("tuple_class", "tuple class"),
    ("component_class", "array component"),
)


def named_classes(node: Serializer) -> Iterator[tuple[str, str]]:
    """Yield the classes that a node of a type tree names, each with its role."""
    for attribute, role in _ROLES:
        name = getattr(node, attribute, "")
        # Of a Scala collection the snapshot holds source code there.
        if _CLASS_NAME.fullmatch(name):
            yield name, role
    if isinstance(node, OpaqueSerializer) and _CLASS_NAME.fullmatch(node.java_class):
        yield node.java_class, "serializer snapshot"
    if isinstance(node, PojoSerializer):
        for field in node.fields:
            if field.declared_in and not field.hidden:
                yield field.declared_in, DECLARES
    if isinstance(node, KryoSerializer):
        for registration in node.settings.registrations:
            yield registration.class_name, "registered with Kryo"
            if _CLASS_NAME.fullmatch(registration.serializer):
                yield registration.serializer, "Kryo serializer"


def known_classes(new: Job) -> KnownClasses:
    """Return what the types of the new job, and its jar, tell about its classes."""
    named: set[str] = set()
    pojos: dict[str, PojoSerializer] = {}
    enums: dict[str, EnumSerializer] = {}
    for operator in new.operators.values():
        for tree in _trees(operator):
            for _, node in walk(tree):
                # A type that was taken from the savepoint shows nothing about the new job.
                if not operator.assumed:
                    named.update(name for name, _ in named_classes(node))
                if isinstance(node, PojoSerializer):
                    pojos.setdefault(node.pojo_class, node)
                elif isinstance(node, EnumSerializer):
                    enums.setdefault(node.enum_class, node)
    return KnownClasses(named=frozenset(named), pojos=pojos, enums=enums, jar=new.classes)


def required_classes(operator: JobOperator, known: KnownClasses) -> Iterator[RequiredClass]:
    """Yield the classes of the job that the states of an operator name, each once a state and role."""
    roots = [("", operator.key)] if operator.key is not None else []
    roots += [(state.name, tree) for state in operator.states for tree in state.entry.serializers()]
    seen = set()
    for state_name, tree in roots:
        assert tree is not None
        for _, node in walk(tree):
            for name, role in named_classes(node):
                if (state_name, name, role) in seen or name.startswith(NOT_OF_THE_JOB):
                    continue
                seen.add((state_name, name, role))
                yield RequiredClass(
                    class_name=name,
                    role=role,
                    operator_id=operator.operator_id,
                    state_name=state_name,
                    exists=known.has(name),
                )


def _trees(operator: JobOperator) -> Iterator[Serializer]:
    if operator.key is not None:
        yield operator.key
    for state in operator.states:
        yield from state.entry.serializers()
