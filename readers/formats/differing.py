"""`DifferingPages`: entries of one state that may differ between two sources. The seam between formats and `readers.differences`."""

from __future__ import annotations

from dataclasses import dataclass

from readers.decode.page import Page


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferingPages:
    """Entries of one state that may differ between two sources.

    All entries of both sides that have the same key, namespace and map key are in the same ones, or in none: then both sides
    have the same bytes. Entries with equal bytes may be here, too: nobody relies on their absence.

    Attributes:
        before, after: the entries of either side, in the layout of its source.
        equal_entries: how many entries with equal bytes on both sides were left out since the last pages; None if they were not
            read.
    """

    before: tuple[Page, ...]
    after: tuple[Page, ...]
    equal_entries: int | None = 0
