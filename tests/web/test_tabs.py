"""The tabs of the editor: what is written stays, in this browser, until its tab is closed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.web.asking import Watch, grid_rows, query, write

pytestmark = pytest.mark.browser

Opened = Callable[..., Page]


def tabs(page: Page) -> list[str]:
    """The names of the tabs."""
    return page.get_by_role("tablist", name="Queries").get_by_role("tab").all_inner_texts()


def tab(page: Page, name: str) -> Locator:
    return page.get_by_role("tab", name=name, exact=True)


def text(page: Page) -> str:
    return "\n".join(page.get_by_role("textbox", name="SQL").locator(".cm-line").all_inner_texts())


def test_each_tab_has_its_text_its_database_and_its_result(opened: Opened) -> None:
    page = opened(query("SELECT 'one' AS a", "native"))
    assert grid_rows(page) == [["one"]]

    page.get_by_role("button", name="New query").click()
    expect(page.locator(".facts")).to_have_count(0)
    page.get_by_label("Database").select_option("words")
    write(page, "SELECT 'two' AS a")
    page.keyboard.press("Control+Enter")
    assert grid_rows(page) == [["two"]]
    tab(page, "Query 1").click()

    assert text(page) == "SELECT 'one' AS a"
    assert grid_rows(page) == [["one"]]
    assert page.get_by_label("Database").input_value() == "native"
    assert "sql=SELECT+%27one%27" in page.url
    tab(page, "Query 2").click()
    assert (text(page), grid_rows(page)) == ("SELECT 'two' AS a", [["two"]])
    assert page.get_by_label("Database").input_value() == "words"


def test_tabs_outlive_the_page(opened: Opened) -> None:
    page = opened(query("SELECT 1", run=False))
    page.get_by_role("button", name="New query").click()
    write(page, "SELECT 'kept'")
    page.get_by_role("button", name="Rename").click()
    page.keyboard.insert_text("Mine")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="Jobs").click()
    page.get_by_role("link", name="Query", exact=True).click()
    expect(tab(page, "Mine")).to_have_attribute("aria-selected", "true")

    page.reload()

    expect(tab(page, "Mine")).to_have_attribute("aria-selected", "true")
    assert tabs(page) == ["Query 1", "Mine"]
    assert text(page) == "SELECT 'kept'"
    # Another window of this browser has them, too; what it closes is closed.
    other = page.context.new_page()
    other.goto(page.url.split("#")[0] + "#/query")
    expect(tab(other, "Query 1")).to_be_visible()
    tab(other, "Query 1").click()
    other.get_by_role("button", name="Close Query 1").click()
    assert tabs(other) == ["Mine"]


def test_a_closed_tab_comes_back_on_request(opened: Opened) -> None:
    page = opened(query("SELECT 1", run=False))
    write(page, "SELECT 'precious'")
    expect(page.get_by_role("button", name="Reopen")).to_be_hidden()

    page.get_by_role("button", name="Close Query 1").click()
    expect(page.get_by_role("textbox", name="SQL")).not_to_contain_text("precious")
    page.get_by_role("button", name="Reopen").click()

    expect(page.get_by_role("textbox", name="SQL")).to_have_text("SELECT 'precious'")
    expect(page.get_by_role("button", name="Reopen")).to_be_hidden()


def test_tabs_are_walked_renamed_and_closed_by_keys(opened: Opened) -> None:
    page = opened(query("SELECT 1", run=False))
    for _ in range(2):
        page.get_by_role("button", name="New query").click()
    tab(page, "Query 3").focus()

    page.keyboard.press("ArrowLeft")
    expect(tab(page, "Query 2")).to_be_focused()
    page.keyboard.press("F2")
    page.keyboard.insert_text("Zwei <b>&</b>")
    page.keyboard.press("Enter")
    expect(tab(page, "Zwei <b>&</b>")).to_be_focused()
    page.keyboard.press("F2")
    page.keyboard.insert_text("other")
    page.keyboard.press("Escape")
    assert tabs(page) == ["Query 1", "Zwei <b>&</b>", "Query 3"]
    page.keyboard.press("Delete")
    expect(tab(page, "Query 3")).to_be_focused()
    page.keyboard.press("Home")
    expect(tab(page, "Query 1")).to_be_focused()
    page.get_by_role("textbox", name="SQL").click()
    page.keyboard.press("Alt+PageDown")
    expect(tab(page, "Query 3")).to_have_attribute("aria-selected", "true")
    expect(page.get_by_role("textbox", name="SQL")).to_be_focused()


def test_a_link_takes_a_tab_that_nobody_wrote_into(opened: Opened) -> None:
    page = opened(query("SELECT 'a'", run=False))

    page.evaluate("location.hash = '#/query?db=native&sql=SELECT+%27b%27'")
    expect(page.get_by_role("textbox", name="SQL")).to_have_text("SELECT 'b'")
    assert tabs(page) == ["Query 1"]
    write(page, "SELECT 'mine'")
    page.evaluate("location.hash = '#/query?db=native&sql=SELECT+%27c%27'")
    expect(page.get_by_role("textbox", name="SQL")).to_have_text("SELECT 'c'")
    assert tabs(page) == ["Query 1", "Query 2"]
    page.evaluate("location.hash = '#/query?db=native&sql=SELECT+%27mine%27'")
    expect(page.get_by_role("textbox", name="SQL")).to_have_text("SELECT 'mine'")
    assert tabs(page) == ["Query 1", "Query 2"]


def test_a_query_goes_on_in_a_tab_that_is_not_seen(opened: Opened, watch: Watch) -> None:
    watch.expected.add("409")
    page = opened(query("SELECT count(*) FROM range(1000000000000) t(a) WHERE a % 7 = 9"))
    expect(page.get_by_role("button", name="Cancel")).to_be_visible()

    page.get_by_role("button", name="New query").click()
    expect(page.get_by_role("button", name="Cancel")).to_be_hidden()
    expect(page.get_by_role("button", name="Run")).to_be_enabled()
    expect(page.locator(".sheets .running")).to_have_count(1)
    page.get_by_role("tab", name="Query 1").click()
    page.get_by_role("button", name="Cancel").click()

    expect(page.get_by_role("note").filter(has_text="Cancelled")).to_be_visible()
    expect(page.locator(".sheets .running")).to_have_count(0)


def test_a_browser_without_room_says_so(opened: Opened) -> None:
    page = opened(query("SELECT 1", run=False))
    page.evaluate(
        "void (Storage.prototype.setItem = () => { throw new DOMException('full', 'QuotaExceededError') })"
    )

    write(page, "SELECT 'not kept'")

    expect(page.get_by_role("note").filter(has_text="no room for the texts of tabs")).to_be_visible()


def test_parameters_of_a_statement_have_boxes(opened: Opened) -> None:
    page = opened(query("SELECT key, value FROM aggregate WHERE key = :key -- :no", run=False))
    form = page.get_by_role("group", name="Parameters")
    expect(form.get_by_role("textbox")).to_have_count(1)

    form.get_by_role("textbox", name=":key").fill("key_662")
    page.keyboard.press("Enter")

    assert grid_rows(page) == [["key_662", "11290"]]
    write(page, "SELECT ':a', l[1:b], x::INT FROM (SELECT [1] AS l, 1 AS b, 2 AS x)")
    expect(form).to_be_hidden()
    page.keyboard.press("Control+Enter")
    assert grid_rows(page) == [[":a", "⤢[1]", "2"]]
