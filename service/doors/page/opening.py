"""Links that a browser opens: `/jobs`, `/query`, `/db/…` and `/saved/…` with an `Accept` that prefers HTML are answered with the page.

The page is the same for everybody and holds no data: its script asks for the rows with the reader's credentials, by the calls that
every client has. So it needs no credentials, and a database that its reader may not see looks like one that is not there.

| request | answer |
|---|---|
| `/db/native/aggregate`, `Accept: text/html,…,*/*;q=0.8` | the page |
| the same, `Accept: */*` or none, as programs send it | rows (`service.doors.http.api.links`) |
| `/jobs/orders`, `/query`, `Accept: text/html,…` | the page; nothing is there for programs |
| `/db/native/aggregate.csv`, any `Accept` | rows: whoever names a format wants that |
"""

from __future__ import annotations

from collections.abc import Mapping

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from service.doors.http.api.answers import accepted_types
from service.doors.page.router import INDEX, Asset, answer_of, asset_of
from service.query.encode import FORMATS, split_suffix

_PLACES = ("db", "jobs", "query", "saved")
_HTML = ("text/html", "application/xhtml+xml")
_VARY = "Accept, Accept-Encoding"
# No name of a database or table has as many slashes; the page has an address for each of its files.
_DEEPEST = 50


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
