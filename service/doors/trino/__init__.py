"""Trino's client protocol: every client of Trino can query savepoints. The catalog is `flink`, each savepoint a schema.

In: `POST /v1/statement` with a statement and headers. Out: pages of JSON, each with the address of the next.

Reading order:

    session.py       headers → user, current catalog and schema, prepared statements
    lexer.py         a text → its words, as far as statements about the session need them
    statements.py    a text → an immediate answer, or a query to run; in Trino's dialect (`service.query.sql.planner`)
    show.py          the answers of SHOW
    systemtables.py  information_schema and the catalog `system`, which JDBC's DatabaseMetaData reads
    types.py         Arrow types and values → Trino's
    pages.py         one statement from its first page to its last; QueryError → Trino's names and numbers of errors
    router.py        HTTP

Source: Trino's documentation of its client protocol, and requests of the clients: `trino` 0.340 (Python), trino-jdbc 484.
"""
