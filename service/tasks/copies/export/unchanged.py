"""Which files of a table's last checkpoint the next one goes on with: those in whose key groups no row differs.

A file knows the key groups of its rows. The files of key groups with a difference, of any column, are written anew from the new
checkpoint; so the table is that of the checkpoint, whatever happened between the two. Of each file only the first difference is looked for.

A table is written anew as a whole where key groups do not tell what may stay: rows without one, other columns, another parallelism or
maximum of it, a state that came or went, rows that are left out or have bytes that are not decoded.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from catalog import Database, NoSuchTableError, Table
from catalog.differences.table import diff_table
from catalog.scan import Predicate
from catalog.statetables import StatesTable
from catalog.views import WideTable
from readers import KEY_GROUP, is_keyed
from service.tasks.copies.export.files.parts import ExportedFile
from service.tasks.copies.export.manifest import ExportedTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Unchanged:
    """What stays of a table.

    Attributes:
        files: that stay.
        key_groups: all others: those of the rows that are to be written.
    """

    files: tuple[ExportedFile, ...]
    key_groups: frozenset[int]


def unchanged(known: ExportedTable, before: Database, after: Database, table: Table) -> Unchanged | None:
    """Return which files of a table of a checkpoint have the rows of another one; None if all rows are to be written.

    Args:
        known: the table as of the checkpoint before.
        before, after: the checkpoints.
        table: the table of the one after.

    Raises:
        ReaderError: a file of either side cannot be read.
    """
    try:
        older = before.table(table.name)
    except NoSuchTableError:
        return None
    layout = _layout_of(table)
    if layout is None or layout != _layout_of(older) or not _is_decoded(known):
        return None
    assert isinstance(table, StatesTable)
    every = frozenset(range(max((one.state.max_parallelism for one in table.states), default=0)))
    groups = [(file, file.all_key_groups) for file in known.files]
    if any(not own for _, own in groups):
        return None
    differences = diff_table(before, after, table.name)
    changed = frozenset[int]().union(*(own for _, own in groups if _differ(differences, own)))
    # Files of several states, and those of a cache, may share key groups.
    while more := frozenset[int]().union(*(own for _, own in groups if own & changed)) - changed:
        changed |= more
    kept = [(file, own) for file, own in groups if not own & changed]
    return Unchanged(
        files=tuple(file for file, _ in kept),
        key_groups=every.difference(*(own for _, own in kept)),
    )


def _differ(differences: Table, groups: Iterable[int]) -> bool:
    """Return whether a row of some key groups differs."""
    scan = differences.plan(Predicate({KEY_GROUP: tuple(sorted(groups))}))
    return any(
        batch.num_rows for split in scan.splits for batch in split.narrowed((KEY_GROUP,)).read(scan.counter)
    )


def _is_decoded(known: ExportedTable) -> bool:
    """Return whether all rows are there and mean what they show: otherwise they are counted by tables, not by files."""
    return not (known.undecoded_rows or known.out_of_range_rows or known.incomplete)


def _layout_of(table: Table) -> Hashable | None:
    """Return what decides on the columns and the key groups of rows that are equal; None where key groups do not tell."""
    if not isinstance(table, StatesTable) or isinstance(table, WideTable):
        return None
    if KEY_GROUP not in table.schema.names or not all(is_keyed(one.state.kind) for one in table.states):
        return None
    return tuple(table.schema), frozenset(
        (
            one.state.operator_id,
            one.state.name,
            one.state.kind,
            one.state.max_parallelism,
            table.outputs(one),
            frozenset((part.source.subtask, part.source.key_group_range) for part in one.state.parts),
        )
        for one in table.states
    )
