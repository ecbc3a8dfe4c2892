"""The page in a real Chromium, over the real service and savepoints written by real Flink."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from catalog import Catalog
from catalog.catalog import Root
from service.base.settings import Settings
from service.doors.app import create_app
from tests.support import serving
from tests.support.paths import DATA
from tests.web.asking import HOSTILE, Watch

FLINK = DATA / "flink" / "2.3.0"
CORPUS = DATA / "corpus" / "1.20.3"
ROOTS = {
    "chk-1": FLINK / "wordcount-rocksdb-checkpoint-incremental" / "checkpoint" / "chk-1",
    "chk-2": FLINK / "wordcount-rocksdb-checkpoint-incremental" / "checkpoint" / "chk-2",
    "words": FLINK / "wordcount-rocksdb-savepoints" / "canonical",
    "native": FLINK / "wordcount-rocksdb-savepoints" / "native",
    "states": CORPUS / "allstates-hashmap-compressed" / "canonical",
    "sql": CORPUS / "sql-window-hashmap" / "canonical",
}
# Machines are slow at times, and nothing waits longer than it has to.
_PATIENCE_MS = 120_000
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium; skips where there is none."""
    executable = os.environ.get("SAVEPOINTDB_CHROMIUM") or next(
        filter(None, map(shutil.which, _BROWSERS)), None
    )
    if executable is None:
        pytest.skip("no Chromium: install the package chromium, or set SAVEPOINTDB_CHROMIUM")
    expect.set_options(timeout=_PATIENCE_MS)
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=executable, args=_ARGUMENTS)
        yield launched
        launched.close()


workers_with_their_share = serving.workers_with_their_share

# A browser keeps its connections open.
listening = partial(serving.listening, last_answers_s=1)


def hostile_savepoint(folder: Path) -> Path:
    """A savepoint whose operator is named like markup; Flink's 1.20 stores no names, so `stateInfo` gives it."""
    savepoint = folder / "hostile"
    shutil.copytree(DATA / "flink" / "1.20.3" / "wordcount-hashmap-savepoints" / "canonical", savepoint)
    operator = {"id": "058086c13c6c5a39fabcbe0b8a1b827d", "name": HOSTILE, "states": []}
    (savepoint / "stateInfo").write_text(json.dumps({"version": 1, "operators": [operator]}))
    return savepoint


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the service over a few savepoints, a hostile one and an unreadable one."""
    folder = tmp_path_factory.mktemp("savepoints")
    unreadable = folder / "unreadable" / "chk-7"
    unreadable.mkdir(parents=True)
    (unreadable / "_metadata").write_bytes(b"not a savepoint")
    roots = ROOTS | {"chk-7": unreadable, "hostile": hostile_savepoint(folder)}
    catalog = Catalog([Root(path=str(path), label=label) for label, path in roots.items()])
    with listening(create_app(Settings(), catalog)) as address:
        yield address


@pytest.fixture
def watch(service: str) -> Watch:
    """What the pages of a test must not do; they are looked at when it ends."""
    return Watch(service)


@contextmanager
def pages(browser: Browser, service: str, watch: Watch) -> Iterator[Callable[..., Page]]:
    """Opens the page at a fragment, in a browser context with these options; in the end all of them close."""
    contexts: list[BrowserContext] = []

    def opened(fragment: str = "", *, at: str = service, **options: Any) -> Page:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 860}, **options})
        context.set_default_timeout(_PATIENCE_MS)
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        contexts.append(context)
        watch.over(context)
        page = context.new_page()
        page.goto(f"{at}/{fragment}")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert watch.found == []


@pytest.fixture
def opened(browser: Browser, service: str, watch: Watch) -> Iterator[Callable[..., Page]]:
    """Opens the page at a fragment, as `pages` does, for a service over some savepoints."""
    with pages(browser, service, watch) as found:
        yield found
