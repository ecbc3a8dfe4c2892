"""SQL → answers. This room has engines, HTTP and the command line; it knows no byte layouts.

In: a SQL text, from the command line or over HTTP. Out: rows, as JSON, CSV, Arrow or Parquet. A package imports only
packages above it, in this order (engines and spark are one level):

    version.py   the installed version
    process/     memory and cores of this process, Arrow without pandas
    rowgroups.py rows → row groups of Parquet
    errors.py    QueryError: errors as users see them, with HTTP status and stable code
    settings/    the one table of settings, for the command line, the environment and a file
    http/        the size limit, connections and errors of all requests
    auth/        API keys, tokens, and the gate that checks them
    sql/         a SQL text → a Plan: parsed once, every table resolved, only queries allowed
    encode/      rows → JSON, JSON lines, CSV, Arrow, Parquet, a table for people
    engines/     a Plan → rows: DuckDB, in processes of its own for HTTP, and Spark
    spark/       the part of Spark that runs in its executors
    queries/     all queries, each from start to end: slots, deadlines, answers, history
    saved/       queries with names and parameters
    timelines/   what each state of a job has of a key in each checkpoint
    comparing/   what differs between two savepoints: counts, samples, texts
    checks/      will it restore: findings as text, HTML, JUnit's XML
    writing/     a script of statements → a new savepoint
    bisecting/   the checkpoints of a job and a query → the first one with a row
    testing/     rules and savepoints → which rules hold
    converting/  a savepoint of one Flink → one for another
    writes/      the writes of clients, each in a process of its own
    exporting/   tables → Parquet files, tables of Iceberg and Delta
    flink/       the REST API of clusters of Flink: jobs, checkpoints, savepoints
    operations/  metrics, logs, checks of the environment
    api/         HTTP under `/api`
    protocols/   protocols of other databases: Trino's
    web/         the page at `/`
    app.py       the HTTP application
    commands/    the commands of the command line, one module for each
    cli.py       the command line: arguments → a command
"""
