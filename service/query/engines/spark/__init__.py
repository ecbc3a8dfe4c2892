"""Spark, on a cluster or on this machine.

    engine.py    SparkEngine and its executions
    sessions.py  where and how Spark runs, checks before it starts; the interface of its sessions: one for each query
    jvm.py       sessions in a JVM of this process, on this machine or on a cluster's master
    connect.py   sessions on a Spark Connect server
    packages.py  the zip of our code for executors
    unpack.py    unpacks that zip on executors
    sql.py       DuckDB's SQL → Spark's SQL
    expressions/ expressions of DuckDB's SQL → Spark's
    types.py     DuckDB's types and Spark's names for them
    partial.py   a SELECT split in two, the first part for executors
    executors.py what executors do for this service: what they read, long answers in files, work of the writers; the texts of their errors

Code that runs on executors is in `service.spark`.
"""
