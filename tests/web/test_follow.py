"""The table of a job's changes, which updates itself."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from catalog import Catalog
from catalog.catalog import Root
from service.base.settings import Settings
from service.doors.app import create_app
from tests.support.changing import TABLE, make_job
from tests.web.asking import Watch
from tests.web.conftest import listening
from tests.web.test_access import serious

pytestmark = pytest.mark.browser

FOLLOW = "/jobs/prod__job#follow"


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """The folder of a job whose checkpoints 3 and 4 are beside it, still to come."""
    made = make_job(tmp_path / "root" / "job")
    for number in (3, 4):
        shutil.move(made / f"chk-{number}", tmp_path / f"chk-{number}")
    return made


@pytest.fixture
def address(job: Path) -> Iterator[str]:
    with listening(create_app(Settings(), Catalog([Root(path=str(job.parent), label="prod")]))) as found:
        yield found


def test_changes_appear_as_checkpoints_come(
    opened: Callable[..., Page], watch: Watch, address: str, job: Path
) -> None:
    watch.address = address
    page = opened("", at=f"{address}{FOLLOW}?table={TABLE}")
    status = page.get_by_role("status").filter(has_text=f"Following {TABLE}")
    expect(status).to_contain_text("waiting for the next checkpoint")
    rows = page.get_by_role("table", name="Changes, the newest first").locator("tbody tr")

    shutil.move(job.parent.parent / "chk-3", job / "chk-3")
    expect(status).to_contain_text("checkpoint 3 changed 2 rows")
    expect(rows).to_have_count(2)
    shutil.move(job.parent.parent / "chk-4", job / "chk-4")
    expect(status).to_contain_text("checkpoint 4 changed 1 row")

    expect(rows).to_have_count(3)
    assert rows.first.locator("td").all_inner_texts()[1:4] == ["removed", "new", "5"]
    assert "11292" in rows.filter(has_text="key_662").inner_text()
    assert serious(page) == []
    # Before the service ends: the stream would break off.
    page.close()
