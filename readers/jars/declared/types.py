"""Abstract values that stand for types → serializers: `Types.LONG`, `TypeInformation.of(X.class)`, `new TypeHint<X>() {}`.

A value is a class, a `TypeInformation` or a `TypeSerializer`; where it cannot be told, `UntoldTypeError` says why.
"""

from __future__ import annotations

from collections.abc import Callable

from readers.errors import ReaderError
from readers.jars.classpath import ClassPath
from readers.jars.declared.interpreter import Interpreter
from readers.jars.declared.values import (
    ArrayValue,
    Call,
    ClassValue,
    Constant,
    Instance,
    StaticField,
    Value,
    text_of,
)
from readers.jars.extractor import Extraction, TypeExtractor
from readers.jars.signatures import JavaType, class_type
from readers.serializers.avro import AvroSerializer, read_schema
from readers.serializers.base import OpaqueSerializer, Serializer
from readers.serializers.containers import (
    EnumSerializer,
    GenericArraySerializer,
    ListSerializer,
    MapSerializer,
    NullableSerializer,
    SetSerializer,
)
from readers.serializers.named import BASIC_TYPES
from readers.serializers.structs import EitherSerializer, RowSerializer, TupleSerializer

_TYPE_HINT = "org.apache.flink.api.common.typeinfo.TypeHint"
_TUPLE = "org.apache.flink.api.java.tuple.Tuple"
_INFO = "org.apache.flink.api.common.typeinfo."
_UTILS = "org.apache.flink.api.java.typeutils."
_AVRO = "org.apache.flink.formats.avro.typeutils."
_SERIALIZER = "org.apache.flink.api.common.typeutils.TypeSerializer"
_MAX_DEPTH = 32
_WORK = 4  # units of the interpreter that it costs to read one

# Fields of `Types`, of `BasicTypeInfo` and its like → the class whose type they are.
_CLASSES_OF_FIELDS = {
    "STRING": "java.lang.String", "BYTE": "java.lang.Byte", "BOOLEAN": "java.lang.Boolean", "SHORT": "java.lang.Short",
    "INT": "java.lang.Integer", "LONG": "java.lang.Long", "FLOAT": "java.lang.Float", "DOUBLE": "java.lang.Double",
    "CHAR": "java.lang.Character", "BIG_DEC": "java.math.BigDecimal", "BIG_INT": "java.math.BigInteger",
    "DATE": "java.util.Date", "VOID": "java.lang.Void", "INSTANT": "java.time.Instant",
    "SQL_DATE": "java.sql.Date", "SQL_TIME": "java.sql.Time", "SQL_TIMESTAMP": "java.sql.Timestamp",
}  # fmt: skip
_LOCAL_TIMES = {"LOCAL_DATE": "LocalDate", "LOCAL_TIME": "LocalTime", "LOCAL_DATE_TIME": "LocalDateTime"}
_PRIMITIVE_ARRAYS = {
    "BOOLEAN": "[Z", "BYTE": "[B", "SHORT": "[S", "INT": "[I", "LONG": "[J", "FLOAT": "[F", "DOUBLE": "[D",
    "CHAR": "[C",
}  # fmt: skip
_SQL_TIMES = {"DATE": "java.sql.Date", "TIME": "java.sql.Time", "TIMESTAMP": "java.sql.Timestamp"}


class UntoldTypeError(Exception):
    """A type that the code does not tell."""


class TypeReader:
    """Reads types from abstract values.

    Args:
        classes: the jars.
        extractor: of their classes.
        interpreter: of their code.
    """

    def __init__(self, classes: ClassPath, extractor: TypeExtractor, interpreter: Interpreter) -> None:
        self._classes = classes
        self._extractor = extractor
        self._interpreter = interpreter
        self._depth = 0
        self._extracted: dict[JavaType, Extraction] = {}

    def is_type(self, value: Value) -> bool:
        """Return whether a value stands for a type, which may be one that cannot be told."""
        if isinstance(value, ClassValue):
            return True
        if isinstance(value, StaticField):
            return value.owner.startswith((_INFO, _UTILS)) or value.owner.endswith(("Serializer", "TypeInfo"))
        if isinstance(value, Instance):
            return self._is_type_class(value.class_name)
        if isinstance(value, Call):
            returned = value.descriptor.rsplit(")", 1)[-1]
            return returned.endswith(("TypeInformation;", "TypeSerializer;", "TypeInfo;"))
        return False

    def serializer(self, value: Value) -> Serializer:
        """Return the serializer of the type that a value stands for.

        Raises:
            UntoldTypeError: it cannot be told.
        """
        self._depth += 1
        try:
            # What is given twice in each type leads to a billion types in thirty.
            if self._depth > _MAX_DEPTH or not self._interpreter.count(_WORK):
                raise UntoldTypeError("more types in one another than are looked at")
            return self._read(value)
        finally:
            self._depth -= 1

    def of(self, java_type: JavaType) -> Serializer:
        """Return the serializer that Flink extracts for a type.

        Raises:
            UntoldTypeError: it cannot be told.
        """
        found = self._extracted.get(java_type)
        if found is None:
            found = self._extracted[java_type] = self._extractor.extract(java_type)
            self._interpreter.count(self._extractor.types_seen)
        if found.serializer is None:
            raise UntoldTypeError(found.unknown)
        return found.serializer

    def _read(self, value: Value) -> Serializer:
        if isinstance(value, ClassValue):
            return self.of(class_type(value.name))
        if isinstance(value, StaticField):
            return self._static(value)
        if isinstance(value, Instance):
            return self._made(value)
        if isinstance(value, Call):
            return self._called(value)
        raise UntoldTypeError("the type is not a constant of the code")

    def _static(self, value: StaticField) -> Serializer:
        owner, name = value.owner.rsplit(".", 1)[-1], value.name
        plain = name.removesuffix("_TYPE_INFO")
        if owner in ("Types", "BasicTypeInfo") and plain in _CLASSES_OF_FIELDS:
            return self.of(JavaType(_CLASSES_OF_FIELDS[plain]))
        if owner in ("Types", "LocalTimeTypeInfo") and name in _LOCAL_TIMES:
            return BASIC_TYPES[_LOCAL_TIMES[name]]
        if owner == "SqlTimeTypeInfo" and name in _SQL_TIMES:
            return self.of(JavaType(_SQL_TIMES[name]))
        array = name.removesuffix("_ARRAY_TYPE_INFO").removeprefix("PRIMITIVE_").removesuffix("_PRIMITIVE")
        if owner == "PrimitiveArrayTypeInfo" and array in _PRIMITIVE_ARRAYS:
            return self.of(class_type(_PRIMITIVE_ARRAYS[array]))
        if owner == "BasicArrayTypeInfo" and array in _CLASSES_OF_FIELDS:
            return self.of(class_type(f"[L{_CLASSES_OF_FIELDS[array]};"))
        if name == "INSTANCE":
            return self._serializer_class(value.owner)
        raise UntoldTypeError(f"the value of {value.owner}.{name}")

    def _made(self, value: Instance) -> Serializer:
        arguments = value.arguments
        read = _CONSTRUCTORS.get(value.class_name)
        if read is not None and arguments:
            return read(self, arguments)
        hinted = self._hinted(value)
        if hinted is not None:
            return self.of(hinted)
        return self._serializer_class(value.class_name)

    def _hinted(self, value: Instance) -> JavaType | None:
        """Return the type that an anonymous subclass of `TypeHint` captures; None for other objects."""
        try:
            found = self._classes.find(value.class_name)
            generic = found.generics.superclass if found is not None else None
        except ReaderError:
            return None
        if generic is None or generic.name != _TYPE_HINT or len(generic.arguments) != 1:
            return None
        return generic.arguments[0]

    def _called(self, value: Call) -> Serializer:
        read = _METHODS.get((value.owner, value.name))
        if read is not None:
            return read(self, value.arguments)
        # `new TypeHint<X>() {}.getTypeInfo()`, `info.createSerializer(config)`
        if value.name in ("getTypeInfo", "createSerializer", "duplicate") and value.receiver is not None:
            return self.serializer(value.receiver)
        raise UntoldTypeError(f"what {value.owner}.{value.name} returns")

    def _is_type_class(self, name: str) -> bool:
        for _ in range(_MAX_DEPTH):
            if name.startswith((_INFO, _UTILS, _AVRO, _SERIALIZER)) or name.endswith(
                ("TypeInfo", "Serializer")
            ):
                return True
            try:
                found = self._classes.find(name)
            except ReaderError:
                return False
            if found is None or found.super_name is None:
                return name.startswith("org.apache.flink.api.common.typeutils.")
            name = found.super_name
        return False

    def _serializer_class(self, name: str) -> Serializer:
        """Return the serializer of a class of Flink without parameters, or of a class of the jar."""
        known = _BY_CLASS.get(name)
        if known is not None:
            return known
        self._interpreter.interpret_more(name)
        for (owner, method, _), returned in self._interpreter.returned.items():
            if owner == name and method == "snapshotConfiguration" and isinstance(returned, Instance):
                return OpaqueSerializer(returned.class_name, "the job's own serializer")
        raise UntoldTypeError(f"the type that {name} stands for")

    def _all(self, values: tuple[Value, ...]) -> tuple[Serializer, ...]:
        """Return the serializers of arguments, the elements of a last array among them."""
        if values and isinstance(values[-1], ArrayValue):
            items = values[-1].items()
            if items is None:
                raise UntoldTypeError("the elements of an array")
            values = (*values[:-1], *items)
        return tuple(self.serializer(value) for value in values)

    def _class_name(self, value: Value) -> str:
        if isinstance(value, ClassValue):
            return value.name
        raise UntoldTypeError("the class is not a constant of the code")

    def plain_type(self, values: tuple[Value, ...]) -> Serializer:
        """Return the type of the first argument."""
        return self.serializer(values[0])

    def nullable_type(self, values: tuple[Value, ...]) -> Serializer:
        if len(values) > 1 and values[1] != Constant(0, "I"):
            raise UntoldTypeError("the padding of a nullable type")
        return NullableSerializer(self.serializer(values[0]))

    def row_type(self, values: tuple[Value, ...]) -> Serializer:
        # `ROW_NAMED(names, types)`, `new RowTypeInfo(types, names)`: names are in no snapshot.
        arrays = [each for each in values if isinstance(each, ArrayValue)]
        texts = [
            each for each in arrays if all(text_of(item) is not None for item in each.items() or (None,))
        ]
        types = [each for each in arrays if each not in texts]
        return RowSerializer(self._all((types[0],) if types else values))

    def tuple_type(self, values: tuple[Value, ...]) -> Serializer:
        name = None
        if len(values) > 1 and isinstance(values[0], ClassValue):
            name, values = values[0].name, values[1:]
        fields = self._all(values)
        return TupleSerializer(name or f"{_TUPLE}{len(fields)}", fields)

    def generic_type(self, values: tuple[Value, ...]) -> Serializer:
        return self._extractor.kryo(self._class_name(values[0]))

    def array_type(self, values: tuple[Value, ...]) -> Serializer:
        element = self.serializer(values[-1])
        if len(values) > 1 and isinstance(values[0], ClassValue):
            return GenericArraySerializer(element, class_type(values[0].name).component.class_name)
        # `Types.OBJECT_ARRAY(type)` makes the array of the class of that type.
        name = (
            getattr(element, "pojo_class", "")
            or getattr(element, "type_class", "")
            or getattr(element, "enum_class", "")
        )
        if not name:
            raise UntoldTypeError("the class of the elements of an array")
        return GenericArraySerializer(element, name)

    def enum_type(self, values: tuple[Value, ...]) -> Serializer:
        found = self.serializer(values[0])
        if not isinstance(found, EnumSerializer):
            raise UntoldTypeError("an enum that is none")
        return found

    def pojo_type(self, values: tuple[Value, ...]) -> Serializer:
        if len(values) > 1:
            raise UntoldTypeError("the fields that are given to Types.POJO")
        return self.serializer(values[0])

    def reflected_type(self, values: tuple[Value, ...]) -> Serializer:
        """Return the type of an Avro class, with a schema if one is given."""
        if len(values) > 1:
            return self._avro(self._class_name(values[0]), values[1])
        name = self._class_name(values[0])
        generated = self._extractor.extract_class(name).serializer
        if isinstance(generated, AvroSerializer):
            return generated
        found = self._extractor.extract_reflected(name)
        if found.serializer is None:
            raise UntoldTypeError(found.unknown)
        return found.serializer

    def record_type(self, values: tuple[Value, ...]) -> Serializer:
        return self._avro("org.apache.avro.generic.GenericRecord", values[0])

    def _avro(self, class_name: str, schema: Value) -> Serializer:
        text = text_of(schema)
        if isinstance(schema, Call) and schema.name == "parse" and len(schema.arguments) == 1:
            text = text_of(schema.arguments[0])
        if text is None:
            raise UntoldTypeError("an Avro schema that is not a constant of the code")
        try:
            return AvroSerializer(text, class_name, read_schema(text))
        except ReaderError as error:
            raise UntoldTypeError(str(error)) from error


Read = Callable[[TypeReader, "tuple[Value, ...]"], Serializer]


def _composite(serializer: Callable[..., Serializer], parameters: int) -> Read:
    """Return what reads a type that is made of its first arguments, which are types."""
    return lambda reader, values: serializer(
        *(reader.serializer(values[index]) for index in range(parameters))
    )


_LIST, _SET = _composite(ListSerializer, 1), _composite(SetSerializer, 1)
_MAP, _EITHER = _composite(MapSerializer, 2), _composite(EitherSerializer, 2)

_CONSTRUCTORS: dict[str, Read] = {
    _UTILS + "ListTypeInfo": _LIST,
    _UTILS + "SetTypeInfo": _SET,
    _UTILS + "MapTypeInfo": _MAP,
    _UTILS + "GenericTypeInfo": TypeReader.generic_type,
    _UTILS + "EnumTypeInfo": TypeReader.enum_type,
    _UTILS + "EitherTypeInfo": _EITHER,
    _UTILS + "TupleTypeInfo": TypeReader.tuple_type,
    _UTILS + "RowTypeInfo": TypeReader.row_type,
    _UTILS + "runtime.kryo.KryoSerializer": TypeReader.generic_type,
    _UTILS + "runtime.TupleSerializer": TypeReader.tuple_type,
    _UTILS + "runtime.RowSerializer": TypeReader.row_type,
    _UTILS + "runtime.EitherSerializer": _EITHER,
    "org.apache.flink.api.common.typeutils.base.ListSerializer": _LIST,
    "org.apache.flink.api.common.typeutils.base.SetSerializer": _SET,
    "org.apache.flink.api.common.typeutils.base.MapSerializer": _MAP,
    "org.apache.flink.api.common.typeutils.base.EnumSerializer": TypeReader.enum_type,
    "org.apache.flink.api.common.typeutils.base.GenericArraySerializer": TypeReader.array_type,
    _AVRO + "AvroTypeInfo": TypeReader.reflected_type,
    _AVRO + "AvroSerializer": TypeReader.reflected_type,
    _AVRO + "GenericRecordAvroTypeInfo": TypeReader.record_type,
}

_METHODS: dict[tuple[str, str], Read] = {
    (_INFO + "TypeInformation", "of"): TypeReader.plain_type,
    (_UTILS + "TypeExtractor", "getForClass"): TypeReader.plain_type,
    (_UTILS + "TypeExtractor", "createTypeInfo"): TypeReader.plain_type,
    (_INFO + "Types", "LIST"): _LIST,
    (_INFO + "Types", "SET"): _SET,
    (_INFO + "Types", "MAP"): _MAP,
    (_INFO + "Types", "TUPLE"): TypeReader.tuple_type,
    (_INFO + "Types", "ROW"): TypeReader.row_type,
    (_INFO + "Types", "ROW_NAMED"): TypeReader.row_type,
    (_INFO + "Types", "EITHER"): _EITHER,
    (_INFO + "Types", "ENUM"): TypeReader.enum_type,
    (_INFO + "Types", "POJO"): TypeReader.pojo_type,
    (_INFO + "Types", "GENERIC"): TypeReader.generic_type,
    (_INFO + "Types", "VALUE"): TypeReader.plain_type,
    (_INFO + "Types", "OBJECT_ARRAY"): TypeReader.array_type,
    (_UTILS + "ObjectArrayTypeInfo", "getInfoFor"): TypeReader.array_type,
    (_UTILS + "runtime.NullableSerializer", "wrap"): TypeReader.nullable_type,
}

_BY_CLASS: dict[str, Serializer] = {each.java_class: each for each in BASIC_TYPES.values()}
