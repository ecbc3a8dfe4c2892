"""A SQL text → rows.

sql/      a SQL text → a `Plan`: parsed once, every table resolved, only queries allowed
encode/   rows → JSON, JSON lines, CSV, Arrow, Parquet, a table for people
engines/  a `Plan` → rows: DuckDB, in processes of its own for HTTP, and Spark
running/  one statement in this process: planned, on its engine, its rows
serving/  all queries of a service, around that: slots, clients, answers that wait, history
"""
