"""The error of a statement that Spark refuses, so that DuckDB answers it."""

from __future__ import annotations

from service.base.errors import EngineRefusesError


class NotOnSparkError(EngineRefusesError):
    """A statement that Spark cannot answer, or would answer differently from DuckDB.

    Args:
        what: the part of the statement; the message goes on behind it.
    """

    code = "NOT_ON_SPARK"

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} is not answered by Spark as by DuckDB", hint='ask for "engine": "duckdb"')
