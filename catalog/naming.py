"""The names of databases and tables. Case-insensitive; quoted where SQL needs it.

A database is named after its root's label and the folders below the root, whatever else is there, so its name never changes:

| label | folders | name |
|---|---|---|
| `prod` | `jobA/chk-4` | `prod__jobA__chk-4` |
| `prod` | none: the root is the savepoint | `prod` |
| `prod` | `my job/_a__b` | `prod__my~20job__~5fa_~5fb` |

`__` stands between two parts. A part keeps ASCII letters, digits, `-`, `.` and single `_` inside it; each byte (of UTF-8) of
any other character is `~` and two hexadecimal digits, also a `.` at the beginning of a part. So a name needs no escapes in a
URL, two different paths have different names, and no folder is named like a folder under another label. A label of more than
100 characters and a name of more than 200 are cut, and end with `~~` and a hash of the whole.

An operator's table has the operator's uid, else its name, else its id; a state's table is `<operator>__<state>`. Names that
collide get a tail: the operator id, or the kind of the state.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence

SEPARATOR = "__"
_ESCAPE = "~"
_CUT = "~~"
_LONGEST_LABEL = 100
_LONGEST_NAME = 200
_HASH_DIGITS = 32
# A `_` that is first, last, or behind another would look like a part of the separator; `.` and `..` are steps of a URL's path.
_ESCAPED = re.compile(r"[^A-Za-z0-9_.-]|^\.|^_|_$|(?<=_)_")
_ESCAPES = re.compile(r"(?:~[0-9a-f]{2})+")
_FREE = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*")


def database_name(label: str, folders: Sequence[str] = ()) -> str:
    """Return the name of the database in some folders below the root with a label."""
    spelled = SEPARATOR.join((_shortened(_spelled(label), _LONGEST_LABEL), *map(_spelled, folders)))
    return _shortened(spelled, _LONGEST_NAME)


def path_of(name: str) -> str:
    """Return the `label/folders` that a name spells; the hash at the end of a cut name stays."""
    return "/".join(_ESCAPES.sub(_unescaped, part) for part in name.split(SEPARATOR))


def is_free_name(name: str) -> bool:
    """Return whether a user may choose this name for a database: it has no escapes, and needs none."""
    return len(name) <= _LONGEST_NAME and _FREE.fullmatch(name) is not None


def unique_names(wanted: Iterable[tuple[str, str]]) -> list[str]:
    """Return a name for each (name, tail): the name if only one has it, else with its tail, if need be with a number, too."""
    pairs = list(wanted)
    taken = Counter(name.casefold() for name, _ in pairs)
    return list(_numbered(f"{name}_{tail}" if taken[name.casefold()] > 1 else name for name, tail in pairs))


def _numbered(names: Iterable[str]) -> Iterable[str]:
    # Two operators of one name and tail, or a name that looks like another with its tail: a number decides.
    seen: Counter[str] = Counter()
    for name in names:
        seen[name.casefold()] += 1
        repeated = seen[name.casefold()]
        yield name if repeated == 1 else f"{name}_{repeated}"


def _spelled(part: str) -> str:
    return _ESCAPED.sub(_escaped, part)


def _escaped(match: re.Match[str]) -> str:
    # Names of files that are not UTF-8 are surrogates in Python.
    return "".join(f"{_ESCAPE}{byte:02x}" for byte in match[0].encode(errors="surrogatepass"))


def _unescaped(match: re.Match[str]) -> str:
    return bytes.fromhex(match[0].replace(_ESCAPE, "")).decode(errors="replace")


def _shortened(spelled: str, longest: int) -> str:
    if len(spelled) <= longest:
        return spelled
    digest = hashlib.sha256(spelled.encode()).hexdigest()[:_HASH_DIGITS]
    return spelled[: longest - len(_CUT) - _HASH_DIGITS] + _CUT + digest
