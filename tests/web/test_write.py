"""The view that writes: a preview, a question, the writing, and the new savepoint as a database."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from catalog import Catalog
from catalog.catalog import Root
from service.base.settings import Settings
from service.doors.app import create_app
from service.doors.http.auth.gate import Authenticator
from service.doors.http.auth.keys import KeyFile
from service.tasks.write.serving.targets import write_roots_of
from tests.support.paths import DATA
from tests.web.asking import Watch
from tests.web.conftest import listening, pages
from tests.web.test_access import DARK, PHONE, serious
from tests.web.test_views import table

pytestmark = pytest.mark.browser

WORDCOUNT = DATA / "flink/2.3.0/wordcount-hashmap-savepoints"
REWIND = "UPDATE source_offsets SET starting_offset = 24000 WHERE topic = 'words' AND \"partition\" = 2"
ENDLESS = "UPDATE source_offsets SET starting_offset = (SELECT count(*) FROM range(1000000000000) t(a) WHERE a % 7 = 9)"
Opened = Callable[..., Page]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page")
    shutil.copytree(WORDCOUNT, path / "jobs")
    (path / "out").mkdir()
    return path


@pytest.fixture(scope="module")
def writing(folder: Path) -> Iterator[str]:
    """The address of a service that writes below the folder `out`."""
    roots = [Root(path=str(folder / "jobs")), Root(path=str(folder / "out"))]
    app = create_app(Settings.of(workers=1), Catalog(roots), write_roots=write_roots_of(roots, roots[1:]))
    with listening(app) as address:
        yield address


@pytest.fixture
def visit(browser: Browser, writing: str) -> Iterator[Opened]:
    """Opens the view of the service that writes, in a context of its own."""
    with pages(browser, writing, Watch(writing, expected={"404", "409"})) as opened:

        def visited(fragment: str = "db/jobs__canonical#write", **options: Any) -> Page:
            return opened(fragment, **options)

        yield visited


def script(page: Page, text: str) -> None:
    page.get_by_role("textbox", name="Script").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(text)


def previewed(page: Page, text: str, name: str) -> None:
    """Write a script and a target, and wait for the preview."""
    script(page, text)
    page.get_by_role("textbox", name="New savepoint").fill(name)
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("heading", name="Preview")).to_be_visible()


def test_a_preview_shows_what_changes_and_writes_nothing(visit: Opened, folder: Path) -> None:
    page = visit()
    expect(page.get_by_role("button", name="Write …")).to_be_disabled()

    previewed(page, f"{REWIND}; DROP TABLE aggregate", "looked")

    statements = page.get_by_role("list", name="Statements").locator("li")
    expect(statements.nth(0)).to_contain_text("1 row of source_offsets changes")
    expect(statements.nth(1)).to_contain_text("a job that has this operator starts it without state")
    row = page.get_by_role("row").filter(has_text="partition 2")
    expect(row).to_contain_text("36,445")
    expect(row).to_contain_text("24,000")
    expect(page.get_by_text("Nothing was written.")).to_be_visible()
    expect(page.get_by_role("button", name="Write …")).to_be_enabled()
    assert not (folder / "out/looked").exists()


def test_what_is_written_was_previewed_and_asked_for_twice(visit: Opened, folder: Path) -> None:
    page = visit()
    previewed(page, REWIND, "rewound")

    page.get_by_role("button", name="Write …").click()
    dialog = page.get_by_role("dialog", name="Write this savepoint?")
    expect(dialog).to_contain_text(str(folder / "out/rewound"))
    dialog.get_by_role("button", name="Do not write").click()
    expect(dialog).to_be_hidden()
    assert not (folder / "out/rewound").exists()

    page.get_by_role("button", name="Write …").click()
    dialog.get_by_role("button", name="Write it").click()
    expect(page.get_by_role("heading", name="Written")).to_be_visible()
    assert (folder / "out/rewound/_metadata").exists()
    expect(page.get_by_role("region", name="Your last writes")).to_contain_text("out__rewound")
    # It ends with the command for Flink, its check, and what differs from the source.
    command = page.get_by_label("Command of Flink")
    expect(command).to_have_text(f"flink run -s {folder / 'out/rewound'} your-job.jar")
    expect(page.get_by_role("region", name="Check")).to_contain_text("Flink 2.3.0")
    assert [row[2:5] for row in table(page, "Offsets that moved")[1]] == [["2", "36,445", "24,000"]]

    page.get_by_role("link", name="open out__rewound").click()
    expect(page.get_by_label("Database")).to_have_value("out__rewound")
    page.get_by_role("link", name="Offsets").click()
    expect(page.get_by_role("cell", name="24,000", exact=True).first).to_be_visible()
    # A written savepoint is compared with its source.
    page.get_by_role("navigation", name="Where this is").get_by_role("link", name="out").click()
    page.get_by_role("link", name="Compare", exact=True).click()
    expect(page.get_by_role("combobox", name="Before")).to_have_value("jobs__canonical")
    expect(page.get_by_role("combobox", name="After")).to_have_value("out__rewound")


def test_a_key_is_edited_from_its_page(visit: Opened) -> None:
    page = visit("db/jobs__canonical/aggregate__count?key=key_662")

    page.get_by_role("link", name="Edit", exact=True).click()
    expect(page.get_by_role("textbox", name="Script")).to_contain_text(
        re.compile(r'UPDATE "?aggregate__count"?SET value = 11290WHERE .*key_662')
    )
    page.go_back()
    page.get_by_role("link", name="Delete", exact=True).click()
    expect(page.get_by_role("textbox", name="Script")).to_contain_text(re.compile("DELETE FROM .*key_662"))


@pytest.mark.parametrize("change", ["script", "target", "database"])
def test_another_script_target_or_source_wants_another_preview(change: str, visit: Opened) -> None:
    page = visit()
    previewed(page, REWIND, "other")
    button = page.get_by_role("button", name="Write …")
    expect(button).to_be_enabled()

    if change == "script":
        script(page, "DROP TABLE aggregate")
    elif change == "target":
        page.get_by_role("textbox", name="New savepoint").fill("another")
    else:
        page.get_by_label("Database").select_option("jobs__native")

    expect(button).to_be_disabled()


def test_rows_of_a_state_are_shown_before_and_after(visit: Opened) -> None:
    page = visit()
    script_of = "UPDATE aggregate__count SET value = value + 1 WHERE key IN ('key_1', 'key_662')"

    previewed(page, f"{script_of}; DELETE FROM aggregate__count WHERE key = 'key_3'", "rows")

    statements = page.get_by_role("list", name="Statements").locator("> li")
    expect(statements.nth(0)).to_contain_text("2 rows changed · in 2 key groups")
    expect(statements.nth(0).get_by_role("row").filter(has_text="key_662")).to_contain_text("11290")
    expect(statements.nth(0).get_by_role("row").filter(has_text="key_662")).to_contain_text("11291")
    expect(statements.nth(1)).to_contain_text("1 row removed · in 1 key group")
    expect(statements.nth(1).get_by_role("row").filter(has_text="key_3")).to_contain_text("112")


def test_files_of_the_source_come_with_a_warning(visit: Opened) -> None:
    page = visit()
    warning = page.get_by_text("restore it with NO_CLAIM")
    expect(page.get_by_role("button", name="Preview")).to_be_visible()
    expect(warning).to_be_hidden()

    page.get_by_label("Files").select_option("reference")

    expect(warning).to_be_visible()


def test_an_error_is_marked_in_the_script(visit: Opened) -> None:
    page = visit()
    script(page, f"{REWIND};\nDROP TABLE nothing")

    page.keyboard.press("Control+Enter")

    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("nothing")
    expect(alert.get_by_role("button", name="line 2, column 1")).to_be_visible()
    expect(page.locator(".cm-lintRange-error")).to_be_visible()
    expect(page.get_by_role("button", name="Write …")).to_be_disabled()


def test_a_target_that_exists_is_refused(visit: Opened, folder: Path) -> None:
    (folder / "out/there").mkdir(exist_ok=True)
    page = visit()
    script(page, REWIND)
    page.get_by_role("textbox", name="New savepoint").fill("there")

    page.get_by_role("button", name="Preview").click()

    expect(page.get_by_role("alert")).to_contain_text("TARGET_EXISTS")


def test_a_preview_that_takes_long_is_cancelled(visit: Opened) -> None:
    page = visit()
    script(page, ENDLESS)
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_text("statement 1 of 1")).to_be_visible()

    page.get_by_role("button", name="Cancel").click()

    expect(page.get_by_text("Cancelled: nothing was written")).to_be_visible()


def test_who_may_not_write_sees_no_view(opened: Opened) -> None:
    page = opened("db/native")
    expect(page.locator(".cards").first).to_be_visible()
    expect(page.get_by_role("link", name="Write", exact=True)).to_be_hidden()

    page.goto(page.url.partition("#")[0] + "#write")

    expect(page.get_by_text("This service writes no savepoints, or you may not")).to_be_visible()


def test_a_key_without_a_grant_sees_no_view(browser: Browser, folder: Path) -> None:
    keys = KeyFile(folder / "keys.json")
    secrets = {name: keys.create(name, [grant]) for name, grant in (("reader", "*"), ("writer", "write:*"))}
    roots = [Root(path=str(folder / "jobs")), Root(path=str(folder / "out"))]
    app = create_app(
        Settings.of(workers=1),
        Catalog(roots),
        write_roots=write_roots_of(roots, roots[1:]),
        authenticator=Authenticator(keys),
    )
    with listening(app) as address:
        for name, secret in secrets.items():
            context = browser.new_context()
            context.add_init_script(f"sessionStorage.setItem('savepointdb.key', '{secret}')")
            page = context.new_page()
            page.goto(f"{address}/db/jobs__canonical")
            expect(page.locator(".cards").first).to_be_visible()
            expect(page.get_by_role("link", name="Write", exact=True)).to_be_visible(visible=name == "writer")
            context.close()


@pytest.mark.parametrize("looks", [{}, DARK, PHONE], ids=["light", "dark", "phone"])
def test_the_view_is_for_everybody(looks: dict[str, object], visit: Opened) -> None:
    page = visit(**looks)
    previewed(page, f"{REWIND}; DROP TABLE aggregate", "looked")
    assert serious(page) == []
    sizes = page.evaluate(
        "[document.body, document.querySelector('main')].map(e => [e.scrollWidth, e.clientWidth])"
    )
    assert [scroll - client for scroll, client in sizes] == [0, 0]

    page.get_by_role("button", name="Write …").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    assert serious(page) == []
