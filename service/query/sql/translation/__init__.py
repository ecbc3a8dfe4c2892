"""Trino's and Flink's dialects → DuckDB's. What DuckDB would read in another meaning is rewritten or refused, never passed on.

trino.py   a statement of Trino → the same in DuckDB's dialect; values that carry a time zone
calls.py   Trino's functions: those that mean the same, those that are rewritten, those that are refused; casts; patterns
flink.py   a query of Flink → the same in DuckDB's dialect; its functions and casts
macros.py  what Trino and Flink compute otherwise, as macros of DuckDB
"""
