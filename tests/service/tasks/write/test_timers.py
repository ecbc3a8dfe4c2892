"""Rows that are added to `timers`: windows that are made up fire by them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import catalog
from service.base.errors import InvalidQueryError
from service.cli import main
from service.tasks.write.rows.layers import values_of
from tests.support.paths import DATA
from tests.support.unpacked import unpacked

KINDS = DATA / "flink/2.3.0/kinds-hashmap-savepoints/canonical"
_WINDOW = "{'start': TIMESTAMP '1970-01-01 01:00:00', 'end': TIMESTAMP '1970-01-01 01:00:10'}"
_CONTENTS = (
    'INSERT INTO "tumbling-window__window-contents" (key, namespace, value) '
    f"VALUES ('new', {_WINDOW}, {{'f0': 41, 'f1': 2}}); "
)
_COLUMNS = "(operator_uid, timer_service, time_domain, key, namespace, timestamp)"
_ROW = "('tumbling-window', 'window-timers', 'EVENT', 'new', {}, TIMESTAMP '1970-01-01 01:00:09.999')"


def timers(path: Path, where: str) -> list[dict[str, Any]]:
    found = catalog.connect(str(path)).table("timers").scan().to_arrow().to_pylist()
    names = ("operator_uid", "timer_service", "key", "namespace", "timestamp")
    return [{name: str(row[name]) for name in names} for row in found if row["key"] == where]


@pytest.mark.parametrize(
    "namespace",
    [_WINDOW, '\'{"start":"1970-01-01T01:00:00.000","end":"1970-01-01T01:00:10.000"}\''],
    ids=["struct", "text"],
)
def test_a_timer_goes_to_the_operator_that_it_names(
    namespace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = f"{_CONTENTS}INSERT INTO timers {_COLUMNS} VALUES {_ROW.format(namespace)}"

    assert main(["write", str(KINDS), script, "--to", str(tmp_path / "new")]) == 0

    assert "warning" not in capsys.readouterr().out
    assert timers(tmp_path / "new", "new") == [
        {
            "operator_uid": "tumbling-window",
            "timer_service": "window-timers",
            "key": "new",
            "namespace": "{'start': datetime.datetime(1970, 1, 1, 1, 0), 'end': datetime.datetime(1970, 1, 1, 1, 0, 10)}",
            "timestamp": "1970-01-01 01:00:09.999000",
        }
    ]


def test_a_uid_names_the_operator_of_a_savepoint_that_has_no_uids(tmp_path: Path) -> None:
    source = KINDS.parents[2] / "1.20.3/kinds-hashmap-savepoints/canonical"
    script = f"{_CONTENTS}INSERT INTO timers {_COLUMNS} VALUES {_ROW.format(_WINDOW)}"

    assert main(["write", str(source), script, "--to", str(tmp_path / "new")]) == 0

    (timer,) = timers(tmp_path / "new", "new")
    assert (timer["timer_service"], timer["operator_uid"]) == ("window-timers", "None")


@pytest.mark.parametrize("end", ["", " ON CONFLICT DO NOTHING"], ids=["insert", "upsert"])
def test_the_time_of_a_timer_may_be_text(end: str, tmp_path: Path) -> None:
    columns = "(operator_uid, timer_service, time_domain, key, timestamp)"
    script = (
        f"INSERT INTO timers {columns} VALUES ('kinds', 'user-timers', 'EVENT', 'new', '2040-01-01'){end}"
    )

    assert main(["write", str(KINDS), script, "--to", str(tmp_path / "new")]) == 0

    assert [row["timestamp"] for row in timers(tmp_path / "new", "new")] == ["2040-01-01 00:00:00"]


def test_timers_of_several_operators_are_copied(tmp_path: Path) -> None:
    script = "INSERT INTO timers SELECT * REPLACE ('new' AS key) FROM timers WHERE key = 'k1'"

    assert main(["write", str(KINDS), script, "--to", str(tmp_path / "new")]) == 0

    copied = timers(tmp_path / "new", "new")
    assert sorted(copied, key=repr) == sorted(
        ({**row, "key": "new"} for row in timers(KINDS, "k1")), key=repr
    )
    assert len({row["operator_uid"] for row in copied}) == 2


def test_a_window_without_its_timer_is_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["write", str(KINDS), _CONTENTS, "--dry-run"]) == 0

    assert "warning: window-contents: 1 row (key 'new', namespace {" in capsys.readouterr().out


def test_timers_of_sql_windows_that_go_are_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = str(unpacked("2.3.0-queries-canonical", tmp_path).directory)
    windows = '"44_global-window-aggregate__windows"'
    delete = f"DELETE FROM {windows} WHERE k0 = 'k1'"
    both = f"{delete}; DELETE FROM timers WHERE timer_service = 'window-timers' AND key.f0 = 'k1'"

    found = []
    for script in (delete, both, f"TRUNCATE {windows.replace('__windows', '__window-aggs')}"):
        assert main(["write", source, script, "--dry-run"]) == 0
        found.append(capsys.readouterr().out)

    assert 'warning: window-aggs: 2 rows (key {"f0":"k1",' in found[0]
    assert "a timer of SQL without its window sends the aggregates of no rows when it fires" in found[0]
    assert "warning" not in found[1]
    assert "the timers of its windows stay, and send the aggregates of no rows when they fire" in found[2]


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (
            f"INSERT INTO timers {_COLUMNS} VALUES {_ROW.format(_WINDOW).replace('EVENT', 'OTHER')}",
            "1 row matches no operator's timer service",
        ),
        (
            "INSERT INTO timers (operator_uid, timer_service, time_domain, key, namespace, timestamp) "
            f"VALUES ('kinds', 'user-timers', 'EVENT', 'new', {_WINDOW}, TIMESTAMP '1970-01-01 01:00:00')",
            "expected NULL in namespace: timers of _timer_state/event_user-timers have none",
        ),
        (
            f"INSERT INTO timers {_COLUMNS} VALUES {_ROW.format(repr('{'))}",
            "expected JSON of the type struct<",
        ),
        (
            "INSERT INTO timers (operator_uid, timer_service, time_domain, key, timestamp) "
            "VALUES ('kinds', 'user-timers', 'EVENT', 'new', 'soon')",
            "key new, timestamp soon, timestamp: expected a value of type TIMESTAMP_MS, found 'soon' (VARCHAR)",
        ),
        (
            "INSERT INTO timers (key, timestamp) VALUES ('k', now())",
            "expected rows of timers with operator_id",
        ),
        ("INSERT INTO timers SELECT * FROM timers LIMIT 1", "which is there already"),
    ],
    ids=["unknown", "namespace", "text", "time", "columns", "twice"],
)
def test_timers_that_cannot_be_added(
    script: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["write", str(KINDS), script, "--to", str(tmp_path / "new")]) != 0

    assert message in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("text", ["1\n2", '1},{"value":2', "", "{", '"x"'])
def test_text_that_is_not_one_value_of_the_type_is_refused(text: str) -> None:
    with pytest.raises(InvalidQueryError, match="JSON"):
        values_of(pa.array([text, None, "5"]), pa.int64(), "key")


def test_texts_become_values_of_their_types() -> None:
    assert values_of(pa.array(["1", None, "-5"]), pa.int64(), "key").to_pylist() == [1, None, -5]
