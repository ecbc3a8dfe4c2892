"""The names of a service: the addresses in its answers repeat the Host header only where it names the service.

| name | from |
|---|---|
| those of the setting `allowed_hosts` | the gate refuses all others |
| this machine, its address, and its host name | the socket that the request came to |
| the names of the TLS certificate | the file |
| any name that a trusted proxy passes on | the proxy checks it |

A proxy is trusted where uvicorn trusts its X-Forwarded headers: at 127.0.0.1, or where FORWARDED_ALLOW_IPS says so.
"""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Collection
from contextlib import suppress
from typing import Final

from starlette.requests import Request

from service.base.errors import ForbiddenError

# The client and the scheme of the connection itself, before X-Forwarded headers are applied.
CONNECTED_FROM: Final = "connected_from"
THIS_MACHINE: Final = frozenset({"localhost", "localhost.localdomain", "127.0.0.1", "::1"})
_HOST = re.compile(r"(?:\[(?P<address>[0-9A-Fa-f:.]+)\]|(?P<name>[\w.-]+))(?::\d{0,5})?", re.ASCII)


class KnownHosts:
    """The names of a service.

    Args:
        allowed: names that requests may use; if empty, requests may use any name.
        certificate: file with the certificate chain of the service; empty without TLS.
        key: file with its private key.
    """

    def __init__(self, allowed: Collection[str], certificate: str, key: str) -> None:
        self._allowed = allowed
        own = {socket.gethostname().casefold()}
        self._names = (
            THIS_MACHINE | own | (certificate_names(certificate, key) if certificate else frozenset())
        )

    def base_url(self, request: Request) -> str:
        """Return the address of the service, as the client of a request knows it, without a slash at its end.

        Raises:
            ForbiddenError: the Host header names something else.
        """
        host = request.headers.get("host", "")
        if host and not self._knows(name_of(host), request):
            raise ForbiddenError(
                f"expected a request to a name of this service, found one to {host!r:.100}",
                hint="the setting allowed_hosts names the hosts of this service",
            )
        return str(request.base_url).rstrip("/")

    def _knows(self, name: str, request: Request) -> bool:
        if not name:
            return False
        # The gate has checked the name, or the proxy has.
        if self._allowed or _is_forwarded(request):
            return True
        server = request.scope.get("server")
        _, dot, parent = name.partition(".")
        return (
            name in self._names or dot + parent in self._names or (server is not None and name == server[0])
        )


def name_of(host: str) -> str:
    """Return the name or address in a Host header; empty if the header is not valid."""
    found = _HOST.fullmatch(host)
    return "" if found is None else (found["address"] or found["name"]).casefold()


def certificate_names(certificate: str, key: str) -> frozenset[str]:
    """Return the names of a certificate; those with a wildcard begin with a dot. A file that cannot be read has none."""
    with suppress(OSError):
        names = _presented(certificate, key).get("subjectAltName", ())
        return frozenset(str(value).casefold().removeprefix("*") for _, value in names)
    return frozenset()


def _presented(certificate: str, key: str) -> dict[str, tuple[tuple[str, str], ...]]:
    """Return the certificate as a client sees it: `ssl` parses only certificates that a peer presents.

    Raises:
        OSError: a file cannot be read, or the certificate is not valid now.
    """
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    server.load_cert_chain(certificate, key or None)
    client.check_hostname = False
    client.load_verify_locations(certificate)
    # The certificate itself is trusted, also where its issuer is not in the file.
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = (client.wrap_bio(to_client, to_server), server.wrap_bio(to_server, to_client, server_side=True))
    for side in (*sides, *sides):
        with suppress(ssl.SSLWantReadError):
            side.do_handshake()
    found: dict[str, tuple[tuple[str, str], ...]] = sides[0].getpeercert() or {}  # type: ignore[assignment]
    return found


def _is_forwarded(request: Request) -> bool:
    """Return whether a trusted proxy passed the request on: uvicorn applied its X-Forwarded headers."""
    before = request.scope.get("state", {}).get(CONNECTED_FROM)
    return before is not None and before != (request.scope.get("client"), request.scope["scheme"])
