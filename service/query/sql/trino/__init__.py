"""Trino's dialect → DuckDB's. What DuckDB would read in another meaning is rewritten or refused, never passed on.

translation.py  a statement → the same in DuckDB's dialect; values that carry a time zone
calls.py        the functions: those that mean the same, those that are rewritten, those that are refused; casts; patterns
macros.py       what is computed otherwise, as macros of DuckDB
"""
