"""The headers of a request → the session: Trino's clients keep it, and send it with every statement.

| header | content |
|---|---|
| X-Trino-User | the user |
| X-Trino-Source | the client's name for itself |
| X-Trino-Catalog, X-Trino-Schema | current catalog and schema |
| X-Trino-Session | `name=value`, separated by commas, values URL-encoded |
| X-Trino-Prepared-Statement | `name=sql`, in the same form |
| X-Trino-Transaction-Id | `NONE` or an id; ignored, there is nothing to commit |
| X-Trino-Client-Capabilities | optional parts of the protocol that the client understands |

The client's time zone is ignored: timestamps with a time zone are sent in UTC.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote_plus

from starlette.datastructures import Headers

from service.base.errors import ForbiddenError, InvalidRequestError
from service.base.principal import ANYBODY, Principal

_MEASURE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
# Trino's units are powers of two, whatever their names say: io.airlift.units.DataSize.
_BYTES = {"B": 1, "kB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40, "PB": 1 << 50}
_LONGEST = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """The session of a client.

    Attributes:
        user: name of the user.
        principal: the user, and the user's grants.
        source: the client's name for itself.
        catalog: current catalog; None if the client sends none.
        schema: current schema; None if the client sends none.
        properties: name → value, both as text.
        prepared: name → statement.
        capabilities: optional parts of the protocol that the client understands.
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
        """True if the client understands `timestamp(6)`."""
        return "PARAMETRIC_DATETIME" in self.capabilities


def session_of(headers: Headers, principal: Principal = ANYBODY) -> Session:
    """Read the session of a request.

    Args:
        headers: as Trino's clients send them.
        principal: the principal of the credentials; X-Trino-User must name the same user.

    Raises:
        ForbiddenError: the header names another user.
        InvalidRequestError: a header is not as documented, or the user is missing.
    """
    user = headers.get("x-trino-user", "").strip() or principal.name
    if not user:
        raise InvalidRequestError("expected the header X-Trino-User, found none", status=401)
    if principal.name and user != principal.name:
        raise ForbiddenError("expected the user of the credentials in X-Trino-User, found another")
    # Some of them are kept in the history of queries, long after the request.
    for name in ("x-trino-user", "x-trino-source", "x-trino-catalog", "x-trino-schema"):
        if len(headers.get(name, "")) > _LONGEST:
            raise InvalidRequestError(f"expected a shorter header {name}", status=431)
    capabilities = headers.get("x-trino-client-capabilities", "").split(",")
    return Session(
        user=user,
        principal=principal.named(user),
        source=headers.get("x-trino-source", "") or headers.get("user-agent", "")[:_LONGEST],
        catalog=headers.get("x-trino-catalog") or None,
        schema=headers.get("x-trino-schema") or None,
        properties=_pairs(headers, "x-trino-session"),
        prepared=_pairs(headers, "x-trino-prepared-statement"),
        capabilities=frozenset(capability.strip().upper() for capability in capabilities),
    )


def duration_s(text: str) -> float:
    """Return the seconds of a duration such as `2s` or `1.50m`.

    Raises:
        InvalidRequestError: the text is no duration.
    """
    return _measured(text, _SECONDS, "a duration such as 30s or 5m")


def data_size_bytes(text: str) -> int:
    """Return the bytes of a data size such as `10GB`.

    Raises:
        InvalidRequestError: the text is no data size.
    """
    return int(_measured(text, _BYTES, "a size such as 500MB or 2GB"))


def is_true(text: str) -> bool:
    """Return the value of a boolean property.

    Raises:
        InvalidRequestError: the text is neither `true` nor `false`.
    """
    word = text.strip().casefold()
    if word not in ("true", "false"):
        raise wrong_property("true or false", text)
    return word == "true"


def wrong_property(expected: str, text: str) -> InvalidRequestError:
    """Return the error of a property of the session with another value."""
    return InvalidRequestError(f"expected {expected}, found {text[:50]!r}", code="INVALID_SESSION_PROPERTY")


def _measured(text: str, units: Mapping[str, float], expected: str) -> float:
    found = _MEASURE.fullmatch(text)
    if found is None or found[2] not in units:
        raise wrong_property(expected, text)
    return float(found[1]) * units[found[2]]


def _pairs(headers: Headers, name: str) -> dict[str, str]:
    pairs = {}
    for header in headers.getlist(name):
        for part in filter(None, (part.strip() for part in header.split(","))):
            key, equals, value = part.partition("=")
            if not equals:
                raise InvalidRequestError(f"expected name=value in the header {name}")
            # Trino ignores case in names of properties and prepared statements.
            pairs[unquote_plus(key).casefold()] = unquote_plus(value)
    return pairs
