"""SQL: a text → a `Plan` that an engine runs. It knows the catalog, and no engine.

In: a statement in DuckDB's, Trino's or Flink's dialect. Out: one query over resolved tables, or a `QueryError` with a position.

    dialects.py            a statement in another dialect → the same in DuckDB's
    trino/                 Trino's dialect
    flink/                 Flink's dialect
    planner.py             the statement: a query, EXPLAIN, SHOW, DESCRIBE or SUMMARIZE → a plan
    short/                 statements that a scan answers without an engine
    parser.py              texts ↔ syntax trees of sqlglot
    syntax.py              DuckDB's syntax where sqlglot reads it differently
    allowlist.py           what a statement may contain, and which functions it may call
    tablefunctions.py      functions in FROM that become tables: `diff`, `savepoint_metadata`
    remembered.py          queries that were planned before
    resolver.py            the tables that a query names
    names.py               their names in the plan; constants in an older spelling
    edits.py               the same names in the user's own text
    schemas/               databases, histories, and the tables that list them
    pruning.py             conditions that save reading → predicates, and ranges of checkpoints of a history
    constants.py           tables of constants in a statement
    literals.py            constants as values of a column
    plan.py                `Plan` and `TableReference`; what a plan is going to read
    types.py               the SQL names of Arrow types; columns of answers
"""
