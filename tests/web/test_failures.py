"""What the page says when something is wrong: with the query, the service, the network."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI
from playwright.sync_api import Browser, Page, Route, expect

from catalog import Catalog
from catalog.catalog import Root
from service.base.settings import Settings
from service.doors.app import create_app
from service.doors.http.auth.gate import Authenticator
from service.doors.http.auth.keys import KeyFile
from tests.support.damaged import write_in_files
from tests.support.paths import DATA
from tests.web.asking import Watch, grid_rows, query, tree_item, write
from tests.web.conftest import ROOTS, listening

pytestmark = pytest.mark.browser

Opened = Callable[..., Page]
WORDCOUNT = DATA / "flink" / "2.3.0" / "wordcount-hashmap-savepoints" / "canonical"
RESULT = "**/api/queries/*/result"


@pytest.fixture
def one() -> FastAPI:
    """A service of its own."""
    return create_app(Settings.of(max_rows_limit=50), Catalog([Root(path=str(ROOTS["native"]))]))


@pytest.mark.parametrize(
    ("sql", "status", "code", "hint"),
    [
        ("SELEC 1", "400", "SYNTAX_ERROR", None),
        ("SELECT * FROM agregate", "404", "TABLE_NOT_FOUND", 'did you mean "aggregate"'),
        ("SELECT 1; SELECT 2", "403", "FORBIDDEN", None),
        ("CREATE TABLE t(a INT)", "403", "FORBIDDEN", None),
        ("SELECT CAST('a' AS INTEGER)", "400", "INVALID_VALUE", None),
    ],
)
def test_a_query_that_is_refused_says_why(
    opened: Opened, watch: Watch, sql: str, status: str, code: str, hint: str | None
) -> None:
    watch.expected |= {status, "400", "403"}
    page = opened(query(sql))

    expect(page.get_by_role("alert")).to_contain_text(code)
    if hint:
        expect(page.get_by_role("alert")).to_contain_text(hint)
    expect(page.get_by_role("button", name="Run")).to_be_enabled()


def test_a_service_that_is_gone_is_told_and_tried_again(browser: Browser, one: FastAPI) -> None:
    with listening(one) as address:
        page = browser.new_page()
        page.goto(f"{address}/{query('SELECT 1 AS n', run=False)}")
        expect(tree_item(page, "aggregate")).to_be_visible()

    page.get_by_role("button", name="Run").click()
    expect(page.get_by_role("alert")).to_contain_text("The service does not answer.")
    page.get_by_role("button", name="History").click()
    expect(page.get_by_role("dialog", name="History")).to_contain_text("The service does not answer.")
    page.keyboard.press("Escape")
    page.evaluate("location.hash = '#/timers'")
    expect(page.get_by_role("alert")).to_contain_text("The service does not answer.")
    page.close()


def test_an_answer_that_breaks_off_is_an_error(opened: Opened, watch: Watch) -> None:
    watch.expected.add("ERR_FAILED")
    page = opened(query("SELECT 1", run=False))
    page.route(RESULT, lambda route: route.abort())

    page.get_by_role("button", name="Run").click()

    expect(page.get_by_role("alert")).to_contain_text("The service does not answer.")


def test_an_answer_that_is_not_ours_is_an_error(opened: Opened, watch: Watch) -> None:
    watch.expected.add("502")
    page = opened(query("SELECT 1", run=False))
    page.route("**/api/queries", lambda route: route.fulfill(status=502, body="<h1>Bad Gateway</h1>"))

    page.get_by_role("button", name="Run").click()

    expect(page.get_by_role("alert")).to_contain_text("The service answered 502.")


def test_too_many_queries_are_told_with_the_hint(opened: Opened, watch: Watch) -> None:
    watch.expected.add("429")
    page = opened(query("SELECT 1", run=False))
    error = {"code": "TOO_MANY_QUERIES", "message": "500 queries wait", "hint": "try again in 5 s"}
    page.route("**/api/queries", lambda route: route.fulfill(status=429, json={"error": error}))

    page.get_by_role("button", name="Run").click()

    expect(page.get_by_role("alert")).to_contain_text("500 queries wait")
    expect(page.get_by_role("alert")).to_contain_text("try again in 5 s")


def test_a_slow_start_can_be_cancelled(opened: Opened) -> None:
    page = opened(query("SELECT 1", run=False))
    held: list[Route] = []
    page.route("**/api/queries", lambda route: held.append(route))

    page.get_by_role("button", name="Run").click()
    expect(page.locator(".told")).to_have_text("starting")
    expect(page.locator(".clock")).not_to_have_text("")
    page.get_by_role("button", name="Cancel").click()

    expect(page.get_by_role("note")).to_have_text("Cancelled")
    assert len(held) == 1


def test_a_service_that_compiles_says_so(opened: Opened, watch: Watch) -> None:
    page = opened(query("SELECT 1 AS n", run=False))
    expect(page.get_by_label("Database")).to_be_visible()
    held: list[Route] = []
    page.route("**/api/queries", lambda route: held.append(route))
    page.route("**/readyz", lambda route: route.fulfill(status=503, json={"status": "compiling"}))

    page.get_by_role("button", name="Run").click()

    expect(page.locator("#readiness")).to_contain_text("The service compiles its decoder for this processor")
    page.unroute("**/readyz")
    held[0].continue_()
    assert grid_rows(page) == [["1"]]
    expect(page.locator("#readiness")).to_have_count(0)


def test_an_export_that_fails_says_why(opened: Opened, watch: Watch) -> None:
    watch.expected.add("400")
    page = opened(query("SELECT nope FROM aggregate", run=False))
    expect(page.get_by_label("Database")).to_be_visible()

    page.get_by_label("Export all rows").select_option("CSV")

    expect(page.get_by_role("alert")).to_contain_text("there is no column 'nope'")
    expect(page.locator(".cm-lintRange-error")).to_have_text("nope")


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a service over a savepoint of which a file with half of the aggregates is missing."""
    savepoint = write_in_files(WORDCOUNT, tmp_path_factory.mktemp("files") / "damaged")
    next(savepoint.glob("aggregate-0*")).unlink()
    with listening(create_app(Settings(), Catalog([Root(path=str(savepoint))]))) as address:
        yield address


def test_a_query_of_a_missing_file_is_answered_without_it_on_request(
    opened: Opened, watch: Watch, damaged: str
) -> None:
    watch.address = damaged
    watch.expected.add("410")
    page = opened(query("SELECT count(*) AS n FROM aggregate", "damaged"), at=damaged)
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("MISSING_FILE")

    page.get_by_role("button", name="Answer without what cannot be read").click()

    assert grid_rows(page) == [["491"]]
    expect(alert).to_contain_text("This answer is incomplete")
    expect(alert).to_contain_text("Rows are missing in damaged.aggregate.")
    page.get_by_label("Export all rows").select_option("CSV")
    expect(alert).to_contain_text("MISSING_FILE")
    with page.expect_download() as download:
        page.get_by_role("button", name="Answer without what cannot be read").click()
    assert Path(download.value.path()).read_text() == '"n"\n491\n'
    expect(page.get_by_role("note")).to_have_text("The file lacks the rows of what cannot be read.")

    page.get_by_role("button", name="History").click()
    expect(page.locator(".history li").filter(has_text="◐ incomplete").first).to_contain_text("damaged")


def test_the_views_say_what_they_lack(opened: Opened, watch: Watch, damaged: str) -> None:
    watch.address = damaged
    watch.expected.add("410")
    page = opened("db/damaged", at=damaged)
    expect(page.get_by_text("Not all of this savepoint can be read")).to_be_visible()
    page.get_by_role("link", name="X-ray").click()

    page.get_by_role("button", name="Answer without what cannot be read").click()

    rows = page.get_by_role("region", name="States of the operator").locator("tbody tr")
    expect(rows).to_have_count(1)
    assert rows.locator("td").all_inner_texts()[:2] == ["count", "491"]
    expect(page.get_by_text("This answer is incomplete")).to_be_visible()

    page.goto(f"{damaged}/db/damaged#keys?key=key_662")
    expect(page.get_by_role("alert")).to_contain_text("Not everything could be read")
    expect(page.get_by_text("What could be read has no state for this key.")).to_be_visible()
    page.get_by_role("button", name="Answer without what cannot be read").click()
    expect(page.get_by_role("alert")).to_contain_text("Rows are missing in damaged.aggregate__count.")
    expect(page.get_by_text("What could be read has no state for this key.")).to_be_visible()


@pytest.fixture
def keyed(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """The address of a service that wants a key, and a key that sees `native` alone."""
    keys = KeyFile(tmp_path / "keys.json")
    secret = keys.create("analyst", ["native"])
    catalog = Catalog([Root(path=str(ROOTS[name]), label=name) for name in ("words", "native")])
    with listening(create_app(Settings(), catalog, authenticator=Authenticator(keys))) as address:
        yield address, secret


def test_a_service_that_wants_a_key_is_given_one(
    opened: Opened, watch: Watch, keyed: tuple[str, str]
) -> None:
    address, secret = keyed
    watch.address = address
    watch.expected.add("401")
    page = opened(query("SELECT 1 AS n", run=False), at=address)
    dialog = page.get_by_role("dialog", name="This service requires a key")
    expect(dialog).to_have_count(1)

    dialog.get_by_label("API key or token").fill("wrong")
    page.keyboard.press("Enter")
    expect(dialog).to_contain_text("That key was not accepted.")
    dialog.get_by_label("API key or token").fill(secret)
    page.keyboard.press("Enter")

    expect(tree_item(page, "aggregate")).to_be_visible()
    page.get_by_role("button", name="Run").click()
    assert grid_rows(page) == [["1"]]
    page.reload()
    expect(tree_item(page, "aggregate")).to_be_visible()
    assert page.locator('.tree [aria-level="2"] > .row > .label').all_inner_texts() == ["native"]
    assert secret in page.evaluate("Object.values(sessionStorage)")
    # Texts of tabs outlive the page, the key does not.
    assert secret not in "".join(page.evaluate("Object.values(localStorage)"))


def test_a_page_asks_for_a_key_and_shows_what_its_reader_may_see(
    opened: Opened, watch: Watch, keyed: tuple[str, str]
) -> None:
    address, secret = keyed
    watch.address = address
    watch.expected |= {"401", "404"}
    page = opened("db/native/aggregate?where=key = 'key_662'", at=address)
    page.get_by_label("API key or token").fill(secret)
    page.keyboard.press("Enter")
    expect(page.locator(".tabulator-cell a")).to_have_text("key_662")

    with page.expect_download() as download:
        page.get_by_role("link", name="CSV").click()
    assert download.value.path().read_text(encoding="utf-8").count("key_662") == 1
    told = []
    for hidden in ("words", "nobody"):
        page.goto(f"{address}/db/{hidden}/aggregate")
        expect(page.get_by_role("alert")).to_contain_text("DATABASE_NOT_FOUND")
        told.append(page.get_by_role("alert").inner_text().replace(hidden, "it"))
    assert told[0] == told[1]


def test_without_a_key_the_refusal_is_shown(opened: Opened, watch: Watch, keyed: tuple[str, str]) -> None:
    address, _ = keyed
    watch.address = address
    watch.expected.add("401")
    page = opened("db/native#offsets", at=address)

    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()

    expect(page.get_by_role("alert")).to_contain_text("UNAUTHORIZED")


def test_a_link_to_a_savepoint_that_is_gone_runs_over_no_other(opened: Opened, watch: Watch) -> None:
    watch.expected.add("404")
    page = opened(query("SELECT count(*) FROM aggregate", "chk-99"))

    expect(page.get_by_role("alert")).to_contain_text("there is no database 'chk-99'")


def test_an_error_goes_when_the_next_query_runs(opened: Opened, watch: Watch) -> None:
    watch.expected.add("400")
    page = opened(query("SELECT nope FROM aggregate"))
    expect(page.get_by_role("alert")).to_be_visible()

    write(page, "SELECT 7 AS n")
    page.keyboard.press("Control+Enter")

    assert grid_rows(page) == [["7"]]
    expect(page.get_by_role("alert")).to_have_count(0)


def test_the_page_could_ask_nobody_but_its_own_service(opened: Opened, watch: Watch) -> None:
    watch.expected |= {"Content Security Policy", "Fetch API"}
    page = opened("#/query")
    expect(tree_item(page, "latest")).to_be_visible()

    outcome = page.evaluate("fetch('https://example.com/').then(() => 'asked', () => 'refused')")

    assert outcome == "refused"
