"""Jobs and their history through Trino's protocol: the rows that DuckDB's dialect finds."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from fastapi import FastAPI

from catalog import Catalog, Root
from service.base.settings import Settings
from service.doors.app import create_app
from tests.service.doors.trino.conftest import Speaker
from tests.support.checkpoints import COUNTS, put

pytestmark = pytest.mark.slow

Serving = Callable[[FastAPI], AbstractContextManager[str]]


def test_clients_read_the_history_and_list_it(tmp_path: Path, serving: Serving) -> None:
    for number in (1, 2):
        put(tmp_path / "job" / f"chk-{number}", number)
    (put(tmp_path / "job" / "chk-3", 1) / "_metadata").write_bytes(b"no savepoint")
    app = create_app(Settings.of(workers=1), Catalog([Root(path=str(tmp_path), label="prod")]))
    with serving(app) as address, Speaker(address, **{"X-Trino-Schema": "prod__job__history"}) as trino:
        key = "SELECT _checkpoint_id, value FROM aggregate__count WHERE key = 'key_662' ORDER BY 1"
        pages = trino.pages(key)

        assert [row for page in pages for row in page.get("data", [])] == [
            list(pair) for pair in COUNTS.items()
        ]
        warnings = [one["message"] for one in pages[-1]["warnings"]]
        assert any('checkpoint "prod__job__chk-3" is left out' in text for text in warnings), warnings
        assert trino.rows(
            "SELECT _checkpoint_at, count(*) FROM flink.job__history.operators WHERE _checkpoint_id = 2 GROUP BY 1"
        ) == [["2026-09-01 12:00:02.000000 UTC", 3]]
        assert ["prod__job__history"] in trino.rows("SHOW SCHEMAS")
        assert trino.rows("SHOW TABLES FROM savepointdb") == [["checkpoints"], ["jobs"]]
        assert [row[:2] for row in trino.rows("DESCRIBE aggregate__count")][:3] == [
            ["_checkpoint_id", "bigint"],
            ["_checkpoint_at", "timestamp(6) with time zone"],
            ["_database", "varchar"],
        ]
        assert trino.rows("SELECT checkpoint_id, readable FROM savepointdb.checkpoints ORDER BY 1") == [
            [1, True],
            [2, True],
            [None, False],
        ]
        listed = "SELECT DISTINCT table_schem FROM system.jdbc.tables WHERE table_schem LIKE 'prod\\_\\_job\\_\\_hist%' ESCAPE '\\'"
        assert trino.rows(listed) == [["prod__job__history"]]
