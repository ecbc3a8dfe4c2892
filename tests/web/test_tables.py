"""Tables that are no states, large tables, and keys that are bytes, on their pages."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from urllib.parse import urlencode

import httpx
import pytest
from playwright.sync_api import Browser, Page, Route, expect

from catalog import Catalog
from catalog.catalog import Root
from service.base.settings import Settings
from service.doors.app import create_app
from tests.support.bytekeys import write_byte_keys
from tests.support.paths import DATA
from tests.support.waiting import wait_until
from tests.web.asking import Watch, grid_rows
from tests.web.conftest import listening, pages
from tests.web.test_pages import measures
from tests.web.test_views import table
from tools.synthetic.savepoints import write_savepoint

pytestmark = pytest.mark.browser

Opened = Callable[..., Page]
# In base64, and in its alphabet for addresses: all signs that mean something in one of them.
KEYS = {b"\x00\xff/+?&=#": 1, b"abc": 2, b"": 3, b"\xfb\xef\xbe": 4, b"<b>\n'\"" * 40: 5, b"\xff\xff": 6}
# The first rows are there soon, and all of them in some seconds.
SLOW = "levenshtein(repeat(key, 10), repeat('abc', 15)) > 0"
MANY = 1_000_000
# Characters of a value in the rows of a page.
LONGEST = 200


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a service over keys that are bytes, many keys, and a savepoint of words."""
    folder = tmp_path_factory.mktemp("tables")
    write_byte_keys(folder / "bytes", KEYS)
    write_savepoint(folder / "many", MANY, ("count",))
    native = DATA / "flink" / "2.3.0" / "wordcount-rocksdb-savepoints" / "native"
    roots = {"bytes": folder / "bytes", "many": folder / "many", "words": native}
    catalog = Catalog([Root(path=str(path), label=label) for label, path in roots.items()])
    with listening(create_app(Settings.of(workers=1), catalog)) as address:
        yield address


@pytest.fixture
def opened(browser: Browser, tables: str) -> Iterator[Opened]:
    with pages(browser, tables, Watch(tables)) as found:
        yield found


def coded(key: bytes) -> str:
    return base64.b64encode(key).decode()


# ---- the schema of the service ----


def test_jobs_and_checkpoints_are_tables_with_pages(opened: Opened, tables: str) -> None:
    page = opened("db")

    page.get_by_role("link", name="Jobs and checkpoints as tables").click()
    expect(page).to_have_url(f"{tables}/db/savepointdb")
    expect(page.get_by_role("heading", level=1)).to_have_text("savepointdb")
    assert table(page, "Tables")[1] == [
        ["jobs", "the jobs"],
        ["checkpoints", "the savepoints and checkpoints of all jobs"],
    ]
    page.get_by_role("link", name="checkpoints", exact=True).click()
    expect(page).to_have_url(f"{tables}/db/savepointdb/checkpoints")
    assert {row[0] for row in grid_rows(page)} == {"bytes", "many", "words"}
    expect(page.locator(".facts > div", has_text="Rows").locator("dd")).to_have_text("3")
    page.goto(f"{page.url}?{urlencode({'where': 'size_bytes > 1000000'})}")
    assert [row[0] for row in grid_rows(page)] == ["many"]
    page.get_by_role("link", name="Open in the editor").click()
    expect(page.get_by_role("textbox", name="SQL")).to_contain_text('"savepointdb"."checkpoints"')
    assert [row[0] for row in grid_rows(page)] == ["many"]


def test_columns_and_a_sorting_in_the_address_are_those_of_the_page(opened: Opened) -> None:
    page = opened("db/words/aggregate?value=200&sort=-key&columns=key,value")

    rows = grid_rows(page)
    assert [row[0] for row in rows] == sorted((row[0] for row in rows), reverse=True)
    assert {row[1] for row in rows} == {"200"}
    expect(page.locator(".facts > div", has_text="Rows that fit").locator("dd")).to_have_text(str(len(rows)))
    expect(page.get_by_role("list", name="Filters")).to_contain_text("\"value\" = '200'")
    page.get_by_role("link", name="Open in the editor").click()
    expect(page.get_by_role("textbox", name="SQL")).to_contain_text(re.compile('ORDER BY "?key"? DESC'))
    assert grid_rows(page) == rows


def test_the_same_address_has_rows_for_programs(tables: str) -> None:
    rows = httpx.get(f"{tables}/db/savepointdb/checkpoints", params={"columns": "database,readable"}).json()
    listed = httpx.get(f"{tables}/api/databases/SavepointDB/tables").json()["tables"]
    detail = httpx.get(f"{tables}/api/databases/savepointdb/tables/jobs").json()

    assert sorted(map(tuple, rows["rows"])) == [("bytes", True), ("many", True), ("words", True)]
    assert [one["name"] for one in listed] == ["jobs", "checkpoints"]
    assert detail["columns"][0] == {"name": "job", "type": "VARCHAR"}
    assert httpx.get(f"{tables}/api/databases/savepointdb").status_code == 404


# ---- what takes long ----


def states(tables: str, text: str) -> list[str]:
    listed = httpx.get(f"{tables}/api/queries").json()["queries"]
    return [one["state"] for one in listed if text in one["sql"]]


def test_a_count_is_cancelled_and_asked_again(opened: Opened, tables: str) -> None:
    page = opened(f"db/many/aggregate__count?{urlencode({'where': SLOW})}")
    expect(page.locator(".tabulator-row").first).to_be_visible()
    fact = page.locator(".facts > div", has_text="Rows that fit")

    expect(fact.get_by_role("progressbar", name="Progress of the count")).to_be_visible()
    fact.get_by_role("button", name="Cancel").click()

    count = fact.get_by_role("button", name="Count them")
    expect(count).to_be_visible()
    wait_until(lambda: states(tables, "count(*) AS rows")[0] == "cancelled")
    count.click()
    expect(fact.get_by_role("progressbar", name="Progress of the count")).to_be_visible()
    # Who leaves cancels, too.
    page.get_by_role("link", name="Jobs", exact=True).last.click()
    wait_until(lambda: states(tables, "count(*) AS rows")[:2] == ["cancelled", "cancelled"])


def test_a_summary_is_cancelled_and_asked_again(opened: Opened, tables: str) -> None:
    page = opened(f"db/many/aggregate__count?{urlencode({'where': SLOW})}")
    page.get_by_role("button", name="Sum up the columns").click()
    bar = page.get_by_role("progressbar", name="Progress of the summary")
    expect(bar).to_be_visible()

    bar.locator("..").get_by_role("button", name="Cancel").click()

    expect(bar).to_have_count(0)
    expect(page.get_by_role("button", name="Sum up the columns")).to_be_visible()
    wait_until(lambda: "cancelled" in states(tables, "approx_count_distinct"))
    page.goto(f"{tables}/db/words/aggregate__count")
    expect(page.locator(".facts > div", has_text="Rows").locator("dd")).to_have_text("1,000")


# ---- keys that are bytes ----


def test_keys_that_are_bytes_lead_to_their_pages(opened: Opened, tables: str) -> None:
    page = opened("db/bytes/aggregate__count")
    shown = {
        (coded(key) or "(empty)") if len(key) < 100 else f"{coded(key)[:LONGEST]}…": count
        for key, count in KEYS.items()
    }
    assert {row[0]: int(row[2]) for row in grid_rows(page)} == shown

    page.locator(".tabulator-cell a", has_text=coded(b"\x00\xff/+?&=#")).click()

    expect(page).to_have_url(re.compile(r"/db/bytes/aggregate__count\?key=AP8vKz8mPSM(=|%3D)$"))
    expect(page.get_by_role("heading", level=1)).to_have_text("AP8vKz8mPSM=")
    assert ["value", "1", "BIGINT"] in table(page, "The row of aggregate__count")[1]
    assert table(page, "Entries of aggregate")[1] == [["count", "VALUE", "1"]]


@pytest.mark.parametrize("key", list(KEYS), ids=lambda key: repr(key[:8]))
def test_the_address_of_a_key_of_bytes_is_exact(opened: Opened, tables: str, key: bytes) -> None:
    page = opened(f"db/bytes/aggregate__count?{urlencode({'key': coded(key)})}")

    assert ["value", str(KEYS[key]), "BIGINT"] in table(page, "The row of aggregate__count")[1]
    assert table(page, "Entries of aggregate")[1] == [["count", "VALUE", str(KEYS[key])]]
    for name in ("CSV", "JSON"):
        address = page.get_by_role("link", name=name, exact=True).get_attribute("href")
        assert address is not None
        told = page.request.get(tables + address).text()
        assert str(KEYS[key]) in told
        assert coded(key) in told


def test_a_key_of_bytes_is_typed_in_the_key_explorer(opened: Opened) -> None:
    page = opened("db/bytes#keys")
    box = page.get_by_role("textbox", name="Key")

    box.fill("++++")
    page.keyboard.press("Enter")

    assert table(page, "Entries of aggregate")[1] == [["count", "VALUE", "4"]]
    expect(page).to_have_url(re.compile(r"key=(%2B){4}"))
    page.reload()
    assert table(page, "Entries of aggregate")[1] == [["count", "VALUE", "4"]]
    box.fill("no base64!")
    page.get_by_role("button", name="Find").click()
    expect(page.get_by_text("No operator has state for this key.")).to_be_visible()


def test_columns_of_bytes_are_summed_up_by_their_lengths(opened: Opened) -> None:
    page = opened("db/bytes/aggregate__count")

    assert measures(page, "key") == {"fewest bytes": "0", "most bytes": "240", "NULL": "none"}
    condition = urlencode({"where": "key = 'abc'::BLOB"})
    page.goto(f"{page.url}?{condition}")
    assert [row[:3] for row in grid_rows(page)] == [["YWJj", "NULL", "2"]]


# What is seen is looked at late, as in a browser that has much to do.
LATE = """
window.IntersectionObserver = class extends IntersectionObserver {
  observe(element) { setTimeout(() => super.observe(element), 1000); }
}
"""


def test_rows_that_come_before_the_page_around_them_are_seen(opened: Opened) -> None:
    page = opened("db")
    held: list[Route] = []

    def slow(route: Route) -> None:
        if "StateMeta" in str(route.request.post_data):
            held.append(route)
        else:
            route.continue_()

    page.route("**/api/query", slow)
    page.add_init_script(LATE)
    with page.expect_response("**/db/bytes/aggregate__count.json*"):
        page.goto(page.url + "/bytes/aggregate__count")
    page.wait_for_timeout(300)  # the grid is made of the rows, and is in no page yet

    held[0].continue_()

    assert len(grid_rows(page)) == len(KEYS)
