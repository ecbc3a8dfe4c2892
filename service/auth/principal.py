"""Somebody who asks, and which databases they may see."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import translate
from functools import lru_cache

EVERYTHING = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Somebody.

    Attributes:
        name: of the key or of the identity provider; empty for anybody.
        grants: patterns of the names of databases: `*` stands for any text, `?` for a character; upper and lower case are the same.
    """

    name: str
    grants: tuple[str, ...] = ()

    def sees(self, database: str) -> bool:
        """Whether a database is there for them."""
        return _pattern(self.grants).fullmatch(database.casefold()) is not None

    @property
    def sees_everything(self) -> bool:
        """Whether no database is hidden from them."""
        return EVERYTHING in self.grants


@lru_cache(maxsize=1024)
def _pattern(grants: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(translate(grant.casefold()) for grant in grants) or r"(?!)")


def is_grant(text: str) -> bool:
    """Whether a text may stand for a pattern of names."""
    return 0 < len(text) <= _LONGEST_GRANT and text.isprintable() and "[" not in text


def checked_grants(texts: Iterable[str]) -> tuple[str, ...]:
    """These as grants.

    Raises:
        ValueError: one is none.
    """
    grants = tuple(texts)
    for grant in grants:
        if not is_grant(grant):
            raise ValueError(f"expected a pattern of database names such as prod-*, found {grant!r:.100}")
    return grants


_LONGEST_GRANT = 1000
ANYBODY = Principal(name="", grants=(EVERYTHING,))
