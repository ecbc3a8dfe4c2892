"""Patterns that Trino and DuckDB write differently: of dates, of replacements, of JSON paths.

A pattern is translated when the statement is, so it must be a constant; what has no counterpart is refused.
"""

from __future__ import annotations

import re

from service.base.errors import InvalidQueryError

# MySQL's letters, as in Trino's date_format and date_parse.
_MYSQL = {
    "%a": "%a",
    "%b": "%b",
    "%c": "%-m",
    "%d": "%d",
    "%e": "%-d",
    "%f": "%f",
    "%H": "%H",
    "%h": "%I",
    "%I": "%I",
    "%i": "%M",
    "%j": "%j",
    "%k": "%-H",
    "%l": "%-I",
    "%M": "%B",
    "%m": "%m",
    "%p": "%p",
    "%r": "%I:%M:%S %p",
    "%S": "%S",
    "%s": "%S",
    "%T": "%H:%M:%S",
    "%v": "%V",
    "%W": "%A",
    "%x": "%G",
    "%Y": "%Y",
    "%y": "%y",
    "%%": "%%",
}
_JODA = {
    "yyyy": "%Y",
    "yy": "%y",
    "MMMM": "%B",
    "MMM": "%b",
    "MM": "%m",
    "dd": "%d",
    "d": "%-d",
    "HH": "%H",
    "hh": "%I",
    "mm": "%M",
    "ss": "%S",
    "SSS": "%g",
    "EEEE": "%A",
    "EEE": "%a",
    "a": "%p",
    "DDD": "%j",
}
_STEP = re.compile(r"""\.([A-Za-z_]\w*)|\[(\d+)\]|\["([^"\\]*)"\]""")


def of_mysql(pattern: str) -> str:
    """Return a pattern of `date_format` as one of strftime.

    Raises:
        InvalidQueryError: it has a letter without a counterpart.
    """

    def translated(field: re.Match[str]) -> str:
        if field.group() not in _MYSQL:
            raise _unsupported(f"{field.group()!r} in a pattern of dates")
        return _MYSQL[field.group()]

    return re.sub(r"%.?", translated, pattern, flags=re.DOTALL)


def of_joda(pattern: str) -> str:
    """Return a pattern of Joda-Time as one of strftime.

    Raises:
        InvalidQueryError: it has a letter without a counterpart.
    """

    def translated(field: re.Match[str]) -> str:
        text = field.group()
        if text.startswith("'"):
            return (text[1:-1] or "'").replace("%", "%%")
        if text not in _JODA and text[0].isalpha():
            raise _unsupported(f"{text!r} in a pattern of dates")
        return _JODA.get(text, text.replace("%", "%%"))

    return re.sub(r"'[^']*'|([A-Za-z])\1*|[^A-Za-z']+", translated, pattern)


def of_replacement(text: str) -> str:
    r"""Return the replacement of a regular expression: `$1` is `\1` in DuckDB, and `\$` is `$`.

    Raises:
        InvalidQueryError: it names a group, or one above 9.
    """

    def translated(found: re.Match[str]) -> str:
        escaped, group, other = found.groups()
        if escaped is not None:
            return "\\\\" if escaped == "\\" else str(escaped)
        if other is not None or len(group) > 1:
            raise _unsupported(f"{found.group()!r} in a replacement")
        return f"\\{group}"

    return re.sub(r"\\(.?)|\$(?:(\d+)|(.?))", translated, text, flags=re.DOTALL)


def of_path(path: str) -> str:
    """Return a JSON path such as `$.a[0]["b c"]` as DuckDB writes it.

    Raises:
        InvalidQueryError: it is none, or has wildcards.
    """
    steps, end = [], 1
    while path.startswith("$") and (found := _STEP.match(path, end)):
        name, index, quoted = found.groups()
        steps.append(f"[{index}]" if index is not None else f'."{quoted if name is None else name}"')
        end = found.end()
    if not path.startswith("$") or end != len(path):
        raise _unsupported(f'the JSON path {path!r}; it knows $.name, $[0] and $["name"]')
    return "$" + "".join(steps)


def _unsupported(what: str) -> InvalidQueryError:
    return InvalidQueryError(f"this service does not know {what}", code="NOT_SUPPORTED")
