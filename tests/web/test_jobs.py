"""Jobs and their checkpoints on the page: which is newest, what is chosen and compared, what one broken checkpoint hides."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlencode

import httpx
import pytest
from playwright.sync_api import Page, Route, expect

from catalog import Catalog
from catalog.catalog import Root
from service.base.settings import Settings
from service.doors.app import create_app
from tests.web.asking import Watch, grid_rows, tree_item
from tests.web.conftest import ROOTS, listening
from tests.web.test_views import table

pytestmark = pytest.mark.browser

Opened = Callable[..., Page]
NEWEST = 1_700_000_000
_ID_AT = 8  # `_metadata` begins with a magic number and its version, 4 bytes each


def checkpoint(folder: Path, number: int, written: int) -> None:
    """A savepoint of Flink's with the id of a checkpoint, written at a time."""
    target = folder / f"chk-{number}"
    shutil.copytree(ROOTS["native"], target)
    numbered(target, number)
    os.utime(target / "_metadata", (written, written))


def numbered(savepoint: Path, number: int) -> None:
    """Give a savepoint the id of a checkpoint."""
    metadata = savepoint / "_metadata"
    content = bytearray(metadata.read_bytes())
    content[_ID_AT : _ID_AT + 8] = number.to_bytes(8, "big")
    metadata.write_bytes(content)


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a service over three jobs: the newest one, an older one, and one with files that are missing."""
    root = tmp_path_factory.mktemp("root")
    for number in range(3, 13):
        checkpoint(root / "orders", number, NEWEST + number)
    (root / "orders" / "chk-20").mkdir()
    (root / "orders" / "chk-20" / "_metadata").write_bytes(b"cut")
    os.utime(root / "orders" / "chk-20" / "_metadata", (NEWEST, NEWEST))
    checkpoint(root / "billing", 7, NEWEST - 100)
    checkpoint(root / "billing", 30, NEWEST - 50)
    shutil.copytree(ROOTS["chk-1"].parent, root / "clicks")
    for number in (1, 2):
        os.utime(root / "clicks" / f"chk-{number}" / "_metadata", (NEWEST - 1000 + number,) * 2)
    shutil.rmtree(root / "clicks" / "shared")
    catalog = Catalog([Root(path=str(root))])
    with listening(create_app(Settings(), catalog)) as address:
        yield address


@pytest.fixture
def visit(opened: Opened, watch: Watch, jobs: str) -> Opened:
    """Opens the page of that service."""
    watch.address = jobs
    return lambda fragment="", **options: opened(fragment, at=jobs, **options)


def name_of(jobs: str, folder: str) -> str:
    """The name of the database in a folder."""
    listed = httpx.get(f"{jobs}/api/databases", timeout=60).json()["databases"]
    [name] = [one["name"] for one in listed if one["path"].endswith(f"/{folder}") and one["alias_of"] is None]
    return str(name)


def labels(page: Page, level: int) -> list[str]:
    """The labels of a level of the tree, from above."""
    return page.locator(f'.tree [aria-level="{level}"] > .row > .label').all_inner_texts()


def chosen(page: Page) -> str:
    """What is chosen as the database."""
    value: str = page.get_by_label("Database").input_value()
    return value


def columns(page: Page, caption: str) -> list[str]:
    """The head of a table."""
    region = page.get_by_role("region", name=caption)
    expect(region).to_be_visible()
    expect(page.get_by_role("progressbar")).to_have_count(0)
    return region.locator("thead th").all_inner_texts()


def test_the_first_screen_is_the_jobs_and_leads_to_the_newest_of_one(visit: Opened, jobs: str) -> None:
    page = visit()
    expect(page.get_by_role("heading", name="Jobs", exact=True)).to_be_visible()
    assert page.title() == "Jobs · savepointdb"

    page.get_by_role("list", name="Jobs").get_by_role("link", name="chk-12").click()

    expect(page.locator(".cards")).to_contain_text("12")
    assert chosen(page) == name_of(jobs, "orders/chk-12")
    assert page.title() == f"Overview · {name_of(jobs, 'orders/chk-12')} · savepointdb"
    questions = page.get_by_role("region", name="Questions to begin with").get_by_role("link")
    expect(questions).to_have_count(3)


def test_an_example_question_runs(visit: Opened, jobs: str) -> None:
    page = visit("#/overview")
    questions = page.get_by_role("region", name="Questions to begin with").get_by_role("link")

    questions.filter(has_text="entries").click()

    assert sorted(grid_rows(page)) == [["count", "1000"]]
    assert chosen(page) == name_of(jobs, "orders/chk-12")


def test_the_tree_has_a_folder_a_job_and_the_newest_first(visit: Opened) -> None:
    page = visit("#/query")

    expect(tree_item(page, "chk-12")).to_be_visible()
    assert labels(page, 1) == ["latest", "orders", "billing", "clicks"]
    assert labels(page, 2)[:4] == ["history", "chk-20", "chk-12", "chk-11"]
    assert labels(page, 2)[11] == "chk-3"
    tree_item(page, "billing").click()
    expect(tree_item(page, "chk-30")).to_be_visible()
    assert labels(page, 2)[12:15] == ["history", "chk-30", "chk-7"]
    expect(tree_item(page, "chk-20").locator(".warning")).to_have_text("unreadable")


def test_the_filter_knows_databases_of_folders_that_are_closed(visit: Opened) -> None:
    page = visit("#/query")
    expect(tree_item(page, "chk-12")).to_be_visible()

    page.get_by_role("searchbox", name="Filter the tree").fill("chk-30")

    expect(tree_item(page, "chk-30")).to_be_visible()
    expect(tree_item(page, "orders")).to_be_hidden()


def test_the_chosen_database_stays_between_views(visit: Opened, jobs: str) -> None:
    page = visit("#/overview")
    expect(page.locator(".cards")).to_be_visible()
    wanted = name_of(jobs, "billing/chk-30")
    page.get_by_label("Database").select_option(wanted)
    expect(page.locator(".cards")).to_contain_text("30")

    page.get_by_role("link", name="Timers").click()
    expect(page.get_by_text("No timer is registered")).to_be_visible()
    assert chosen(page) == wanted
    page.get_by_role("link", name="Offsets").click()
    expect(page.get_by_text("Checkpoints and savepoints: 2 of")).to_be_visible()
    page.get_by_role("link", name="Query", exact=True).click()
    expect(page.get_by_role("textbox", name="SQL")).to_be_visible()
    expect(page.get_by_label("Database")).to_have_value(wanted)
    page.get_by_label("Database").select_option(name_of(jobs, "orders/chk-5"))
    page.evaluate("location.hash = '#/overview'")
    expect(page.locator(".cards > div", has_text="Checkpoint")).to_contain_text("5")
    assert chosen(page) == name_of(jobs, "orders/chk-5")


def test_the_newest_of_one_job_are_compared(visit: Opened) -> None:
    page = visit("#/keys?key=key_662")

    assert columns(page, "Entries of aggregate") == [
        "State",
        "Kind",
        *(f"chk-{number}" for number in range(7, 13)),
    ]
    expect(page.get_by_text("Checkpoints and savepoints: 6 of")).to_be_visible()


def test_what_is_compared_stays_between_views(visit: Opened, jobs: str) -> None:
    names = [name_of(jobs, "billing/chk-7"), name_of(jobs, "billing/chk-30")]
    page = visit("#/keys?" + urlencode({"key": "key_662", "dbs": "\n".join(names)}))
    assert columns(page, "Entries of aggregate") == ["State", "Kind", "chk-7", "chk-30"]

    page.get_by_role("link", name="Offsets").click()
    assert columns(page, "Source offsets")[-2:] == ["chk-7", "chk-30"]
    page.get_by_role("link", name="Keys").click()

    assert columns(page, "Entries of aggregate") == ["State", "Kind", "chk-7", "chk-30"]
    expect(page.get_by_role("textbox", name="Key")).to_have_value("key_662")


def test_different_jobs_have_no_difference_between_them(visit: Opened, jobs: str) -> None:
    names = [name_of(jobs, "billing/chk-30"), name_of(jobs, "orders/chk-5")]
    page = visit("#/offsets?" + urlencode({"dbs": "\n".join(names)}))

    expect(page.get_by_role("region", name="Source offsets")).to_be_visible()
    expect(page.locator(".offset small")).to_have_count(0)


def test_a_broken_checkpoint_has_its_own_line_and_the_others_answer(
    visit: Opened, watch: Watch, jobs: str
) -> None:
    watch.expected |= {"400", "404", "410", "422", "500"}
    broken = [name_of(jobs, "clicks/chk-1"), name_of(jobs, "clicks/chk-2")]
    names = [name_of(jobs, "orders/chk-12"), *broken, name_of(jobs, "orders/chk-20")]
    page = visit("#/keys?" + urlencode({"key": "key_662", "dbs": "\n".join(names)}))

    expect(page.get_by_role("region", name="Entries of aggregate")).to_contain_text("11290")
    told = page.locator(".error li")
    expect(told.filter(has_text="chk-20")).to_have_count(1)
    expect(told.filter(has_text="aggregate")).not_to_have_count(0)


def test_a_search_of_a_key_has_a_bar_and_an_end(visit: Opened, watch: Watch) -> None:
    page = visit("#/keys")
    expect(page.get_by_text("Checkpoints and savepoints: 6 of")).to_be_visible()
    held: list[Route] = []

    def slow(route: Route) -> None:
        if "list(" in (route.request.post_data or "") and "chk-9" in (route.request.post_data or ""):
            held.append(route)
        else:
            route.continue_()

    page.route("**/api/query", slow)
    page.get_by_role("textbox", name="Key").fill("key_662")
    page.keyboard.press("Enter")

    expect(page.get_by_role("progressbar", name="Progress of the search")).to_be_visible()
    expect(page.get_by_role("region", name="Entries of aggregate")).to_contain_text("11290")
    expect(page.locator(".told")).to_have_text("5 of 6")
    page.get_by_role("button", name="Cancel").click()

    expect(page.get_by_role("progressbar")).to_have_count(0)
    expect(page.get_by_text("Cancelled: 5 of 6")).to_be_visible()
    expect(page.get_by_role("region", name="Entries of aggregate")).to_contain_text("11290")
    expect(page.get_by_role("alert")).to_have_count(0)
    assert len(held) == 1


def test_counting_has_a_bar_and_an_end(visit: Opened) -> None:
    page = visit()
    held: list[Route] = []
    page.route(
        "**/api/queries",
        lambda route: (
            held.append(route) if '.\\"xray\\"' in (route.request.post_data or "") else route.continue_()
        ),
    )

    page.get_by_role("list", name="Jobs").get_by_role("link", name="chk-12").click()
    page.get_by_role("link", name="X-ray").click()
    count = page.locator(".progress", has=page.get_by_role("progressbar", name="Progress of the count"))
    expect(count).to_be_visible()
    expect(page.get_by_role("region", name="Keys of the states")).to_be_visible()
    # The search for large keys may still run beside it.
    count.get_by_role("button", name="Cancel").click()

    expect(page.get_by_role("button", name="Count its entries")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)
    assert held


def test_jobs_are_listed_with_the_newest_that_can_be_read(visit: Opened, jobs: str) -> None:
    page = visit("#/jobs")

    cards = page.get_by_role("list", name="Jobs").get_by_role("listitem")
    expect(cards.get_by_role("heading")).to_have_text(["orders", "billing", "clicks"])
    orders = cards.first
    expect(orders).to_contain_text("10 savepoints, 1 unreadable")
    expect(orders).to_contain_text("1 unreadable, also the newest: chk-20")
    expect(orders.locator(".job-size .number")).to_have_text("70 kB")
    orders.get_by_role("link", name="chk-12").click()
    expect(page.get_by_role("region", name="Operators")).to_be_visible()
    assert chosen(page) == name_of(jobs, "orders/chk-12")


def test_a_job_has_its_checkpoints_and_how_it_grew(visit: Opened) -> None:
    page = visit("#/jobs")
    page.get_by_role("link", name="billing", exact=True).click()

    sizes = page.get_by_role("region", name="Checkpoints").get_by_role("cell", name="70 kB")
    expect(sizes).to_have_count(2)
    head, rows = table(page, "Checkpoints")
    assert head == ["Savepoint", "Kind", "Written (UTC)", "Size", "Compare"]
    assert [row[:2] for row in rows] == [["chk-30", "savepoint"], ["chk-7", "savepoint"]]
    assert [row[4] for row in rows] == ["with the one before", ""]
    expect(page.get_by_role("img", name="Growth from 70 kB to 70 kB")).to_be_visible()
    expect(page.get_by_role("button", name="Take a savepoint")).to_have_count(0)
    page.get_by_role("navigation", name="Where this is").get_by_role("link", name="Jobs").click()
    expect(page.get_by_role("list", name="Jobs").get_by_role("listitem")).to_have_count(3)


def test_the_history_of_a_job_is_tables(visit: Opened) -> None:
    page = visit("#/jobs")
    page.get_by_role("link", name="billing", exact=True).click()

    page.get_by_role("link", name="Query the history").click()

    assert {row[0] for row in grid_rows(page)} == {"7", "30"}
    tree_item(page, "history").locator("visible=true").click()
    tree_item(page, "aggregate").locator("visible=true").first.click()
    tree_item(page, "count").locator("visible=true").first.click()
    expect(page.get_by_role("textbox", name="SQL")).to_contain_text('__history"."aggregate__count"')
    assert {row[0] for row in grid_rows(page)} <= {"7", "30"}


def test_a_job_that_is_not_there_is_told(visit: Opened) -> None:
    page = visit("#/jobs?job=nope")

    expect(page.get_by_role("alert")).to_contain_text("There is no job nope.")
