"""What every statement of a script has."""

from __future__ import annotations

from dataclasses import dataclass

from service.base.errors import Position


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One statement of a script.

    Attributes:
        table: the parts of the name of its table.
        position: of the statement in the script.
    """

    table: tuple[str, ...]
    position: Position

    @property
    def name(self) -> str:
        """The name of its table, without that of a database."""
        return self.table[-1]
