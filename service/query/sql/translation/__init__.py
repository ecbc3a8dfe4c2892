"""Trino's dialect → DuckDB's. What DuckDB would read in another meaning is rewritten or refused, never passed on.

translation.py  a statement → the same in DuckDB's dialect; values that carry a time zone
calls.py        the functions: those that mean the same, those that are rewritten, those that are refused; casts; patterns
macros.py       what is computed otherwise, as macros of DuckDB

Flink's dialect of SQL → DuckDB's. What DuckDB would read in another meaning is rewritten or refused, never passed on.

script.py       statements about the session before a query: LOAD MODULE, USE CATALOG, USE
translation.py  a query → the same in DuckDB's dialect
calls.py        the functions: those that mean the same, those that are rewritten; all others are refused; CAST and TRY_CAST
macros.py       what is computed otherwise, as macros of DuckDB
"""

from __future__ import annotations
