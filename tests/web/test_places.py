"""The places of the page: their addresses, the ones of former versions, the way to them, and the palette."""

from __future__ import annotations

import gzip
import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from service.doors.page.router import STATIC
from tests.web.test_access import DARK, PHONE, serious
from tests.web.test_views import table

pytestmark = pytest.mark.browser

Opened = Callable[..., Page]
# Former addresses, and what they are today.
MOVED = {
    "#/jobs": "jobs",
    "#/jobs?job=native": "jobs/native",
    "#/overview?db=native": "db/native",
    "#/tables": "db",
    "#/keys?key=key_662&dbs=chk-2": "db/chk-2#keys?key=key_662&dbs=chk-2",
    "#/timeline?job=native&key=key_662": "jobs/native#timeline?key=key_662",
    "#/diff?before=chk-1&after=chk-2": "jobs/chk-2#compare?before=chk-1&after=chk-2",
    "#/timers?db=native": "db/native#timers",
    "#/offsets?dbs=native": "db/native#offsets?dbs=native",
    "#/check?db=native&flink=2.3.0": "db/native#check?flink=2.3.0",
    "#/write?db=native&sql=SELECT+1": "db/native#write?sql=SELECT+1",
    "#/query?db=native&sql=SELECT+1": "query#db=native&sql=SELECT+1",
    "#/saved": "query/saved",
    "#/queries": "query/running",
}
FIRST_VIEW = 120_000


def steps(page: Page) -> list[str]:
    """The way to what is seen."""
    return page.get_by_role("navigation", name="Where this is").get_by_role("listitem").all_inner_texts()


@pytest.mark.parametrize("old", MOVED)
def test_former_addresses_lead_to_places(opened: Opened, service: str, old: str) -> None:
    page = opened(old)

    expect(page).to_have_url(f"{service}/{MOVED[old]}")
    page.reload()
    expect(page).to_have_url(f"{service}/{MOVED[old]}")
    expect(page.get_by_role("alert")).to_have_count(0)


def test_a_place_says_where_it_is_and_leads_back(opened: Opened) -> None:
    page = opened("db/native/aggregate__count?key=key_662")
    expect(page.get_by_role("region", name="The row of aggregate__count")).to_be_visible()
    assert steps(page) == ["Jobs", "native", "native", "aggregate__count", "key_662"]
    way = page.get_by_role("navigation", name="Where this is")

    way.get_by_role("link", name="native").last.click()
    expect(page.get_by_role("region", name="Operators")).to_be_visible()
    assert steps(page) == ["Jobs", "native", "native"]
    way.get_by_role("link", name="native").click()
    expect(page.get_by_role("region", name="Checkpoints")).to_be_visible()
    way.get_by_role("link", name="Jobs").click()
    expect(page.get_by_role("list", name="Jobs")).to_be_visible()
    assert steps(page) == ["Jobs"]


def test_a_key_is_found_in_the_newest_savepoint_of_every_job(opened: Opened, service: str) -> None:
    page = opened()
    page.get_by_role("searchbox", name="Key").fill("key_662")
    page.keyboard.press("Enter")

    head, rows = table(page, "Jobs with this key")
    assert head == ["Job", "Savepoint", "State", "Values", "Over time"]
    assert ["native", "aggregate · count", "11290"] in [[row[1], row[2], row[3]] for row in rows]
    expect(page).to_have_url(f"{service}/jobs#key=key_662")
    page.reload()
    assert table(page, "Jobs with this key")[1] == rows
    page.get_by_role("searchbox", name="Key").fill("nobody")
    page.keyboard.press("Enter")
    expect(page.get_by_text("No job has state for the key nobody in its newest savepoint.")).to_be_visible()


def test_the_palette_finds_places_by_keyboard(opened: Opened, service: str) -> None:
    page = opened("db/native")
    expect(page.locator(".cards")).to_be_visible()
    page.keyboard.press("Control+k")
    field = page.get_by_role("combobox", name="Search")
    expect(field).to_be_focused()

    page.keyboard.type("aggregate__wide")
    found = page.get_by_role("listbox", name="Found").get_by_role("option")
    expect(found.first).to_contain_text("aggregate__wide")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{service}/db/native/aggregate__wide")
    expect(page.get_by_role("dialog")).to_have_count(0)

    page.get_by_role("button", name="Search").click()
    page.keyboard.type("key_662")
    expect(found).to_have_count(2)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/db/native#keys\?key=key_662"))
    expect(page.get_by_role("region", name="Entries of aggregate")).to_contain_text("11290")
    page.keyboard.press("Control+k")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


@pytest.mark.parametrize("looks", [{}, DARK, PHONE], ids=["light", "dark", "phone"])
def test_the_palette_is_for_everybody(opened: Opened, looks: dict[str, Any]) -> None:
    page = opened(**looks)
    expect(page.get_by_role("list", name="Jobs")).to_be_visible()
    page.get_by_role("button", name="Search").click()
    page.keyboard.type("native")
    expect(page.get_by_role("option", name="savepoint native")).to_be_visible()

    assert serious(page) == []


def test_rules_are_tested_on_the_newest_savepoint(opened: Opened) -> None:
    page = opened("jobs/native#rules")

    expect(page.locator(".verdict")).to_contain_text("rules hold for native")
    expect(page.get_by_role("list", name="Rules").get_by_role("listitem").first).to_contain_text("holds")


def test_thousands_of_jobs_are_a_list_of_those_that_are_seen(opened: Opened) -> None:
    page = opened("#nothing")
    names = [f"job-{number}" for number in range(5000)]
    jobs = [
        {"name": name, "title": name, "label": "", "history": "", "databases": [f"{name}-1"]}
        for name in names
    ]
    databases = [
        {
            "name": f"{name}-1",
            "path": f"/jobs/{name}/chk-1",
            "alias_of": None,
            "kind": "CHECKPOINT",
            "checkpoint_id": 1,
            "error": None,
        }
        for name in names
    ]
    page.route("**/api/jobs", lambda route: route.fulfill(json={"jobs": jobs}))
    page.route("**/api/databases", lambda route: route.fulfill(json={"databases": databases}))
    page.reload()
    listed = page.get_by_role("list", name="Jobs").get_by_role("listitem")
    expect(listed.first).to_contain_text("job-0")
    assert listed.count() < 60

    page.get_by_role("main").evaluate("main => { main.scrollTop = main.scrollHeight }")
    expect(listed.filter(has_text="job-4999")).to_be_in_viewport()
    assert listed.count() < 60
    page.get_by_role("searchbox", name="Filter the jobs").fill("job-777")
    expect(listed).to_have_count(1)


def test_the_first_view_is_small(opened: Opened) -> None:
    page = opened()
    expect(page.get_by_role("list", name="Jobs")).to_be_visible()

    loaded = page.evaluate(
        "performance.getEntriesByType('resource').map(one => one.name.split('/static/')[1])"
    )
    names = {name for name in loaded if name} | {"index.html"}
    assert sum(len(gzip.compress((STATIC / name).read_bytes())) for name in names) <= FIRST_VIEW


def test_nothing_moves_while_a_place_loads(opened: Opened) -> None:
    page = opened()
    page.add_init_script(
        "window.moved = 0; new PerformanceObserver(list => list.getEntries().forEach(one => { window.moved += one.value }))"
        ".observe({type: 'layout-shift', buffered: true})"
    )

    def late(route: Route) -> None:
        time.sleep(0.5)
        route.continue_()

    page.route("**/aggregate.json?*", late)
    places = ("/", "/jobs/native", "/db/native", "/db/native#timers")
    rows = ("/db/native/aggregate", "/db/native/aggregate?key=key_662", "/query#db=native&sql=SELECT+1&run=1")
    for address in (*places, *rows):
        page.goto(page.url.split("/", 3)[0] + "//" + page.url.split("/", 3)[2] + address)
        page.reload()
        expect(page.locator("main h1, main .editor").first).to_be_visible()
        expect(page.locator(".skeleton, progress:visible")).to_have_count(0)
        page.wait_for_timeout(200)
        # What is below the rows of a key waits for them.
        assert page.evaluate("window.moved") < (0.01 if "key=" in address else 0.1), address
