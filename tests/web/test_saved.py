"""Saved queries on the page, and the page of operators: everybody's queries."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from catalog import Catalog
from catalog.catalog import Root
from service.base.settings import Settings
from service.doors.app import create_app
from service.doors.http.auth.gate import Authenticator
from service.doors.http.auth.keys import KeyFile
from service.tasks.write.serving.targets import write_roots_of
from tests.web.asking import HOSTILE, Watch, grid_rows, query, write
from tests.web.conftest import ROOTS, listening, pages
from tests.web.test_access import serious

pytestmark = pytest.mark.browser

Opened = Callable[..., Page]
FOREVER = "SELECT count(*) FROM native.aggregate, range(1000000000000) t(a) WHERE a % 7 = 9 + value * 0"
FILE = f"""
[queries.count-of]
description = '''The count of one key. {HOSTILE}'''
database = "native"
sql = "SELECT key, value FROM aggregate WHERE key = :key"

[queries.large]
database = "native"
sql = "SELECT key, value FROM aggregate WHERE value >= :least ORDER BY value DESC, key LIMIT 2"
parameters.least = {{ type = "integer", default = 100 }}
"""


class People:
    """A service with saved queries, and the keys of its users."""

    def __init__(self, address: str, keys: dict[str, str], folder: Path) -> None:
        self.address = address
        self.folder = folder
        self.keys = keys

    def headers(self, name: str) -> dict[str, str]:
        return {"authorization": f"Bearer {self.keys[name]}"}


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Iterator[People]:
    folder: Path = tmp_path_factory.mktemp("saved")
    (folder / "queries.toml").write_text(FILE)
    keys = KeyFile(folder / "keys.json")
    secrets = {
        "ada": keys.create("ada", ["saved:*", "operator:*"]),
        "bob": keys.create("bob", ["write:native", "write:out*"]),
    }
    (folder / "out").mkdir()
    roots = [
        *(Root(path=str(ROOTS[name]), label=name) for name in ("native", "words")),
        Root(path=str(folder / "out")),
    ]
    app = create_app(
        Settings.of(workers=1, saved_queries=str(folder / "queries.toml"), save_queries=True),
        Catalog(roots),
        write_roots=write_roots_of(roots, roots[2:]),
        authenticator=Authenticator(keys),
    )
    with listening(app) as address:
        yield People(address, secrets, folder)


@pytest.fixture
def opened(browser: Browser, people: People) -> Iterator[Opened]:
    """Opens the page at a fragment, as a user."""
    watch = Watch(people.address, expected={"400", "401", "409"})
    with pages(browser, people.address, watch) as open_page:

        def as_user(fragment: str, name: str = "ada", **options: object) -> Page:
            page = open_page("", **options)
            page.evaluate(f"sessionStorage.setItem('savepointdb.key', '{people.keys[name]}')")
            page.goto(f"{people.address}/{fragment}")
            page.reload()
            return page

        yield as_user


def test_saved_queries_are_listed_and_run_with_parameters(opened: Opened, people: People) -> None:
    page = opened("query/saved")
    expect(page.get_by_role("row")).to_have_count(3)
    assert serious(page) == []
    assert page.locator("img[src='x']").count() == 0

    page.get_by_role("link", name="count-of").click()
    page.get_by_label(":key").fill("key_662")
    page.get_by_role("button", name="Run").click()

    assert grid_rows(page) == [["key_662", "11290"]]
    page.get_by_role("button", name="Copy CSV link").click()
    link = page.evaluate("navigator.clipboard.readText()")
    assert link == f"{people.address}/saved/count-of.csv?key=key_662"
    assert (
        httpx.get(link, headers=people.headers("bob"), timeout=60).text
        == '"key","value"\r\n"key_662",11290\r\n'
    )
    with page.expect_download() as download:
        page.get_by_role("combobox", name="Export all rows").select_option("csv")
    assert download.value.suggested_filename == "count-of.csv"
    page.get_by_label(":key").fill("' OR true --")
    page.keyboard.press("Enter")
    expect(page.get_by_text("No rows")).to_be_visible()


def test_a_link_to_a_saved_query_runs_it(opened: Opened, people: People) -> None:
    page = opened("saved/large", "bob")

    assert grid_rows(page) == [["key_662", "11290"], ["key_227", "200"]]
    assert serious(page) == []
    page.get_by_label(":least").fill("1000")
    page.keyboard.press("Enter")
    expect(page.locator(".tabulator-row")).to_have_count(1)
    assert page.url == f"{people.address}/saved/large?least=1000"
    page.get_by_role("button", name="Copy link").click()
    link = page.evaluate("navigator.clipboard.readText()")
    assert httpx.get(link, headers=people.headers("bob"), timeout=60).json()["rows"] == [["key_662", 11290]]
    expect(page.get_by_role("button", name="Delete")).to_have_count(0)
    page.get_by_role("link", name="Open in the editor").click()
    expect(page.get_by_role("group", name="Parameters").get_by_label(":least")).to_be_visible()


def test_a_query_is_saved_changed_and_deleted(opened: Opened, people: People) -> None:
    page = opened(query("", run=False))
    write(page, "SELECT value FROM aggregate WHERE key = :key;")
    page.get_by_role("button", name="Save …").click()
    dialog = page.get_by_role("dialog", name="Save this query")
    dialog.get_by_label("Name").fill("mine")
    dialog.get_by_label("Default of key").fill("key_662")
    dialog.get_by_role("button", name="Save").click()

    assert grid_rows(page) == [["11290"]]
    saved = httpx.get(f"{people.address}/api/saved/mine", headers=people.headers("bob"), timeout=60).json()
    assert saved["sql"] == "SELECT value FROM aggregate WHERE key = :key"
    assert saved["parameters"] == [{"name": "key", "type": "text", "default": "key_662"}]
    assert (saved["database"], saved["saved_by"]) == ("native", "ada")

    page.get_by_role("button", name="Change", exact=True).click()
    dialog = page.get_by_role("dialog", name="Change mine")
    dialog.get_by_label("Description").fill("One count.")
    dialog.get_by_label("SQL").fill("SELECT value + :more AS v FROM aggregate WHERE key = :key")
    dialog.get_by_label("Type of more").select_option("integer")
    dialog.get_by_label("Default of more").fill("one")
    dialog.get_by_role("button", name="Save changes").click()
    expect(dialog.get_by_role("alert")).to_contain_text("expected an integer for more")
    dialog.get_by_label("Default of more").fill("10")
    dialog.get_by_role("button", name="Save changes").click()
    expect(dialog).to_have_count(0)
    expect(page.get_by_text("One count.")).to_be_visible()
    assert grid_rows(page) == [["11300"]]

    page.get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="Delete it").click()
    expect(page.get_by_role("link", name="count-of")).to_be_visible()
    expect(page.get_by_role("link", name="mine")).to_have_count(0)


def test_a_name_that_is_taken_is_not_replaced(opened: Opened) -> None:
    page = opened(query("SELECT 1", run=False))
    page.get_by_role("button", name="Save …").click()
    dialog = page.get_by_role("dialog", name="Save this query")

    dialog.get_by_label("Name").fill("large")
    dialog.get_by_role("button", name="Save").click()

    expect(dialog.get_by_role("alert")).to_contain_text("'large' in the file of the service")


def test_operators_see_and_end_queries_of_others(opened: Opened, people: People) -> None:
    page = opened("query/running")
    expect(page.get_by_role("heading", name="Queries of everybody")).to_be_visible()
    told: list[httpx.Response] = []
    asked = threading.Thread(
        target=lambda: told.append(
            httpx.post(
                f"{people.address}/api/query",
                json={"sql": FOREVER},
                headers=people.headers("bob"),
                timeout=60,
            )
        )
    )
    asked.start()
    running = page.get_by_role("region", name="Running and waiting queries")
    expect(running.get_by_role("row", name="bob")).to_contain_text("native")

    running.locator("summary").first.click()
    expect(running.locator("pre").first).to_have_text(FOREVER)
    running.get_by_role("button", name="End the query of bob").click()

    asked.join()
    assert told[0].json()["error"]["code"] == "KILLED"
    ended = page.get_by_role("region", name="Queries that ended")
    row = ended.get_by_role("row", name="bob").filter(has_text="an operator ended the query")
    expect(row).to_contain_text("cancelled")
    page.get_by_role("searchbox", name="Filter the queries").fill("nobody asked this")
    expect(page.get_by_text("Nothing ended lately.")).to_be_visible()


def test_operators_see_and_end_writes_of_others(opened: Opened, people: People) -> None:
    sql = "UPDATE source_offsets SET starting_offset = (SELECT count(*) FROM range(1000000000000) t(a) WHERE a % 7 = 9)"
    body = {"source": "native", "target": str(people.folder / "out" / "new"), "sql": sql}
    write = httpx.post(
        f"{people.address}/api/savepoints", json=body, headers=people.headers("bob"), timeout=60
    ).json()
    page = opened("query/running")
    writes = page.get_by_role("region", name="Writes of everybody")
    expect(writes.get_by_role("row", name="bob")).to_contain_text("native")

    writes.get_by_role("button", name="End the write of bob").click()

    expect(writes.get_by_role("row", name="bob")).to_contain_text("an operator ended the write")
    found = httpx.get(
        f"{people.address}/api/savepoints/{write['id']}", headers=people.headers("bob"), timeout=60
    ).json()
    assert found["error"]["code"] == "KILLED"
    assert serious(page) == []


def test_who_is_no_operator_has_no_such_page(opened: Opened) -> None:
    page = opened("query/saved", "bob")

    expect(page.get_by_role("link", name="count-of")).to_be_visible()
    expect(page.get_by_role("link", name="Running", exact=True)).to_be_hidden()
    page.get_by_role("link", name="Editor", exact=True).click()
    expect(page.get_by_role("button", name="Share")).to_be_visible()
    expect(page.get_by_role("button", name="Save …")).to_be_hidden()
