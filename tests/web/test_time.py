"""Jobs, the timeline of a key, and what differs between two checkpoints, on the page."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page, Route, expect

import savepointdb
from catalog import Catalog
from catalog.catalog import Root
from service.base.settings import Settings
from service.doors.app import create_app
from tests.web.asking import Watch, grid_rows
from tests.web.conftest import FLINK, ROOTS, listening
from tests.web.test_access import DARK, PHONE, serious
from tests.web.test_jobs import NEWEST, numbered
from tests.web.test_views import table

pytestmark = pytest.mark.browser

Opened = Callable[..., Page]
EDIT = """
UPDATE aggregate__count SET value = -5 WHERE key = 'key_662';
DELETE FROM aggregate__count WHERE key = 'key_501';
UPDATE source_offsets SET starting_offset = 24000 WHERE topic = 'words' AND "partition" = 2
"""


@pytest.fixture(scope="module")
def time(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a service over a job with three checkpoints that it can read and one that it cannot, and another job."""
    root = tmp_path_factory.mktemp("time")
    orders = root / "orders"
    shutil.copytree(ROOTS["chk-1"].parent, orders)
    with savepointdb.connect(orders / "chk-2") as connection:
        connection.write(orders / "chk-3", EDIT)
    numbered(orders / "chk-3", 3)
    (orders / "chk-4").mkdir()
    (orders / "chk-4" / "_metadata").write_bytes(b"cut")
    for number in range(1, 5):
        os.utime(orders / f"chk-{number}" / "_metadata", (NEWEST + number,) * 2)
    shutil.copytree(FLINK / "everything-hashmap-savepoints" / "canonical", root / "billing" / "chk-9")
    os.utime(root / "billing" / "chk-9" / "_metadata", (NEWEST - 100,) * 2)
    with listening(create_app(Settings(), Catalog([Root(path=str(root), label="prod")]))) as address:
        yield address


@pytest.fixture
def visit(opened: Opened, watch: Watch, time: str) -> Opened:
    """Opens the page of that service."""
    watch.address = time
    watch.expected.add("422")
    return lambda fragment="", **options: opened(fragment, at=time, **options)


def at(view: str, **values: str) -> str:
    """The fragment of a view."""
    return f"#/{view}?{urlencode(values)}"


ORDERS = "prod__orders"
VIEWS = {
    "jobs": (at("jobs"), ".job-row"),
    "job": (at("jobs", job=ORDERS), "[aria-label='Checkpoints']"),
    "timeline": (at("timeline", job=ORDERS, key="key_662"), ".spark canvas"),
    "diff": (
        at("diff", before=f"{ORDERS}__chk-2", after=f"{ORDERS}__chk-3", table="aggregate__count"),
        "[aria-label='Rows before and after']",
    ),
}


def line(page: Page, state: str) -> list[list[str]]:
    """The runs of a state: which checkpoints, the value, what is said of it."""
    article = page.get_by_role("article", name=state, exact=True)
    expect(article).to_be_visible()
    return [
        [
            run.locator("a").inner_text(),
            run.locator(".value").inner_text(),
            run.locator("small").last.inner_text(),
        ]
        for run in article.locator(".run").all()
    ]


def test_the_timeline_of_a_key_marks_where_it_changed(visit: Opened) -> None:
    page = visit(at("timeline", job=ORDERS))
    page.get_by_role("textbox", name="Key").fill("key_662")
    page.keyboard.press("Enter")

    runs = line(page, "count of aggregate")
    assert [run[0] for run in runs] == ["chk-1", "chk-2", "chk-3", "chk-4"]
    assert [run[1] for run in runs[:3]] == ["6774", "11290+4,516", "-5\N{MINUS SIGN}11,295"]
    assert [run[2].startswith("changed") for run in runs[:3]] == [False, True, True]
    assert runs[3][1] == "unreadable"
    expect(page.get_by_role("alert")).to_contain_text("chk-4: expected a _metadata file")
    expect(page.get_by_role("img", name="count by checkpoint, from 6774 to")).to_be_visible()
    assert "key=key_662" in page.url


def test_checkpoints_in_which_nothing_changed_stand_together(visit: Opened) -> None:
    page = visit(at("timeline", job=ORDERS, key="key_508"))

    assert [run[0] for run in line(page, "count of aggregate")] == ["chk-1", "chk-2 … chk-3", "chk-4"]


def test_a_checkpoint_of_the_timeline_opens_the_key_there(visit: Opened) -> None:
    page = visit(at("timeline", job=ORDERS, key="key_662"))
    page.get_by_role("article", name="count of").get_by_role("link", name="chk-1", exact=True).click()

    expect(page).to_have_url(re.compile(r"/db/prod__orders__chk-1#keys\?key=key_662"))
    assert table(page, "Entries of aggregate")[1] == [["count", "VALUE", "6774"]]


def test_a_key_of_maps_and_lists_says_how_many_entries_it_has(visit: Opened) -> None:
    page = visit(at("timeline", job="prod__billing", key="k1"))

    [[_, entries, _]] = line(page, "map of kinds")
    assert entries.startswith("3 entries")
    expect(page.get_by_role("alert")).to_have_count(0)


def test_a_key_that_no_checkpoint_has_is_told(visit: Opened) -> None:
    page = visit(at("timeline", job="prod__billing", key="no such key"))

    expect(page.locator(".empty")).to_have_text("No checkpoint of this job has state for this key.")


def test_a_diff_says_which_states_differ(visit: Opened) -> None:
    page = visit(at("diff"))

    head, rows = table(page, "States that differ")
    assert head == ["Operator", "State", "Change", "Added", "Removed", "Changed", "Rows", "Size", "Type"]
    [row] = [row for row in rows if row[1] == "count"]
    assert row[0] == "aggregate"
    assert [row[2].split()[-1], *row[3:6]] == ["changed", "0", "1", "1"]
    assert row[6] == "180 → 179"
    offsets = table(page, "Offsets that moved")[1]
    assert next(one for one in offsets if one[2] == "2")[4] == "24,000"
    expect(page.get_by_role("combobox", name="Before")).to_have_value(f"{ORDERS}__chk-2")
    expect(page.get_by_role("combobox", name="After")).to_have_value(f"{ORDERS}__chk-3")


def test_a_diff_of_a_job_with_one_savepoint_has_two_pickers(visit: Opened) -> None:
    page = visit(at("keys", db="prod__billing__chk-9"))
    page.evaluate("location.hash = '#/diff'")

    expect(page.get_by_text("Choose two savepoints to compare.")).to_be_visible()
    expect(page.get_by_role("combobox", name="Before")).to_have_value("")
    expect(page.get_by_role("combobox", name="After")).to_have_value("prod__billing__chk-9")
    page.get_by_role("combobox", name="Before").select_option(f"{ORDERS}__chk-3")
    expect(page.get_by_role("region", name="States that differ")).to_be_visible()
    assert f"before={ORDERS}__chk-3" in page.url


def test_a_state_of_a_diff_opens_its_rows_before_and_after(visit: Opened) -> None:
    page = visit(at("diff"))

    page.get_by_role("button", name="count", exact=True).click()

    head, rows = table(page, "Rows before and after")
    assert head == ["Change", "key", "Before", "After"]
    [removed, changed] = sorted(rows, key=lambda row: row[1])
    assert [removed[0].split()[-1], removed[1], removed[3]] == ["removed", "key_501", "–"]
    assert [changed[0].split()[-1], *changed[1:]] == ["changed", "key_662", "11290", "-5"]
    page.get_by_role("combobox", name="Change").select_option("removed")
    expect(page.get_by_text("1 row.")).to_be_visible()
    page.get_by_role("combobox", name="Change").select_option("")
    page.get_by_role("searchbox", name="Only this key").fill("key_662")
    page.keyboard.press("Enter")
    expect(page.get_by_text("1 row.")).to_be_visible()
    assert table(page, "Rows before and after")[1][0][1] == "key_662"
    assert "key=key_662" in page.url
    page.get_by_role("link", name="Open as a query").click()
    assert grid_rows(page)[0][:2] == ["changed", "key_662"]


def test_a_diff_of_equal_savepoints_says_so(visit: Opened) -> None:
    page = visit(at("diff", before=f"{ORDERS}__chk-2", after=f"{ORDERS}__chk-2"))

    expect(page.get_by_text("They are equal: no state differs")).to_be_visible()


def test_before_and_after_are_swapped(visit: Opened) -> None:
    page = visit(at("diff"))
    expect(page.get_by_role("region", name="States that differ")).to_be_visible()

    page.get_by_role("button", name="Swap before and after").click()

    row = next(row for row in table(page, "States that differ")[1] if row[1] == "count")
    assert row[3:6] == ["1", "0", "1"]


def test_a_diff_can_be_cancelled(visit: Opened) -> None:
    page = visit()
    held: list[Route] = []
    page.route("**/api/diff", lambda route: held.append(route))
    page.get_by_role("link", name="orders", exact=True).click()
    page.get_by_role("link", name="Compare", exact=True).click()
    expect(page.get_by_role("progressbar", name="Progress of the diff")).to_be_visible()

    page.get_by_role("button", name="Cancel").click()

    expect(page.get_by_text("Cancelled")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)


@pytest.mark.parametrize("looks", [{}, DARK, PHONE], ids=["light", "dark", "phone"])
@pytest.mark.parametrize("name", VIEWS)
def test_everybody_can_use_the_views_of_time(visit: Opened, name: str, looks: dict[str, Any]) -> None:
    fragment, shown = VIEWS[name]
    page = visit(fragment, **looks)
    expect(page.locator(shown).first).to_be_visible()

    assert serious(page) == []
    sizes = page.evaluate(
        "[document.body, document.querySelector('main')].map(e => e.scrollWidth - e.clientWidth)"
    )
    assert sizes == [0, 0]
