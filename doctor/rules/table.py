"""The one table of all rules: `docs/check.md` shows it."""

from __future__ import annotations

from doctor.rules import graph
from doctor.rules.rule import Rule

FAMILIES: dict[str, tuple[Rule, ...]] = {
    "job graph": graph.RULES,
}
"""Title, as the documentation shows it → the rules of one family."""
