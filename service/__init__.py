"""SQL → answers. This room has engines, use cases and doors; it knows no byte layouts.

In: a request, from any door. Out: rows or an outcome. A package imports only packages above it, in this order:

    base/    errors, settings, version, who asks, this process and this machine
    spark/   the part of Spark that runs in its executors
    query/   a SQL text → rows: SQL, engines, encoding; and serving: slots, history, results
    tasks/   one package for each use case
    doors/   the command line, HTTP, Trino's protocol, agents, the page
    cli.py   the command line: arguments → a command
"""
