"""Flink's syntax where sqlglot, which knows no dialect of Flink, reads Trino's differently.

Names in backquotes stand in double quotes already. All functions keep their names and the order of their arguments, except those of
SQL's own syntax, such as CAST, EXTRACT and TRIM.
"""

from __future__ import annotations

from typing import ClassVar

from sqlglot.dialects.trino import Trino
from sqlglot.parsers.trino import TrinoParser
from sqlglot.tokenizer_core import TokenType


class FlinkSyntax(Trino):
    """Flink's dialect, as Flink reads it."""

    INDEX_OFFSET = 0
    NULL_ORDERING = "nulls_are_small"

    class Tokenizer(Trino.Tokenizer):
        """Knows the names of Flink's types."""

        KEYWORDS: ClassVar = {
            **Trino.Tokenizer.KEYWORDS,
            "BYTES": TokenType.VARBINARY,
            "STRING": TokenType.TEXT,
            "TIMESTAMP_LTZ": TokenType.TIMESTAMPTZ,
        }

    class Parser(TrinoParser):
        """Leaves all functions as they are written."""

        FUNCTIONS: ClassVar = {}
        # A column in quotes may have such a name, too: the translation tells them apart.
        ARRAY_CONSTRUCTORS: ClassVar = {}
