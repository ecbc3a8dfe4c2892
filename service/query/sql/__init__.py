"""SQL: a text → a `Plan` that an engine runs. It knows the catalog, and no engine.

In: a statement in DuckDB's, Trino's or Flink's dialect. Out: one query over resolved tables, or a `QueryError` with a position.

    planner.py             the statement: a query, EXPLAIN, SHOW, DESCRIBE or SUMMARIZE → a plan; statements in other dialects
    translation/           Trino's and Flink's dialects → DuckDB's
    short.py               statements that a scan answers without an engine
    text.py                texts ↔ syntax trees of sqlglot; constants as values of a column; edits of the user's own text
    syntax.py              DuckDB's syntax where sqlglot reads it differently
    resolver.py            the tables that a query names; queries that were planned before
    schemas.py             databases, histories, and the tables that list them; functions in FROM that become tables
    names.py               names of tables in the plan; tables of constants; constants in an older spelling
    pruning.py             conditions that save reading → predicates, ranges of checkpoints of a history, databases to list
    plan.py                what a statement may contain; `Plan` and `TableReference`; what a plan is going to read
"""
