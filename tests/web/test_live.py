"""A live job on the page: its state, and the button that has a savepoint of it taken."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.service.tasks.jobs.conftest import MakeCheckpoint, make_checkpoint, newest_flink
from tests.service.tasks.jobs.test_savepoints import TAKEN, answer_savepoint, service
from tests.support.flinkrest import RecordedFlink
from tests.web.asking import Watch
from tests.web.conftest import pages
from tests.web.test_access import serious

pytestmark = pytest.mark.browser

__all__ = ["make_checkpoint", "newest_flink"]

Opened = Callable[..., Page]


@pytest.fixture
def visit(
    browser: Browser, newest_flink: RecordedFlink, make_checkpoint: MakeCheckpoint, tmp_path: Path
) -> Iterator[Opened]:
    """Opens the page of a service that follows a cluster, whose job has a checkpoint."""
    make_checkpoint(newest_flink.job_id, 1)
    with service(newest_flink, tmp_path) as client:
        address = str(client.base_url).rstrip("/")
        with pages(browser, address, Watch(address)) as opened:
            yield opened


def test_a_savepoint_of_a_live_job_is_taken_and_opened(
    visit: Opened, newest_flink: RecordedFlink, tmp_path: Path
) -> None:
    answer_savepoint(newest_flink, tmp_path / "savepoints" / TAKEN)
    page = visit()
    card = page.get_by_role("list", name="Jobs").get_by_role("listitem")
    expect(card.locator(".badge")).to_have_text("running")
    card.get_by_role("heading").get_by_role("link").click()

    page.get_by_role("button", name="Take a savepoint").click()
    expect(page.get_by_role("dialog")).to_contain_text("Take a savepoint of")
    assert serious(page) == []
    page.get_by_label("Format").select_option("native")
    page.get_by_role("button", name="Take it").click()

    expect(page.get_by_text("The savepoint is taken, in")).to_be_visible()
    page.get_by_role("link", name=f"Open savepoints__{TAKEN}").click()
    expect(page.get_by_role("region", name="Operators")).to_be_visible()
    expect(page.get_by_label("Database")).to_have_value(f"savepoints__{TAKEN}")


def test_a_savepoint_that_flink_does_not_take_says_why(visit: Opened, newest_flink: RecordedFlink) -> None:
    answer_savepoint(newest_flink, done="savepoint-failed")
    page = visit()
    page.get_by_role("list", name="Jobs").get_by_role("heading").get_by_role("link").click()

    page.get_by_role("button", name="Take a savepoint").click()
    page.get_by_role("button", name="Do not take one").click()
    page.get_by_role("button", name="Take a savepoint").click()
    page.get_by_role("button", name="Take it").click()

    expect(page.get_by_role("alert")).to_contain_text("SAVEPOINT_FAILED")
    expect(page.get_by_role("button", name="Take a savepoint")).to_be_enabled()
