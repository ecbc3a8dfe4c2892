"""The page: `GET /`, `/static/{name}`, and the links that a browser opens.

The headers allow the page to load only its own files and to send requests only to this service, and forbid other pages to
frame it. A browser caches the files but asks each time whether they changed, so it shows a new version at once. The files are read once
and served from memory: a name is looked up, never joined to a path.

The page is the same for everybody and holds no data: its script asks for the rows with the reader's credentials, by the calls that
every client has. So it needs no credentials, and a database that its reader may not see looks like one that is not there.

| request | answer |
|---|---|
| `/db/native/aggregate`, `Accept: text/html,…,*/*;q=0.8` | the page |
| the same, `Accept: */*` or none, as programs send it | rows (`service.doors.http.api.links.addresses`) |
| `/jobs/orders`, `/query`, `Accept: text/html,…` | the page; nothing is there for programs |
| `/db/native/aggregate.csv`, any `Accept` | rows: whoever names a format wants that |
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fastapi import APIRouter, Request
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.status import HTTP_304_NOT_MODIFIED
from starlette.types import ASGIApp, Receive, Scope, Send

from service.base.errors import NotFoundError
from service.doors.http.api.answers import accepted_types
from service.query.encode import FORMATS, split_suffix

STATIC = Path(__file__).parent / "static"
_MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
_PLACES = ("db", "jobs", "query", "saved")
_HTML = ("text/html", "application/xhtml+xml")
_VARY = "Accept, Accept-Encoding"
# No name of a database or table has as many slashes; the page has an address for each of its files.
_DEEPEST = 50
INDEX = "index.html"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asset:
    """A file of the page.

    Attributes:
        media_type: value of the header Content-Type.
        content: the bytes.
        compressed: the bytes compressed with gzip.
        etag: value of the header ETag; changes with the content.
    """

    media_type: str
    content: bytes
    compressed: bytes
    etag: str


def read_assets(folder: Path = STATIC) -> Mapping[str, Asset]:
    """Read the files of the page, by name; files that no browser requests are left out."""
    return {
        path.name: asset_of(path.read_bytes(), _MEDIA_TYPES[path.suffix])
        for path in sorted(folder.iterdir())
        if path.suffix in _MEDIA_TYPES
    }


def asset_of(content: bytes, media_type: str) -> Asset:
    """Return a file with its bytes compressed, and its tag."""
    return Asset(
        media_type=media_type,
        content=content,
        # Without the time: the bytes under one ETag must not differ from process to process.
        compressed=gzip.compress(content, mtime=0),
        etag=f'"{hashlib.sha256(content).hexdigest()[:32]}"',
    )


CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",  # icons in style sheets
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
_HEADERS = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "Vary": "Accept-Encoding",  # a cache must not send gzip to a client that cannot read it
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


def page_router(assets: Mapping[str, Asset]) -> APIRouter:
    """Make the routes of the page."""
    router = APIRouter(include_in_schema=False)

    @router.api_route("/", methods=["GET", "HEAD"])
    def page(request: Request) -> Response:
        return _answer(request, assets, INDEX)

    @router.api_route("/static/{name}", methods=["GET", "HEAD"])
    def file(request: Request, name: str) -> Response:
        return _answer(request, assets, name)

    return router


def _answer(request: Request, assets: Mapping[str, Asset], name: str) -> Response:
    asset = assets.get(name)
    if asset is None:
        raise NotFoundError(f"nothing is at {request.url.path}", hint="the page is at /")
    return answer_of(request, asset)


def answer_of(request: Request, asset: Asset) -> Response:
    """Return a file of the page, with the headers that isolate it; 304 if the client has it."""
    headers = _HEADERS | {"ETag": asset.etag}
    if request.headers.get("if-none-match") == asset.etag:
        return Response(status_code=HTTP_304_NOT_MODIFIED, headers=headers)
    content = asset.content
    if "gzip" in request.headers.get("accept-encoding", ""):
        content, headers["Content-Encoding"] = asset.compressed, "gzip"
    return Response(content, media_type=asset.media_type, headers=headers)


def wants_page(scope: Scope) -> bool:
    """Return whether a request is a link that a browser opens."""
    path: str = scope["path"]
    if scope["method"] not in ("GET", "HEAD") or path.removeprefix("/").partition("/")[0] not in _PLACES:
        return False
    *folders, name = _raw_path(scope).split("/")
    if len(folders) > _DEEPEST or split_suffix(name)[1] is not None:
        return False
    return _prefers_html(Headers(scope=scope).get("accept", ""))


class OpenedLinks:
    """The middleware that answers links with the page, for browsers.

    Args:
        app: the application; it answers all other requests.
        assets: the files of the page.
    """

    def __init__(self, app: ASGIApp, assets: Mapping[str, Asset]) -> None:
        self._app = app
        self._index = assets[INDEX]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request; the signature is ASGI's."""
        if scope["type"] != "http" or not wants_page(scope):
            await self._app(scope, receive, send)
            return
        # The page names its files by relative addresses, so that it works behind a proxy that adds a folder.
        depth = _raw_path(scope).count("/") - 1
        content = self._index.content.replace(b'"static/', b'"' + b"../" * depth + b"static/")
        response = answer_of(Request(scope), asset_of(content, self._index.media_type))
        response.headers["Vary"] = _VARY
        await response(scope, receive, send)


def _raw_path(scope: Scope) -> str:
    """Return the path of an address with its escapes: an escaped slash or dot is part of a name."""
    raw: bytes | None = scope.get("raw_path")
    path: str = scope["path"]
    return path if raw is None else raw.partition(b"?")[0].decode("latin-1")


def _prefers_html(accept: str) -> bool:
    """Return whether HTML has more weight than everything else that is accepted, as browsers send it."""
    html = other = 0.0
    for name, weight, _ in accepted_types(accept):
        if name in _HTML:
            html = max(html, weight)
        elif name in _DATA:
            other = max(other, weight)
    return html > other


_DATA = frozenset({known.media_type for known in FORMATS.values()} | {"*/*", "application/*", "text/*"})
