"""DuckDB, in this process.

    engine.py     DuckDBEngine and its executions
    session.py    connections, each with the tables of one statement; kept for the same statement
    tables.py     the tables of a statement, as DuckDB reads them
    cached.py     tables of cached states, which DuckDB reads from their files itself
    guard.py      refuses statements that DuckDB reads differently from the plan; finds those whose rows are the scan's
    errors.py     the texts of DuckDB's errors → errors of the service

For HTTP, the same code runs in processes of its own (`service.query.engines.workers`).
"""
