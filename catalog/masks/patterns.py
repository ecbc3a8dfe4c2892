"""Names of columns in `masks.toml`: `op__state.value.email`, `*.value.address.**`, `orders.key`.

A name is a table, a column, and the fields that lead from it to a value, with dots between them. Case is ignored.

| part | matches |
|---|---|
| `*` | in a table any text, else any text of one part |
| `?` | one character |
| `**` | any number of parts, also none |
| `"a.b"` | a part with dots in its name |

Elements of lists have no part of their own. Keys and values of maps are the parts `key` and `value`.

A name covers all that is inside the column or field that it matches.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import translate
from functools import cached_property, lru_cache

from catalog.errors import InvalidMaskFileError

Path = tuple[str, ...]
_PART = re.compile(r'"([^"]+)"|([^."]+)')
_ANY = "**"
_GLOB = re.compile(r"[*?]")
_MOST_PARTS = 64


# No slots: a cached property needs a dictionary.
@dataclass(frozen=True)
class ColumnPattern:
    """The name of some columns.

    Attributes:
        text: as the file has it.
    """

    text: str

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """Its parts, in lower case.

        Raises:
            InvalidMaskFileError: it is no name of columns.
        """
        found, position = [], 0
        while True:
            part = _PART.match(self.text, position)
            if part is None:
                break
            found.append((part[1] or part[2]).strip().casefold())
            position = part.end()
            if self.text[position : position + 1] != ".":
                break
            position += 1
        if position != len(self.text) or not 2 <= len(found) <= _MOST_PARTS:
            raise InvalidMaskFileError(
                f"expected a table and a column, such as orders.key or *.value.email, found {self.text!r:.100}"
            )
        return tuple(found)

    def _divided(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield what may be its table, and the path behind it: names of tables may have dots."""
        if self.parts[0] == _ANY:
            yield _ANY, self.parts
        for count in range(1, len(self.parts)):
            yield ".".join(self.parts[:count]), self.parts[count:]

    def covers(self, table: str, path: Path) -> bool:
        """Return whether it matches a column or field, or one that holds it."""
        return any(self._matches(table, path[:count]) for count in range(1, len(path) + 1))

    def reaches(self, table: str, column: str) -> bool:
        """Return whether it may match something inside a column, whatever is in there."""
        return any(
            _matches_text(name, table) and (path[0] == _ANY or _matches_part(path[0], column.casefold()))
            for name, path in self._divided()
        )

    def names_table(self, table: str) -> bool:
        """Return whether it names this very table, without a sign that stands for others."""
        return any(name == table.casefold() and not _GLOB.search(name) for name, _ in self._divided())

    def _matches(self, table: str, path: Path) -> bool:
        folded = tuple(part.casefold() for part in path)
        return any(
            _matches_text(name, table) and _matches_path(rest, folded) for name, rest in self._divided()
        )


def _matches_path(pattern: Sequence[str], path: Path) -> bool:
    if not pattern:
        return not path
    if pattern[0] == _ANY:
        return any(_matches_path(pattern[1:], path[count:]) for count in range(len(path) + 1))
    return bool(path) and _matches_part(pattern[0], path[0]) and _matches_path(pattern[1:], path[1:])


def _matches_part(pattern: str, part: str) -> bool:
    return _compiled(pattern).fullmatch(part) is not None


def _matches_text(pattern: str, table: str) -> bool:
    return _compiled(pattern).fullmatch(table.casefold()) is not None


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> re.Pattern[str]:
    # `[` begins a set of characters in fnmatch, and is a character here.
    return re.compile(translate(pattern.replace("[", "[[]")))
