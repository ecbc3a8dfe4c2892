"""The middleware that every request passes before the application sees it.

| check | refuses | why |
|---|---|---|
| host | unknown host names, if no credentials are needed | a foreign page whose name resolves to this service (DNS rebinding) |
| origin | POST and DELETE from pages of other origins | a foreign page that uses credentials of the browser (CSRF) |
| site | links (`/db`, `/saved`) that a page of another site loads or opens by itself | an image or a script that costs queries |
| credentials | requests without valid credentials, if they are needed | |

Credentials are `Authorization: Bearer key-or-token`, or Basic with a key as the password, as Trino's clients send it; the
user of Basic must be the name of the key. The page itself and its files, also where a browser opens a link, and the health
checks, need no credentials: they show no data.

`Caller` is the principal of a request, as a dependency of FastAPI.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
from collections.abc import Callable, Collection
from typing import Annotated
from urllib.parse import urlsplit

from anyio import to_thread
from fastapi import Depends, Request
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from service.base.errors import ForbiddenError, QueryError, UnauthorizedError
from service.base.hosts import THIS_MACHINE, name_of
from service.base.principal import ANYBODY, NOBODY, Principal
from service.doors.http.auth.keys import PREFIX, KeyFile
from service.doors.http.auth.tokens import TokenVerifier
from service.doors.http.errors import error_response

PRINCIPAL = "principal"
_OPEN_PATHS = frozenset({"/", "/healthz", "/readyz", "/v1/info"})
_OPEN_FOLDERS = ("/static/",)
_LINKS = ("/db/", "/db.", "/saved/")
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


class Authenticator:
    """Checks credentials.

    Args:
        keys: API keys, if the service has some.
        tokens: checks tokens of an identity provider, if the service has one.
    """

    def __init__(self, keys: KeyFile | None = None, tokens: TokenVerifier | None = None) -> None:
        self._keys = keys
        self._tokens = tokens

    @property
    def is_open(self) -> bool:
        """True if requests need no credentials."""
        return self._keys is None and self._tokens is None

    async def principal(self, headers: Headers) -> Principal:
        """Return the principal of a request.

        Raises:
            UnauthorizedError: the credentials are missing or wrong.
        """
        if self.is_open:
            return ANYBODY
        scheme, _, credentials = headers.get("authorization", "").partition(" ")
        credentials = credentials.strip()
        if scheme.casefold() == "basic":
            name, secret = _basic(credentials)
            found = await self._of(secret)
            if found.name != name:
                raise UnauthorizedError("expected the name of the key as user")
            return found
        if scheme.casefold() == "bearer" and credentials:
            return await self._of(credentials)
        raise UnauthorizedError(
            "expected credentials",
            hint="send Authorization: Bearer and an API key, or Basic with one as password",
        )

    async def _of(self, secret: str) -> Principal:
        # A changed file of keys is read here, and tokens may wait for their provider: both block a thread.
        if self._keys is not None:
            found = await to_thread.run_sync(self._keys.principal, secret)
            if found is not None:
                return found
        if self._tokens is not None and not secret.startswith(PREFIX):
            return await to_thread.run_sync(self._tokens.principal, secret)
        raise UnauthorizedError("expected a valid key")


class Gate:
    """The middleware of this module.

    Args:
        app: the application.
        authenticator: checks credentials.
        hosts: names and addresses of this service, without ports; empty allows any name.
        wants_page: whether the page answers a request, in place of rows.
    """

    def __init__(
        self,
        app: ASGIApp,
        authenticator: Authenticator,
        hosts: Collection[str] = (),
        wants_page: Callable[[Scope], bool] = lambda _scope: False,
    ) -> None:
        self._app = app
        self._authenticator = authenticator
        self._hosts = frozenset(host.casefold() for host in hosts)
        self._wants_page = wants_page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request; the signature is ASGI's."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        try:
            self._check_host(headers)
            _check_origin(scope, headers)
            _check_site(scope, headers)
            principal = await self._principal(scope, headers)
        except QueryError as error:
            response = error_response(error)
            if isinstance(error, UnauthorizedError):
                response.headers["WWW-Authenticate"] = _challenge(headers)
            await response(scope, receive, send)
            return
        scope.setdefault("state", {})[PRINCIPAL] = principal
        await self._app(scope, receive, send)

    async def _principal(self, scope: Scope, headers: Headers) -> Principal:
        if _is_open(scope["path"]):
            return ANYBODY
        # Should any other answer than the page be given, it must show nothing.
        return NOBODY if self._wants_page(scope) else await self._authenticator.principal(headers)

    def _check_host(self, headers: Headers) -> None:
        host = name_of(headers.get("host", ""))
        if self._hosts and host not in self._hosts:
            raise ForbiddenError(
                f"expected a request to {min(self._hosts)}, found one to {host!r:.100}",
                hint="the setting allowed_hosts names the hosts of this service",
            )


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.casefold() in THIS_MACHINE


def _check_origin(scope: Scope, headers: Headers) -> None:
    origin = headers.get("origin")
    if scope["method"] in _SAFE_METHODS or origin is None:
        return
    # Programs send no Origin, browsers send it with every POST and DELETE.
    if _authority_of(origin) != headers.get("host", "").casefold():
        raise ForbiddenError("expected a request of this service's own page, found one from another origin")


def _check_site(scope: Scope, headers: Headers) -> None:
    """Refuse a link that a page of another site loads; a link that its reader follows is answered."""
    path = scope["path"]
    if path != "/db" and not path.startswith(_LINKS):
        return
    # Scripts send Origin with a request that they want to read, browsers send Sec-Fetch over https and to this machine.
    origin = headers.get("origin")
    is_foreign = origin is not None and _authority_of(origin) != headers.get("host", "").casefold()
    if headers.get("sec-fetch-site") in ("cross-site", "same-site"):
        is_foreign = is_foreign or not (
            headers.get("sec-fetch-dest") == "document" and headers.get("sec-fetch-user") == "?1"
        )
    if is_foreign:
        raise ForbiddenError(
            "expected a link that somebody follows, found one that a page of another site loads",
            hint="open the address itself, or read it with a program",
        )


def _authority_of(origin: str) -> str | None:
    """Return host and port of an origin; None if the text is no origin."""
    try:
        return urlsplit(origin).netloc.casefold()
    except ValueError:
        return None


def _challenge(headers: Headers) -> str:
    """Return the WWW-Authenticate header."""
    # Our page asks for a key itself: with Basic in the header the browser would show its own dialog first.
    bearer = 'Bearer realm="savepointdb"'
    return bearer if "x-requested-with" in headers else f'{bearer}, Basic realm="savepointdb"'


def _is_open(path: str) -> bool:
    return path in _OPEN_PATHS or path.startswith(_OPEN_FOLDERS)


def _basic(credentials: str) -> tuple[str, str]:
    try:
        name, _, secret = base64.b64decode(credentials, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError) as error:
        raise UnauthorizedError("expected a user and a password in base64") from error
    return name, secret


def principal_of(request: Request) -> Principal:
    """Return the principal that the gate found for a request."""
    principal: Principal = getattr(request.state, PRINCIPAL)
    return principal


def caller_of(request: Request) -> Principal:
    """Return the principal of a request; without authentication, its name is the address of the client."""
    return principal_of(request).named(request.client.host if request.client else "")


# This dependency is `async` although it waits for nothing: FastAPI calls others in a thread, which took a fifth of the
# processor time of a lookup.
async def _caller(request: Request) -> Principal:
    return caller_of(request)


Caller = Annotated[Principal, Depends(_caller)]
