"""A `Plan` → rows.

    registry.py  all engines, one line each, by name and role; light to import
    engine.py    the seam between queries and engines: Engine, Execution, Progress, Cluster; engines opened late; the scan as an engine
    parallel.py  reads the splits of a scan by several threads
    duckdb/      DuckDB, in this process
    workers/     the local engine in processes of its own, for HTTP
    spark/       Spark, on a cluster or on this machine

An engine gets a plan whose tables are resolved, and reads them by `Scan`; it never opens a file itself. This package imports
nothing: the command line lists the engines' names before it loads any of them.
"""
