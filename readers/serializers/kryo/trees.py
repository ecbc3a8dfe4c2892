"""Kryo's serializers in type trees, for callers that mostly meet trees without one.

The serializers are loaded by the first savepoint that has one of them: as long as they are not, no tree has any.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from readers.serializers.base import Serializer

if TYPE_CHECKING:
    from readers.serializers.kryo.settings import ClassSource, KryoClass
    from readers.serializers.protobuf import Descriptors

_SERIALIZERS = "readers.serializers.kryo.serializer"


def inform(
    serializer: Serializer,
    version: int,
    classes: Mapping[str, KryoClass],
    descriptors: Descriptors | None,
    class_files: ClassSource | None,
    *,
    has_row_kinds: bool,
) -> Serializer:
    """Return a type tree whose Kryo serializers have the facts that no snapshot holds; see `serializer.inform`."""
    if _SERIALIZERS not in sys.modules:
        return serializer
    from readers.serializers.kryo import serializer as kryo

    return kryo.inform(serializer, version, classes, descriptors, class_files, has_row_kinds=has_row_kinds)


def holds_objects(serializer: Serializer) -> bool:
    """Return whether a type tree has objects of Kryo that are neither numbers nor plain texts."""
    if _SERIALIZERS not in sys.modules:
        return False
    from readers.serializers.kryo import serializer as kryo

    return kryo.holds_objects(serializer)


def in_older_version(serializer: Serializer) -> Serializer:
    """Return a type tree as the Kryo before its own wrote it; the same one if there was none before."""
    if _SERIALIZERS not in sys.modules:
        return serializer
    from readers.serializers.kryo import serializer as kryo

    return kryo.in_older_version(serializer)
