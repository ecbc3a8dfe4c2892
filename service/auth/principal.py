"""A principal: a user, and the databases that the user may see."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import translate
from functools import lru_cache

EVERYTHING = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """A user and the user's grants.

    Attributes:
        name: name of the API key, or the user of a token; empty without authentication.
        grants: patterns of database names: `*` stands for any text, `?` for one character; case is ignored.
    """

    name: str
    grants: tuple[str, ...] = ()

    def sees(self, database: str) -> bool:
        """Return whether the principal may see a database."""
        return _pattern(self.grants).fullmatch(database.casefold()) is not None

    @property
    def sees_everything(self) -> bool:
        """True if no database is hidden from the principal."""
        return EVERYTHING in self.grants


@lru_cache(maxsize=1024)
def _pattern(grants: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(translate(grant.casefold()) for grant in grants) or r"(?!)")


def is_grant(text: str) -> bool:
    """Return whether a text is a valid pattern of names."""
    # `[` would begin a set of characters in fnmatch, which is not part of the documented patterns.
    return 0 < len(text) <= _LONGEST_GRANT and text.isprintable() and "[" not in text


def checked_grants(texts: Iterable[str]) -> tuple[str, ...]:
    """Check patterns of names, and return them as grants.

    Raises:
        ValueError: a text is no valid pattern.
    """
    grants = tuple(texts)
    for grant in grants:
        if not is_grant(grant):
            raise ValueError(f"expected a pattern of database names such as prod-*, found {grant!r:.100}")
    return grants


_LONGEST_GRANT = 1000
ANYBODY = Principal(name="", grants=(EVERYTHING,))
