"""A `Plan` → rows.

    engine.py    what an engine is: Engine, Execution, Column, Progress
    duckdb.py    DuckDB, in this process
    parallel.py  reads the splits of a scan by several threads

An engine gets a plan whose tables are resolved, and reads them by `Scan`; it never opens a file itself.
"""

from service.engines.duckdb import DuckDBEngine
from service.engines.engine import Column, Engine, Execution, Progress

__all__ = ["Column", "DuckDBEngine", "Engine", "Execution", "Progress"]
