"""The `stateInfo` file: facts about a savepoint that its bytes do not hold.

UTF-8 JSON beside `_metadata`; `docs/reference/stateinfo.md` describes it, `stateinfo.schema.json` is its schema.

| object | members; `*` is required |
|---|---|
| file | `version`*: 1 · `operators`*: operators · `classes`: classes · `jars`: names · `protobuf`: base64 of a FileDescriptorSet |
| operator | `id`*: 32 hex digits · `uid` · `name` · `parallelism` · `max_parallelism` · `key`: type · `states`: states |
| state | `name`* · `kind`* · `namespace`, `map_key`, `value`: types · `ttl`: bool |
| type | `type`: as StateMeta shows it · `fields`: names for f0, f1, … · `message`: the message in a `byte[]` |
| class | `name`* · `fields`: `name`* and `type`* of each · `constants` · `final`: bool · `extends` · `message` |

A class is one whose objects Kryo wrote; the types of its fields are Java's. With `extends` it is a subclass of a POJO that the
savepoint does not describe: `fields` are its own ones, with types as StateMeta shows them. A message is the name of a type in
`protobuf`; messages are also found by the Java classes that protoc generates for them.

The file is bounded and checked: a member that is not in the table, or of another type, is an error.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from dataclasses import fields as dataclass_fields
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any

from readers.errors import (
    CorruptDataError,
    MissingFileError,
    ReaderError,
    StorageError,
    UnsupportedVersionError,
)
from readers.formats.entry import StateKind
from readers.serializers.named import serializer_named
from readers.serializers.structs import ROW_KIND

if TYPE_CHECKING:
    from readers.serializers.kryo.settings import KryoClass
    from readers.serializers.protobuf import Descriptors

VERSION = 1
MAX_STATE_INFO_BYTES = 16 << 20  # the file comes from a user: it must not fill the memory
_MAX_TEXT = 65_536

_FILE_NAME = re.compile(r"(?!\.)[^/\\:\0]{1,255}")
_OPERATOR_ID = re.compile(r"[0-9a-f]{32}")

_Read = Callable[["_Value"], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeInfo:
    """A type.

    Attributes:
        type: its name as StateMeta shows it; None where it is not given.
        fields: the names of the fields of a record without names of its own.
        message: the protobuf message that a `byte[]` holds.
    """

    type: str | None = None
    fields: tuple[str, ...] = ()
    message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StateInfo:
    """One state; `ttl` is None where it is not given."""

    name: str
    kind: StateKind
    namespace: TypeInfo | None = None
    map_key: TypeInfo | None = None
    value: TypeInfo | None = None
    ttl: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorInfo:
    """One operator; `key` is the type of the keys of all its states."""

    operator_id: str
    uid: str | None = None
    name: str | None = None
    parallelism: int | None = None
    max_parallelism: int | None = None
    key: TypeInfo | None = None
    states: tuple[StateInfo, ...] = ()

    def state(self, name: str, kind: StateKind) -> StateInfo | None:
        """Return the state of a name; of several that of the kind."""
        named = [state for state in self.states if state.name == name]
        exact = [state for state in named if state.kind is kind]
        return next(iter(exact or named), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class PojoSubclass:
    """A subclass of a POJO: its name, its superclass, and the name and type of each field of its own."""

    name: str
    extends: str
    fields: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointInfo:
    """A whole file.

    Attributes:
        operators: by operator id.
        classes: class name → its fields and constants, which Kryo does not write.
        subclasses: of POJOs.
        descriptors: of protobuf messages.
        jars: names of jars of the job, which stand beside the file.
        folder: where the file stands; empty for one beside `_metadata`.
    """

    operators: Mapping[str, OperatorInfo]
    classes: Mapping[str, KryoClass]
    subclasses: tuple[PojoSubclass, ...] = ()
    descriptors: Descriptors | None = None
    jars: tuple[str, ...] = ()
    folder: str = field(default="", compare=False)


NO_OPERATOR = OperatorInfo(operator_id="")
NOTHING = SavepointInfo(operators={}, classes={})


def load_state_info(path: str | os.PathLike[str]) -> SavepointInfo:
    """Read a file that the user names.

    Raises:
        MissingFileError: the file does not exist.
        CorruptDataError: it is no stateInfo; the breadcrumbs lead to the member.
        UnsupportedVersionError: it has a later version.
    """
    name = os.fspath(path)
    info = read_state_info(read_bounded(path, "a stateInfo file"), name)
    return replace(info, folder=os.path.dirname(name) or os.curdir) if info.jars else info


def read_bounded(path: str | os.PathLike[str], what: str) -> bytes:
    """Read a local file, up to a byte more than `MAX_STATE_INFO_BYTES`.

    Raises:
        MissingFileError: the file does not exist.
        StorageError: it cannot be read.
    """
    name = os.fspath(path)
    try:
        with open(path, "rb") as file:
            return file.read(MAX_STATE_INFO_BYTES + 1)
    except FileNotFoundError as error:
        raise MissingFileError(f"expected {what}, found nothing", path=name) from error
    except OSError as error:
        raise StorageError(f"expected {what}, found {error.strerror}", path=name) from error


def read_state_info(data: bytes, path: str | None = None) -> SavepointInfo:
    """Read the content of a file; for errors see `load_state_info`."""
    return _savepoint(_Value(loaded_json(data, path), (), path))


def loaded_json(data: bytes, path: str | None) -> Any:
    """Read a JSON document of at most `MAX_STATE_INFO_BYTES`, without duplicate members.

    Raises:
        CorruptDataError: it is too long, not UTF-8, no JSON, or has a member twice.
    """
    if len(data) > MAX_STATE_INFO_BYTES:
        raise CorruptDataError(f"expected at most {MAX_STATE_INFO_BYTES} bytes, found more", path=path)
    try:
        return json.loads(data.decode(), object_pairs_hook=_members, parse_constant=_no_number)
    # Deep nesting exhausts the stack of Python's own parser.
    except (ValueError, RecursionError) as error:
        raise CorruptDataError(f"expected JSON, found {error}", path=path) from error


def state_info_text(info: SavepointInfo) -> str:
    """Return the text of a file with these facts: indented, because people read and edit it."""
    known: list[tuple[str, KryoClass | PojoSubclass]] = list(info.classes.items())
    known += [(subclass.name, subclass) for subclass in info.subclasses]
    document = {
        "version": VERSION,
        "operators": [
            _written(each) | {"states": _written(each.states) or []} for each in info.operators.values()
        ],
        "classes": [_class_members(name, described) for name, described in known] or None,
        "jars": _written(info.jars),
        "protobuf": None if info.descriptors is None else base64.b64encode(info.descriptors.data).decode(),
    }
    return json.dumps(_present(document), indent=2, ensure_ascii=False) + "\n"


# ---- reading ----


@dataclass(frozen=True, slots=True)
class _Value:
    """A value of the document, with the names of the members that lead to it."""

    value: Any
    names: tuple[str, ...]
    path: str | None

    def wrong(self, expected: str) -> CorruptDataError:
        """Return the error for a value that is not as expected."""
        found = (
            f"{self.value!r:.100}" if not isinstance(self.value, dict | list) else type(self.value).__name__
        )
        return CorruptDataError(
            f"expected {expected}, found {found}", path=self.path, breadcrumbs=("stateInfo", *self.names)
        )

    def inside(self, name: str, value: Any) -> _Value:
        """Return a member or item of this value."""
        return _Value(value, (*self.names, name), self.path)

    def members(self, kind: str) -> dict[str, Any]:
        """Return the members of an object, read; it must have the required ones of its kind, and none but its own."""
        if not isinstance(self.value, dict):
            raise self.wrong("an object")
        required, optional = OBJECTS[kind]
        for name in required:
            if name not in self.value:
                raise self.wrong(f"an object with the member {name!r}")
        readers = required | optional
        # A misspelt name would go unnoticed otherwise.
        unknown = sorted(set(self.value) - readers.keys())
        if unknown:
            raise self.inside(unknown[0], self.value[unknown[0]]).wrong("no such member")
        return {
            name: read(self.inside(name, self.value[name]))
            for name, read in readers.items()
            if name in self.value
        }

    def text(self) -> str:
        """Return a text."""
        if not isinstance(self.value, str) or not 0 < len(self.value) <= _MAX_TEXT:
            raise self.wrong(f"a text of 1 to {_MAX_TEXT} characters")
        return self.value

    def count(self) -> int:
        """Return a positive number."""
        if not isinstance(self.value, int) or isinstance(self.value, bool) or not 0 < self.value < 1 << 31:
            raise self.wrong("a positive 32-bit number")
        return self.value

    def flag(self) -> bool:
        """Return true or false."""
        if not isinstance(self.value, bool):
            raise self.wrong("true or false")
        return self.value


def _array(read: _Read, name_of: Callable[[Any], str] = str) -> _Read:
    """Return what reads an array of items that have different names."""

    def read_items(value: _Value) -> tuple[Any, ...]:
        if not isinstance(value.value, list):
            raise value.wrong("an array")
        items = tuple(read(value.inside(str(index), item)) for index, item in enumerate(value.value))
        repeated = next((name for name, count in Counter(map(name_of, items)).items() if count > 1), None)
        if repeated is not None:
            raise replace(value, value=repeated).wrong("each name once")
        return items

    return read_items


def _savepoint(value: _Value) -> SavepointInfo:
    if not isinstance(value.value, dict) or "version" not in value.value:
        raise value.wrong("an object with the member 'version'")
    # Before the members: those of a later version are not known here.
    version = value.inside("version", value.value["version"]).count()
    if version != VERSION:
        raise UnsupportedVersionError(
            f"expected stateInfo of version {VERSION}, found version {version}", path=value.path
        )
    members = value.members("file")
    classes = members.get("classes", ())
    return SavepointInfo(
        operators={operator.operator_id: operator for operator in members["operators"]},
        classes={name: known for name, known in classes if not isinstance(known, PojoSubclass)},
        subclasses=tuple(known for _, known in classes if isinstance(known, PojoSubclass)),
        descriptors=members.get("protobuf"),
        jars=members.get("jars", ()),
    )


def _file_name(value: _Value) -> str:
    # The file may come with a savepoint from elsewhere: it must not have other files of this machine opened.
    if not isinstance(value.value, str) or _FILE_NAME.fullmatch(value.value) is None:
        raise value.wrong("the name of a file beside this one")
    return value.value


def _descriptors(value: _Value) -> Descriptors:
    from readers.serializers.protobuf import read_descriptors  # few files have any

    if not isinstance(value.value, str):
        raise value.wrong("base64 text")
    try:
        return read_descriptors(base64.b64decode(value.value, validate=True), value.path)
    except (binascii.Error, ReaderError) as error:
        raise value.wrong(f"the base64 text of a FileDescriptorSet: {error};") from error


def _operator(value: _Value) -> OperatorInfo:
    members = value.members("operator")
    return OperatorInfo(operator_id=members.pop("id"), **members)


def _operator_id(value: _Value) -> str:
    if not isinstance(value.value, str) or _OPERATOR_ID.fullmatch(value.value) is None:
        raise value.wrong("32 hex digits in lower case")
    return value.value


def _state(value: _Value) -> StateInfo:
    return StateInfo(**value.members("state"))


def _kind(value: _Value) -> StateKind:
    if not isinstance(value.value, str) or value.value not in StateKind.__members__:
        raise value.wrong(f"one of {', '.join(StateKind.__members__)}")
    return StateKind(value.value)


def _type(value: _Value) -> TypeInfo:
    info = TypeInfo(**value.members("type"))
    # Rows of SQL have a column of this name.
    if ROW_KIND in info.fields:
        raise value.inside("fields", ROW_KIND).wrong(f"names other than {ROW_KIND}")
    return info


def _class(value: _Value) -> tuple[str, KryoClass | PojoSubclass]:
    from readers.serializers.kryo.settings import KryoClass  # as above

    members = value.members("class")
    name, fields, constants = members["name"], members.get("fields", ()), members.get("constants", ())
    message, extends = members.get("message", ""), members.get("extends")
    if extends is None:
        is_final = members.get("final", False)
        return name, KryoClass(fields=fields, constants=constants, is_final=is_final, message=message)
    if constants or message:
        raise value.wrong("a class that extends a POJO, without constants and message")
    for index, (_, type_name) in enumerate(fields):
        if serializer_named(type_name) is None:
            field = value.inside("fields", None).inside(str(index), None).inside("type", type_name)
            raise field.wrong("a type that is made of Flink's basic types, tuples, lists and maps")
    return name, PojoSubclass(name=name, extends=extends, fields=fields)


def _class_field(value: _Value) -> tuple[str, str]:
    members = value.members("class field")
    return members["name"], members["type"]


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        repeated = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the member {repeated!r:.100} twice")
    return members


def _no_number(name: str) -> Any:
    raise ValueError(name)


_FIRST = itemgetter(0)
OBJECTS: dict[str, tuple[dict[str, _Read], dict[str, _Read]]] = {
    "file": (
        {"version": _Value.count, "operators": _array(_operator, attrgetter("operator_id"))},
        {"classes": _array(_class, _FIRST), "jars": _array(_file_name), "protobuf": _descriptors},
    ),
    "operator": (
        {"id": _operator_id},
        {
            "uid": _Value.text,
            "name": _Value.text,
            "parallelism": _Value.count,
            "max_parallelism": _Value.count,
        }
        | {"key": _type, "states": _array(_state, lambda state: f"{state.name} ({state.kind.value})")},
    ),
    "state": (
        {"name": _Value.text, "kind": _kind},
        {"namespace": _type, "map_key": _type, "value": _type, "ttl": _Value.flag},
    ),
    "type": ({}, {"type": _Value.text, "fields": _array(_Value.text), "message": _Value.text}),
    "class": (
        {"name": _Value.text},
        {"fields": _array(_class_field, _FIRST), "constants": _array(_Value.text), "final": _Value.flag}
        | {"extends": _Value.text, "message": _Value.text},
    ),
    "class field": ({"name": _Value.text, "type": _Value.text}, {}),
}
"""Object of a file → the members that it must have and those that it may have, each with what reads it."""


# ---- writing ----
# A member without a value is left out: null is no value of any member.


def _written(value: Any) -> Any:
    """Return a value as JSON has it; None for an empty array."""
    if isinstance(value, OperatorInfo | StateInfo | TypeInfo):
        names = (each.name for each in dataclass_fields(value))
        return _present({_MEMBERS.get(name, name): _written(getattr(value, name)) for name in names})
    if isinstance(value, StateKind):
        return value.value
    if isinstance(value, tuple):
        return [_written(item) for item in value] or None
    return value


_MEMBERS = {"operator_id": "id"}


def _class_members(name: str, known: KryoClass | PojoSubclass) -> dict[str, Any]:
    members: dict[str, Any] = {
        "name": name,
        "fields": [dict(zip(("name", "type"), each, strict=True)) for each in known.fields] or None,
    }
    if isinstance(known, PojoSubclass):
        return _present(members | {"extends": known.extends})
    members |= {"constants": list(known.constants) or None, "final": known.is_final or None}
    return _present(members | {"message": known.message or None})


def _present(members: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}
