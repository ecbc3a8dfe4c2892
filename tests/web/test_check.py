"""The view that checks: what to compare with, and a tree of operators and states with remedies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from catalog import Catalog
from catalog.catalog import Root
from service.base.settings import Settings
from service.cli import main
from service.doors.app import create_app
from tests.support.compatpairs import unpack_pairs
from tests.web.asking import Watch
from tests.web.conftest import listening, pages
from tests.web.test_access import DARK, PHONE, serious

pytestmark = pytest.mark.browser

Opened = Callable[..., Page]
ASKED = "db/prod#check?against=next&flink=2.3.0&run=1"


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_pairs(tmp_path_factory.mktemp("pairs"), ["uid-changed"]) / "uid-changed"


@pytest.fixture(scope="module")
def checking(pair: Path) -> Iterator[str]:
    """The address of a service over a savepoint of a job, and one of the next version of the job."""
    roots = [
        Root(path=str(pair / "savepoints" / f"{job}-2.3.0-hashmap-canonical"), label=label)
        for job, label in (("A", "prod"), ("B", "next"))
    ]
    with listening(create_app(Settings.of(workers=1), Catalog(roots))) as address:
        yield address


@pytest.fixture
def visit(browser: Browser, checking: str) -> Iterator[Opened]:
    """Opens the view, in a context of its own."""
    with pages(browser, checking, Watch(checking, expected={"400", "422"})) as opened:

        def visited(fragment: str = "db/prod#check", **options: Any) -> Page:
            return opened(fragment, **options)

        yield visited


def test_a_missing_operator_is_seen_first_with_its_remedy(visit: Opened) -> None:
    page = visit()
    page.get_by_label("Savepoint of the new job").select_option("next")
    page.get_by_role("button", name="Check", exact=True).click()

    result = page.get_by_role("region", name="Result")
    expect(result).to_contain_text("Flink 2.3.0 with hashmap fails at graph, before any task starts")
    expect(result).to_contain_text("What to do: do not stop the old job for this restore yet")
    operators = result.get_by_role("list", name="Operators").locator("> li")
    expect(operators.first).to_contain_text("Cannot map checkpoint/savepoint state for operator 'a'")
    expect(operators.first).to_contain_text("→ give the operator its old uid")
    # Both backends find the same, which is said once.
    expect(page.get_by_role("heading", name="Flink 2.3.0 with hashmap and rocksdb")).to_be_visible()


def test_equal_findings_are_told_once_with_their_places(opened: Opened) -> None:
    page = opened("db/native#check?against=sql&flink=2.3.0&backend=hashmap&run=1")

    findings = page.get_by_role("list", name="Findings").locator("> li")
    expect(findings).to_have_count(1)
    expect(findings).to_contain_text("fails 3 operators")
    findings.get_by_text("Where", exact=True).click()
    expect(findings.get_by_role("listitem")).to_have_text(["mod7-no-uid", "aggregate", "source"])


def test_what_was_asked_is_in_the_address(visit: Opened) -> None:
    page = visit("db/prod#check?against=next&flink=2.3.0&backend=rocksdb&allow=1&run=1")

    expect(page.get_by_label("Backend")).to_have_value("rocksdb")
    expect(page.get_by_label("allowNonRestoredState")).to_be_checked()
    expect(page.get_by_role("heading", name="Flink 2.3.0 with rocksdb")).to_be_visible()
    expect(page.get_by_role("region", name="Result")).to_contain_text("its state is dropped")


def test_a_wrong_version_is_said(visit: Opened) -> None:
    page = visit()
    page.get_by_label("Flink", exact=True).fill("two")
    page.keyboard.press("Enter")

    expect(page.get_by_role("alert")).to_contain_text("expected a version of Flink such as 2.3.0")


def test_a_file_is_chosen_and_left_out_again(visit: Opened, tmp_path: Path) -> None:
    (tmp_path / "job.jar").write_bytes(b"not a jar")
    page = visit()
    page.get_by_label("Choose a jar").set_input_files(tmp_path / "job.jar")
    expect(page.get_by_text("job.jar, 9 B")).to_be_visible()

    page.get_by_role("button", name="Check", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("expected a savepoint, a jar")

    page.get_by_role("button", name="without it").click()
    page.get_by_role("button", name="Check", exact=True).click()
    expect(page.get_by_role("list", name="Operators").first).to_be_visible()


def test_a_file_that_is_dropped_on_the_page_is_taken(visit: Opened) -> None:
    page = visit()
    expect(page.get_by_role("button", name="Check", exact=True)).to_be_visible()
    data = page.evaluate_handle(
        "() => { const data = new DataTransfer(); data.items.add(new File(['PK'], 'dropped.jar')); return data; }"
    )

    page.dispatch_event("body", "drop", {"dataTransfer": data})

    expect(page.get_by_text("dropped.jar, 2 B")).to_be_visible()


@pytest.mark.parametrize("looks", [{}, DARK, PHONE], ids=["light", "dark", "phone"])
def test_the_view_is_for_everybody(looks: dict[str, object], visit: Opened) -> None:
    page = visit(ASKED, **looks)
    expect(page.get_by_role("list", name="Operators").first).to_be_visible()

    assert serious(page) == []
    sizes = page.evaluate(
        "[document.body, document.querySelector('main')].map(e => [e.scrollWidth, e.clientWidth])"
    )
    assert [scroll - client for scroll, client in sizes] == [0, 0]


@pytest.mark.parametrize("looks", [{}, DARK, PHONE], ids=["light", "dark", "phone"])
def test_the_report_as_a_file_is_for_everybody(
    looks: dict[str, object], pair: Path, browser: Browser, tmp_path: Path
) -> None:
    savepoint, next_one = (pair / "savepoints" / f"{job}-2.3.0-hashmap-canonical" for job in "AB")
    words = ["check", str(savepoint), "--against", str(next_one), "--format", "html"]
    assert main([*words, "--output", str(tmp_path / "check.html")]) == 2

    context = browser.new_context(**looks)  # type: ignore[arg-type]
    page = context.new_page()
    page.goto((tmp_path / "check.html").as_uri())

    expect(page.get_by_text("Cannot map checkpoint/savepoint state for operator 'a'").first).to_be_visible()
    assert serious(page) == []
    assert page.evaluate("document.body.scrollWidth - document.body.clientWidth") == 0
    context.close()
