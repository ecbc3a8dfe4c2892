"""Trino's dialect → DuckDB's. What DuckDB would read in another meaning is rewritten or refused, never passed on.

translation.py  a statement → the same in DuckDB's dialect
calls.py        the functions: those that mean the same, those that are rewritten, and those that are refused
casts.py        CAST, TRY_CAST and typed literals
zones.py        values that carry a time zone
patterns.py     the patterns of dates, of replacements and of JSON paths
macros.py       what is computed otherwise, as macros of DuckDB
"""
