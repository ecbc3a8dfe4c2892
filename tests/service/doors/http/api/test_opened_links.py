"""Links that a browser opens: the page, the same for everybody, where programs get rows."""

from __future__ import annotations

import re
from urllib.parse import urljoin

import httpx
import pytest

CHROME = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8"
SAFARI = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
FIREFOX = "text/html, application/xhtml+xml, application/xml;q=0.9, image/png, */*;q=0.5"
LINKS = [
    "/db",
    "/db/native",
    "/db/native/aggregate",
    "/db/native/aggregate?key=key_662&_key_group=7",
    "/db/native/aggregate/",
    "/db/native/a%2Fb%22%3Cscript%3E",
    "/db/native?sql=SELECT 1",
    "/db/nobody/knows/this",
    "/db/native/aggregate%2Ecsv",
    "/saved/nobody-knows?key=a",
    "/saved",
    "/jobs",
    "/jobs/a%2Fb",
    "/query",
    "/query/running",
]


def opened(client: httpx.Client, link: str, accept: str = CHROME) -> httpx.Response:
    return client.get(link, headers={"accept": accept})


@pytest.mark.parametrize("link", LINKS)
def test_a_browser_gets_the_page_and_the_page_its_files(client: httpx.Client, link: str) -> None:
    answer = opened(client, link)

    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    named = re.findall(r'(?:src|href)="([^"#]+)"', answer.text)
    addresses = {urljoin(str(answer.url), name) for name in named}
    assert addresses == {
        urljoin(str(client.base_url), f"/static/{name}")
        for name in ("app.css", "app.js", "icon.svg", "theme.js")
    }
    root = client.get("/")
    assert re.sub(r'"(\.\./)+static/', '"static/', answer.text) == root.text
    kept = ("content-security-policy", "x-frame-options", "referrer-policy", "cache-control")
    assert [answer.headers[name] for name in kept] == [root.headers[name] for name in kept]


@pytest.mark.parametrize(
    ("accept", "media_type"),
    [
        (CHROME, "text/html"),
        (SAFARI, "text/html"),
        (FIREFOX, "text/html"),
        ("text/html", "text/html"),
        ("*/*", "application/json"),
        ("application/json, text/plain, */*", "application/json"),
        ("text/html;q=0.5, application/json", "application/json"),
        ("text/html, application/json", "application/json"),
        ("text/html, */*", "application/json"),
        ("text/html;q=0, */*;q=0.1", "application/json"),
        ("text/html;q=none, text/csv", "text/csv"),
        ("text/csv, text/html;q=0.9", "text/csv"),
    ],
)
def test_whoever_prefers_html_gets_the_page(client: httpx.Client, accept: str, media_type: str) -> None:
    for answer in (
        opened(client, "/db/native/aggregate?limit=1", accept),
        client.head("/db", headers={"accept": accept}),
    ):
        assert answer.status_code == 200
        assert answer.headers["content-type"].partition(";")[0] == media_type
        assert "Accept" in answer.headers["vary"].split(", ")


@pytest.mark.parametrize(
    ("link", "media_type"),
    [
        ("/db.csv?sql=SELECT 1", "text/csv"),
        ("/db/native.json", "application/json"),
        ("/db/native/aggregate.csv?limit=1", "text/csv"),
        ("/db/native/aggregate.parquet?limit=1", "application/vnd.apache.parquet"),
    ],
)
def test_whoever_names_a_format_gets_it(client: httpx.Client, link: str, media_type: str) -> None:
    answer = opened(client, link)

    assert answer.status_code == 200
    assert answer.headers["content-type"].partition(";")[0] == media_type


def test_the_page_is_not_sent_twice_and_not_in_place_of_rows(client: httpx.Client) -> None:
    link = "/db/native/aggregate?key=key_662"
    page = opened(client, link)
    rows = client.get(link)

    again = client.get(link, headers={"accept": CHROME, "if-none-match": page.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    for headers in (
        {"if-none-match": page.headers["etag"]},
        {"accept": CHROME, "if-none-match": rows.headers["etag"]},
    ):
        assert client.get(link, headers=headers).status_code == 200


def test_only_links_are_opened(client: httpx.Client) -> None:
    for path in ("/dbx", "/db/" + "/" * 80, "/api/databases"):
        assert opened(client, path).headers["content-type"] == "application/json"
    assert client.post("/db/native", headers={"accept": CHROME}).status_code == 405
    elsewhere = {"sec-fetch-site": "cross-site", "sec-fetch-dest": "iframe", "accept": CHROME}
    assert client.get("/db/native", headers=elsewhere).status_code == 403
