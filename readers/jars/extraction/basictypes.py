"""Types that Flink knows by the names of their classes.

Flink: BasicTypeInfo, SqlTimeTypeInfo, PrimitiveArrayTypeInfo, BasicArrayTypeInfo, ValueTypeInfo
"""

from __future__ import annotations

from readers.serializers import primitives, temporal, values
from readers.serializers.base import Serializer
from readers.serializers.kryo import classes

BASIC: dict[str, Serializer] = {
    "java.lang.String": primitives.StringSerializer(),
    "java.lang.Boolean": primitives.BooleanSerializer(), "java.lang.Byte": primitives.ByteSerializer(),
    "java.lang.Short": primitives.ShortSerializer(), "java.lang.Integer": primitives.IntSerializer(),
    "java.lang.Long": primitives.LongSerializer(), "java.lang.Float": primitives.FloatSerializer(),
    "java.lang.Double": primitives.DoubleSerializer(), "java.lang.Character": primitives.CharSerializer(),
    "java.lang.Void": primitives.VoidSerializer(), "java.util.Date": temporal.DateSerializer(),
    "java.math.BigInteger": primitives.BigIntSerializer(),
    "java.math.BigDecimal": primitives.BigDecSerializer(),
    "java.time.Instant": temporal.InstantSerializer(), "java.sql.Date": temporal.SqlDateSerializer(),
    "java.sql.Time": temporal.SqlTimeSerializer(), "java.sql.Timestamp": temporal.SqlTimestampSerializer(),
}  # fmt: skip

WRAPPERS = {
    "boolean": "java.lang.Boolean", "byte": "java.lang.Byte", "short": "java.lang.Short",
    "int": "java.lang.Integer", "long": "java.lang.Long", "float": "java.lang.Float",
    "double": "java.lang.Double", "char": "java.lang.Character", "void": "java.lang.Void",
}  # fmt: skip

PRIMITIVE_ARRAYS: dict[str, Serializer] = {
    "boolean": primitives.BooleanPrimitiveArraySerializer(),
    "byte": primitives.BytePrimitiveArraySerializer(), "short": primitives.ShortPrimitiveArraySerializer(),
    "int": primitives.IntPrimitiveArraySerializer(), "long": primitives.LongPrimitiveArraySerializer(),
    "float": primitives.FloatPrimitiveArraySerializer(),
    "double": primitives.DoublePrimitiveArraySerializer(),
    "char": primitives.CharPrimitiveArraySerializer(),
}  # fmt: skip

# Unlike the values of `ValueSerializer`, one of this class writes no bytes.
VALUES: dict[str, Serializer] = values.VALUES | {
    "org.apache.flink.types.NullValue": primitives.NullValueSerializer()
}

# Enums of the JDK that jobs keep in state; their constants have never changed.
ENUMS: dict[str, tuple[str, ...]] = {
    name: constants for name, constants in classes.ENUMS.items() if name.startswith("java.")
}
