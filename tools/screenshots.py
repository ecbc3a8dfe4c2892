"""Takes the screenshots of README and docs, of the page of this build over the savepoints of `savepointdb demo`.

    python -m tools.screenshots                # into docs/images
    python -m tools.screenshots --to FOLDER    # every place, light and dark, at 1,440 and 390 px

Needs Chromium, as the tests of the page do.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from argparse import ArgumentParser
from pathlib import Path

from playwright.sync_api import Browser, expect, sync_playwright

from service.doors.cli.serve import write_savepoints
from tools.servers import served

_IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
_JOB = "jobs/demo__orders__48e8699f2db5157b8448330694723bbe"
_SAVEPOINT = "db/demo__orders__savepoint-48e869-67d6ec3800a8"
_PLACES = {
    "jobs": "",
    "job": _JOB,
    "compare": f"{_JOB}#compare",
    "timeline": f"{_JOB}#timeline?key=customer-42",
    "rules": f"{_JOB}#rules",
    "savepoint": _SAVEPOINT,
    "tables": f"{_SAVEPOINT}#tables",
    "keys": f"{_SAVEPOINT}#keys?key=customer-42",
    "offsets": f"{_SAVEPOINT}#offsets",
    "timers": f"{_SAVEPOINT}#timers",
    "xray": f"{_SAVEPOINT}#xray",
    "check": f"{_SAVEPOINT}#check?run=1",
    "write": f"{_SAVEPOINT}#write",
    "table": f"{_SAVEPOINT}/customers__account",
    "key": f"{_SAVEPOINT}/customers__account?key=customer-42",
    "query": "query",
}
_OF_DOCS = {"page.png": "job", "table.png": "table"}
_PATIENCE_MS = 120_000
# What a place shows while it loads.
_LOADING = ":is([aria-busy=true], .skeleton, progress):visible"


def shoot(browser: Browser, address: str, path: Path, *, width: int, height: int, scheme: str) -> None:
    """Take one screenshot.

    Args:
        browser: Chromium.
        address: what is seen.
        path: the image.
        width: of the window.
        height: of the window.
        scheme: light or dark.
    """
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if scheme == "dark" else "light",
        reduced_motion="reduce",
    )
    page = context.new_page()
    page.goto(address, timeout=_PATIENCE_MS)
    # Sizes and charts come after the place itself.
    page.wait_for_load_state("networkidle", timeout=_PATIENCE_MS)
    expect(page.locator("main :is(h1, h2, form)").first).to_be_visible(timeout=_PATIENCE_MS)
    expect(page.locator(_LOADING)).to_have_count(0, timeout=_PATIENCE_MS)
    page.wait_for_timeout(1500)  # charts draw themselves
    page.screenshot(path=path)
    context.close()


def main(arguments: list[str] | None = None) -> int:
    """Take the screenshots; return the exit code."""
    parser = ArgumentParser(prog="python -m tools.screenshots", description=__doc__)
    parser.add_argument("--to", type=Path, help="folder for every place; default: the images of docs")
    folder: Path | None = parser.parse_args(arguments).to
    executable = os.environ.get("SAVEPOINTDB_CHROMIUM") or shutil.which("chromium")
    with (
        tempfile.TemporaryDirectory() as temporary,
        sync_playwright() as playwright,
    ):
        root = Path(temporary) / "demo"
        write_savepoints(root)
        written = str(root / "written")
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        with served(root, "--write-root", written) as (_, address):
            if folder is None:
                for name, place in _OF_DOCS.items():
                    shoot(
                        browser,
                        f"{address}/{_PLACES[place]}",
                        _IMAGES / name,
                        width=1440,
                        height=900,
                        scheme="light",
                    )
                return 0
            folder.mkdir(parents=True, exist_ok=True)
            for name, place in _PLACES.items():
                for width, height in ((1440, 900), (390, 844)):
                    for scheme in ("light", "dark"):
                        image = folder / f"{name}-{width}-{scheme}.png"
                        shoot(browser, f"{address}/{place}", image, width=width, height=height, scheme=scheme)
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
