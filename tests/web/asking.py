"""What the tests of the page share: how to ask, and what to look at."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlencode

from playwright.sync_api import BrowserContext, ConsoleMessage, Locator, Page, expect

HOSTILE = "<img src=x onerror=\"document.title='broken'\">"


@dataclass
class Watch:
    """What a page must not do: ask others, complain, fail.

    Attributes:
        address: the only server it may ask.
        expected: parts of messages that the test provokes: Chromium tells of every answer that is an error.
        found: what it did all the same.
    """

    address: str
    expected: set[str] = field(default_factory=set)
    found: list[str] = field(default_factory=list)

    def over(self, context: BrowserContext) -> None:
        """Begin."""
        context.on("console", self._on_console)
        context.on("weberror", lambda error: self.found.append(f"error: {error.error}"))
        context.on("request", lambda request: self._on_request(request.url))

    def _on_console(self, message: ConsoleMessage) -> None:
        provoked = any(text in message.text for text in self.expected)
        # A service that has just begun is not ready at once.
        provoked = provoked or message.location["url"].endswith("/readyz")
        if message.type in ("error", "warning") and not provoked:
            self.found.append(f"console: {message.text}")

    def _on_request(self, url: str) -> None:
        if not url.startswith((self.address + "/", f"blob:{self.address}/", "data:")):
            self.found.append(f"request: {url}")


def query(sql: str, database: str = "native", *, run: bool = True) -> str:
    """The address of a shared query."""
    return "query#" + urlencode({"db": database, "sql": sql} | ({"run": "1"} if run else {}))


def write(page: Page, sql: str) -> None:
    """Replace what is in the editor."""
    editor = page.get_by_role("textbox", name="SQL")
    editor.click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(sql)


def facts(page: Page) -> dict[str, str]:
    """What is said of a result: Rows, Time, Read, Engine, From."""
    expect(page.locator(".facts")).to_be_visible()
    entries = page.locator(".facts > div").all()
    return {entry.locator("dt").inner_text(): entry.locator("dd").inner_text() for entry in entries}


def grid_rows(page: Page) -> list[list[str]]:
    """The cells that are seen, without the numbers of the rows."""
    expect(page.locator(".tabulator-row").first).to_be_visible()
    rows = page.locator(".tabulator-row").all()
    return [row.locator(".tabulator-cell:not(.rownum)").all_inner_texts() for row in rows]


def header(page: Page, name: str) -> Locator:
    """The head of a column of the grid."""
    return page.locator(".tabulator-col", has=page.locator(".title", has_text=name)).first


def tree_item(page: Page, name: str) -> Locator:
    """A row of the schema tree."""
    label = page.locator(".label").get_by_text(name, exact=True)
    return page.locator(".tree .row", has=label)
