"""Where a cluster answers, and one request to its REST API: bounded in time and in size, and never to another host.

A cluster is `[LABEL=]URL`, with what proves us to it: a token, a certificate, an authority that we trust. A token goes only to the
cluster that it is for, and only where nobody on the way can read it. It is read from its file before each request, so that a new one
needs no restart.

| limit | against |
|---|---|
| one deadline for connect, TLS, headers and body together | an endpoint that sends a byte now and then |
| `_MAX_ANSWER_BYTES` | an answer without an end |
| a redirect is followed only for GET, to the same host and port | a token that goes elsewhere, a request into our network |
| no proxy of the environment, no compressed answers | what nobody configured; small bodies that become large |

The messages of errors name the label of the cluster and not its address: clients of the service see them.
"""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, IncompleteRead
from typing import Any
from urllib.parse import SplitResult, urljoin, urlsplit

from service.base.errors import FlinkAnswerError, FlinkRefusalError, FlinkUnavailableError, without_folders
from service.base.hosts import THIS_MACHINE
from service.base.settings import InvalidSettingError, Settings, parts_of
from service.tasks.jobs.answers import Document, readable

_PORTS = {"http": 80, "https": 443}
_LONGEST_LABEL = 100
_MAX_TOKEN_BYTES = 16 << 10
_WHAT = "expected the address of Flink's REST API, such as http://jobmanager:8081 or prod=https://flink.example.com"
_MAX_ANSWER_BYTES = 32 << 20
_MOST_REDIRECTS = 3
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_LONGEST_MESSAGE = 300


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


# The plan of a job with thousands of operators has some megabytes.
class _TlsConnection(HTTPConnection):
    """A connection whose socket is known before its handshake begins, so that a deadline can end the handshake."""

    def __init__(self, host: str, port: int, timeout_s: float, context: ssl.SSLContext) -> None:
        super().__init__(host, port, timeout=timeout_s)
        self._tls = context

    def connect(self) -> None:
        """Connect, and shake hands."""
        super().connect()
        secured = self._tls.wrap_socket(self.sock, server_hostname=self.host, do_handshake_on_connect=False)
        self.sock = secured
        secured.do_handshake()


class RestClient:
    """Asks one cluster. Safe to share between threads: each request has a connection of its own.

    Args:
        endpoint: the cluster.
        timeout_s: seconds that one answer may take.
    """

    def __init__(self, endpoint: Endpoint, timeout_s: float) -> None:
        self.endpoint = endpoint
        self._timeout_s = timeout_s

    def get(self, path: str) -> Document:
        """Return what a path of the API answers.

        Raises:
            FlinkUnavailableError: nobody answers there, or not in time; or our token cannot be read.
            FlinkRefusalError: the answer is an error; it carries the HTTP status.
            FlinkAnswerError: the answer is no JSON object, or too long.
        """
        target = self.endpoint.prefix + path
        for _ in range(_MOST_REDIRECTS + 1):
            status, headers, body = self._exchange("GET", target, None, path)
            if status not in _REDIRECTS:
                return self._document(f"GET {path}", status, body)
            target = self._redirected(target, headers.get("location", ""), path)
        raise FlinkAnswerError(
            f"{self._at(path)}: expected an answer, found more than {_MOST_REDIRECTS} redirects"
        )

    def post(self, path: str, body: Mapping[str, Any]) -> Document:
        """Send an object to a path of the API, once, and return what it answers; for errors see `get`."""
        status, _, answer = self._exchange(
            "POST", self.endpoint.prefix + path, json.dumps(body).encode(), path
        )
        if status in _REDIRECTS:
            raise FlinkAnswerError(f"{self._at(path)}: expected an answer, found a redirect")
        return self._document(f"POST {path}", status, answer)

    def _exchange(
        self, method: str, target: str, body: bytes | None, path: str
    ) -> tuple[int, Mapping[str, str], bytes]:
        headers = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "savepointdb"}
        token = self._token(path)
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        if body is not None:
            headers["Content-Type"] = "application/json"
        connection = self._connection()
        is_late = threading.Event()
        try:
            with self._deadline(connection, is_late):
                connection.request(method, target, body, headers)
                with connection.getresponse() as response:
                    return response.status, _headers(response), self._read(response, path)
        except (OSError, HTTPException, ValueError) as error:
            # A socket that the deadline shut fails in several ways, or seems to end.
            # A cluster that misses our certificate says so only after the handshake, if its word comes through at all.
            may_miss = isinstance(error, OSError) and self.endpoint.is_secure and not is_late.is_set()
            is_doubtful = may_miss and not isinstance(error, ssl.SSLCertVerificationError)
            raise FlinkUnavailableError(
                f"{self._at(path)}: {self._reason(error, is_late)}",
                hint="a cluster that asks for a certificate needs --flink-certificate"
                if is_doubtful
                else None,
            ) from error
        finally:
            connection.close()

    def _token(self, path: str) -> str | None:
        try:
            return self.endpoint.token()
        except InvalidSettingError as error:
            raise FlinkUnavailableError(
                f"{self._at(path)}: expected a token to ask with, found none that can be read",
                detail=str(error),
            ) from error

    def _connection(self) -> HTTPConnection:
        endpoint = self.endpoint
        if endpoint.tls is not None:
            return _TlsConnection(endpoint.host, endpoint.port, self._timeout_s, endpoint.tls)
        return HTTPConnection(endpoint.host, endpoint.port, timeout=self._timeout_s)

    @contextmanager
    def _deadline(self, connection: HTTPConnection, is_late: threading.Event) -> Iterator[None]:
        """Shut the socket of a connection after the timeout: a timeout of its own begins anew with each byte."""

        def end() -> None:
            is_late.set()
            with suppress(OSError, AttributeError):
                # The shutdown of a TLS socket would wait for the other side.
                socket.socket.shutdown(connection.sock, socket.SHUT_RDWR)

        timer = threading.Timer(self._timeout_s, end)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
        if is_late.is_set():
            raise TimeoutError

    def _read(self, response: HTTPResponse, path: str) -> bytes:
        body = response.read(_MAX_ANSWER_BYTES + 1)
        if len(body) > _MAX_ANSWER_BYTES:
            raise FlinkAnswerError(
                f"{self._at(path)}: expected an answer of at most {_MAX_ANSWER_BYTES >> 20} MiB, found a longer one"
            )
        # A read of so many bytes does not complain of fewer.
        if response.length:
            raise IncompleteRead(body, response.length)
        return body

    def _redirected(self, target: str, location: str, path: str) -> str:
        """Return the path of a redirect on the same host.

        Raises:
            FlinkAnswerError: it leads elsewhere, or nowhere.
        """
        endpoint = self.endpoint
        origin = f"{'https' if endpoint.is_secure else 'http'}://{_bracketed(endpoint.host)}:{endpoint.port}"
        try:
            found = urlsplit(urljoin(origin + target, location))
            port = found.port or (443 if found.scheme == "https" else 80)
            same = (found.scheme, found.hostname, port) == (
                origin.partition(":")[0],
                endpoint.host,
                endpoint.port,
            )
        except ValueError:
            same = False
        if (
            not location
            or not same
            or not location.isascii()
            or not location.isprintable()
            or " " in location
        ):
            raise FlinkAnswerError(
                f"{self._at(path)}: expected an answer of this host, found a redirect to another",
                hint="give the address that it leads to, if you trust it",
            )
        return found.path + (f"?{found.query}" if found.query else "")

    def _document(self, request: str, status: int, body: bytes) -> Document:
        try:
            content = json.loads(body)
        # Deep nesting exhausts the stack, and numbers of a million digits are refused.
        except (ValueError, RecursionError) as error:
            if status >= 400:
                raise FlinkRefusalError(
                    f"{self.endpoint.label}: {request}: HTTP status {status}", found_status=status
                ) from error
            raise FlinkAnswerError(
                f"{self.endpoint.label}: {request}: expected JSON, found something else"
            ) from error
        if status >= 400:
            raise FlinkRefusalError(
                f"{self.endpoint.label}: {request}: HTTP status {status}: {_refusal(content)}",
                found_status=status,
            )
        return Document(content, f"{self.endpoint.label}: {request}")

    def _reason(self, error: Exception, is_late: threading.Event) -> str:
        if is_late.is_set() or isinstance(error, TimeoutError):
            return f"expected an answer within {self._timeout_s:g} s, found none"
        if isinstance(error, ssl.SSLCertVerificationError):
            return f"expected a certificate that we trust, found: {error.verify_message}"
        if isinstance(error, ssl.SSLError):
            return f"expected TLS, found {error.reason or type(error).__name__}"
        if isinstance(error, OSError):
            return f"expected Flink's REST API, found {error.strerror or type(error).__name__}"
        return f"expected an answer in HTTP, found {type(error).__name__}"

    def _at(self, path: str) -> str:
        return f"{self.endpoint.label}: {path}"


def _headers(response: HTTPResponse) -> dict[str, str]:
    return {name.casefold(): value for name, value in response.getheaders()}


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _refusal(content: Any) -> str:
    """Return the first line of the errors in Flink's answer, without folders of its machine."""
    errors = content.get("errors") if isinstance(content, dict) else None
    first = (
        next((one for one in errors if isinstance(one, str) and one), "") if isinstance(errors, list) else ""
    )
    return readable(without_folders(first.strip().partition("\n")[0]), _LONGEST_MESSAGE) or "no reason"
