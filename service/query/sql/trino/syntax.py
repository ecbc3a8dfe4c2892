"""Trino's syntax where sqlglot reads it differently.

Functions that are rewritten keep their names and the order of their arguments, and subscripts their numbers.
"""

from __future__ import annotations

from typing import ClassVar

from sqlglot.dialects.trino import Trino
from sqlglot.parsers.trino import TrinoParser

from service.query.sql.trino.calls import REWRITTEN


class TrinoSyntax(Trino):
    """Trino's dialect, as Trino reads it."""

    INDEX_OFFSET = 0

    class Parser(TrinoParser):
        """Leaves the functions that are rewritten as they are written."""

        FUNCTIONS: ClassVar = {
            name: make for name, make in TrinoParser.FUNCTIONS.items() if name.lower() not in REWRITTEN
        }
