"""Values of Kryo 2.24 (Flink 1.x): read as objects, and written as Kryo 5 (Flink 2.x) writes them.

Flink takes both versions for the same serializer and converts nothing: what Kryo 5 makes of older bytes is luck.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from readers import KRYO_2_24, KryoInput, KryoReader, KryoSettings, KryoType, ReaderError
from writers.errors import UnencodableValueError
from writers.kryo.bodies import body_of
from writers.kryo.objects import BodyWriter, KryoObject, ObjectWriter

ReaderBody = Callable[[KryoReader, str, tuple[KryoType, ...]], KryoObject]


class KryoValues:
    """The values of one serializer.

    Args:
        settings: its registrations, and facts about classes; of Kryo 2.24.
    """

    def __init__(self, settings: KryoSettings) -> None:
        self._settings = replace(settings, version=KRYO_2_24)

    def upgraded(self, data: bytes) -> bytes:
        """Return a value as Kryo 5 writes it.

        Raises:
            UnencodableValueError: it holds an object of a class that is not known, or of two that refer to each other.
        """
        return written(*self.read(data))

    def read(self, data: bytes) -> tuple[KryoReader, KryoObject | None]:
        """Return a value, None for null, and what has read it.

        Raises:
            UnencodableValueError: see `upgraded`.
        """
        input_ = KryoInput(memoryview(data), KRYO_2_24, position=0, end=len(data))
        reader = _ObjectReader(self._settings, input_, _reading)
        try:
            value = reader.any()
        except ReaderError as error:
            raise UnencodableValueError(
                f"expected an object of Kryo 2 whose classes are known: {error.message}"
            ) from error
        if input_.remaining:
            raise UnencodableValueError(
                f"expected the end of an object of Kryo 2, found {input_.remaining} bytes more"
            )
        return reader, value


def written(reader: KryoReader, value: KryoObject | None) -> bytes:
    """Return a value as Kryo 5 writes it.

    Args:
        reader: what has read it.
        value: the value; None for null.

    Raises:
        UnencodableValueError: what Kryo 5 writes of a class is not known.
    """

    def writing(found: KryoObject) -> BodyWriter:
        body = body_of(reader, found.class_name)
        assert body is not None
        return body.write

    writer = ObjectWriter(reader, writing)
    try:
        writer.any(value)
    except ReaderError as error:
        raise UnencodableValueError(f"expected classes that are known: {error.message}") from error
    return bytes(writer.output.data)


class _ObjectReader(KryoReader):
    """Reads objects that do not refer to themselves."""

    def object(self, class_name: str, arguments: tuple[KryoType, ...] = ()) -> Any:
        found = super().object(class_name, arguments)
        if found is not None and not isinstance(found, KryoObject):
            raise UnencodableValueError(f"expected objects one in another, found a {class_name} in itself")
        return found


def _reading(_reader: KryoReader, class_name: str) -> ReaderBody:
    """Return the function that reads the objects of a class."""

    def read(reader: KryoReader, class_name: str, arguments: tuple[KryoType, ...]) -> KryoObject:
        body = body_of(reader, class_name)
        if body is None:
            raise reader.unsupported(class_name)
        return KryoObject(class_name, body.read(reader, class_name, arguments))

    return read
