"""The page for everybody: by keyboard alone, light and dark, on a phone, with a screen reader."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.web.asking import Watch, grid_rows, query, tree_item

pytestmark = pytest.mark.browser

Opened = Callable[..., Page]
AXE = Path(__file__).parent / "axe.min.js"
PHONE = {"viewport": {"width": 360, "height": 740}}
DARK = {"color_scheme": "dark"}
NESTED = "SELECT 1 AS n, NULL AS nothing, {'a': [1, 2]} AS pair, 'text' AS t"
VIEWS = {
    "query": (query(NESTED), ".tabulator-row"),
    "error": (query("SELECT nope FROM aggregate"), ".error"),
    "plan": (query("EXPLAIN SELECT 1"), ".plan"),
    "overview": ("db/native", "[aria-label='Operators']"),
    "jobs": ("", ".job-row"),
    "job": ("jobs/native", "[aria-label='Checkpoints']"),
    "rules": ("jobs/native#rules", ".rules"),
    "tables": ("db/native#tables", "[aria-label='Tables of facts']"),
    "xray": ("db/native#xray", "[aria-label='The largest keys']"),
    "keys": ("db/chk-2#keys?key=key_662&dbs=chk-1%0Achk-2", "[aria-label='Entries of aggregate']"),
    "timers": ("db/states#timers", "figure canvas"),
    "offsets": ("db/chk-2#offsets?dbs=chk-1%0Achk-2", "[aria-label='Source offsets']"),
    "databases": ("db", "[aria-label='Databases']"),
    "table": ("db/native/aggregate?where=value > 0", ".facet"),
    "key": ("db/native/aggregate?key=key_662", "[aria-label='Entries of aggregate']"),
    "queries": ("query/running", "[aria-label='Queries that ended']"),
}


def serious(page: Page) -> list[Any]:
    """What axe finds that is serious or critical: its rule and where."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run({resultTypes: ['violations']})")
    return [
        (violation["id"], [node["html"][:200] for node in violation["nodes"]][:5])
        for violation in found["violations"]
        if violation["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize("looks", [{}, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("name", VIEWS)
def test_axe_finds_nothing_serious(
    opened: Opened, watch: Watch, service: str, name: str, looks: dict[str, Any]
) -> None:
    watch.expected.add("400")
    if name == "queries":
        httpx.post(f"{service}/api/query", json={"sql": "SELECT 1"}, timeout=60)
    fragment, shown = VIEWS[name]
    page = opened(fragment, **looks)
    expect(page.locator(shown).first).to_be_visible()
    if name == "query":
        tree_item(page, "aggregate").click()
        expect(tree_item(page, "count")).to_be_visible()

    assert serious(page) == []


@pytest.mark.parametrize("looks", [{}, DARK], ids=["light", "dark"])
def test_axe_finds_nothing_serious_in_dialogs_and_charts(opened: Opened, looks: dict[str, Any]) -> None:
    page = opened(query(NESTED), **looks)
    page.locator(".expand").click()
    expect(page.get_by_role("dialog", name="pair")).to_be_visible()
    assert serious(page) == []
    page.keyboard.press("Escape")

    page.get_by_role("button", name="History").click()
    expect(page.locator(".history button").first).to_be_visible()
    assert serious(page) == []
    page.keyboard.press("Escape")

    page.get_by_role("tab", name="Chart").click()
    expect(page.locator(".chart canvas")).to_be_visible()
    assert serious(page) == []


@pytest.mark.parametrize("name", VIEWS)
def test_a_phone_shows_every_view_without_scrolling_sideways(opened: Opened, watch: Watch, name: str) -> None:
    watch.expected.add("400")
    fragment, shown = VIEWS[name]
    page = opened(fragment, **PHONE)
    expect(page.locator(shown).first).to_be_visible()

    sizes = page.evaluate(
        "[document.body, document.querySelector('main')].map(e => [e.scrollWidth, e.clientWidth])"
    )
    assert [scroll - client for scroll, client in sizes] == [0, 0]
    expect(page.get_by_role("link", name="Query", exact=True).first).to_be_visible()


def test_on_a_phone_the_part_that_is_seen_is_in_view(opened: Opened) -> None:
    page = opened("db/native#check", **PHONE)

    expect(page.get_by_role("link", name="Check", exact=True)).to_be_in_viewport()


def test_on_a_phone_the_tree_is_folded_and_opens(opened: Opened) -> None:
    page = opened(query("SELECT 1 AS n"), **PHONE)
    assert grid_rows(page) == [["1"]]
    expect(tree_item(page, "aggregate")).to_be_hidden()

    page.get_by_text("Savepoints", exact=True).click()

    expect(tree_item(page, "aggregate")).to_be_visible()


FOCUSED = "(document.activeElement.shadowRoot?.activeElement ?? document.activeElement)"


def focused(page: Page) -> str:
    """What has the focus, as it is read out."""
    name: str = page.evaluate(f"(e => e.getAttribute('aria-label') ?? e.innerText ?? e.tagName)({FOCUSED})")
    return name.strip()


def press_until(page: Page, key: str, name: str) -> None:
    """Press a key until what has this name has the focus."""
    for _ in range(40):
        if focused(page).startswith(name):
            return
        page.keyboard.press(key)
    raise AssertionError(f"nothing named {name!r} got the focus; the last was {focused(page)!r}")


def test_a_query_is_found_run_and_read_by_keyboard_alone(opened: Opened) -> None:
    page = opened(query("SELECT 1", run=False))
    expect(tree_item(page, "aggregate")).to_be_visible()
    expect(page.get_by_role("textbox", name="SQL")).to_be_focused()

    page.get_by_role("link", name="Query", exact=True).focus()
    press_until(page, "Tab", "Filter the tree")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.getAttribute('role')") == "treeitem"
    page.keyboard.press("Home")
    press_until(page, "ArrowDown", "native")
    press_until(page, "ArrowDown", "aggregate")
    assert focused(page).startswith("aggregate")
    page.keyboard.press("ArrowRight")
    expect(tree_item(page, "count")).to_be_visible()
    page.keyboard.press("ArrowRight")
    assert focused(page).startswith("count")
    page.keyboard.press("Enter")
    assert len(grid_rows(page)) > 5

    press_until(page, "Tab", "▶ Run")
    press_until(page, "Tab", "SQL")
    press_until(page, "Tab", "Table")
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Chart")).to_have_attribute("aria-selected", "true")
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".tabulator-row").first).to_be_visible()


def test_cells_are_walked_and_opened_by_keyboard(opened: Opened) -> None:
    page = opened(query(NESTED))
    expect(page.locator(".tabulator-row")).to_be_visible()

    page.locator(".tabulator-tableholder").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")

    expect(page.get_by_role("dialog", name="pair")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_the_first_tab_skips_to_the_content(opened: Opened) -> None:
    page = opened("db/native#timers")
    expect(page.get_by_text("No timer is registered")).to_be_visible()

    page.keyboard.press("Tab")
    assert focused(page) == "Skip to the content"
    page.keyboard.press("Enter")

    expect(page.get_by_role("main")).to_be_focused()


def ground(page: Page) -> str:
    """The colour behind everything."""
    colour: str = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return colour


def test_dark_follows_the_system_until_one_chooses(opened: Opened) -> None:
    light = opened(query("SELECT 1 AS n"))
    page = opened(query("SELECT 1 AS n"), **DARK)
    assert ground(page) != ground(light)

    page.emulate_media(color_scheme="light")
    expect(page.locator("html")).to_have_attribute("data-theme", "light")  # an event tells the page
    assert ground(page) == ground(light)
    button = page.get_by_role("button", name="Colours: Auto")
    button.click()
    page.get_by_role("button", name="Colours: Light").click()
    expect(page.get_by_role("button", name="Colours: Dark")).to_be_visible()
    assert ground(page) != ground(light)
    page.reload()
    expect(page.get_by_role("button", name="Colours: Dark")).to_be_visible()
    assert ground(page) != ground(light)


def test_columns_are_sorted_by_keyboard(opened: Opened) -> None:
    page = opened(query("SELECT * FROM (VALUES (2), (3), (1)) t(n)"))
    expect(page.locator(".tabulator-row")).to_have_count(3)

    page.get_by_role("button", name="n", exact=False).filter(has_text="INTEGER").focus()
    page.keyboard.press("Enter")

    expect(page.locator(".tabulator-row .number").first).to_have_text("1")
    assert grid_rows(page) == [["1"], ["2"], ["3"]]


def test_what_has_the_focus_is_seen(opened: Opened) -> None:
    page = opened(query("SELECT 1 AS n"))
    assert grid_rows(page) == [["1"]]

    page.get_by_role("link", name="savepointdb").focus()
    for _ in range(20):
        page.keyboard.press("Tab")
        looks = page.evaluate(
            f"(e => [getComputedStyle(e).outlineStyle, getComputedStyle(e.closest('.row, [role=treeitem]') ?? e)"
            f".outlineStyle, e.matches('.cm-content, [role=treeitem], .tabulator-tableholder')])({FOCUSED})"
        )
        assert looks[0] != "none" or looks[2], focused(page)
