"""Where a cluster answers: `[LABEL=]URL`, and what proves us to it: a token, a certificate, an authority that we trust.

A token goes only to the cluster that it is for, and only where nobody on the way can read it. It is read from its file before each
request, so that a new one needs no restart.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from service.base.hosts import THIS_MACHINE
from service.base.settings import InvalidSettingError, Settings, parts_of

_PORTS = {"http": 80, "https": 443}
_LONGEST_LABEL = 100
_MAX_TOKEN_BYTES = 16 << 10
_WHAT = "expected the address of Flink's REST API, such as http://jobmanager:8081 or prod=https://flink.example.com"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """The REST API of a cluster.

    Attributes:
        label: names the cluster wherever it is shown; its address is not.
        is_secure: whether it speaks TLS.
        host, port: where it listens.
        prefix: the beginning of all paths, without a slash at its end; empty, but behind some proxies.
        token_file: holds a bearer token; empty for none.
        tls: certificates; None without TLS.
    """

    label: str
    is_secure: bool
    host: str
    port: int
    prefix: str = ""
    token_file: str = ""
    tls: ssl.SSLContext | None = None

    def token(self) -> str | None:
        """Read the token; None where the cluster needs none.

        Raises:
            InvalidSettingError: the file cannot be read, or holds no token.
        """
        if not self.token_file:
            return None
        try:
            with open(self.token_file, "rb") as file:
                data = file.read(_MAX_TOKEN_BYTES + 1)
        except OSError as error:
            raise InvalidSettingError(
                f"flink_token_file: expected a file with a token, found {error.strerror}: {self.token_file}"
            ) from error
        token = data.decode("ascii", "replace").strip()
        # A line break would end the header, and begin another one.
        if (
            not token.isprintable()
            or not token.isascii()
            or not 0 < len(token) <= _MAX_TOKEN_BYTES
            or " " in token
        ):
            raise InvalidSettingError(
                f"flink_token_file: expected one token in {self.token_file}, found something else"
            )
        return token


def endpoints_of(settings: Settings) -> tuple[Endpoint, ...]:
    """Return the clusters that the settings name.

    Raises:
        InvalidSettingError: an address or a file is not usable, or two clusters have one label.
    """
    texts = parts_of(settings.flink.clusters)
    tokens = dict(map(_labelled_file, parts_of(settings.flink.token_file)))
    tls = _tls_of(settings) if any("https://" in text.casefold() for text in texts) else None
    found = [_endpoint(text, tokens, tls) for text in texts]
    labels = [endpoint.label.casefold() for endpoint in found]
    for endpoint in found:
        if labels.count(endpoint.label.casefold()) > 1:
            raise InvalidSettingError(f"flink: expected different labels, found {endpoint.label!r} twice")
    unknown = [label for label in tokens if label and label.casefold() not in labels]
    if unknown:
        raise InvalidSettingError(
            f"flink_token_file: expected the label of a cluster, found {unknown[0]!r}; there are {_listed(labels)}"
        )
    for endpoint in found:
        endpoint.token()  # an error belongs here, not to the first request
    return tuple(found)


def _endpoint(text: str, tokens: dict[str, str], tls: ssl.SSLContext | None) -> Endpoint:
    label, separator, url = text.strip().partition("=")
    if not separator or "/" in label:
        label, url = "", text.strip()
    parts, port = _split(url)
    host = parts.hostname or ""
    # A password in an address would get into process lists and logs.
    if parts.username is not None or parts.password is not None:
        raise InvalidSettingError(
            "flink: expected an address without a user, found one; give --flink-token-file"
        )
    if parts.scheme not in _PORTS or not host or parts.query or parts.fragment:
        raise InvalidSettingError(f"flink: {_WHAT}, found {url!r:.200}")
    label = label or f"{host}:{port or _PORTS[parts.scheme]}"
    if len(label) > _LONGEST_LABEL or not label.isprintable():
        raise InvalidSettingError(
            f"flink: expected a label of at most {_LONGEST_LABEL} characters, found {label!r:.120}"
        )
    is_secure = parts.scheme == "https"
    token_file = tokens.get(label, tokens.get("", ""))
    if token_file and not is_secure and host.casefold() not in THIS_MACHINE:
        raise InvalidSettingError(
            f"flink: expected https:// for {label}, because a token is sent there, found http://"
        )
    return Endpoint(
        label=label,
        is_secure=is_secure,
        host=host,
        port=port or _PORTS[parts.scheme],
        prefix=parts.path.rstrip("/"),
        token_file=token_file,
        tls=tls if is_secure else None,
    )


def _split(url: str) -> tuple[SplitResult, int | None]:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise InvalidSettingError(f"flink: {_WHAT}, found {url!r:.200}") from error
    if not url.isascii() or not url.isprintable() or " " in url:
        raise InvalidSettingError(f"flink: {_WHAT}, found {url!r:.200}")
    return parts, port


def _labelled_file(text: str) -> tuple[str, str]:
    """Parse `[LABEL=]FILE`."""
    label, separator, file = text.strip().partition("=")
    return (label, file) if separator and "/" not in label else ("", text.strip())


def _tls_of(settings: Settings) -> ssl.SSLContext:
    """Return what checks the certificates of clusters, and shows them ours."""
    flink = settings.flink
    try:
        context = ssl.create_default_context()
        if flink.ca_file:
            context.load_verify_locations(flink.ca_file)
        if flink.certificate:
            context.load_cert_chain(flink.certificate, flink.key or None)
    except (OSError, ssl.SSLError) as error:
        files = ", ".join(filter(None, (flink.ca_file, flink.certificate, flink.key)))
        raise InvalidSettingError(f"flink: expected certificates in PEM in {files}, found {error}") from error
    return context


def _listed(labels: Sequence[str]) -> str:
    return ", ".join(labels) or "none"
