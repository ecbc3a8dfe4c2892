"""Pages of databases, tables and keys: one address for people and programs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from urllib.parse import quote, urlencode

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from catalog import Catalog
from catalog.catalog import Root
from service.base.settings import Settings
from service.doors.app import create_app
from tests.web.asking import HOSTILE, Watch, facts, grid_rows, query, tree_item
from tests.web.conftest import ROOTS, listening, pages
from tests.web.test_views import table

pytestmark = pytest.mark.browser

Opened = Callable[..., Page]
AGGREGATE = "db/native/aggregate"


@pytest.fixture
def opened_jobs(browser: Browser) -> Iterator[Opened]:
    """Opens pages of a service over two checkpoints of a job."""
    catalog = Catalog([Root(path=str(ROOTS["chk-1"].parent), label="prod")])
    with (
        listening(create_app(Settings(), catalog)) as address,
        pages(browser, address, Watch(address)) as visit,
    ):
        yield visit


def link(path: str, **values: str) -> str:
    """The address of a page."""
    return f"{path}?{urlencode(values)}"


def card(page: Page, name: str) -> Locator:
    """What is said of a column."""
    return page.get_by_role("article", name=f"Column {name}", exact=True)


def measures(page: Page, name: str) -> dict[str, str]:
    """The facts of a column that has no fields."""
    expect(card(page, name).locator(".measures")).to_be_visible()
    entries = card(page, name).locator(".measures > div").all()
    return {entry.locator("dt").inner_text(): entry.locator("dd").inner_text() for entry in entries}


def values(page: Page, name: str) -> list[str]:
    """The values of a column with their rows."""
    listed = page.get_by_role("list", name=f"Values of {name}", exact=True)
    expect(listed).to_be_visible()
    return [" ".join(item.inner_text().split()) for item in listed.get_by_role("listitem").all()]


def rows_told(page: Page, count: str) -> None:
    """Wait until the page says how many rows there are."""
    expect(page.locator(".facts > div", has=page.locator("dt", has_text="Rows")).locator("dd")).to_have_text(
        count
    )


def test_databases_lead_to_tables_and_tables_to_keys(opened: Opened) -> None:
    page = opened("db")

    page.get_by_role("region", name="Databases").get_by_role("link", name="native", exact=True).first.click()
    expect(page).to_have_url(re.compile(r"/db/native$"))
    page.get_by_role("link", name="Tables", exact=True).click()
    expect(page).to_have_url(re.compile(r"/db/native#tables$"))
    head, rows = table(page, "Tables of aggregate")
    assert head == ["State", "Kind", "Keys", "Values", "Size"]
    assert [row[:4] for row in rows] == [["count", "value", "String", "Long"], ["wide", "view", "–", "–"]]
    assert {row[0] for row in table(page, "Tables of facts")[1]} >= {
        "StateMeta",
        "operators",
        "files",
        "timers",
    }
    page.get_by_role("region", name="Tables of aggregate").get_by_role("link", name="count").click()
    expect(page).to_have_url(re.compile(r"/db/native/aggregate__count$"))
    expect(page).to_have_title("aggregate__count · native · savepointdb")
    page.locator(".tabulator-cell a").first.click()

    expect(page).to_have_url(re.compile(r"/db/native/aggregate__count\?key=key_\d+$"))
    key = page.get_by_role("heading", level=1).inner_text()
    assert "value" in [row[0] for row in table(page, "The row of aggregate__count")[1]]
    assert table(page, "Entries of aggregate")[1][0][:2] == ["count", "VALUE"]
    page.go_back()
    expect(page.get_by_role("heading", level=1)).to_have_text("aggregate__count")
    page.go_forward()
    expect(page.get_by_role("heading", level=1)).to_have_text(key)
    page.reload()
    expect(page.get_by_role("region", name="The row of aggregate__count")).to_be_visible()


def test_a_table_has_its_rows_counted_and_its_columns_summed_up(opened: Opened) -> None:
    page = opened(AGGREGATE)

    rows_told(page, "1,000")
    assert measures(page, "key") == {
        "least": "key_0",
        "greatest": "key_999",
        "distinct": measures(page, "key")["distinct"],
        "NULL": "none",
    }
    assert measures(page, "key")["distinct"].startswith("≈ ")
    assert measures(page, "_subtask")["greatest"] == "1"
    bars = card(page, "_key_group").get_by_role("button", name="rows")
    expect(bars).to_have_count(12)
    told = [re.search(r"([\d,]+) rows?$", bar.get_attribute("aria-label") or "") for bar in bars.all()]
    assert sum(int(one[1].replace(",", "")) for one in told if one) == 1000
    assert len(values(page, "_subtask")) == 2


def test_values_bars_and_conditions_choose_rows_and_are_taken_away_again(
    opened: Opened, service: str
) -> None:
    page = opened(AGGREGATE)
    number = values(page, "_subtask")[0].split()[1]

    page.get_by_role("list", name="Values of _subtask").get_by_role("link").first.click()
    rows_told(page, number)
    chips = page.get_by_role("list", name="Filters").get_by_role("listitem")
    expect(chips).to_have_count(1)
    bar = card(page, "value").get_by_role("button", name="rows").first
    bar.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(chips).to_have_count(3)
    page.get_by_role("textbox", name="Condition").fill("key = 'key_662' OR key = 'key_1'")
    page.keyboard.press("Enter")
    expect(chips).to_have_count(1)
    rows_told(page, "2")
    assert {row[0] for row in key_rows(page)} == {"key_1", "key_662"}

    csv = page.get_by_role("link", name="CSV").get_attribute("href")
    assert csv is not None
    text = page.request.get(service + csv).text()
    assert sorted(line.split(",")[1] for line in text.splitlines()[1:]) == ['"key_1"', '"key_662"']
    assert page.request.get(page.url, headers={"accept": "*/*"}).json()["row_count"] == 2
    page.get_by_role("link", name="Without").click()
    rows_told(page, "1,000")
    assert "where" not in page.url


def key_rows(page: Page) -> list[list[str]]:
    """The rows that are seen, from the key on."""
    head = page.locator(".tabulator-col .title").all_inner_texts()
    at = next(number for number, name in enumerate(head) if name.splitlines()[0] == "key")
    return [row[at:] for row in grid_rows(page)]


def test_a_wrong_condition_says_what_is_wrong(opened: Opened, watch: Watch) -> None:
    watch.expected.add("400")
    page = opened(link(AGGREGATE, where="vale > 1"))
    expect(page.get_by_role("alert")).to_contain_text("vale")

    page.get_by_role("textbox", name="Condition").fill("value > 1) OR (true")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("expected one condition of SQL as where")


def test_columns_with_fields_lists_and_maps_are_summed_up_field_by_field(opened: Opened) -> None:
    page = opened("db/states/" + quote("e0e1113689a400d25b7611dd94ef14a1"))

    fields = card(page, "key").locator(".column-field")
    expect(fields.locator(".measures").first).to_be_visible()
    assert fields.locator("h4").all_inner_texts() == [".f0", ".f1"]
    page.locator(".tabulator-cell a").first.click()
    expect(page).to_have_url(re.compile(r"key=%7B.*&_key_group=\d+"))
    expect(page.get_by_role("region", name=re.compile("The rows? of"))).to_be_visible()
    expect(page.get_by_role("region", name=re.compile("Entries of"))).to_be_visible()


def test_what_is_not_there_is_told(opened: Opened, watch: Watch) -> None:
    watch.expected.add("404")
    page = opened("db/native/agregate")
    expect(page.get_by_role("alert")).to_contain_text("TABLE_NOT_FOUND")
    page.goto(page.url.replace("native/agregate", "nobody"))
    expect(page.get_by_role("alert")).to_contain_text("DATABASE_NOT_FOUND")


@pytest.mark.parametrize(
    "key", ["", HOSTILE, "a/b?c#d&e='\"%2F", "x" * 3000, "</script><script>alert(1)</script>"]
)
def test_a_key_may_be_any_text(opened: Opened, key: str) -> None:
    page = opened(link(AGGREGATE, key=key))

    expect(page.get_by_text("This table has no row of this key.")).to_be_visible()
    expect(page.get_by_text("No operator has state for this key.")).to_be_visible()
    expect(page.get_by_role("heading", level=1)).to_contain_text(key[:200])
    csv = page.get_by_role("link", name="CSV").get_attribute("href")
    assert csv is not None
    assert page.request.get(page.url.partition("/db")[0] + csv).text().count("\n") == 1
    assert page.title() != "broken"


def test_names_are_text(opened: Opened) -> None:
    page = opened("db/hostile#tables")

    expect(page.get_by_role("heading", name=HOSTILE)).to_be_visible()
    page.goto(page.url.partition("#")[0] + "/" + quote(HOSTILE, safe=""))
    expect(page.get_by_role("heading", level=1)).to_have_text(HOSTILE)
    rows_told(page, "7")
    assert page.title() != "broken"


def test_a_key_of_a_history_has_its_rows_and_leads_to_its_timeline(opened_jobs: Opened) -> None:
    page = opened_jobs("db/prod__history/aggregate__count?key=key_662")

    head, rows = table(page, "The rows of aggregate__count")
    at = head.index("value")
    assert sorted(row[at] for row in rows) == ["11290", "6774"]
    page.get_by_role("link", name="timeline", exact=True).click()
    expect(page.get_by_role("link", name="Key timeline")).to_have_attribute("aria-current", "page")
    page.go_back()
    page.get_by_role("link", name="all checkpoints").click()
    page.get_by_role("region", name="Tables of aggregate").get_by_role("link", name="count").click()
    rows_told(page, "376")
    page.goto(page.url.replace("prod__history", "prod__chk-2") + "?key=key_662")
    page.get_by_role("link", name="Older: chk-1").click()
    expect(page).to_have_url(re.compile(r"/db/prod__chk-1/aggregate__count\?key=key_662$"))
    assert table(page, "Entries of aggregate")[1] == [["count", "VALUE", "6774"]]


def test_a_key_is_opened_from_the_rows_by_keyboard(opened: Opened) -> None:
    page = opened("db/native/aggregate__count")
    expect(page.locator(".tabulator-cell a").first).to_be_visible()

    page.locator(".tabulator-tableholder").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")

    expect(page).to_have_url(re.compile(r"\?key=key_"))
    expect(page.get_by_role("main")).to_be_focused()


def test_the_other_views_lead_to_pages(opened: Opened) -> None:
    page = opened(query("SELECT * FROM aggregate WHERE key = 'key_662'"))
    assert facts(page)["From"] == "native (checkpoint 2)"
    page.locator(".tabulator-cell a", has_text="key_662").click()
    expect(page).to_have_url(re.compile(r"/db/native/aggregate\?key=key_662$"))
    page.get_by_role("link", name="Open in the editor").click()
    expect(page.get_by_role("textbox", name="SQL")).to_contain_text("key_662")

    tree_item(page, "aggregate").locator(".twisty").click()
    page.keyboard.press("Shift+Enter")
    expect(page).to_have_url(re.compile(r"/db/native/aggregate$"))
    page.goto(page.url.partition("/db")[0] + "/db/native?" + urlencode({"sql": "SELECT 42 AS n"}))
    assert grid_rows(page) == [["42"]]
