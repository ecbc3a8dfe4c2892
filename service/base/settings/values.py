"""Texts → values of settings: sizes, flags and path prefixes.

4GB, 512MiB, 1000000    bytes
true, 1, yes, on        a flag; false, 0, no, off
OLD=NEW                 the recorded prefix of a path → the prefix where its files are now
"""

from __future__ import annotations

import re

# A path may contain `=`, so the separator is the first `=` that a path or a URL follows.
_PREFIXES = re.compile(r"(.+?)=((?:/|\.|[A-Za-z][A-Za-z0-9+.-]*:).*)", re.DOTALL)
_SIZE = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[KMGT]?)(?P<binary>i?)B?", re.IGNORECASE)
_FLAGS = dict.fromkeys(("true", "1", "yes", "on"), True) | dict.fromkeys(("false", "0", "no", "off"), False)


class InvalidSettingError(ValueError):
    """A value that does not fit the type of its setting."""


def bytes_of(size: str) -> int:
    """Return the number of bytes that a size such as `4GB`, `512MiB` or `1000000` means.

    Raises:
        InvalidSettingError: the text is not a size.
    """
    match = _SIZE.fullmatch(size.strip())
    if match is None:
        raise InvalidSettingError(f"expected a size such as 4GB, found {size!r}")
    base = 1024 if match["binary"] else 1000
    return int(float(match["number"]) * base ** " KMGT".index(match["unit"].upper() or " "))


def parsed_flag(text: str) -> bool:
    """Parse `true`, `1`, `yes`, `on` or one of their opposites.

    Raises:
        ValueError: another text.
    """
    folded = text.strip().casefold()
    if folded not in _FLAGS:
        raise ValueError(f"expected true or false, found {text!r}")
    return _FLAGS[folded]


def parsed_prefixes(text: str) -> tuple[str, str]:
    """Parse `OLD=NEW`, both prefixes of paths.

    Raises:
        InvalidSettingError: the text is not of that form.
    """
    match = _PREFIXES.fullmatch(text.strip())
    if match is None:
        raise InvalidSettingError(f"path map: expected OLD=NEW, found {text!r}")
    return match[1], match[2]
