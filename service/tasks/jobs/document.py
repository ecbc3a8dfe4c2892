"""An answer in JSON, checked member by member: nothing of it is believed before its type and its range are.

Every error names the request, the member, what was expected and what was found.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from service.base.errors import FlinkAnswerError

_LONGEST_TEXT = 1000
_LONGEST_PATH = 4096
_MOST_MEMBERS = 100_000
_LARGEST = (1 << 63) - 1
_LAST_MS = 253_402_300_799_999  # the end of the year 9999
_ID = re.compile(r"[0-9a-f]{32}")
_WORD = re.compile(r"[A-Z][A-Z_]{0,39}")


class Document:
    """An object of an answer.

    Args:
        content: parsed JSON.
        where: the request, and the members that lead to the object.

    Raises:
        FlinkAnswerError: it is no object.
    """

    def __init__(self, content: Any, where: str) -> None:
        self._where = where
        if not isinstance(content, dict):
            raise self._unexpected("an object", content)
        self._content = content

    def text(self, name: str) -> str:
        """Return a text, without characters that nobody can read, cut after a thousand."""
        value = self._content.get(name)
        if not isinstance(value, str):
            raise self._unexpected(f"a text {name}", value)
        return readable(value, _LONGEST_TEXT)

    def optional_text(self, name: str) -> str | None:
        """Return a text; None for null, and where there is none."""
        return None if self._content.get(name) is None else self.text(name)

    def identifier(self, name: str) -> str:
        """Return an id of Flink: 32 hexadecimal digits. It becomes a part of further requests."""
        value = self._content.get(name)
        if not isinstance(value, str) or _ID.fullmatch(value) is None:
            raise self._unexpected(f"32 hexadecimal digits as {name}", value)
        return value

    def word(self, name: str) -> str:
        """Return a word of Flink, such as `RUNNING`; other versions may have other words."""
        value = self._content.get(name)
        if not isinstance(value, str) or _WORD.fullmatch(value) is None:
            raise self._unexpected(f"a word in capitals as {name}", value)
        return value

    def path(self, name: str) -> str:
        """Return the path of a file, which is not cut; it is compared with ours, and never opened by itself."""
        value = self._content.get(name)
        if not isinstance(value, str) or not 0 < len(value) <= _LONGEST_PATH or not value.isprintable():
            raise self._unexpected(f"a path {name}", value)
        return value

    def flag(self, name: str, default: bool | None = None) -> bool:
        """Return a flag."""
        value = self._content.get(name, default)
        if not isinstance(value, bool):
            raise self._unexpected(f"true or false as {name}", value)
        return value

    def number(self, name: str) -> int:
        """Return an integer of 64 bits."""
        value = self._content.get(name)
        # Python's `bool` is an `int`.
        if not isinstance(value, int) or isinstance(value, bool) or not -_LARGEST <= value <= _LARGEST:
            raise self._unexpected(f"an integer {name}", value)
        return value

    def moment(self, name: str) -> datetime | None:
        """Return the time of milliseconds since 1970; None for -1, which Flink writes for a time that is not there yet."""
        milliseconds = self.number(name)
        if milliseconds < 0:
            return None
        if milliseconds > _LAST_MS:
            raise self._unexpected(f"milliseconds since 1970 as {name}", milliseconds)
        return datetime.fromtimestamp(milliseconds / 1000, UTC)

    def member(self, name: str) -> Document:
        """Return an object below."""
        return Document(self._content.get(name), f"{self._where}: {name}")

    def optional_member(self, name: str) -> Document | None:
        """Return an object below; None for null, and where there is none."""
        return None if self._content.get(name) is None else self.member(name)

    def members(self, name: str) -> Iterator[Document]:
        """Yield the objects of a list."""
        found = self._content.get(name)
        if not isinstance(found, list):
            raise self._unexpected(f"a list {name}", found)
        if len(found) > _MOST_MEMBERS:
            raise self._unexpected(f"at most {_MOST_MEMBERS} {name}", len(found))
        return (Document(one, f"{self._where}: {name}[{index}]") for index, one in enumerate(found))

    def content(self, name: str) -> Any:
        """Return a member as it is, for a reader that checks it."""
        return self._content.get(name)

    def _unexpected(self, expected: str, found: Any) -> FlinkAnswerError:
        kind = "nothing" if found is None else _KINDS.get(type(found), type(found).__name__)
        shown = f" {found!r:.60}" if isinstance(found, (str, int)) and not isinstance(found, bool) else ""
        return FlinkAnswerError(f"{self._where}: expected {expected}, found {kind}{shown}")


def readable(text: str, longest: int) -> str:
    """Return the beginning of a text of Flink without what no log, terminal or JSON can show."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text[:longest])


_KINDS: dict[type[Any], str] = {
    str: "the text",
    int: "the number",
    bool: "a flag",
    float: "a number with a fraction",
    list: "a list",
    dict: "an object",
}
