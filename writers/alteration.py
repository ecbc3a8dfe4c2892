"""What happens to a state as a whole: it goes, becomes empty, gets another name or other types."""

from __future__ import annotations

from dataclasses import dataclass

from writers.evolution import TypeChange


@dataclass(frozen=True, slots=True, kw_only=True)
class StateAlteration:
    """What happens to one state.

    Attributes:
        dropped: whether it goes.
        truncated: whether it loses all entries of the source, before rows of it change.
        name: its new name; None if it keeps the one that it has.
        types: changes of the type of its values, in order, after rows of it changed.
    """

    dropped: bool = False
    truncated: bool = False
    name: str | None = None
    types: tuple[TypeChange, ...] = ()

    @property
    def is_of_entries(self) -> bool:
        """True if entries change, and not only the name."""
        return self.dropped or self.truncated or bool(self.types)
