"""The names of databases and tables. Case-insensitive; quoted where SQL needs it.

A database is named after its folder (`savepoint-42`, `chk-7`); if two folders have that name, after as much of the path as
makes the names unique (`job-a/chk-7`). An operator's table has the operator's uid, else its name, else its id; a state's table
is `<operator>__<state>`. Names that collide get a tail: the operator id, or the kind of the state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence


def database_names(paths: Sequence[tuple[str, ...]]) -> list[str]:
    """Return a unique name for each path (its folders, outermost first): as few of the last folders as possible."""
    names = [path[-1] for path in paths]
    depth = 1
    while depth < max(map(len, paths), default=1):
        taken = Counter(name.casefold() for name in names)
        if all(count == 1 for count in taken.values()):
            break
        depth += 1
        names = [
            "/".join(path[-depth:]) if taken[name.casefold()] > 1 else name
            for path, name in zip(paths, names, strict=True)
        ]
    return list(_numbered(names))


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
