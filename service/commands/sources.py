"""`[name=]PATH` → a catalog."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Iterable, Sequence

from catalog import Catalog
from catalog.catalog import Root
from catalog.stateinfo import read_uids


def catalog_of(sources: Sequence[str], options: Namespace, *, rescan_after_s: float | None = None) -> Catalog:
    """The catalog of these savepoints or folders, with the names that `--uids` and `--state-info` give.

    Args:
        sources: as `roots_of`.
        options: the command's.
        rescan_after_s: as `Catalog`.

    Raises:
        ReaderError: one of them is not there, or holds no savepoint.
    """
    uids = read_uids(options.uids) if options.uids else ()
    return Catalog(roots_of(sources), uids=uids, state_info=options.state_info, rescan_after_s=rescan_after_s)


def roots_of(sources: Iterable[str]) -> list[Root]:
    """`[name=]PATH` as roots. A path that is there wins over a name: folders may have `=` in their names."""
    roots = []
    for source in sources:
        name, separator, path = source.partition("=")
        named = bool(separator) and "/" not in name and not os.path.exists(source)
        roots.append(Root(path=path, label=name) if named else Root(path=source))
    return roots
