"""The query view: the tree, the editor, what a query gives."""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from collections.abc import Callable
from urllib.parse import urlencode

import httpx
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.ipc as ipc
import pyarrow.json as pj
import pyarrow.parquet as pq
import pytest
from playwright.sync_api import Page, expect

from tests.support.waiting import wait_until
from tests.web.asking import HOSTILE, Watch, facts, grid_rows, header, query, tree_item, write
from tests.web.conftest import ROOTS

pytestmark = pytest.mark.browser

Opened = Callable[..., Page]
FOREVER = "SELECT count(*) FROM range(1000000000000) t(a) WHERE a % 7 = 9"


def hostile_folder(service: str) -> str:
    """The folder of the savepoint whose operator is named like markup."""
    listed = httpx.get(f"{service}/api/databases", timeout=60).json()["databases"]
    return str(next(one["path"].split("/")[-2] for one in listed if one["path"].endswith("/hostile")))


def test_the_query_view_shows_the_savepoints_of_all_jobs(opened: Opened, service: str) -> None:
    page = opened("#/query")

    expect(tree_item(page, "unreadable")).to_be_visible()
    listed = page.locator(".tree > li > .row > .label").all_inner_texts()
    assert listed[0] == "latest"
    # Jobs in folders of one name have their own.
    alike = Counter(path.parent.name for path in ROOTS.values())
    names = [path.parent.name if alike[path.parent.name] == 1 else label for label, path in ROOTS.items()]
    assert sorted(listed[1:]) == sorted([*names, "unreadable", hostile_folder(service)])
    assert page.title() == "Query · savepointdb"


def test_an_unreadable_savepoint_is_listed_with_the_reason(opened: Opened) -> None:
    page = opened("#/query")
    tree_item(page, "unreadable").click()

    row = tree_item(page, "chk-7")
    expect(row.locator(".warning")).to_have_text("unreadable")
    assert "expected a _metadata file" in (row.get_attribute("title") or "")
    expect(page.get_by_label("Database").locator("option", has_text="chk-7 (unreadable)")).to_be_disabled()


def test_the_tree_loads_a_branch_when_it_is_opened(opened: Opened) -> None:
    page = opened(query("SELECT 1", "chk-1", run=False))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    expect(tree_item(page, "aggregate")).to_be_visible()
    assert not any("native" in url for url in asked)

    tree_item(page, "native").first.click()
    tree_item(page, "native").last.click()

    expect(tree_item(page, "aggregate")).to_have_count(2)
    assert any("api/databases/native/tables" in url for url in asked)


def test_a_state_of_the_tree_says_its_type_and_opens_a_query(opened: Opened) -> None:
    page = opened(query("SELECT 1", run=False))
    tree_item(page, "aggregate").click()
    state = tree_item(page, "count")
    expect(state.locator(".detail")).to_contain_text("VALUE · Long · ")

    state.click()

    expect(page.locator(".facts")).to_contain_text("100")
    expect(page.get_by_role("textbox", name="SQL")).to_contain_text('FROM "native"."aggregate__count"')
    assert grid_rows(page)[0][0].startswith("key_")


def test_a_column_of_the_tree_is_inserted(opened: Opened) -> None:
    page = opened(query("", run=False))
    tree_item(page, "aggregate").click()
    tree_item(page, "count").locator(".twisty").click()
    expect(tree_item(page, "value").locator(".detail")).to_have_text("BIGINT")
    write(page, "SELECT ")

    tree_item(page, "value").click()

    expect(page.get_by_role("textbox", name="SQL")).to_have_text("SELECT value")


def test_the_filter_of_the_tree_keeps_what_leads_to_a_match(opened: Opened) -> None:
    page = opened(query("SELECT 1", run=False))
    tree_item(page, "aggregate").click()
    expect(tree_item(page, "count")).to_be_visible()

    page.get_by_role("searchbox", name="Filter the tree").fill("VALUE · Long")

    expect(tree_item(page, "native").last).to_be_visible()
    expect(tree_item(page, "aggregate")).to_be_visible()
    expect(tree_item(page, "count")).to_be_visible()
    expect(tree_item(page, "chk-1").first).to_be_hidden()
    expect(tree_item(page, "mod7-no-uid")).to_be_hidden()


def test_control_enter_runs_and_says_where_the_answer_comes_from(opened: Opened) -> None:
    page = opened(query("", run=False))
    write(page, "SELECT key, value FROM aggregate WHERE key = 'key_662'")

    page.keyboard.press("Control+Enter")

    assert grid_rows(page) == [["key_662", "11290"]]
    told = facts(page)
    assert told["Rows"] == "1"
    assert told["From"] == "native (checkpoint 2)"
    assert told["Engine"] == "scan"
    page.locator(".facts summary").click()
    assert re.fullmatch(r"scan\s+\S.*", facts(page)["Engine"], re.DOTALL)
    assert re.fullmatch(r"[\d.]+ (ms|s)", told["Time"])
    assert re.fullmatch(r"\d+ B", told["Read"])


def test_a_selection_runs_alone(opened: Opened) -> None:
    page = opened(query("", run=False))
    write(page, "SELECT 'first' AS one;\nSELECT 'second' AS two")
    page.keyboard.press("Control+End")
    page.keyboard.press("Shift+Home")

    page.get_by_role("button", name="Run").click()

    assert grid_rows(page) == [["second"]]


def test_null_is_seen_and_differs_from_its_name(opened: Opened) -> None:
    page = opened(query("SELECT * FROM (VALUES (1, NULL), (2, 'NULL'), (3, '')) t(n, text)"))

    assert grid_rows(page) == [["1", "NULL"], ["2", "NULL"], ["3", ""]]
    expect(page.locator(".tabulator-row .null")).to_have_count(1)


def test_a_nested_value_opens(opened: Opened) -> None:
    page = opened(query("SELECT {'name': 'a', 'list': [1, 2]} AS pair"))
    expect(page.locator(".nested")).to_contain_text('{"name":"a","list":[1,2]}')

    page.locator(".expand").click()

    dialog = page.get_by_role("dialog", name="pair")
    assert json.loads(dialog.locator("pre").inner_text()) == {"name": "a", "list": [1, 2]}
    dialog.get_by_role("button", name="Copy").click()
    assert json.loads(page.evaluate("navigator.clipboard.readText()")) == {"name": "a", "list": [1, 2]}
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)


def test_long_integers_stay_exact(opened: Opened) -> None:
    page = opened(
        query("SELECT 9007199254740993 AS a, -9223372036854775808 AS b, {'c': 9223372036854775807} AS n")
    )

    assert grid_rows(page) == [
        ["9007199254740993", "-9223372036854775808", '⤢{"c":9223372036854775807}'],
    ]


def test_sorting_compares_numbers_and_puts_null_last(opened: Opened) -> None:
    sql = "SELECT * FROM (VALUES (10), (9), (NULL), (9007199254740993), (-1)) t(n)"
    page = opened(query(sql))
    expect(page.locator(".tabulator-row")).to_have_count(5)

    header(page, "n").click()
    assert grid_rows(page) == [["-1"], ["9"], ["10"], ["9007199254740993"], ["NULL"]]
    header(page, "n").click()
    assert grid_rows(page) == [["9007199254740993"], ["10"], ["9"], ["-1"], ["NULL"]]


def test_rows_are_filtered_by_their_text(opened: Opened) -> None:
    page = opened(query("SELECT key, value FROM aggregate"))
    expect(page.locator(".tabulator-row").first).to_be_visible()

    page.get_by_role("searchbox", name="Filter the rows").fill("KEY_662")

    expect(page.locator(".grid-tools .note")).to_have_text("1 of 1000")
    assert grid_rows(page) == [["key_662", "11290"]]


def test_cells_and_whole_answers_are_copied(opened: Opened) -> None:
    page = opened(query("SELECT * FROM (VALUES ('a', [1]), ('b', NULL)) t(letter, list)"))
    first = page.locator(".tabulator-cell", has_text="a").first
    first.click()
    page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("Shift+ArrowDown")
    page.keyboard.press("Control+c")
    assert page.evaluate("navigator.clipboard.readText()").splitlines() == ["a\t[1]", "b\t"]

    page.get_by_role("button", name="Copy all").click()
    assert page.evaluate("navigator.clipboard.readText()").splitlines() == ["letter\tlist", "a\t[1]", "b\t"]


def test_a_chart_is_drawn_of_chosen_columns(opened: Opened) -> None:
    sql = "SELECT state_kind, count(*) AS states, max(size_bytes) AS largest FROM StateMeta GROUP BY 1"
    page = opened(query(sql, "states"))

    page.get_by_role("tab", name="Chart").click()
    expect(page.get_by_role("img", name="bar chart of states by state_kind")).to_be_visible()
    drawn = (
        "canvas => canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.some(Boolean)"
    )
    assert page.locator(".chart canvas").evaluate(drawn)
    page.get_by_role("combobox", name="Y").select_option("largest")
    for kind in ("line", "scatter", "pie"):
        page.get_by_role("combobox", name="Chart").select_option(kind)
        expect(page.get_by_role("img", name=f"{kind} chart of largest by state_kind")).to_be_visible()


def test_rows_without_numbers_have_no_chart(opened: Opened) -> None:
    page = opened(query("SELECT 'a' AS letter"))

    page.get_by_role("tab", name="Chart").click()

    expect(page.get_by_text("A chart needs rows with a column of numbers")).to_be_visible()


def test_an_error_is_marked_where_it_is(opened: Opened, watch: Watch) -> None:
    watch.expected.add("400")
    page = opened(query("SELECT '😀',\n  nope\nFROM aggregate"))

    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("there is no column 'nope'")
    expect(alert).to_contain_text("COLUMN_NOT_FOUND")
    expect(alert.get_by_role("button", name="line 2, column 3")).to_be_visible()
    expect(page.locator(".cm-lintRange-error")).to_have_text("nope")

    write(page, "SELECT 1")
    expect(page.locator(".cm-lintRange-error")).to_have_count(0)


def test_an_error_of_a_selection_is_marked_in_the_whole_text(opened: Opened, watch: Watch) -> None:
    watch.expected.add("400")
    page = opened(query("", run=False))
    write(page, "SELECT 1;\n  SELECT '😀', wrong FROM aggregate")
    page.keyboard.press("Control+End")
    for _ in "SELECT '😀', wrong FROM aggregate":
        page.keyboard.press("Shift+ArrowLeft")

    page.keyboard.press("Control+Enter")

    expect(page.locator(".cm-lintRange-error")).to_have_text("wrong")


def test_explain_shows_the_plan_and_marks_errors_too(opened: Opened, watch: Watch) -> None:
    watch.expected.add("400")
    page = opened(query("SELECT key FROM aggregate WHERE key = 'key_662';", run=False))

    page.get_by_role("button", name="Explain").click()
    expect(page.locator(".plan")).to_contain_text("key_662")
    expect(page.locator(".plan")).to_contain_text("Projection")

    write(page, "SELECT nope FROM aggregate")
    page.keyboard.press("Control+Shift+Enter")
    expect(page.get_by_role("button", name="line 1, column 8")).to_be_visible()
    expect(page.locator(".cm-lintRange-error")).to_have_text("nope")


def test_a_long_query_shows_progress_and_is_cancelled(opened: Opened, watch: Watch, service: str) -> None:
    watch.expected.add("409")
    page = opened(query(FOREVER))
    expect(page.get_by_role("progressbar", name="Progress of the query")).to_be_visible()
    expect(page.locator(".told")).to_contain_text("running")
    expect(page.get_by_role("button", name="Run")).to_be_disabled()

    page.get_by_role("button", name="Cancel").click()

    expect(page.get_by_role("note")).to_have_text("Cancelled")
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(page.get_by_role("button", name="Run")).to_be_enabled()
    wait_until(lambda: states_of(service, FOREVER)[0] == "cancelled")


def test_leaving_the_view_ends_the_query(opened: Opened, watch: Watch, service: str) -> None:
    watch.expected.add("409")
    sql = FOREVER + " AND a > 1"
    page = opened(query(sql))
    expect(page.locator(".told")).to_contain_text("running")

    page.get_by_role("link", name="Jobs", exact=True).click()

    wait_until(lambda: states_of(service, sql) == ["cancelled"])


def states_of(service: str, sql: str) -> list[str]:
    """The states of the queries with this text, the latest first."""
    listed = httpx.get(f"{service}/api/queries", timeout=60).json()["queries"]
    return [one["state"] for one in listed if one["sql"] == sql]


def test_a_shared_link_shows_the_same(opened: Opened) -> None:
    sql = "SELECT key, value\nFROM aggregate -- ä & # % +\nWHERE key = 'key_662'"
    page = opened(query("", run=False))
    write(page, sql)

    page.get_by_role("button", name="Share").click()
    expect(page.get_by_role("button", name="✓ Copied")).to_be_visible()
    link = page.evaluate("navigator.clipboard.readText()")

    other = opened("query#" + link.partition("#")[2])
    assert grid_rows(other) == [["key_662", "11290"]]
    expect(other.get_by_label("Database")).to_have_value("native")
    assert other.get_by_role("textbox", name="SQL").locator(".cm-line").all_inner_texts() == sql.split("\n")


def test_a_shared_link_shows_the_same_chart(opened: Opened) -> None:
    sql = "SELECT state_kind, count(*) AS states, max(size_bytes) AS largest FROM StateMeta GROUP BY 1"
    page = opened(query(sql, "states"))
    page.get_by_role("tab", name="Chart").click()
    page.get_by_role("combobox", name="Y").select_option("largest")
    page.get_by_role("combobox", name="Chart").select_option("pie")
    expect(page.get_by_role("img", name="pie chart of largest by state_kind")).to_be_visible()

    page.get_by_role("button", name="Share").click()
    expect(page.get_by_role("button", name="✓ Copied")).to_be_visible()
    link = page.evaluate("navigator.clipboard.readText()")

    other = opened("query#" + link.partition("#")[2])
    expect(other.get_by_role("img", name="pie chart of largest by state_kind")).to_be_visible()


def test_a_link_without_run_only_shows_the_query(opened: Opened, service: str) -> None:
    sql = "SELECT 'shown, not run'"
    page = opened(query(sql, run=False))

    expect(page.get_by_role("textbox", name="SQL")).to_have_text(sql)
    expect(tree_item(page, "aggregate").first).to_be_visible()
    asked = [one["sql"] for one in httpx.get(f"{service}/api/queries", timeout=60).json()["queries"]]
    assert sql not in asked


def test_history_has_what_people_asked_and_brings_it_back_with_its_database(
    opened: Opened, watch: Watch
) -> None:
    watch.expected.add("404")
    page = opened(query("SELECT 'for the history' AS text", "words"))
    assert grid_rows(page) == [["for the history"]]
    write(page, "SELECT * FROM misremembered")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("alert")).to_be_visible()
    page.get_by_label("Database").select_option("native")

    page.get_by_role("button", name="History").click()
    entries = page.locator(".history li")
    expect(entries.first).to_contain_text("there is no table 'misremembered' in database 'words'")
    expect(entries.first.locator(".mark")).to_have_text("✗ failed")
    assert not any("/* page */" in text for text in entries.all_inner_texts())
    page.get_by_role("searchbox", name="Search the history").fill("History words")
    expect(entries).to_have_count(1)
    expect(entries).to_contain_text("1 row")
    expect(entries.locator(".mark")).to_have_count(0)
    entries.get_by_role("button").click()

    expect(page.get_by_role("textbox", name="SQL")).to_have_text("SELECT 'for the history' AS text")
    expect(page.get_by_label("Database")).to_have_value("words")


READERS = {
    "CSV": lambda content: csv.read_csv(io.BytesIO(content)),
    "JSON lines": lambda content: pj.read_json(io.BytesIO(content)),
    "Parquet": lambda content: pq.read_table(io.BytesIO(content)),
    "Arrow": lambda content: ipc.open_stream(content).read_all(),
}


@pytest.mark.parametrize("name", READERS)
def test_exports_have_all_rows(opened: Opened, name: str) -> None:
    page = opened(query("SELECT range AS n FROM range(12345)", run=False))
    expect(page.get_by_label("Database")).to_be_visible()

    with page.expect_download() as download:
        page.get_by_label("Export all rows").select_option(name)

    table = READERS[name](download.value.path().read_bytes())
    assert table.column("n").cast(pa.int64()).to_pylist() == list(range(12345))


def test_an_answer_that_was_cut_says_so(opened: Opened) -> None:
    page = opened(query("SELECT range AS n FROM range(12345)"))

    expect(page.get_by_role("note")).to_contain_text("first 10,000 rows")
    assert facts(page)["Rows"] == "10,000+"


def test_columns_of_the_tables_named_are_completed_before_keywords(opened: Opened) -> None:
    page = opened(query("SELECT 1", run=False))
    expect(tree_item(page, "aggregate").first).to_be_visible()
    write(page, " FROM aggregate")
    page.keyboard.press("Control+Home")
    page.keyboard.type("SELECT va", delay=30)

    options = page.locator(".cm-tooltip-autocomplete li")
    expect(options.first).to_contain_text("value")
    page.wait_for_timeout(150)  # one that has just appeared is not taken by a key meant for something else
    page.keyboard.press("Enter")
    expect(page.get_by_role("textbox", name="SQL")).to_have_text("SELECT value FROM aggregate")


def test_tab_leaves_the_editor_and_closes_the_completion(opened: Opened) -> None:
    page = opened(query("SELECT 1", run=False))
    expect(tree_item(page, "aggregate").first).to_be_visible()
    write(page, "")
    page.keyboard.type("SELECT * FROM agg", delay=30)
    expect(page.locator(".cm-tooltip-autocomplete")).to_be_visible()

    page.keyboard.press("Tab")

    expect(page.locator(".cm-tooltip-autocomplete")).to_have_count(0)
    expect(page.get_by_role("textbox", name="SQL")).not_to_be_focused()


def test_tables_are_completed_and_quoted(opened: Opened) -> None:
    page = opened(query("SELECT 1", run=False))
    expect(tree_item(page, "aggregate").first).to_be_visible()
    write(page, "")
    page.keyboard.type("SELECT * FROM mod", delay=30)

    expect(page.locator(".cm-tooltip-autocomplete li", has_text="mod7-no-uid__seen")).to_be_visible()
    page.wait_for_timeout(150)
    page.keyboard.press("Enter")
    expect(page.get_by_role("textbox", name="SQL")).to_contain_text('FROM "mod7-no-uid')


def test_markup_in_values_and_names_stays_text(opened: Opened, watch: Watch, service: str) -> None:
    watch.expected.add("400")
    text = HOSTILE.replace("'", "''")
    name = HOSTILE.replace('"', '""')
    page = opened(query(f"SELECT '{text}' AS \"{name}\", ['{text}'] AS list, 1 AS n"))
    assert grid_rows(page)[0][0] == HOSTILE
    expect(header(page, HOSTILE)).to_be_visible()
    page.locator(".expand").first.click()
    page.keyboard.press("Escape")
    page.get_by_role("tab", name="Chart").click()
    expect(page.locator(".chart canvas")).to_be_visible()
    page.locator(".chart canvas").hover()

    tree_item(page, hostile_folder(service)).click()
    tree_item(page, "hostile").click()
    expect(page.locator('[aria-level="3"] .label', has_text=HOSTILE)).to_be_visible()
    page.goto(page.url.partition("#")[0] + "#/overview?" + urlencode({"db": "hostile"}))
    expect(page.get_by_role("link", name=HOSTILE)).to_be_visible()
    page.goto(f"{service}/" + query(f'SELECT "{name}"', "hostile"))
    expect(page.get_by_role("alert")).to_be_visible()

    assert page.locator("img:not([src='static/icon.svg'])").count() == 0
    assert "broken" not in page.title()


def test_rows_that_appear_do_not_take_the_focus(opened: Opened) -> None:
    page = opened(query("SELECT key, value FROM aggregate", run=False))
    page.get_by_role("textbox", name="SQL").click()

    page.keyboard.press("Control+Enter")
    expect(page.locator(".tabulator-row").first).to_be_visible()
    expect(page.get_by_role("textbox", name="SQL")).to_be_focused()

    page.get_by_role("searchbox", name="Filter the rows").click()
    page.keyboard.type("key_662", delay=50)
    expect(page.locator(".grid-tools .note")).to_have_text("1 of 1000")
    expect(page.get_by_role("searchbox", name="Filter the rows")).to_have_value("key_662")
