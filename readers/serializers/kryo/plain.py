"""The classes whose values are numbers or plain text in a column. Those of all others are JSON text.

| class | column |
|---|---|
| boxed numbers, Boolean | that number, BOOLEAN |
| String, Character, UUID, BigInteger, BigDecimal, URI, URL, Locale, Currency, Class, … | text |
| dates and times, Duration, Period | ISO 8601 text |
| enums whose constants are known | the name of the constant |
| Optional | its value as text: plain if it is one of these texts, else JSON |

A declared type that is open (Object, List) holds values of any class, so its column is JSON text: there `"5"` is not `5`.
A text of the classes `UNQUOTED` never begins with a quotation mark.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from readers import keygroups
from readers.serializers.kryo.classes import ENUMS
from readers.serializers.kryo.settings import KryoSettings
from readers.serializers.kryo.times import TIME_BODIES

UNQUOTED = frozenset(TIME_BODIES) | {
    "java.util.UUID", "java.math.BigInteger", "java.math.BigDecimal", "java.util.Currency",
    "java.lang.Class",
}  # fmt: skip
_TEXTS = UNQUOTED | {
    "java.lang.String", "java.lang.StringBuilder", "java.lang.StringBuffer", "java.lang.Character",
    "java.net.URI", "java.net.URL", "java.net.InetSocketAddress", "java.util.Locale", "java.util.Optional",
}  # fmt: skip
_NUMBERS: dict[str, tuple[pa.DataType, str]] = {
    "java.lang.Byte": (pa.int8(), "<b"), "java.lang.Short": (pa.int16(), "<h"),
    "java.lang.Integer": (pa.int32(), "<i"), "java.lang.Long": (pa.int64(), "<q"),
    "java.lang.Float": (pa.float32(), "<f"), "java.lang.Double": (pa.float64(), "<d"),
    "java.lang.Boolean": (pa.bool_(), "<?"),
}  # fmt: skip


def number_type(settings: KryoSettings, class_name: str) -> pa.DataType | None:
    """Return the column type of a boxed number; None for other classes."""
    known = _NUMBERS.get(class_name)
    return known[0] if known is not None and class_name not in settings.serializers else None


def is_text(settings: KryoSettings, class_name: str) -> bool:
    """Return whether the values of a class are plain text."""
    if class_name in settings.serializers:
        return False
    known = settings.class_of(class_name)
    return bool(known.constants) if known is not None else class_name in _TEXTS or class_name in ENUMS


def is_unquoted(settings: KryoSettings, class_name: str) -> bool:
    """Return whether the values of a class are plain text that never begins with a quotation mark."""
    return is_text(settings, class_name) and class_name in UNQUOTED


def number_bytes(class_name: str, value: Any) -> bytes | None:
    """Return a number as Arrow stores it; None where the class has no such number."""
    _, code = _NUMBERS[class_name]
    is_boolean = code == "<?"
    if isinstance(value, bool) is not is_boolean:
        return None
    try:
        # NaN and the infinities are text in trees.
        return struct.pack(code, float(value) if code in ("<f", "<d") else value)
    except (struct.error, ValueError, TypeError, OverflowError):
        return None


def hash_plain(class_name: str, value: Any) -> int | None:
    """Return Java's `hashCode` of a value as its column shows it; None where it is not known."""
    hash_value = _HASHES.get(class_name)
    try:
        return None if hash_value is None else hash_value(value)
    except (ValueError, TypeError, AttributeError, OverflowError, struct.error):
        return None


def _hash_uuid(text: str) -> int | None:
    digits = text.replace("-", "")
    return keygroups.hash_long(int(digits[:16], 16) ^ int(digits[16:], 16)) if len(digits) == 32 else None


def _hash_integer(value: int) -> int | None:
    return value if isinstance(value, int) else None


_HASHES: dict[str, Callable[[Any], int | None]] = {
    **dict.fromkeys(("java.lang.Byte", "java.lang.Short", "java.lang.Integer"), _hash_integer),
    "java.lang.Long": keygroups.hash_long, "java.lang.Float": keygroups.hash_float,
    "java.lang.Double": keygroups.hash_double, "java.lang.Boolean": keygroups.hash_bool,
    "java.lang.Character": ord, "java.lang.String": keygroups.hash_string,
    "java.math.BigInteger": lambda text: keygroups.hash_big_integer(int(text)),
    "java.math.BigDecimal": keygroups.hash_big_decimal, "java.util.UUID": _hash_uuid,
}  # fmt: skip
