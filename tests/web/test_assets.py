"""The built files: they are those of the sources, whole, and answered with the headers that keep the page to itself."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from catalog import Catalog
from service.base.settings import Settings
from service.doors.app import create_app
from service.doors.page.router import STATIC, read_assets
from tests.support.paths import PROJECT
from tests.web.conftest import listening

WEB = PROJECT / "web"
MANIFEST = json.loads((STATIC / "manifest.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with (
        listening(create_app(Settings(), Catalog([]))) as address,
        httpx.Client(base_url=address, timeout=60) as http,
    ):
        yield http


def hashes(folder: Path) -> dict[str, str]:
    """What a manifest says of a folder: each file and its SHA-256."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
        if "node_modules" not in path.relative_to(folder).parts
    }


def test_the_built_files_are_those_of_the_sources() -> None:
    assert MANIFEST["sources"] == hashes(WEB), "run: make web"


def test_the_built_files_are_whole() -> None:
    built = hashes(STATIC)
    del built["manifest.json"]

    assert MANIFEST["files"] == built, "run: make web"


def test_the_lock_file_names_no_host() -> None:
    lock = json.loads((WEB / "package-lock.json").read_text(encoding="utf-8"))

    assert [name for name, package in lock["packages"].items() if "resolved" in package] == []
    assert all("integrity" in package for name, package in lock["packages"].items() if name)


def test_the_licences_of_all_packages_are_there() -> None:
    declared = json.loads((WEB / "package.json").read_text(encoding="utf-8"))["dependencies"]
    text = (STATIC / "LICENSES.txt").read_text(encoding="utf-8")

    missing = [name for name, version in declared.items() if f"{name} {version} (" not in text]
    assert missing == []


def test_the_page_and_its_files_come_with_strict_headers(client: httpx.Client) -> None:
    names = ["", *(f"static/{name}" for name in read_assets())]
    for name in names:
        response = client.get(f"/{name}")

        assert response.status_code == 200
        policy = response.headers["content-security-policy"]
        directives = dict(one.split(" ", 1) for one in policy.split("; "))
        assert directives == {
            "default-src": "'none'",
            "script-src": "'self'",
            "style-src": "'self'",
            "img-src": "'self' data:",
            "connect-src": "'self'",
            "base-uri": "'none'",
            "form-action": "'none'",
            "frame-ancestors": "'none'",
        }
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["referrer-policy"] == "no-referrer"


def test_the_page_names_only_files_that_are_there(client: httpx.Client) -> None:
    named = re.findall(r'(?:src|href)="([^"#]+)"', client.get("/").text)

    assert sorted(set(named)) == ["static/app.css", "static/app.js", "static/icon.svg", "static/theme.js"]
    assert "<style" not in client.get("/").text
    assert "<script>" not in client.get("/").text


def test_a_file_that_did_not_change_is_not_sent_again(client: httpx.Client) -> None:
    first = client.get("/static/app.js")
    again = client.get("/static/app.js", headers={"if-none-match": first.headers["etag"]})

    assert first.headers["content-type"] == "text/javascript; charset=utf-8"
    assert (again.status_code, again.content) == (304, b"")


def test_files_are_compressed_for_those_who_ask(client: httpx.Client) -> None:
    plain = client.get("/static/app.js", headers={"accept-encoding": "identity"})
    packed = client.get("/static/app.js", headers={"accept-encoding": "gzip"})

    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert int(packed.headers["content-length"]) < int(plain.headers["content-length"]) / 2
    assert packed.content == plain.content == (STATIC / "app.js").read_bytes()


@pytest.mark.parametrize(
    "path",
    ["/static/nothing.js", "/static/manifest.json", "/static/..%2fassets.py", "/static/%2e%2e/router.py"],
)
def test_nothing_else_is_served(client: httpx.Client, path: str) -> None:
    response = client.get(path)

    assert response.status_code == 404
    assert response.json()["error"]["code"] == "NOT_FOUND"


def test_the_page_is_not_in_the_description_of_the_api(client: httpx.Client) -> None:
    paths = client.get("/openapi.json").json()["paths"]

    assert not [path for path in paths if path == "/" or path.startswith("/static")]


def test_head_says_what_get_would(client: httpx.Client) -> None:
    response = client.head("/")

    assert response.status_code == 200
    assert response.content == b""
