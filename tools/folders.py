"""The savepoints that a tool is called with: folders, named on its command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from catalog.catalog import Catalog, Root
from readers import ReaderError
from service.base.catalogtables import name_tables


def folder_parser(tool: str, description: str) -> argparse.ArgumentParser:
    """Return a parser of the command line of a tool that takes folders."""
    parser = argparse.ArgumentParser(prog=f"python -m tools.{tool}", description=description.split("\n")[0])
    parser.add_argument("directories", metavar="DIR", nargs="+", help="a savepoint or a folder of savepoints")
    return parser


def found_savepoints(
    tool: str, directories: Sequence[str], state_info: str | None = None, jars: Sequence[str] = ()
) -> Catalog | None:
    """Return the savepoints in folders; print why there are none and return None if the folders cannot be read."""
    name_tables()
    try:
        return Catalog([Root(path=path) for path in directories], state_info=state_info, jars=jars)
    except ReaderError as error:
        print(f"{tool}: {error}", file=sys.stderr)
        return None
