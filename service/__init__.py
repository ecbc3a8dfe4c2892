"""SQL → answers. Knows engines and the wire; no byte layout.

In: a SQL text, by command line or HTTP. Out: rows, as JSON, CSV, Arrow or Parquet.

Reading order:

    errors.py             QueryError: what a user is told, with HTTP status and stable code
    settings.py           the one table of settings: it feeds the command line and the environment
    sql.py                a SQL text → a Plan: parsed once, every table resolved, nothing but a query let through
    pruning.py            what of its WHERE saves reading; constants by literals.py and constants.py
    explain.py            what a query is going to read
    functions.py          which functions a query may call
    information_schema.py the tables that list the catalog
    engines/              a Plan → rows
    workers/              DuckDB in processes of its own, for HTTP
    dialects.py           a statement in Trino's dialect → the same in DuckDB's
    queries.py            all queries: starts them, finds them by id, ends those that are late or forgotten
    query.py              one query from start to end: deadline, engine, answer
    slots.py lookups.py   who runs now
    results.py            what waits to be read
    spool.py              the same on the disk, where readers are slow
    history.py querystate.py  what was asked lately
    origin.py             which checkpoints an answer came from
    spill.py              folders for what engines spill
    encode/               rows → JSON, JSON lines, CSV, Arrow, Parquet, a table to read
    api/ app.py           HTTP
    protocols/            the protocols of other databases: Trino's
    web/                  the page at `/`
    memory.py             what a process keeps of memory that was freed
    cli.py commands/      the command line
    arrow.py              Arrow without pandas, for it and for workers
"""
