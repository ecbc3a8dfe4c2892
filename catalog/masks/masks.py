"""The file `masks.toml`: which columns are masked, and how.

| key | means |
|---|---|
| `version = 1` | of the file |
| `secret_file = "mask.key"` | at least 16 bytes, beside the file; without it masks are others in each run |
| `default = "keep"` | columns without a rule stay; with `refuse` they are an error |
| `[[mask]]` | a rule; the first that covers a value counts |
| `columns = ["*.value.email"]` | what it covers; see `patterns.py` |
| `with = "pseudonym"` | what becomes of the values; see `rules.py` |
| `group = "customer"` | equal values have equal masks in all columns of a group |
| `raw = "drop"` | what becomes of values that cannot be decoded: `drop` their rows, or `null`; else they are an error |
| `[group.customer]` | `columns = […]`: more columns of the group, whichever rule masks them |
"""

from __future__ import annotations

import hashlib
import os
import random
import secrets
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path as FilePath
from typing import Any, Self, TypeVar

import pyarrow as pa

from catalog.errors import InvalidMaskFileError, MaskError, MissingSecretError
from catalog.masks.columns import ColumnNames, MaskedColumns, MaskRule, leaves_of, masked_columns
from catalog.masks.patterns import ColumnPattern, Path
from catalog.masks.rules import derived_key, read_rule
from readers import State, is_keyed

Part = TypeVar("Part")
_KEEP, _REFUSE = "keep", "refuse"
_LEAST_SECRET_BYTES = 16
_MOST_BYTES = 1 << 20


# No slots: a cached property needs a dictionary.
@dataclass(frozen=True, eq=False, kw_only=True)
class Masks:
    """What a file of masks says. Small and picklable; it holds the secret.

    Attributes:
        rules: in the order of the file.
        groups: name → the columns that `[group.NAME]` lists.
        refuses: whether a column without a rule is an error.
        secret: of all masks.
        has_secret_file: whether another run has the same secret.
        path: of the file, for errors.
    """

    rules: tuple[MaskRule, ...]
    groups: Mapping[str, tuple[ColumnPattern, ...]] = field(default_factory=dict)
    refuses: bool = False
    secret: bytes = field(repr=False)
    has_secret_file: bool = True
    path: str = ""

    # Equal for equal masks: what is read with them is known again, also in another process.
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Masks) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Return what a file says.

        Raises:
            InvalidMaskFileError: the file cannot be read, or has what no file of masks has.
            MissingSecretError: its secret is missing, or too short.
        """
        place = FilePath(path)
        try:
            with place.open("rb") as file:
                content = file.read(_MOST_BYTES + 1)
            text = content.decode()
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidMaskFileError(
                f"expected a file of masks, found that {place} cannot be read: {error}"
            ) from error
        if len(content) > _MOST_BYTES:
            raise InvalidMaskFileError(f"expected at most {_MOST_BYTES} bytes, found more: {place}")
        return cls.parse(text, place)

    @classmethod
    def parse(cls, text: str, path: str | os.PathLike[str] = "masks.toml") -> Self:
        """Return what the text of a file says; for errors see `load`.

        Args:
            text: TOML.
            path: of the file: the secret's file is beside it.
        """
        place = FilePath(path)
        try:
            found = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise InvalidMaskFileError(f"expected TOML, found {error}: {place}") from error
        try:
            return cls._read(found, place)
        except InvalidMaskFileError as error:
            raise InvalidMaskFileError(f"{error}: {place}") from error

    @classmethod
    def _read(cls, found: Mapping[str, Any], place: FilePath) -> Self:
        _check_names(found, ("version", "secret_file", "default", "mask", "group"), "the file")
        if found.get("version") != 1:
            raise InvalidMaskFileError(f"expected version = 1, found {found.get('version')!r:.50}")
        default = found.get("default", _KEEP)
        if default not in (_KEEP, _REFUSE):
            raise InvalidMaskFileError(f'expected default = "keep" or "refuse", found {default!r:.50}')
        masks, groups = found.get("mask", []), found.get("group", {})
        if (
            not isinstance(masks, list)
            or not all(isinstance(one, dict) for one in masks)
            or not (masks or groups)
        ):
            raise InvalidMaskFileError("expected at least one [[mask]], found none")
        if not isinstance(groups, dict) or not all(isinstance(one, dict) for one in groups.values()):
            raise InvalidMaskFileError("expected [group.NAME], found another group")
        secret_file = found.get("secret_file")
        return cls(
            rules=tuple(map(_rule, masks)),
            groups={name: _group(name, one) for name, one in groups.items()},
            refuses=default == _REFUSE,
            secret=secrets.token_bytes(32) if secret_file is None else _secret(secret_file, place),
            has_secret_file=secret_file is not None,
            path=str(place),
        )

    @cached_property
    def digest(self) -> str:
        """A text that differs for masks that may give other values: a part of the keys of caches."""
        said = repr((self.rules, sorted(self.groups.items()), self.refuses)).encode()
        return hashlib.sha256(said + derived_key(self.secret, "digest")).hexdigest()[:32]

    def mixed(self, parts: tuple[Part, ...]) -> tuple[Part, ...]:
        """Return the parts of a scan in another order: the first ones have the lowest key groups."""
        found = list(parts)
        random.Random(derived_key(self.secret, f"parts\0{len(parts)}")).shuffle(found)
        return tuple(found)

    def for_table(
        self,
        table: str,
        schema: pa.Schema,
        names: ColumnNames | None = None,
        *,
        raw: Iterable[str] = (),
        hides_places: bool = False,
    ) -> MaskedColumns:
        """Return the masks of the columns of a table.

        Args:
            table: its name.
            schema: its columns.
            names: the other names by which rules may know its columns; of the table alone if None.
            raw: columns of bytes that stand for values that cannot be decoded.
            hides_places: whether the key group and the subtask of a masked key are null: the key itself decides them.

        Raises:
            UnknownMaskColumnError: a rule names this table, and a column that it does not have.
            UnmaskableValueError: a rule cannot mask the values that it covers.
        """
        known = names or ColumnNames(table)
        return masked_columns(
            self.rules,
            self.groups,
            self.secret,
            known,
            schema,
            frozenset(raw),
            refuses=self.refuses,
            hides_places=hides_places,
        )

    def hides_positions(self, states: Iterable[tuple[State, ColumnNames]]) -> bool:
        """Return whether a rule masks something of the positions of a source, or the file refuses them.

        Args:
            states: of its operator; those without keys may have positions.
        """
        return any(self._touches(state, names) for state, names in states if not is_keyed(state.kind))

    def _touches(self, state: State, names: ColumnNames) -> bool:
        try:
            return not self.for_table(names.table, state.schema, names).is_whole
        except MaskError:
            return True

    def group_paths(
        self, group: str, table: str, schema: pa.Schema, names: ColumnNames | None = None
    ) -> tuple[Path, ...]:
        """Return the columns and fields of a table that belong to a group, by its rules or by its own list."""
        known = names or ColumnNames(table)
        patterns = [
            *self.groups.get(group, ()),
            *(pattern for rule in self.rules if rule.group == group for pattern in rule.columns),
        ]
        return tuple(
            path for path, _ in leaves_of(schema) if any(known.covers(pattern, path) for pattern in patterns)
        )

    @property
    def group_names(self) -> tuple[str, ...]:
        """The names of all groups."""
        return tuple(dict.fromkeys([*self.groups, *(rule.group for rule in self.rules if rule.group)]))


def _rule(found: Mapping[str, Any]) -> MaskRule:
    _check_names(found, ("columns", "with", "group", "raw"), "[[mask]]")
    text, group, raw = found.get("with"), found.get("group"), found.get("raw")
    if not isinstance(text, str):
        raise InvalidMaskFileError('expected with = "…" in each [[mask]], found none')
    if group is not None and not (isinstance(group, str) and group):
        raise InvalidMaskFileError(f"expected the name of a group, found {group!r:.50}")
    if raw not in (None, "drop", "null"):
        raise InvalidMaskFileError(f'expected raw = "drop" or "null", found {raw!r:.50}')
    return MaskRule(
        columns=_patterns(found.get("columns"), "[[mask]]"), rule=read_rule(text), group=group, raw=raw
    )


def _group(name: str, found: Mapping[str, Any]) -> tuple[ColumnPattern, ...]:
    _check_names(found, ("columns",), f"[group.{name}]")
    return _patterns(found.get("columns"), f"[group.{name}]")


def _patterns(found: Any, where: str) -> tuple[ColumnPattern, ...]:
    if not isinstance(found, list) or not found or not all(isinstance(one, str) for one in found):
        raise InvalidMaskFileError(f'expected columns = ["…"] in {where}, found {found!r:.50}')
    patterns = tuple(map(ColumnPattern, found))
    for pattern in patterns:
        _ = pattern.parts  # an error belongs here, not to the first table
    return patterns


def _check_names(found: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    for name in found:
        if name not in known:
            raise InvalidMaskFileError(f"expected {', '.join(known)} in {where}, found {name!r:.50}")


def _secret(name: Any, place: FilePath) -> bytes:
    if not isinstance(name, str) or not name:
        raise InvalidMaskFileError(f"expected the path of a file as secret_file, found {name!r:.50}")
    file = place.parent / name
    try:
        with file.open("rb") as stream:
            secret = stream.read(_MOST_BYTES).strip()
    except OSError as error:
        raise MissingSecretError(
            f"expected the secret of the masks in {file}, found that it cannot be read: {error.strerror}; "
            f"write random bytes there: openssl rand -hex 32 > {file}"
        ) from error
    if len(secret) < _LEAST_SECRET_BYTES:
        raise MissingSecretError(
            f"expected a secret of at least {_LEAST_SECRET_BYTES} bytes in {file}, found {len(secret)}"
        )
    return secret
