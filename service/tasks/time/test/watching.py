"""New checkpoints, as they come; and their reports → POST to a URL of the user, as JSON.

The URL comes from the user's own command line. Certificates are checked, redirects are not followed: a header with a secret must not
go to another server. Another attempt follows where the server is busy or gone, at most three in all.
"""

from __future__ import annotations

import http.client
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.message import Message
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

import orjson

from catalog import Catalog, Database
from service.base.errors import InvalidRequestError
from service.tasks.time.test.rules import Severity
from service.tasks.time.test.running import KEPT, SavepointResult, Subject, subject_of

_TIMEOUT_S = 10.0
_PAUSES_S = (1.0, 4.0)
_MAY_PASS = frozenset({408, 425, 429, 500, 502, 503, 504})
_MOST_HEADERS_BYTES = 64 << 10
_LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})


class Watch:
    """Looks at the roots again and again. At first the newest savepoint of each job is new, then whatever was not there before.

    Args:
        catalog: the savepoints.

    Attributes:
        jobs: the names of the jobs at the last look.
    """

    def __init__(self, catalog: Catalog) -> None:
        self.jobs: frozenset[str] = frozenset()
        self._catalog = catalog
        self._seen: set[tuple[str, int]] = set()
        self._is_first = True

    def look(self) -> list[Subject]:
        """Return the new savepoints, those of each job from the oldest to the newest.

        Raises:
            ReaderError: a root is missing, or cannot be listed; the next look may find what is new since the last one.
        """
        if not self._is_first:
            self._catalog.refresh()
        found: list[Subject] = []
        known: set[tuple[str, int]] = set()
        jobs = self._catalog.jobs()
        for job in jobs:
            versions = [_version(database) for database in job.databases]
            known |= set(versions)
            count = 1 if self._is_first else len(versions)
            found += [
                subject_of(job, place)
                for place in reversed(range(count))
                if versions[place] not in self._seen
            ]
        # What is gone needs not be remembered.
        self._seen = known
        self.jobs = frozenset(job.name for job in jobs)
        self._is_first = False
        return found


def _version(database: Database) -> tuple[str, int]:
    return database.path, database.modified_ns


class WebhookError(Exception):
    """The server did not take a report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """Posts reports.

    Attributes:
        url: of the server.
        headers: of each request, beside those that it needs.
        timeout_s: seconds to wait for the server at each step.
        pauses_s: seconds between the attempts.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = _TIMEOUT_S
    pauses_s: tuple[float, ...] = _PAUSES_S

    def post(self, body: Mapping[str, Any]) -> None:
        """Send a report.

        Raises:
            WebhookError: the server refuses it, or did not answer any attempt.
        """
        request = urllib.request.Request(
            self.url,
            data=orjson.dumps(body),
            headers={"Content-Type": "application/json", "User-Agent": "savepointdb", **self.headers},
            method="POST",
        )
        opener = urllib.request.build_opener(
            _NoRedirects(), urllib.request.HTTPSHandler(context=ssl.create_default_context())
        )
        for pause_s in (*self.pauses_s, None):
            failure, may_pass = self._attempt(opener, request)
            if not failure:
                return
            if pause_s is None or not may_pass:
                # The path of such a URL is mostly a secret.
                raise WebhookError(f"{urlsplit(self.url).hostname}: {failure}")
            time.sleep(pause_s)

    def _attempt(
        self, opener: urllib.request.OpenerDirector, request: urllib.request.Request
    ) -> tuple[str, bool]:
        """Return why an attempt failed, empty if it did not, and whether another one may succeed."""
        try:
            with opener.open(request, timeout=self.timeout_s):
                return "", False
        except urllib.error.HTTPError as error:
            with error:
                return f"expected status 200, found {error.code} {error.reason}", error.code in _MAY_PASS
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = getattr(error, "reason", error)
            is_certificate = isinstance(reason, ssl.SSLCertVerificationError)
            return f"expected an answer, found {reason or type(reason).__name__}", not is_certificate


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Leaves a redirect as it is, an answer with another status than 200: urllib asks `redirect_request` what to do."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> None:
        """Return no request."""


def webhook_of(url: str, headers_file: str | None, option: str = "--webhook") -> Webhook:
    """Return the webhook of a URL.

    Args:
        url: as the user gave it.
        headers_file: a file of headers, one a line, which go to another machine only by TLS; None for none.
        option: where the user gave it, for errors.

    Raises:
        InvalidRequestError: the URL or the file is none that can be used.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise InvalidRequestError(f"{option}: expected a URL, found another text: {error}") from error
    if parts.scheme not in ("https", "http") or not host or parts.username is not None:
        raise InvalidRequestError(
            f"{option}: expected https://HOST/PATH without a user, found another text",
            hint="a file of headers holds secrets",
        )
    if parts.scheme == "http" and headers_file is not None and host not in _LOCAL:
        raise InvalidRequestError(f"{option}: expected https for headers that may be secrets, found http")
    if not url.isascii() or not url.isprintable() or " " in url:
        raise InvalidRequestError(f"{option}: expected a URL of printable ASCII, found other characters")
    return Webhook(url=url, headers={} if headers_file is None else _headers(headers_file))


def _headers(path: str) -> dict[str, str]:
    try:
        with Path(path).open(encoding="latin-1") as file:
            text = file.read(_MOST_HEADERS_BYTES)
    except OSError as error:
        raise InvalidRequestError(f"{path}: expected a file of headers, found {error.strerror}") from error
    headers = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        name, separator, value = line.partition(":")
        is_token = name.isascii() and name.replace("-", "").replace("_", "").isalnum()
        if not separator or not is_token or not value.strip().isprintable():
            # The line may be a secret, so the message does not show it.
            raise InvalidRequestError(
                f"{path}, line {number}: expected a header, Name: value, found another text"
            )
        headers[name] = value.strip()
    return headers


class Notices:
    """Says which reports are sent: those of savepoints that fail, and the first one of the same job that is fine again.

    Args:
        fail_on: the least severity of a violation that fails.
    """

    def __init__(self, fail_on: Severity) -> None:
        self._fail_on = fail_on
        self._failing: set[str] = set()

    def body_of(self, savepoint: SavepointResult) -> Mapping[str, Any] | None:
        """Return the report to send; None if there is nothing to say."""
        # That Flink deletes old checkpoints says nothing of the job.
        if savepoint.is_gone:
            return None
        is_failing = savepoint.exit_code(self._fail_on) != KEPT
        if not is_failing and savepoint.job not in self._failing:
            return None
        (self._failing.add if is_failing else self._failing.discard)(savepoint.job)
        event = "failing" if is_failing else "fine again"
        failing = [one.title for one in savepoint.results if one.fails(self._fail_on)]
        told = (
            ", ".join(failing)
            or savepoint.error
            or ("a rule could not be tested" if is_failing else "all rules hold")
        )
        return {
            "event": event,
            "text": f"{savepoint.name}: {event}: {told}",
            "savepoint": savepoint.to_dict(),
        }
