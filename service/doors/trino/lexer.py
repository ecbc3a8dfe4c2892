"""A text → its words, as far as statements about the session need them.

The lexer knows strings, quoted names and comments, so a `?`, a comma or a keyword inside them has no meaning.
`service.query.sql.planner` interprets queries.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from service.base.errors import Position, QuerySyntaxError

_WORD = re.compile(
    r"""(?P<blank>\s+|--[^\n]*|/\*.*?\*/)
    |(?P<string>'(?:[^']|'')*')
    |(?P<quoted>"(?:[^"]|"")*"|`(?:[^`]|``)*`)
    |(?P<name>[^\W\d][\w$@]*)
    |(?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)
    |(?P<sign>=>|.)""",
    re.DOTALL | re.VERBOSE,
)
_OPENING, _CLOSING = frozenset("(["), frozenset(")]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """A word of a statement.

    Attributes:
        kind: `string`, `quoted`, `name`, `number` or `sign`.
        text: the word as written.
        start: position of its first character.
        end: position behind its last character.
    """

    kind: str
    text: str
    start: int
    end: int

    @property
    def keyword(self) -> str:
        """The word in capitals; empty for strings and quoted names."""
        return "" if self.kind in ("string", "quoted") else self.text.upper()

    @property
    def value(self) -> str:
        """The word without its quotes."""
        if self.kind not in ("string", "quoted"):
            return self.text
        return self.text[1:-1].replace(self.text[0] * 2, self.text[0])

    @property
    def is_name(self) -> bool:
        """True if the word may be a part of a name."""
        return self.kind in ("name", "quoted")


def words_of(sql: str) -> list[Word]:
    """Return the words of a text, without semicolons at its end.

    Raises:
        QuerySyntaxError: a string, a quoted name or a comment has no end.
    """
    words = []
    for found in _WORD.finditer(sql):
        kind = str(found.lastgroup)
        if kind == "blank":
            continue
        word = Word(kind=kind, text=found.group(), start=found.start(), end=found.end())
        # A quote that opens nothing complete matches only as a sign.
        if word.text in ("'", '"', "`") or sql.startswith("/*", word.start):
            raise QuerySyntaxError(
                "a string, a quoted name or a comment has no end", position=Position.of(sql, word.start)
            )
        words.append(word)
    while words and words[-1].text == ";":
        words.pop()
    return words


def arguments_of(sql: str, words: Sequence[Word]) -> list[str]:
    """Split a text at the commas outside brackets."""
    if not words:
        return []
    starts, depth, arguments = words[0].start, 0, []
    for word in words:
        if word.text in _OPENING:
            depth += 1
        elif word.text in _CLOSING:
            depth -= 1
        elif word.text == "," and depth == 0:
            arguments.append(sql[starts : word.start].strip())
            starts = word.end
    arguments.append(sql[starts : words[-1].end].strip())
    return arguments


def placeholders_of(sql: str) -> list[Word]:
    """Return the question marks that stand for parameters, in order."""
    return [word for word in words_of(sql) if word.text == "?"]


def with_arguments(sql: str, arguments: Sequence[str]) -> str:
    """Put arguments in place of a statement's question marks, each as an expression of its own."""
    parts: list[str] = []
    last = 0
    for word, argument in zip(placeholders_of(sql), arguments, strict=True):
        parts += [sql[last : word.start], _enclosed(argument)]
        last = word.end
    return "".join((*parts, sql[last:]))


def names_of(sql: str, words: Sequence[Word]) -> tuple[str, ...]:
    """Return the parts of a name with dots between them.

    Raises:
        QuerySyntaxError: the words are no such name.
    """
    parts = list(_parts(words))
    if not parts or len(words) != 2 * len(parts) - 1:
        position = Position.of(sql, words[0].start) if words else None
        raise QuerySyntaxError("expected a name", position=position)
    return tuple(parts)


def name_length(words: Sequence[Word]) -> int:
    """Number of words of the name at the beginning; 0 without a name."""
    return max(0, 2 * len(list(_parts(words))) - 1)


def _parts(words: Sequence[Word]) -> Iterator[str]:
    for index in range(0, len(words), 2):
        if not words[index].is_name:
            return
        yield words[index].value
        if index + 1 >= len(words) or words[index + 1].text != ".":
            return


def _enclosed(argument: str) -> str:
    """Enclose an argument, so that it stays an expression of its own in any surroundings."""
    words = words_of(argument)
    if len(words) == 1:
        return words[0].text
    # The line break ends a comment at the end of the argument, which would hide the bracket.
    return f"({argument}\n)"
