"""A principal: a user, and what the user may do with which databases.

| grant | allows |
|---|---|
| `prod/*` | to read the databases whose names match |
| `write:prod/*` | to read them, to write new savepoints from them, and to write savepoints of such names |
| `savepoints:prod/*` | to read them, and to let Flink take savepoints of the jobs that wrote them |
| `saved:prod/*` | to read them, and to save queries for them, change and delete these |
| `operator:prod/*` | to read them, to see everybody's queries that read them and no others, to end these, and to silence rules |
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import translate
from functools import lru_cache
from typing import TYPE_CHECKING

from catalog.references import path_of

if TYPE_CHECKING:
    from catalog import Catalog

EVERYTHING = "*"
WRITE = "write:"
SAVEPOINTS = "savepoints:"
SAVED = "saved:"
OPERATOR = "operator:"
_PREFIXES = (WRITE, SAVEPOINTS, SAVED, OPERATOR)


class Source(StrEnum):
    """The source of a user's name."""

    NOBODY = "nobody"
    KEY = "key"
    TOKEN = "token"


@dataclass(frozen=True, slots=True)
class Identity:
    """A user. Users of two sources are two users, also where they have one name.

    Attributes:
        source: the source of the name; `nobody` for names that nobody has checked.
        name: name of the API key, user of the token, or the name that the client gives itself.
        mask: the name of the masks of what the user sees: with others it is another user, whose answers are others.
    """

    source: Source
    name: str
    mask: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """A user and the user's grants.

    Attributes:
        source: the credentials that name the user.
        name: name of the API key, or the user of a token; empty without authentication.
        grants: patterns of the names of databases, and with a slash of `label/folders`: `*` stands for any text, also for
            slashes, `?` for one character; case is ignored. No grant matches an alias. Behind `write:` and the like a pattern
            allows more than to read.
        mask: the name of the masks of all that the principal sees; None for the values themselves.
    """

    name: str
    grants: tuple[str, ...] = ()
    source: Source = Source.NOBODY
    mask: str | None = None

    @property
    def identity(self) -> Identity:
        """The user."""
        return Identity(self.source, self.name, self.mask)

    def part_of(self, catalog: Catalog, among: Catalog | None = None) -> Catalog:
        """Return what the principal sees of a catalog, with the principal's masks.

        Args:
            catalog: the databases, and the masks by their names.
            among: some of the databases, if not all of them count.

        Raises:
            NoSuchMaskError: the catalog has no masks of this name.
        """
        masks = None if self.mask is None else catalog.masks(self.mask)
        return (among or catalog).visible(self.sees, masks)

    def named(self, name: str) -> Principal:
        """Return the principal with the name that the client gives itself, if no credentials name the user."""
        if self.source is not Source.NOBODY:
            return self
        # `replace` would look the fields up for each request.
        return Principal(name=name, grants=self.grants, source=self.source, mask=self.mask)

    def sees(self, database: str) -> bool:
        """Return whether the principal may see the database of this name, which is no alias."""
        return _matches(_readable(self.grants), database)

    def may_write(self, database: str) -> bool:
        """Return whether the principal may write from the database of this name, or a new one of this name."""
        return self.mask is None and _matches(_behind(WRITE, self.grants), database)

    def may_trigger(self, database: str) -> bool:
        """Return whether the principal may let Flink take savepoints of the job that wrote the database of this name."""
        return _matches(_behind(SAVEPOINTS, self.grants), database)

    def may_save(self, database: str | None) -> bool:
        """Return whether the principal may save queries for the database of this name; None for queries of no certain one."""
        return _matches_or_all(_behind(SAVED, self.grants), database)

    def operates(self, databases: Collection[str]) -> bool:
        """Return whether the principal may see and end a query of anybody that reads these databases, or none.

        The statements of others may have values in them that a mask hides.
        """
        if self.mask is not None:
            return False
        patterns = _behind(OPERATOR, self.grants)
        return all(_matches_or_all(patterns, database) for database in databases or (None,))

    @property
    def saves(self) -> bool:
        """True if the principal may save queries for some database."""
        return bool(_behind(SAVED, self.grants))

    @property
    def is_operator(self) -> bool:
        """True if the principal may see everybody's queries of some database."""
        return self.mask is None and bool(_behind(OPERATOR, self.grants))

    @property
    def writes(self) -> bool:
        """True if the principal may write some database."""
        return self.mask is None and bool(_behind(WRITE, self.grants))

    @property
    def sees_everything(self) -> bool:
        """True if no database is hidden from the principal."""
        return EVERYTHING in _readable(self.grants)


@lru_cache(maxsize=1024)
def _readable(grants: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(_pattern, grants))


def _behind(prefix: str, grants: tuple[str, ...]) -> tuple[str, ...]:
    """Return the patterns of the grants with a prefix."""
    return tuple(grant.removeprefix(prefix) for grant in grants if grant.startswith(prefix))


def _pattern(grant: str) -> str:
    prefix = next((prefix for prefix in _PREFIXES if grant.startswith(prefix)), "")
    return grant.removeprefix(prefix)


def _matches_or_all(patterns: tuple[str, ...], database: str | None) -> bool:
    return EVERYTHING in patterns if database is None else _matches(patterns, database)


def _matches(patterns: tuple[str, ...], database: str) -> bool:
    names, paths = _compiled(patterns)
    is_named = names.fullmatch(database.casefold()) is not None
    return is_named or paths.fullmatch(path_of(database).casefold()) is not None


@lru_cache(maxsize=1024)
def _compiled(patterns: tuple[str, ...]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return the pattern of names, and the pattern of paths."""
    names = [translate(pattern.casefold()) for pattern in patterns if "/" not in pattern]
    paths = [translate(pattern.casefold()) for pattern in patterns if "/" in pattern]
    return re.compile("|".join(names) or r"(?!)"), re.compile("|".join(paths) or r"(?!)")


def is_grant(text: str) -> bool:
    """Return whether a text is a valid pattern of names, with or without `write:` or the like before it."""
    pattern = _pattern(text)
    # `[` would begin a set of characters in fnmatch, which is not part of the documented patterns.
    return 0 < len(pattern) <= _LONGEST_GRANT and pattern.isprintable() and "[" not in pattern


def checked_grants(texts: Iterable[str]) -> tuple[str, ...]:
    """Check patterns of names, and return them as grants.

    Raises:
        ValueError: a text is no valid pattern.
    """
    grants = tuple(texts)
    for grant in grants:
        if not is_grant(grant):
            raise ValueError(
                f"expected a pattern of database names such as prod__* or prod/*, found {grant!r:.100}"
            )
    return grants


_LONGEST_GRANT = 1000
NOBODY = Principal(name="")
ANYBODY = Principal(name="", grants=tuple(prefix + EVERYTHING for prefix in _PREFIXES))
