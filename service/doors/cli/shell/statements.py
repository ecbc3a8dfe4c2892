"""A text → its statements: where a `;` ends one, and whether the last one is open. A line → its command, if it is one.

| what | ends at |
|---|---|
| `'text'`, `"name"`, `` `name` `` | the next such quotation mark that is not doubled |
| `E'text'` | the same, but a backslash takes the next character with it |
| `$tag$text$tag$` | the same tag |
| `-- comment` | the end of the line |
| `/* comment */` | the mark that closes it; comments may stand in comments |

The lines of files with statements.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TextIO

from service.doors.cli.output import WrongUsageError
from service.query.encode import printable

_MARK = re.compile(r"""--|/\*|;|(?<![\w$])\$(?:[^\W\d]\w*)?\$|(?<![\w$])[eE]'|['"`]""")
_COMMENT_MARK = re.compile(r"/\*|\*/")
_ESCAPED_END = re.compile(r"(?:[^'\\]|\\.|'')*'", re.DOTALL)
_LONGEST_LINE = 1 << 20


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement of a text.

    Attributes:
        text: without the semicolon behind it.
        start: where it begins in the text.
    """

    text: str
    start: int


@dataclass(frozen=True, slots=True)
class Statements:
    """The statements of a text.

    Attributes:
        ended: those with a semicolon behind them, and with more in them than blanks and comments.
        rest: what follows the last semicolon.
        is_open: True if the rest has more than blanks and comments, or a quotation or comment in it does not end.
    """

    ended: Sequence[Statement]
    rest: Statement
    is_open: bool


def command_of(line: str) -> str | None:
    """Return the command of a line: what begins with a dot or a backslash, or a word that other shells know; None if it is none."""
    text = line.strip()
    command = text.removesuffix(";").rstrip()
    return _WORDS.get(command.casefold()) or (command if text.startswith((".", "\\")) else None)


def statements_of(text: str) -> Statements:
    """Cut a text at the semicolons between its statements."""
    ended: list[Statement] = []
    start = at = 0
    # Whether there is anything but blanks and comments since `start`.
    has_words = False
    while (mark := _MARK.search(text, at)) is not None:
        has_words = has_words or bool(text[at : mark.start()].strip())
        if mark[0] == ";":
            if has_words:
                ended.append(Statement(text[start : mark.start()], start))
            start = at = mark.end()
            has_words = False
            continue
        is_comment = mark[0] in ("--", "/*")
        has_words = has_words or not is_comment
        end = _end_of(text, mark)
        if end is None:
            # A comment of one line ends with the text, too.
            return Statements(ended, Statement(text[start:], start), has_words or mark[0] != "--")
        at = end
    rest = text[at:]
    return Statements(ended, Statement(text[start:], start), has_words or bool(rest.strip()))


def _end_of(text: str, mark: re.Match[str]) -> int | None:
    """Return where a quotation or comment ends; None if it does not."""
    opened, at = mark[0], mark.end()
    if opened == "/*":
        return _comment_end(text, at)
    if opened in ("e'", "E'"):
        found = _ESCAPED_END.match(text, at)
        return None if found is None else found.end()
    if opened in _QUOTATIONS:
        # A doubled mark ends one quotation and begins another: what counts is only where the last one ends.
        opened = _QUOTATIONS[opened]
    end = text.find(opened, at)
    return None if end < 0 else end + len(opened)


def _comment_end(text: str, at: int) -> int | None:
    depth = 1
    while depth and (mark := _COMMENT_MARK.search(text, at)) is not None:
        depth += 1 if mark[0] == "/*" else -1
        at = mark.end()
    return None if depth else at


_WORDS = {"exit": ".quit", "quit": ".quit", "help": ".help"}
_QUOTATIONS = {"'": "'", '"': '"', "`": "`", "--": "\n"}


def lines_of(file: TextIO, name: str) -> Iterator[str]:
    """Yield the lines of a text, each as soon as it is there; a very long one in pieces.

    Args:
        file: has the text.
        name: of the file, for errors.

    Raises:
        WrongUsageError: it is not text in UTF-8.
    """
    try:
        while line := file.readline(_LONGEST_LINE):
            yield line
    except UnicodeDecodeError as error:
        raise WrongUsageError(f"expected text in UTF-8 in {printable(name)}, found other bytes") from error
