"""Labelled restores: a job wrote a savepoint, another one was restored from it by real Flink, and the label says what happened.

`tests/data/compat-pairs.tar.xz` has a folder per pair: `savepoints/`, `jars/`, `plans/` and `labels/`. `compat-pairs-more.tar.xz` has those
that came later, with the code of both jobs in `src/`: kinds of changes about which a rule was wrong.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.support.paths import DATA

ARCHIVE = DATA / "compat-pairs.tar.xz"
MORE = DATA / "compat-pairs-more.tar.xz"


@dataclass(frozen=True)
class Label:
    """One restore of one pair; `facts` is the label itself."""

    folder: Path
    name: str
    facts: dict[str, Any]

    @property
    def savepoint_a(self) -> Path:
        """The savepoint that was restored."""
        return self.folder / str(self.facts["savepoint_a"])

    @property
    def savepoint_b(self) -> Path:
        """A savepoint of the new job, started fresh."""
        return self.folder / str(self.facts["savepoint_b"])

    @property
    def jar_b(self) -> Path:
        """The jar of the new job."""
        return self.folder / str(self.facts["jar_b"])

    @property
    def backend(self) -> str:
        """The backend that restored it."""
        return str(self.facts["backend"]).rsplit("-to-", 1)[-1]

    def __str__(self) -> str:
        return f"{self.facts['pair']} {self.name}"


@cache
def pair_names() -> frozenset[str]:
    """The names of all pairs."""
    found: set[str] = set()
    for path in (ARCHIVE, MORE):
        with tarfile.open(path) as archive:
            found.update(name.split("/")[1] for name in archive.getnames() if name.count("/") > 1)
    return frozenset(found)


def unpack_pairs(target: Path, names: Iterable[str] | None = None, path: Path = ARCHIVE) -> Path:
    """Write pairs of an archive into a folder, all of them where no names are given."""
    wanted = None if names is None else frozenset(names)
    with tarfile.open(path) as archive:
        members = [
            member
            for member in archive.getmembers()
            if member.isfile() and (wanted is None or member.name.split("/")[1] in wanted)
        ]
        archive.extractall(target, members=members, filter="data")
    return target


def labels_in(folder: Path) -> Iterator[Label]:
    """Yield the labels of all pairs in a folder."""
    for path in sorted(folder.glob("*/labels/*.json")):
        yield Label(folder=path.parents[1], name=path.stem, facts=json.loads(path.read_text()))
