"""Trino's client protocol: whatever speaks to Trino can ask savepoints. Catalog `flink`, a schema a savepoint.

In: `POST /v1/statement` with a text and headers. Out: pages of JSON, each with the address of the next.

Reading order:

    session.py       headers → who asks, from where names are looked up, what was prepared
    lexer.py         a text → its words, as far as statements about the session need them
    statements.py    a text → an answer that is there already, or a query to run; in Trino's dialect (`service.sql.dialects`)
    show.py          the answers of SHOW
    systemtables.py  information_schema and the catalog `system`
    jdbctables.py    of these, the tables that JDBC's DatabaseMetaData is read from
    types.py         Arrow types and values → Trino's
    errors.py        QueryError → Trino's names and numbers of errors
    pages.py         one statement from its first page to its last
    router.py        HTTP

Source: Trino's documentation of its client protocol, and requests of the clients: `trino` 0.340 (Python), trino-jdbc 484.
"""
