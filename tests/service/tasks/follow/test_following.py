"""A follower of a job: every checkpoint once, whole, in order; gaps, restarts and beginnings have names."""

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson
import pytest

import savepointdb
from catalog import Catalog, NoSuchTableError, Root
from catalog.errors import NoSuchCheckpointError, NotComparableError
from service.base.errors import LimitExceededError, NotSupportedError, SavepointError, TableNotFoundError
from service.base.settings import Settings
from service.query.engines.registry import open_engines
from service.query.running.session import Session
from service.query.serving.results import Spool
from service.tasks.follow.changes import changes_of, is_statement
from service.tasks.follow.events import lines_of
from service.tasks.follow.following import Follower, FollowRequest, follow
from service.tasks.task import Context
from tests.support.changing import CHANGES, TABLE, make, make_job, numbered
from tests.support.checkpoints import NOON
from tests.support.objectstore import Fault, ObjectStore, Proxy, status

Wait = Callable[[float], object]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_job(tmp_path_factory.mktemp("follow") / "job")


@pytest.fixture
def job(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(written, tmp_path / "job"))


class Followed:
    """Follows the jobs of a folder, by events."""

    def __init__(self, root: Path | str, **settings: Any) -> None:
        self.catalog = Catalog([Root(path=str(root), label="prod")])
        self.settings = Settings().replaced(settings)
        self.session = Session(self.catalog, open_engines(self.settings), self.settings)
        self.warnings: list[str] = []

    def context(self) -> Context:
        return Context(
            catalog=self.catalog,
            settings=self.settings,
            start=self.session.start,
            is_alone=True,
            warn=self.warnings.append,
        )

    def events(
        self, what: str = TABLE, wait: Wait = lambda _: None, **request: Any
    ) -> Iterator[dict[str, Any]]:
        context = self.context()
        given: dict[str, Any] = {"once": True, "job": "job", **request}
        asked = FollowRequest(what=what, **given)
        for found in follow(asked, context, interval_s=0.0, wait=wait):
            yield from map(orjson.loads, b"".join(lines_of(found)).splitlines())


@pytest.fixture
def followed(job: Path) -> Iterator[Followed]:
    found = Followed(job.parent)
    with closing(found.session):
        yield found


def rows_of(events: Iterator[dict[str, Any]] | list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    names = ("checkpoint_id", "change", "key", "value_before", "value_after")
    return sorted((tuple(map(one.get, names)) for one in events if "change" in one), key=str)


def summed(events: list[dict[str, Any]]) -> dict[str, int]:
    """The rows that a consumer has that obeys each event."""
    rows: dict[str, int] = {}
    for one in events:
        if "reset" in one:
            rows.clear()
        elif one.get("change") == "removed":
            assert rows.pop(one["key"]) == one["value_before"]
        elif "change" in one:
            assert rows.get(one["key"]) == one["value_before"]
            rows[one["key"]] = one["value_after"]
    return rows


ROWS = [(number, *row) for number, rows in CHANGES.items() for row in rows]


def test_each_checkpoint_is_whole_and_ends_with_a_line(followed: Followed) -> None:
    events = list(followed.events(since="1"))

    assert rows_of(events) == sorted(ROWS, key=str)
    assert [one for one in events if "change" not in one] == [
        {"checkpoint": 2, "complete": True, "rows": 3, "token": "2"},
        {"checkpoint": 3, "complete": True, "rows": 2, "token": "3"},
        {"checkpoint": 4, "complete": True, "rows": 1, "token": "4"},
    ]
    assert events[0] == {
        "checkpoint_id": 2,
        "checkpoint_at": "2026-09-01T12:00:02.000000Z",
        "change": "changed",
        "key": "key_662",
        "namespace": None,
        "value_before": 11290,
        "value_after": 11291,
    }


@pytest.mark.parametrize("since", ["3", "chk-3", "prod__job__chk-3"])
def test_a_follower_goes_on_from_any_name_of_a_checkpoint(followed: Followed, since: str) -> None:
    assert rows_of(followed.events(since=since)) == [(4, "removed", "new", 5, None)]


def test_the_sum_of_all_events_is_the_newest_checkpoint(followed: Followed) -> None:
    of_all = list(followed.events(since="earliest"))
    of_newest = list(followed.events(since="snapshot"))

    assert of_all[0] == {"reset": 1, "reason": "it begins with all rows"}
    assert of_newest[0] == {"reset": 4, "reason": "it begins with all rows"}
    assert summed(of_all) == summed(of_newest)
    assert (len(summed(of_all)), summed(of_all)["key_662"]) == (999, 11292)


def test_a_statement_gives_rows_that_appear_and_vanish(followed: Followed) -> None:
    sql = f"SELECT value, count(*) AS n FROM {TABLE} WHERE value > 11000 OR key = 'new' GROUP BY value"

    found = [
        (one["checkpoint_id"], one["change"], one["value"], one["n"])
        for one in followed.events(sql, since="1")
        if "change" in one
    ]

    assert sorted(found) == [
        (2, "added", 11291, 1),
        (2, "removed", 11290, 1),
        (3, "added", 5, 1),
        (3, "added", 11292, 1),
        (3, "removed", 11291, 1),
        (4, "removed", 5, 1),
    ]


def test_a_statement_goes_on_where_the_newest_checkpoint_lacks_its_table(
    followed: Followed, job: Path
) -> None:
    make(job, 5, job / "chk-4", f"DROP TABLE {TABLE}")
    followed.catalog.refresh()
    sql = f"SELECT value FROM {TABLE} WHERE key = 'key_662'"

    events = list(followed.events(sql, since="4"))

    assert [(one["checkpoint_id"], one["change"], one["value"]) for one in events[:-1]] == [
        (5, "removed", 11292)
    ]
    assert events[-1] == {"checkpoint": 5, "complete": True, "rows": 1, "token": "5"}
    assert list(followed.events(sql, since="5")) == []


def test_columns_of_a_statement_hide_nothing_of_the_checkpoint(followed: Followed) -> None:
    sql = f"SELECT key AS change, value AS checkpoint_id, value AS checkpoint_id FROM {TABLE} WHERE key = 'key_662'"

    found = [one for one in followed.events(sql, since="3") if "change" in one]
    later = [one for one in followed.events(sql, since="2") if "change" in one]

    assert found == []
    assert [
        (one["checkpoint_id"], one["change"], one["change_1"], one["checkpoint_id_1"], one["checkpoint_id_2"])
        for one in later
    ] == [(3, "removed", "key_662", 11291, 11291), (3, "added", "key_662", 11292, 11292)]


def test_what_is_gone_or_unreadable_is_a_gap_that_the_next_step_spans(followed: Followed, job: Path) -> None:
    (job / "chk-2" / "_metadata").write_bytes(b"no metadata")
    shutil.rmtree(job / "chk-3")
    followed.catalog.refresh()

    events = list(followed.events(since="1"))

    assert events[1] == {"gap": [3, 3], "reason": "removed, or never completed"}
    assert events[0]["gap"] == [2, 2]
    assert "_metadata" in events[0]["reason"]
    assert rows_of(events) == [
        (4, "changed", "key_1", 2, 3),
        (4, "changed", "key_662", 11290, 11292),
        (4, "removed", "key_0", 1, None),
    ]


def test_a_long_gap_is_told_whole(followed: Followed, job: Path) -> None:
    for number, later in ((4, 9000), (3, 5000)):
        numbered(job / f"chk-{number}", later).rename(job / f"chk-{later}")
    (job / "chk-5000" / "_metadata").write_bytes(b"no metadata")
    followed.catalog.refresh()

    gaps = [tuple(one["gap"]) for one in followed.events(since="2") if "gap" in one]

    assert gaps == [(3, 4999), (5000, 5000), (5001, 8999)]


def test_a_statement_over_what_cannot_be_read_is_an_error(followed: Followed, job: Path) -> None:
    (job / "chk-1" / "_metadata").write_bytes(b"no metadata")
    followed.catalog.refresh()

    with pytest.raises(NotSupportedError, match="found some left out"):
        list(followed.events(f"SELECT count(*) AS n FROM job__history.{TABLE}", since="3"))


def damage(job: Path, number: int) -> None:
    for path in (job / f"chk-{number}").iterdir():
        if path.name != "_metadata":
            path.write_bytes(path.read_bytes()[:100])


def test_damaged_state_is_a_gap(followed: Followed, job: Path) -> None:
    damage(job, 3)

    events = list(followed.events(since="2"))

    assert events[0]["gap"] == [3, 3]
    assert rows_of(events) == [(4, "changed", "key_662", 11291, 11292)]


def test_damaged_state_is_an_error_at_the_end(followed: Followed, job: Path) -> None:
    damage(job, 3)
    damage(job, 4)

    with pytest.raises(SavepointError):
        list(followed.events(since="2"))


def test_a_base_that_is_gone_or_damaged_is_a_reset(followed: Followed, job: Path) -> None:
    shutil.rmtree(job / "chk-2")
    followed.catalog.refresh()

    events = list(followed.events(since="2"))

    assert events[0] == {"reset": 3, "reason": "checkpoint 2 is gone, or cannot be read"}
    assert summed(events)["key_662"] == 11292
    damage(job, 1)
    again = list(followed.events(since="1"))
    assert [one["reset"] for one in again if "reset" in one] == [4]
    assert summed(again) == summed(events)


def test_new_checkpoints_come_while_it_waits(followed: Followed, job: Path, tmp_path: Path) -> None:
    later = [job.parent / "later-3", job.parent / "later-4"]
    for number, place in zip((3, 4), later, strict=True):
        (job / f"chk-{number}").rename(place)
    followed.catalog.refresh()
    outside = (
        shutil.move(later[0], tmp_path.parent / f"{tmp_path.name}-3"),
        shutil.move(later[1], tmp_path.parent / f"{tmp_path.name}-4"),
    )
    followed.catalog.refresh()
    left = [(3, Path(outside[0])), (4, Path(outside[1]))]

    def wait(_: float) -> None:
        number, place = left.pop(0)
        shutil.move(place, job / f"chk-{number}")

    events: list[dict[str, Any]] = []
    for event in followed.events(wait=wait, once=False):
        events.append(event)
        if event.get("checkpoint") == 4:
            break

    assert rows_of(events) == sorted([row for row in ROWS if row[0] > 2], key=str)


@pytest.mark.slow
def test_a_job_in_an_object_store_is_followed(store: ObjectStore, proxy: Proxy, written: Path) -> None:
    def add(number: int) -> None:
        # As Flink does: what the metadata names is there before it.
        files = sorted((written / f"chk-{number}").iterdir(), key=lambda path: path.name == "_metadata")
        for path in files:
            store.put(f"followed/job/chk-{number}/{path.name}", path.read_bytes())

    def damaged() -> None:
        add(3)
        store.put("followed/job/chk-3/_metadata", b"no metadata")

    def unreachable() -> None:
        proxy.faults.append(Fault(status(403), method="GET HEAD"))

    def back() -> None:
        proxy.faults.clear()

    def gone() -> None:
        for key in store.contents("followed/job/chk-2/"):
            store.delete(key)
        add(4)

    left = [lambda: add(2), damaged, unreachable, back, gone]
    add(1)
    found = Followed(proxy.url("followed"))
    events: list[dict[str, Any]] = []
    with closing(found.session):
        for event in found.events(since="1", wait=lambda _: left.pop(0)(), once=False):
            events.append(event)
            if event.get("checkpoint") == 4:
                break

    assert [one for one in events if "change" not in one and "gap" not in one] == [
        {"checkpoint": 2, "complete": True, "rows": 3, "token": "2"},
        {"reset": 4, "reason": "checkpoint 2 is gone, or cannot be read"},
        {"checkpoint": 4, "complete": True, "rows": 999, "token": "4"},
    ]
    assert [one["gap"] for one in events if "gap" in one] == [[3, 3]]
    assert sorted(rows_of(one for one in events if one.get("checkpoint_id") == 2), key=str) == [
        row for row in sorted(ROWS, key=str) if row[0] == 2
    ]
    assert len(found.warnings) == 1
    at_4 = [one for one in events if one.get("checkpoint_id") == 4]
    with savepointdb.connect(written / "chk-4") as db:
        assert summed(at_4) == dict(db.sql(f"SELECT key, value FROM {TABLE}").fetchall())


def test_a_job_that_restarts_with_lower_numbers_is_an_event(
    followed: Followed, job: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    new = tmp_path_factory.mktemp("new")

    def wait(_: float) -> None:
        number = 2 if not list(new.iterdir()) else 3
        before = job / ("chk-4" if number == 2 else "chk-2")
        made = make(new / str(number), number, before, f"DELETE FROM {TABLE} WHERE key = 'key_{number}'")
        os.utime(made / "_metadata", (NOON + 98 + number, NOON + 98 + number))
        shutil.rmtree(job / made.name)
        made.rename(job / made.name)

    events: list[dict[str, Any]] = []
    for event in followed.events(wait=wait, once=False):
        events.append(event)
        if event.get("checkpoint") == 3:
            break

    assert [one for one in events if "change" not in one] == [
        {"restarted": 2, "reason": "checkpoint 2 is newer than 4"},
        {"checkpoint": 2, "complete": True, "rows": 1, "token": f"2@{NOON + 100}"},
        {"checkpoint": 3, "complete": True, "rows": 1, "token": f"3@{NOON + 100}"},
    ]
    assert [one["key"] for one in events if "change" in one] == ["key_2", "key_3"]
    assert [
        one.get("checkpoint") for one in followed.events(since=f"2@{NOON + 100}") if "checkpoint" in one
    ] == [3]


def test_a_successor_goes_on_with_the_state_if_asked(tmp_path: Path, written: Path) -> None:
    root = tmp_path / "checkpoints"
    first, second = root / ("a" * 32), root / ("b" * 32)
    shutil.copytree(written, first)
    shutil.copytree(first / "chk-4", second / "chk-5")
    numbered(second / "chk-5", 5)
    found = Followed(root)
    with closing(found.session):
        assert list(found.events(job="a" * 32, since="4")) == []
        events = list(found.events(job="a" * 32, since="3", successors=True))
        (token,) = [one["token"] for one in events if one.get("checkpoint") == 5]
        make(second, 6, second / "chk-5", f"DELETE FROM {TABLE} WHERE key = 'key_2'")
        found.catalog.refresh()
        later = list(found.events(job="a" * 32, since=token))

    name = f"prod__{'b' * 32}"
    assert events[-2:] == [
        {"restarted": 5, "reason": f"job {name} goes on with its state"},
        {"checkpoint": 5, "complete": True, "rows": 0, "token": f"{name}:5"},
    ]
    assert [(one.get("key"), one.get("token")) for one in later] == [("key_2", None), (None, f"{name}:6")]


@pytest.mark.parametrize(
    ("request_", "kind", "message"),
    [
        (
            {"since": "9"},
            NoSuchCheckpointError,
            "expected a checkpoint up to 4, the newest of prod__job, found 9",
        ),
        ({"since": "yesterday"}, NoSuchCheckpointError, "found 'yesterday'"),
        ({"what": "aggregate__cont"}, NoSuchTableError, "aggregate__cont"),
        ({"what": "aggregate__wide"}, NotComparableError, "shows states side by side"),
        ({"what": "SELECT * FROM aggregate__cont"}, TableNotFoundError, "aggregate__cont"),
    ],
)
def test_what_means_nothing_is_an_error_at_once(
    followed: Followed, request_: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        list(followed.events(**request_))


def test_changes_without_room_are_an_error_and_give_their_room_back(followed: Followed) -> None:
    spool, context = Spool("", 3 << 20), followed.context()
    step = Follower(FollowRequest(what=TABLE, job="job", since="snapshot"), context).next(followed.catalog)
    assert step is not None
    sql = f"SELECT key, repeat('x', 2000) AS k FROM {TABLE} LIMIT "

    kept = changes_of(sql + "900", step, context, spool)
    assert kept.row_count == 900
    assert spool.size_bytes > 1 << 20
    with pytest.raises(LimitExceededError, match="expected room on the disk"):
        changes_of(sql.replace("2000", "9000") + "900", step, context, spool)
    del kept
    gc.collect()

    assert spool.size_bytes == 0


def test_changes_in_a_file_are_read_again_and_again(job: Path) -> None:
    found = Followed(job.parent)
    with closing(found.session):
        sql = f"SELECT key, repeat(key, 1000) AS k FROM {TABLE}"
        events = [one for one in found.events(sql, since="snapshot") if "change" in one]

    assert len(events) == 999
    assert all(one["k"] == one["key"] * 1000 for one in events)


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("SELECT 1", True),
        ("with x as (select 1) from x", True),
        ("(SELECT 1)", True),
        ("-- c\nSELECT 1", True),
        ("/* x\n */SELECT 1", True),
        (" /* x */ -- y\n\n(SELECT 1)", True),
        ("-- SELECT 1", False),
        ("select__count", False),
        ("table", False),
        ("values", False),
    ],
)
def test_a_name_is_no_statement(what: str, expected: bool) -> None:
    assert is_statement(what) is expected
