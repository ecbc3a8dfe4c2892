"""Objects that Flink leaves to Kryo: `org.apache.flink.api.java.typeutils.runtime.kryo.KryoSerializer`.

Snapshot, version 2 (1.8 to 2.3): `utf class`, then three optional maps, whose frames have a length each:

| map | value frame |
|---|---|
| registrations, in the order of their ids | utf class, i4 kind: 0 · 1 utf serializer class · 2 Java stream, as below |
| default serializers given as instances | Java stream of a `SerializableSerializer` |
| default serializers given as classes | utf serializer class |

The column is a number or plain text if the class decides it (see `plain.py`), else JSON text (see `objects.py`).

* The version of Kryo follows from the package of `SerializableSerializer`, if there is one (2.24 up to Flink 1.20, 5 since
  2.0), else from the version of the savepoint. Without a version nothing is decoded.
* Types of the JDK, tuples, enums and objects whose constants and fields are given, by `stateInfo` or by class files, can be
  read. A value of any other class
  has no end that can be found, so a type of such a class is a problem that is not sized. A declared `Object` or `List`
  may still hold one: then the error names its class; where nothing follows in the entry's frame, its bytes are shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from readers.cursor import Cursor
from readers.decode.program import Program, PythonLeaf
from readers.errors import (
    ClassMismatchError,
    CorruptDataError,
    LeftOverError,
    ReaderError,
    UnsupportedSerializerError,
)
from readers.javaio import JavaObject, read_object
from readers.serializers.base import (
    OptionalEntry,
    Problem,
    Serializer,
    Snapshot,
    SnapshotBody,
    UndescribedSerializer,
)
from readers.serializers.jsontree import json_bytes, json_text
from readers.serializers.kryo.objects import BODIES, is_readable, value_reader
from readers.serializers.kryo.plain import hash_plain, is_text, is_unquoted, number_bytes, number_type
from readers.serializers.kryo.reader import KryoInput
from readers.serializers.kryo.settings import (
    KRYO_2_24,
    KRYO_5,
    ClassSource,
    KryoClass,
    KryoRegistration,
    KryoSettings,
)
from readers.serializers.protobuf import Descriptors

_CLASS, _INSTANCE = 1, 2
_SHOWN = 60  # characters of a value in an error
_CLASS_NAME = re.compile(r"\[*[A-Za-z_$][\w$]*(\.[A-Za-z_$][\w$-]*)*;?(,|$)")

# The package moved when Flink 2.0 replaced Kryo.
_VERSIONS = {
    "org.apache.flink.api.common.ExecutionConfig$SerializableSerializer": KRYO_2_24,
    "org.apache.flink.api.common.SerializableSerializer": KRYO_5,
}


class KryoLeaf:
    """Reads one value.

    Args:
        settings: what Kryo knows beside the bytes.
        type_class: the declared class, which decides whether the value is a number, plain text or JSON text.
        is_last: nothing follows the value in its frame, so its bytes have a known end.
    """

    def __init__(self, settings: KryoSettings, type_class: str, *, is_last: bool = False) -> None:
        self.settings = settings
        self.type_class = type_class
        self.is_last = is_last
        self._is_number = number_type(settings, type_class) is not None
        self._is_text = is_text(settings, type_class)

    def read(self, data: memoryview, position: int, limit: int) -> tuple[bytes | None, int]:
        input_ = KryoInput(data, self.settings.version, position=position, end=limit)
        reader = value_reader(self.settings, input_)
        try:
            value = reader.any()
        except UnsupportedSerializerError as error:
            class_name = error.breadcrumbs[-1] if error.breadcrumbs else ""
            # Behind a class that is laid out otherwise stand bytes that name no class.
            if reader.is_assumed and not _CLASS_NAME.match(class_name):
                raise self._misfit(error) from error
            if not self.is_last or self._is_number:
                raise
            raw = bytes(data[position:limit])
            return json_text({"@class": class_name, "@kryo": json_bytes(raw)}), limit
        except CorruptDataError as error:
            if not reader.is_assumed:
                raise
            raise self._misfit(error) from error
        if self.is_last and reader.is_assumed and input_.position != limit:
            left = f"expected the end of the value, found {limit - input_.position} more bytes"
            raise self._misfit(input_.corrupt(left), LeftOverError)
        return None if value is None else self._shown(value, input_, position), input_.position

    def _misfit(
        self, error: ReaderError, kind: type[ClassMismatchError] = ClassMismatchError
    ) -> ClassMismatchError:
        """Return the error for bytes that class files do not describe: those of another version of a class."""
        return kind(
            f"expected an object of {self.type_class} as the jars have its classes, found other bytes: {error.message}",
            position=error.position,
        )

    def last(self) -> PythonLeaf:
        return KryoLeaf(self.settings, self.type_class, is_last=True)

    def _shown(self, value: Any, input_: KryoInput, position: int) -> bytes:
        if self._is_number:
            number = number_bytes(self.type_class, value)
            if number is None:
                found = json_text(value).decode()[:_SHOWN]
                raise input_.corrupt(f"expected a {self.type_class}, found {found}", position)
            return number
        return value.encode() if self._is_text and isinstance(value, str) else json_text(value)


@dataclass(frozen=True)
class KryoSerializer(UndescribedSerializer, package="org.apache.flink.api.java.typeutils.runtime.kryo."):
    """An object that Kryo wrote; `settings.version` is 0 where it is not known."""

    type_class: str
    settings: KryoSettings

    name = "Kryo<{self.type_class}>"

    @property
    def serializer_name(self) -> str:
        return f"KryoSerializer<{self.type_class}>"

    @property
    def is_open(self) -> bool:
        return self.is_assumed

    @property
    def is_assumed(self) -> bool:
        # Numbers and plain text hold no objects.
        if self.settings.class_files is None or number_type(self.settings, self.type_class) is not None:
            return False
        return not is_text(self.settings, self.type_class) or self.type_class not in BODIES

    def inform(
        self,
        version: int,
        classes: Mapping[str, KryoClass],
        descriptors: Descriptors | None,
        class_files: ClassSource | None,
        *,
        has_row_kinds: bool,
    ) -> KryoSerializer:
        """Return the same serializer with facts that the snapshot does not hold.

        Args:
            version: 2 or 5, from the version of the savepoint; used where the snapshot does not hold it.
            classes: fields and constants of user classes.
            descriptors: of protobuf messages.
            class_files: knows further classes.
            has_row_kinds: a `Row` has a kind, by the version of the savepoint.
        """
        settings = replace(
            self.settings,
            version=self.settings.version or version,
            classes=dict(self.settings.classes) | dict(classes),
            descriptors=descriptors or self.settings.descriptors,
            class_files=class_files or self.settings.class_files,
            has_row_kinds=has_row_kinds,
        )
        return replace(self, settings=settings)

    @property
    def holds_objects(self) -> bool:
        return number_type(self.settings, self.type_class) is None and not is_text(
            self.settings, self.type_class
        )

    def in_older_version(self) -> KryoSerializer:
        if self.settings.version != KRYO_5:
            return self
        return replace(self, settings=replace(self.settings, version=KRYO_2_24))

    def arrow(self) -> pa.DataType:
        return number_type(self.settings, self.type_class) or pa.string()

    @property
    def is_unquoted(self) -> bool:
        return is_unquoted(self.settings, self.type_class)

    def emit(self, program: Program) -> None:
        program.python(KryoLeaf(self.settings, self.type_class))

    def problems(self) -> Iterator[Problem]:
        if self.settings.version == 0:
            yield Problem(
                path=(), reason=f"{self.type_class}: whether Kryo 2 or 5 wrote it is not known", sized=False
            )
        elif not is_readable(self.settings, self.type_class):
            reason = f"{self.type_class}: Kryo stores no field names"
            given = self.settings.serializers.get(self.type_class)
            if self.settings.class_files is not None:
                lacks = self.settings.class_files.lacks(self.type_class)
                reason += f", and {f'the job gives it the serializer {given}' if given else lacks}"
            yield Problem(path=(), reason=reason, sized=False)
        elif self.settings.lacks_descriptor(self.type_class):
            yield Problem(
                path=(), reason=f"{self.type_class}: protobuf, which needs a descriptor", sized=True
            )

    def hash_code(self, value: Any) -> int | None:
        """Return the hash of a number or of plain text; that of other classes is not known."""
        return (
            hash_plain(self.type_class, value) if self.type_class not in self.settings.serializers else None
        )

    # The settings hold dicts.
    def __hash__(self) -> int:
        return hash(self.type_class)


def _kryo(snapshot: Snapshot) -> Serializer:
    type_class = snapshot.cursor.utf("generic type class")
    registrations, versions = [], []
    for entry in snapshot.optional_map():
        serializer, version = _registered(entry)
        registrations.append(KryoRegistration(class_name=entry.name, serializer=serializer))
        versions.append(version)
    defaults = {}
    for entry in snapshot.optional_map():
        defaults[entry.name], version = _instance(entry.value)
        versions.append(version)
    for entry in snapshot.optional_map():
        defaults[entry.name] = entry.value.utf("serializer class") if entry.value is not None else _LOST
    recorded = max(versions, default=0)
    settings = KryoSettings(
        version=recorded, registrations=tuple(registrations), default_serializers=defaults, recorded=recorded
    )
    return KryoSerializer(type_class, settings)


_LOST = "a serializer that the savepoint does not name"


def _registered(entry: OptionalEntry) -> tuple[str, int]:
    """Return the serializer class of a registration ("" for Kryo's choice) and its Kryo version, 0 if unknown."""
    if entry.value is None:
        return _LOST, 0
    entry.value.utf("registered class")
    kind = entry.value.i4()
    if kind == _CLASS:
        return entry.value.utf("serializer class"), 0
    return _instance(entry.value) if kind == _INSTANCE else ("", 0)


def _instance(frame: Cursor | None) -> tuple[str, int]:
    """Return the class of the serializer in a `SerializableSerializer`, and the version of its Kryo, 0 if unknown."""
    if frame is None:
        return _LOST, 0
    # A user's serializer may hold any objects. They do not matter here, so a broken stream is no error.
    try:
        holder = read_object(frame)
    except ReaderError:
        return _LOST, 0
    if not isinstance(holder, JavaObject):
        return _LOST, 0
    serializer = holder.fields.get("serializer")
    name = serializer.class_name if isinstance(serializer, JavaObject) else _LOST
    return name, _VERSIONS.get(holder.class_name, 0)


SNAPSHOTS: dict[str, SnapshotBody] = {
    "org.apache.flink.api.java.typeutils.runtime.kryo.KryoSerializerSnapshot": _kryo
}
