"""`Declarations`: what the calls in the code of a jar declare: states, uids, registered classes, types of keys.

A state is declared by a descriptor of Flink (`new ValueStateDescriptor<>("count", Types.LONG)`), or by any method that takes the name
of a state and a type: jobs have helpers of their own. The name of such a method tells the kind of state, if anything does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from readers.errors import ReaderError
from readers.formats.entry import StateKind
from readers.jars.classpath import ClassPath
from readers.jars.declared import values
from readers.jars.declared.interpreter import Interpreter
from readers.jars.declared.queries import Query, queries_in
from readers.jars.declared.types import TypeReader, UntoldTypeError
from readers.jars.extractor import Registrations, TypeExtractor
from readers.jars.signatures import OBJECT, JavaType, method_signature
from readers.serializers.base import Serializer
from readers.serializers.kryo.settings import KryoRegistration

# Descriptors that are given to these methods are of other kinds than their classes tell.
_OPERATOR_STATE = {
    "getListState": StateKind.OPERATOR_LIST,
    "getUnionListState": StateKind.UNION_LIST,
    "getBroadcastState": StateKind.BROADCAST,
    "broadcast": StateKind.BROADCAST,
}
_OPERATOR_STORES = ("OperatorStateStore", "OperatorStateBackend")
_DESCRIPTORS = {
    "ValueStateDescriptor": StateKind.VALUE,
    "ListStateDescriptor": StateKind.LIST,
    "MapStateDescriptor": StateKind.MAP,
    "ReducingStateDescriptor": StateKind.REDUCING,
    "AggregatingStateDescriptor": StateKind.AGGREGATING,
}
_STATE_PACKAGES = (
    "org.apache.flink.api.common.state.",
    "org.apache.flink.runtime.state.v2.",
    "org.apache.flink.api.common.state.v2.",
)

# Words in the name of a helper → the kind of state that it declares; the first one that is found counts.
_KINDS_BY_WORD = (
    ("union", StateKind.UNION_LIST), ("broadcast", StateKind.BROADCAST),
    ("oplist", StateKind.OPERATOR_LIST), ("operatorlist", StateKind.OPERATOR_LIST),
    ("reduc", StateKind.REDUCING), ("aggregat", StateKind.AGGREGATING), ("list", StateKind.LIST),
    ("map", StateKind.MAP), ("value", StateKind.VALUE),
)  # fmt: skip
_TTL_METHOD = "enableTimeToLive"
_MAX_SUPERCLASSES = 64
_WORK_OF_TREES = 10  # units of work that it costs to compare two types
_TTL_WORDS = ("ttl", "timetolive")
_KRYO_REGISTRATIONS = {"registerKryoType": 1, "registerTypeWithKryoSerializer": 2}
_WITH_MAP_KEY = (StateKind.MAP, StateKind.BROADCAST)

# Code of libraries declares no state of a job.
_LIBRARIES = (
    "org.apache.", "java.", "javax.", "scala.", "kotlin.", "com.google.", "com.fasterxml.", "io.netty.", "org.slf4j.",
    "ch.qos.", "com.esotericsoftware.", "org.codehaus.", "akka.", "com.typesafe.", "com.amazonaws.", "software.amazon.",
    "org.rocksdb.", "org.xerial.", "net.jpountz.", "org.springframework.", "org.objectweb.",
    # Their methods have names that states have, too, such as `count`.
    "org.eclipse.collections.", "org.eclipse.jetty.", "org.locationtech.", "org.roaringbitmap.", "org.joda.", "it.unimi.dsi.",
)  # fmt: skip
_MAX_CLASSES = 5_000
_KEY_SELECTOR = "org.apache.flink.api.java.functions.KeySelector"

# What a class mentions that declares something.
_MARKS = (
    "StateDescriptor", "setUidHash", "registerPojoType", "registerKryoType", "registerTypeWithKryoSerializer", "keyBy",
    "KeySelector", "axParallelism", "GROUP BY", "group by",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredState:
    """A state that the code declares.

    Attributes:
        name: the name.
        kind: None where it cannot be told.
        map_key, value: the types; None where they cannot be told.
        untold: why a type cannot be told; empty where all can.
        has_ttl: True if it has a time to live; None where the code does not tell.
        is_v2: it is declared by the asynchronous state API; None where the code does not tell.
        where: class and method.
    """

    name: str
    kind: StateKind | None
    map_key: Serializer | None
    value: Serializer | None
    untold: str
    has_ttl: bool | None
    is_v2: bool | None
    where: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Declarations:
    """What the code of a jar declares.

    Attributes:
        states: name → the declarations of that name, which may differ.
        has_unnamed: True if states are declared whose names the code does not tell.
        texts: all texts in the code that was read.
        queries: the queries with aggregates among the texts.
        uids: the texts that are given to `uid`.
        uid_hashes: the texts that are given to `setUidHash`.
        keys: the types of keys, in the order of the code, each once; those that can be told.
        has_untold_keys: True if there are keys whose types cannot be told.
        registrations: the classes that are registered.
        max_parallelism: of the job; 0 if it is not set, None where the code does not tell.
        is_complete: False if some of the code was not looked at.
    """

    states: dict[str, tuple[DeclaredState, ...]] = field(default_factory=dict)
    has_unnamed: bool = False
    texts: frozenset[str] = frozenset()
    queries: tuple[Query, ...] = ()
    uids: frozenset[str] = frozenset()
    uid_hashes: frozenset[str] = frozenset()
    keys: tuple[Serializer, ...] = ()
    has_untold_keys: bool = False
    registrations: Registrations = field(default_factory=Registrations)
    max_parallelism: int | None = None
    is_complete: bool = True


def read_declarations(
    classes: ClassPath, names: Iterable[str], *, flink_major: int, avro_array: KryoRegistration | None = None
) -> tuple[Declarations, TypeExtractor]:
    """Return what the code of a jar declares, and the extractor of its types with the classes that it registers.

    Args:
        classes: the jar.
        names: of the states of the savepoint: methods that take one of them declare a state.
        flink_major: 1 or 2.
        avro_array: what Kryo registers for Avro's arrays.
    """
    wanted = frozenset(names)
    own = [name for name in classes.mentioning(_MARKS, wanted) if not name.startswith(_LIBRARIES)]
    interpreter = Interpreter(classes)
    interpreter.interpret(own[:_MAX_CLASSES])
    registrations = _registrations(interpreter.calls)
    extractor = TypeExtractor(
        classes, flink_major=flink_major, registrations=registrations, avro_array=avro_array
    )
    reader = _Reader(classes, interpreter, TypeReader(classes, extractor, interpreter), wanted)
    found: dict[str, list[DeclaredState]] = {}
    for state in reader.states():
        found.setdefault(state.name, []).append(state)
    keys, has_untold_keys = reader.keys()
    texts = frozenset(interpreter.texts)
    declarations = Declarations(
        states={name: tuple(states) for name, states in found.items()},
        has_unnamed=reader.has_unnamed,
        texts=texts,
        queries=tuple(queries_in(texts)),
        uids=frozenset(_given(interpreter.calls, "uid")),
        uid_hashes=frozenset(_given(interpreter.calls, "setUidHash")),
        keys=tuple(keys),
        has_untold_keys=has_untold_keys,
        registrations=registrations,
        max_parallelism=_max_parallelism(interpreter),
        is_complete=interpreter.is_complete and len(own) <= _MAX_CLASSES and not classes.unread,
    )
    return declarations, extractor


def _given(calls: list[values.Call], name: str) -> Iterator[str]:
    """Yield the texts that are given to a method."""
    for call in calls:
        text = values.text_of(call.arguments[0]) if call.name == name and call.arguments else None
        if text is not None:
            yield text


def _max_parallelism(interpreter: Interpreter) -> int | None:
    """Return the max parallelism that is set for the whole job, or that a method of the job with such a name returns."""
    found = {
        values.number_of(call.arguments[0])
        for call in interpreter.calls
        if call.name == "setMaxParallelism" and call.owner.endswith("Environment") and call.arguments
    }
    found |= {
        values.number_of(value)
        for (_, name, descriptor), value in interpreter.returned.items()
        if descriptor == "()I" and name.lower().removeprefix("get") in ("maxparallelism", "maxpar")
    }
    return found.pop() if len(found) == 1 else None


def _registrations(calls: list[values.Call]) -> Registrations:
    """Return the classes that are registered with the serializers, in order."""
    pojo: list[str] = []
    kryo: dict[str, KryoRegistration] = {}
    for call in calls:
        classes = [each.name for each in call.arguments if isinstance(each, values.ClassValue)]
        if call.name == "registerPojoType" and len(classes) == 1:
            pojo.append(classes[0])
        elif _KRYO_REGISTRATIONS.get(call.name) == len(classes) == len(call.arguments):
            kryo[classes[0]] = KryoRegistration(class_name=classes[0], serializer="".join(classes[1:]))
    return Registrations(pojo=tuple(dict.fromkeys(pojo)), kryo=tuple(kryo.values()))


class _Reader:
    """Reads declarations from calls."""

    def __init__(
        self, classes: ClassPath, interpreter: Interpreter, types: TypeReader, wanted: frozenset[str]
    ) -> None:
        self._classes = classes
        self._calls = interpreter.calls
        self._interpreter = interpreter
        self._types = types
        self._wanted = wanted
        self.has_unnamed = False
        self._uses = [call for call in self._calls if call.name in _OPERATOR_STATE]
        self._ttl_calls = [
            call for call in self._calls if any(word in call.name.lower() for word in _TTL_WORDS)
        ]
        self._has_loose_ttl = self._is_ttl_loose()

    def states(self) -> Iterator[DeclaredState]:
        """Yield the states that are declared by descriptors and by helpers."""
        yield from self._by_descriptors()
        yield from self._by_helpers()

    def keys(self) -> tuple[list[Serializer], bool]:
        """Return the types of keys: those given to `keyBy`, those of key selectors, and those of methods that are named so.

        True is returned with them if some cannot be told: one of these may be the one that is looked for.
        """
        seen: list[Serializer] = []
        is_untold = False
        for value in self._key_values():
            if value is None:
                is_untold = True
                continue
            try:
                found = (
                    self._types.of(value) if isinstance(value, JavaType) else self._types.serializer(value)
                )
            except UntoldTypeError:
                is_untold = True
                continue
            if not self._interpreter.count(_WORK_OF_TREES * len(seen)):
                return seen, True
            if found not in seen:
                seen.append(found)
        return seen, is_untold

    def _key_values(self) -> Iterator[values.Value | JavaType | None]:
        """Yield what stands for the type of each key; None where the code does not tell."""
        for call in self._calls:
            if call.name == "keyBy" and len(call.arguments) == 2:
                yield call.arguments[1]
            elif call.name == "keyBy" and len(call.arguments) == 1:
                yield self._selected(call.arguments[0])
        for (_, name, descriptor), value in self._interpreter.returned.items():
            plain = name.lower()
            if descriptor == "()Lorg/apache/flink/api/common/typeinfo/TypeInformation;" and plain in (
                "keytype", "getkeytype", "keytypeinfo", "getkeytypeinfo", "keytypeinformation",
            ):  # fmt: skip
                yield value

    def _selected(self, selector: values.Value) -> JavaType | None:
        """Return the type that a key selector returns; None where the code does not tell."""
        try:
            if isinstance(selector, values.Lambda):
                returned = method_signature(selector.bound).returns
                return None if returned.name == OBJECT else returned
            return self._selected_by(selector.class_name) if isinstance(selector, values.Instance) else None
        except ReaderError:
            return None

    def _selected_by(self, name: str) -> JavaType | None:
        """Return the type that a class of key selectors returns, by its superclasses too."""
        current = JavaType(name)
        for _ in range(_MAX_SUPERCLASSES):
            found = self._classes.find(current.name)
            if found is None:
                return None
            generics = found.generics
            parameters = [parameter for parameter, _ in generics.parameters]
            variables = dict(zip(parameters, current.arguments, strict=False))
            for each in generics.interfaces:
                if each.name == _KEY_SELECTOR and len(each.arguments) == 2:
                    selected = each.arguments[1].bound(variables)
                    return None if selected.is_generic else selected
            current = generics.superclass.bound(variables)
        return None

    def _by_descriptors(self) -> Iterator[DeclaredState]:
        made = [
            (each, where)
            for each, where in self._interpreter.made
            if each.class_name.startswith(_STATE_PACKAGES)
        ]
        for instance, where in made:
            kind = _DESCRIPTORS.get(instance.class_name.rsplit(".", 1)[-1])
            name = values.text_of(instance.arguments[0]) if instance.arguments else None
            if kind is None:
                continue
            if name is None:
                # A helper is read once for itself, without the arguments of its calls.
                self.has_unnamed |= not _is_parameter(instance)
                continue
            if not self._interpreter.count((len(self._uses) + len(self._ttl_calls)) // 8):
                return
            kinds = self._kinds_of_use(instance, name) or [kind]
            types = [each for each in instance.arguments[1:] if self._types.is_type(each)]
            for used in kinds:
                is_v2 = ".v2." in instance.class_name
                yield self._state(name, used, types, self._has_ttl(instance), where, is_v2=is_v2)

    def _kinds_of_use(self, instance: values.Instance, name: str) -> list[StateKind]:
        """Return the kinds of operator state that a descriptor is used for; none if it is one of keyed state."""
        kinds = []
        for call in self._uses:
            kind = _OPERATOR_STATE[call.name]
            given = any(
                each is instance
                or (
                    isinstance(each, values.Instance)
                    and each.class_name == instance.class_name
                    and each.arguments
                    and values.text_of(each.arguments[0]) == name
                )
                for each in call.arguments
            )
            if not given:
                continue
            # Keyed list state has a method of the same name.
            if kind is StateKind.OPERATOR_LIST and not call.owner.endswith(_OPERATOR_STORES):
                continue
            if kind not in kinds:
                kinds.append(kind)
        return kinds

    def _by_helpers(self) -> Iterator[DeclaredState]:
        helpers = {_method(call) for call, name, _ in self._named_calls() if name in self._wanted}
        for call, name, types in self._named_calls():
            if not self._interpreter.count(1 + len(self._ttl_calls) // 8):
                return
            if name in self._wanted or _method(call) in helpers:
                yield self._state(name, kind_of(call.name), types, self._has_ttl(call), call.caller)

    def _named_calls(self) -> Iterator[tuple[values.Call, str, list[values.Value]]]:
        """Yield the calls of other than Flink's methods that take a text and, behind it, types."""
        for call in self._calls:
            if call.owner.startswith(_LIBRARIES):
                continue
            for index, argument in enumerate(call.arguments):
                name = values.text_of(argument)
                types = [each for each in call.arguments[index + 1 :] if self._types.is_type(each)]
                if name is not None and types:
                    yield call, name, types
                    break

    def _has_ttl(self, declared: values.Value) -> bool | None:
        """Return whether a method with a name like `enableTimeToLive` is called on a descriptor, or on what a helper returns.

        None is returned where the code calls it in some cases only, or on a descriptor that may be this one.
        """
        found = [call for call in self._ttl_calls if _root(call.receiver, declared)]
        if found:
            return None if all(call.is_conditional for call in found) else True
        return None if self._has_loose_ttl else False

    def _is_ttl_loose(self) -> bool:
        """Return whether the code sets a time to live on a descriptor that it does not tell: of a loop, a lambda, a caller."""
        calls = [call for call in self._ttl_calls if call.name == _TTL_METHOD]
        return any(
            call.receiver != values.Unknown(values.PARAMETER) or not self._is_followed(call.caller)
            for call in calls
            if not isinstance(call.receiver, values.Instance)
        )

    def _is_followed(self, caller: str) -> bool:
        """Return whether all calls of a method, of which there are some, have descriptors that the code tells."""
        name = caller.rpartition(".")[2]
        if not self._interpreter.count(len(self._calls) // _WORK_OF_TREES):
            return False
        calls = [
            call
            for call in self._calls
            if call.name == name and _takes_descriptor(call) and call.caller != caller
        ]
        return bool(calls) and all(
            any(isinstance(each, values.Instance) for each in call.arguments)
            and f"{call.owner}.{call.name}" == caller
            for call in calls
        )

    def _state(
        self,
        name: str,
        kind: StateKind | None,
        types: list[values.Value],
        has_ttl: bool | None,
        where: str,
        *,
        is_v2: bool | None = None,
    ) -> DeclaredState:
        found: list[Serializer | None] = []
        untold = []
        for each in types:
            try:
                found.append(self._types.serializer(each))
            except UntoldTypeError as error:
                found.append(None)
                untold.append(str(error))
        map_key = found[0] if kind in _WITH_MAP_KEY and len(found) > 1 else None
        if not found:
            untold.append("its type is given in a way that the code does not tell")
        return DeclaredState(
            name=name,
            kind=kind,
            map_key=map_key,
            value=found[-1] if found else None,
            untold="; ".join(untold),
            has_ttl=has_ttl,
            is_v2=is_v2,
            where=where,
        )


def _takes_descriptor(call: values.Call) -> bool:
    return "StateDescriptor;" in call.descriptor.partition(")")[0]


def _is_parameter(instance: values.Instance) -> bool:
    """Return whether the name of a state is an argument of the method that declares it."""
    return bool(instance.arguments) and instance.arguments[0] == values.Unknown(values.PARAMETER)


def kind_of(method: str) -> StateKind | None:
    """Return the kind of state that a helper of a name declares; None where the name does not tell."""
    plain = method.lower()
    # `opList`, `opUnion`: of an operator.
    if "list" in plain and (plain.startswith("op") or "operator" in plain) and "union" not in plain:
        return StateKind.OPERATOR_LIST
    return next((kind for word, kind in _KINDS_BY_WORD if word in plain), None)


def _method(call: values.Call) -> tuple[str, str, str]:
    return call.owner, call.name, call.descriptor


def _root(receiver: values.Value | None, declared: values.Value) -> bool:
    """Return whether a chain of calls begins at a value."""
    for _ in range(16):
        if receiver is declared:
            return True
        if not isinstance(receiver, values.Call):
            return False
        receiver = receiver.receiver
    return False
