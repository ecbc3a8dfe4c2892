"""The headers of a request → the session: Trino's clients keep it, and send all of it with every statement.

| header | is |
|---|---|
| X-Trino-User | who asks |
| X-Trino-Source | the client, as it calls itself |
| X-Trino-Catalog, X-Trino-Schema | where names are looked up |
| X-Trino-Session | `name=value`, with commas between, values URL-encoded |
| X-Trino-Prepared-Statement | `name=sql`, likewise |
| X-Trino-Transaction-Id | `NONE` or an id: there is nothing to commit |
| X-Trino-Client-Capabilities | what the client understands |

Time zones change nothing: timestamps with a time zone come in UTC.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote_plus

from starlette.datastructures import Headers

from service.auth.principal import ANYBODY, Principal
from service.errors import ForbiddenError, InvalidRequestError

_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ns|us|ms|s|m|h|d)\s*")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kMGTP]?B)\s*")
_BYTES = {"B": 1, "kB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40, "PB": 1 << 50}
_LONGEST = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """What a client said of itself.

    Attributes:
        user: who asks.
        principal: what they may see.
        source: the client, as it calls itself.
        catalog: where names are looked up; None where the client does not say.
        schema: likewise.
        properties: name → value, both as text.
        prepared: name → statement.
        capabilities: what the client understands.
    """

    user: str
    principal: Principal = ANYBODY
    source: str = ""
    catalog: str | None = None
    schema: str | None = None
    properties: Mapping[str, str]
    prepared: Mapping[str, str]
    capabilities: frozenset[str] = frozenset()

    @property
    def is_parametric(self) -> bool:
        """Whether the client understands `timestamp(6)`."""
        return "PARAMETRIC_DATETIME" in self.capabilities


def session_of(headers: Headers, principal: Principal = ANYBODY) -> Session:
    """The session of a request.

    Args:
        headers: as Trino's clients send them.
        principal: who it is; the user that is named must be they.

    Raises:
        ForbiddenError: another user is named.
        InvalidRequestError: a header is not as documented, or no user is named.
    """
    user = headers.get("x-trino-user", "").strip() or principal.name
    if not user:
        raise InvalidRequestError("expected the header X-Trino-User, found none", status=401)
    if principal.name and user != principal.name:
        raise ForbiddenError("expected the user of the credentials in X-Trino-User, found another")
    for name in ("x-trino-user", "x-trino-source", "x-trino-catalog", "x-trino-schema"):
        if len(headers.get(name, "")) > _LONGEST:
            raise InvalidRequestError(f"expected a shorter header {name}", status=431)
    capabilities = headers.get("x-trino-client-capabilities", "").split(",")
    return Session(
        user=user,
        principal=principal,
        source=headers.get("x-trino-source", "") or headers.get("user-agent", "")[:_LONGEST],
        catalog=headers.get("x-trino-catalog") or None,
        schema=headers.get("x-trino-schema") or None,
        properties=_pairs(headers, "x-trino-session"),
        prepared=_pairs(headers, "x-trino-prepared-statement"),
        capabilities=frozenset(capability.strip().upper() for capability in capabilities),
    )


def duration_s(text: str) -> float:
    """The seconds of a duration of Trino's, such as `2s` or `1.50m`.

    Raises:
        InvalidRequestError: it is none.
    """
    found = _DURATION.fullmatch(text)
    if found is None:
        raise InvalidRequestError(
            f"expected a duration such as 30s or 5m, found {text[:50]!r}", code="INVALID_SESSION_PROPERTY"
        )
    return float(found[1]) * _SECONDS[found[2]]


def data_size_bytes(text: str) -> int:
    """The bytes of a data size of Trino's, such as `10GB`.

    Raises:
        InvalidRequestError: it is none.
    """
    found = _SIZE.fullmatch(text)
    if found is None:
        raise InvalidRequestError(
            f"expected a size such as 500MB or 2GB, found {text[:50]!r}", code="INVALID_SESSION_PROPERTY"
        )
    return int(float(found[1]) * _BYTES[found[2]])


def _pairs(headers: Headers, name: str) -> dict[str, str]:
    pairs = {}
    for header in headers.getlist(name):
        for part in filter(None, (part.strip() for part in header.split(","))):
            key, equals, value = part.partition("=")
            if not equals:
                raise InvalidRequestError(f"expected name=value in the header {name}")
            pairs[unquote_plus(key).casefold()] = unquote_plus(value)
    return pairs
