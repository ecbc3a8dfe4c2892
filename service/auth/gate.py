"""The middleware that every request passes before the application sees it.

| check | refuses | why |
|---|---|---|
| host | names that are not this service's, where nobody needs credentials | a page elsewhere whose name leads here (DNS rebinding) |
| origin | POST and DELETE from pages of other origins | a page elsewhere asks with what the browser knows (CSRF) |
| credentials | whoever has none, where they are needed | |

Credentials are `Authorization: Bearer key-or-token`, or Basic with a key as the password, as Trino's clients send it; the user of
Basic must be the name of the key. The page itself and its parts, and the health checks, need none: they show nothing.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
from collections.abc import Collection
from urllib.parse import urlsplit

from anyio import to_thread
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from service.auth.keys import PREFIX, KeyFile
from service.auth.principal import ANYBODY, Principal
from service.auth.tokens import TokenVerifier
from service.errors import ForbiddenError, QueryError, UnauthorizedError
from service.http.errors import error_response

PRINCIPAL = "principal"
_OPEN_PATHS = frozenset({"/", "/healthz", "/readyz", "/v1/info"})
_OPEN_FOLDERS = ("/static/",)
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_THIS_MACHINE = frozenset({"localhost", "localhost.localdomain"})


class Authenticator:
    """Credentials → who it is.

    Args:
        keys: API keys, where there are some.
        tokens: of an identity provider, where there is one.
    """

    def __init__(self, keys: KeyFile | None = None, tokens: TokenVerifier | None = None) -> None:
        self._keys = keys
        self._tokens = tokens

    @property
    def is_open(self) -> bool:
        """Whether nobody needs credentials."""
        return self._keys is None and self._tokens is None

    async def principal(self, headers: Headers) -> Principal:
        """Who sends these.

        Raises:
            UnauthorizedError: no credentials, or wrong ones.
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
        if self._keys is not None:
            found = await to_thread.run_sync(self._keys.principal, secret)
            if found is not None:
                return found
        if self._tokens is not None and not secret.startswith(PREFIX):
            return await to_thread.run_sync(self._tokens.principal, secret)
        raise UnauthorizedError("expected a valid key")


class Gate:
    """Middleware; see the module.

    Args:
        app: the application.
        authenticator: knows credentials.
        hosts: names and addresses of this service, without ports; any where empty.
    """

    def __init__(self, app: ASGIApp, authenticator: Authenticator, hosts: Collection[str] = ()) -> None:
        self._app = app
        self._authenticator = authenticator
        self._hosts = frozenset(host.casefold() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI asks."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        try:
            self._check_host(headers)
            _check_origin(scope, headers)
            principal = ANYBODY if _is_open(scope["path"]) else await self._authenticator.principal(headers)
        except QueryError as error:
            response = error_response(error)
            if isinstance(error, UnauthorizedError):
                response.headers["WWW-Authenticate"] = _challenge(headers)
            await response(scope, receive, send)
            return
        scope.setdefault("state", {})[PRINCIPAL] = principal
        await self._app(scope, receive, send)

    def _check_host(self, headers: Headers) -> None:
        host = _name_of(headers.get("host", ""))
        if self._hosts and host not in self._hosts:
            raise ForbiddenError(
                f"expected a request to {min(self._hosts)}, found one to {host!r:.100}",
                hint="the setting allowed_hosts names the hosts of this service",
            )


def loopback_hosts() -> frozenset[str]:
    """What a service on this machine is called."""
    return _THIS_MACHINE | {"127.0.0.1", "::1"}


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.casefold() in _THIS_MACHINE


def _check_origin(scope: Scope, headers: Headers) -> None:
    origin = headers.get("origin")
    if scope["method"] in _SAFE_METHODS or origin is None:
        return
    if _place_of(origin) != headers.get("host", "").casefold():
        raise ForbiddenError("expected a request of this service's own page, found one from another origin")


def _place_of(origin: str) -> str | None:
    """Host and port of an origin; None if it is none."""
    try:
        return urlsplit(origin).netloc.casefold()
    except ValueError:
        return None


def _challenge(headers: Headers) -> str:
    """Which credentials are wanted. The page asks for a key itself, before a browser asks for a password."""
    bearer = 'Bearer realm="savepointdb"'
    return bearer if "x-requested-with" in headers else f'{bearer}, Basic realm="savepointdb"'


def _is_open(path: str) -> bool:
    return path in _OPEN_PATHS or path.startswith(_OPEN_FOLDERS)


def _name_of(host: str) -> str:
    """The name or address in a Host header."""
    try:
        return (urlsplit(f"//{host}").hostname or "").casefold()
    except ValueError:
        return ""


def _basic(credentials: str) -> tuple[str, str]:
    try:
        name, _, secret = base64.b64decode(credentials, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError) as error:
        raise UnauthorizedError("expected a user and a password in base64") from error
    return name, secret
