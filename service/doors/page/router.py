"""`GET /` and `/static/{name}`: the page and its files.

The headers allow the page to load only its own files and to send requests only to this service, and forbid other pages to
frame it. A browser caches the files but asks each time whether they changed, so it shows a new version at once.
"""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import APIRouter, Request
from starlette.responses import Response
from starlette.status import HTTP_304_NOT_MODIFIED

from service.base.errors import NotFoundError
from service.doors.page.assets import Asset

INDEX = "index.html"
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
