"""Arrow → bytes of Flink savepoints: the inverse of the readers. Knows Flink, by the readers' declarations; knows no SQL.

In: rows of columns and the serializers that the readers found in a savepoint. Out: the bytes that Flink would write.
This module is the face of the room: the catalog and the service import from nowhere else in it.

    encode/      rows → entries, by the same programs that decode them
    errors.py    what can go wrong
"""

from readers import COMPILED_UNITS as _READER_UNITS
from writers.encode.encoder import Encoded, Encoder
from writers.errors import UnencodableTypeError, UnencodableValueError, WriterError

COMPILED_UNITS = (*_READER_UNITS, "writers.encode.machine.execute")
"""The modules that have kernels, those of the readers among them."""

__all__ = [
    "COMPILED_UNITS",
    "Encoded",
    "Encoder",
    "UnencodableTypeError",
    "UnencodableValueError",
    "WriterError",
]
