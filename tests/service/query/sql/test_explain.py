"""EXPLAIN shows what a query reads, and the query then reads just that; the cache behind the service."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from catalog import connect
from catalog.cache.states import StateCache
from service.base.settings import InvalidSettingError, Settings
from service.doors.cli.sources import cache_of
from service.query.sql.plan import ScanExplanation, explanation_of
from service.query.sql.planner import plan
from tests.service.conftest import FLINK, NATIVE, Asker
from tests.support.damaged import remove, write_in_files

CANONICAL = FLINK / "2.3.0" / "wordcount-hashmap-savepoints" / "canonical"
TABLE = "native.aggregate__count"


def reading(asker: Asker, sql: str) -> ScanExplanation:
    [found] = explanation_of(plan(sql, asker.catalog))
    return found


@pytest.fixture
def cached(tmp_path: Path) -> Iterator[Asker]:
    """The sample savepoint with a cache to which every second scan of a state is worth an entry."""
    cache = StateCache(tmp_path / "cache", 1 << 30, least_bytes=0, slow_scan_s=60)
    asker = Asker(connect(NATIVE, cache=cache))
    yield asker
    asker.queries.close()
    cache.close()


def test_a_scan_reads_all_splits_and_key_groups(two: Any) -> None:
    found = reading(two, "SELECT sum(value) FROM canonical.aggregate__count")

    assert (found.table, found.columns, found.predicate) == ("canonical.aggregate__count", ("value",), {})
    assert (found.splits, found.splits_total) == (2, 2)
    assert (found.key_groups, found.key_groups_total) == (128, 128)
    assert found.bytes_to_read == found.bytes_total
    assert two.rows("SELECT count(*) FROM canonical.aggregate__count") == [(1000,)]
    assert two.bytes_read == found.bytes_total


def test_a_key_is_one_key_group_and_its_bytes_at_most(two: Any) -> None:
    sql = "SELECT value FROM canonical.aggregate__count WHERE key = 'key_662' AND value > 0"
    found = reading(two, sql)

    assert (found.splits, found.key_groups, found.predicate) == (1, 1, {"key": ("'key_662'",)})
    assert 0 < found.bytes_to_read < found.bytes_total / 50
    assert two.rows(sql) == [(11290,)]
    assert 0 < two.bytes_read < found.bytes_to_read


def test_a_key_is_explained_where_a_file_of_other_keys_is_missing(tmp_path: Path) -> None:
    sql = "SELECT value FROM aggregate__count WHERE key = 'key_662'"
    whole = write_in_files(CANONICAL, tmp_path / "whole" / "savepoint")
    damaged = write_in_files(CANONICAL, tmp_path / "damaged" / "savepoint")
    for file in damaged.glob("aggregate-1.*"):
        remove(file)
    asker = Asker(connect(damaged))

    found = reading(asker, sql)

    assert asker.rows(sql) == [(11290,)]
    expected = reading(Asker(connect(whole)), sql)
    assert (found.splits, found.key_groups) == (expected.splits, expected.key_groups) == (1, 1)
    assert (found.splits_total, expected.splits_total) == (1, 2)
    assert (found.key_groups_total, expected.key_groups_total) == (64, 128)
    assert found.bytes_to_read == expected.bytes_to_read < found.bytes_total < expected.bytes_total
    asker.queries.close()


def test_explain_shows_the_scans_and_the_plan_of_the_engine(native: Any) -> None:
    [(_, text)] = native.rows("EXPLAIN SELECT value FROM aggregate__count WHERE _key_group IN (3, 4)")

    assert "engine: duckdb\nreason: " in text
    assert f"reads: {TABLE}: 1 of 2 splits, 2 of 128 key groups, " in text
    assert "bytes, not cached; _key_group IN (3, 4)\n" in text


def test_explain_is_json_in_an_answer(client: httpx.Client) -> None:
    sql = f"SELECT value FROM {TABLE} WHERE key IN ('key_1', 'key_2')"
    answers = [
        client.post("/api/query", json=body).json()
        for body in ({"sql": sql, "explain": True}, {"sql": f"EXPLAIN {sql}"}, {"sql": sql})
    ]

    assert answers[0]["explanation"] == answers[1]["explanation"]
    [table] = answers[0]["explanation"]["tables"]
    assert table["predicate"] == {"key": ["'key_1'", "'key_2'"]}
    assert (table["table"], table["key_groups"], table["key_groups_total"]) == (TABLE, 2, 128)
    assert table["cache_hit"] is False
    assert answers[0]["columns"] == answers[1]["columns"]
    assert answers[0]["bytes_read"] == 0
    assert "explanation" not in answers[2]
    assert answers[2]["row_count"] == 2


def test_the_third_query_of_a_dashboard_reads_no_savepoint(cached: Asker) -> None:
    sql = "SELECT count(*), sum(value), min(key) FROM aggregate__count"
    first = cached.rows(sql)
    assert cached.bytes_read > 0
    cached.rows(sql)
    assert cached.catalog.cache is not None
    cached.catalog.cache.flush()

    assert cached.rows(sql) == first
    assert cached.bytes_read == 0
    assert (cached.progress.cache_hits, cached.progress.bytes_cached > 0) == (1, True)
    found = reading(cached, sql)
    assert (found.cache_hit, found.bytes_to_read) == (True, 0)
    assert found.bytes_total == reading(cached, "SELECT key FROM aggregate__count").bytes_total > 0
    assert cached.rows("SELECT value FROM aggregate__count WHERE key = 'key_662'") == [(11290,)]
    # One key is found faster where it is.
    assert (cached.progress.cache_hits, cached.bytes_read > 0) == (0, True)


def test_a_query_that_stops_early_is_no_whole_scan(cached: Asker) -> None:
    for _ in range(5):
        cached.rows("SELECT value FROM aggregate__count LIMIT 1")
    assert cached.catalog.cache is not None
    cached.catalog.cache.flush()

    cached.rows("SELECT value FROM aggregate__count LIMIT 1")
    assert cached.progress.cache_hits == 0


def test_settings_turn_the_cache_off_and_place_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache_of(Settings.of(cache="off"), writes=True) is None
    with pytest.raises(InvalidSettingError, match="expected on or off, found 'maybe'"):
        cache_of(Settings.of(cache="maybe"), writes=True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.delenv("SAVEPOINTDB_CACHE_DIR", raising=False)

    def place(settings: Settings) -> Path:
        cache = cache_of(settings, writes=True)
        assert cache is not None
        return cache.directory.path

    assert place(Settings()) == tmp_path / "xdg" / "savepointdb" / "states"
    monkeypatch.setenv("SAVEPOINTDB_CACHE_DIR", str(tmp_path / "own"))
    assert place(Settings()) == tmp_path / "own" / "states"
    assert place(Settings.of(cache_directory=str(tmp_path / "set"))) == tmp_path / "set"
