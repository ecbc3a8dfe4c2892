"""`savepointdb.diff`: what differs between two savepoints, in Python."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import savepointdb
from tests.support.differing import BEFORE, ROWS


def test_a_diff_has_a_summary_and_rows(after: Path) -> None:
    found = savepointdb.diff(BEFORE, after)

    assert not found.is_equal
    changed = {state.table_name: state for state in found.summary.states if not state.is_equal}
    count = changed["aggregate__count"]
    assert (count.added, count.removed, count.changed) == (1, 1, 1)
    assert [(offset.before, offset.after) for offset in found.summary.offsets] == [(36445, 24000)]
    rows = found.rows("aggregate__count").to_arrow().select(["change", "key", "value_before", "value_after"])
    assert sorted(tuple(row.values()) for row in rows.to_pylist()) == ROWS
    assert json.loads(json.dumps(found.to_dict()))["before"] == "canonical"


@pytest.mark.slow
def test_a_session_shows_it(after: Path) -> None:
    found = savepointdb.diff(BEFORE, after)

    assert repr(found).startswith("before   canonical, savepoint 1, ")
    assert "~ key_662: 11290 → 11291" in repr(found)
    html = found._repr_html_() or ""
    assert "key_662: 11290 → 11291" in html
    assert "<script" not in html


@pytest.mark.slow
def test_savepoints_of_one_name_get_other_names(tmp_path: Path) -> None:
    found = savepointdb.diff(BEFORE, shutil.copytree(BEFORE, tmp_path / "canonical"))

    assert found.is_equal
    assert found.to_dict()["before"] == "before"


@pytest.mark.slow
def test_two_databases_of_a_connection(after: Path) -> None:
    with savepointdb.connect({"then": BEFORE, "now": after}) as db:
        assert [state.table_name for state in db.diff("then", "now").summary.states if not state.is_equal][:1]
        with pytest.raises(savepointdb.DatabaseNotFoundError, match="now"):
            db.diff("then", "nwo")


@pytest.mark.slow
def test_what_is_not_there_is_named(after: Path, tmp_path: Path) -> None:
    with pytest.raises(savepointdb.SavepointError, match="nothing"):
        savepointdb.diff(after, tmp_path / "nothing")
    with pytest.raises(savepointdb.TableNotFoundError, match="aggregate__count"):
        savepointdb.diff(BEFORE, after).rows("aggregate__cuont").fetchall()
