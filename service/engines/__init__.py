"""A `Plan` → rows.

    engine.py    what an engine is: Engine, Execution, Column, Progress
    duckdb.py    DuckDB, in this process
    duckdbsession.py   its connections, each with the tables of one statement
    parallel.py  reads the splits of a scan by several threads
    unchanged.py which statements have the rows of a scan
    spark.py     Spark, on a cluster or on this machine
    sparkchoice.py   which of them answers
    sparksession.py  Spark's session: started when first wanted
    sparkconnect.py  its sessions on a Spark Connect server
    sparktables.py   what Spark reads of each table: tasks
    sparksql.py      DuckDB's SQL as Spark has it, by sparkexpressions/ and sparktypes.py
    sparkpartial.py  aggregates in two parts, the first beside the readers
    sparkerrors.py   what Spark's errors mean

An engine gets a plan whose tables are resolved, and reads them by `Scan`; it never opens a file itself.
"""

from service.engines.duckdb.engine import DuckDBEngine
from service.engines.engine import Engine, Execution, Progress

__all__ = ["DuckDBEngine", "Engine", "Execution", "Progress"]
