"""Reports that are posted: what a server gets, and servers that are busy, gone or hostile."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from service.base.errors import InvalidRequestError
from service.tasks.time.test.rules import Rule, Severity
from service.tasks.time.test.running import RuleResult, SavepointResult, Status
from service.tasks.time.test.watching import Notices, WebhookError, webhook_of
from tests.support.receiving import Receiver

RULE = Rule(name="none", sql="SELECT 1")
FINE = SavepointResult(
    name="chk-1", path="/chk-1", job="job", results=(RuleResult(rule=RULE, status=Status.PASSED),)
)
BAD = replace(FINE, name="chk-2", results=(RuleResult(rule=RULE, status=Status.VIOLATED),))


@pytest.fixture
def serve() -> Iterator[Any]:
    servers: list[Receiver] = []

    def start(*statuses: int) -> Receiver:
        servers.append(Receiver(list(statuses)))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def test_a_report_is_posted_with_the_headers_of_a_file(serve: Any, tmp_path: Path) -> None:
    server = serve(204)
    (tmp_path / "headers").write_text("Authorization: Bearer secret\n\nX-Team: state\n")

    webhook_of(server.url, str(tmp_path / "headers")).post({"event": "failing"})

    ((path, headers, body),) = server.requests
    assert (path, body) == ("/hook", {"event": "failing"})
    assert (headers["Authorization"], headers["X-Team"]) == ("Bearer secret", "state")
    assert headers["Content-Type"] == "application/json"


def test_a_busy_server_is_asked_again(serve: Any) -> None:
    server = serve(503, 429, 200)

    replace(webhook_of(server.url, None), pauses_s=(0.0, 0.0)).post({})

    assert len(server.requests) == 3


@pytest.mark.parametrize(("status", "attempts"), [(503, 3), (404, 1), (302, 1), (307, 1)])
def test_a_server_that_refuses_is_named(status: int, attempts: int, serve: Any) -> None:
    server = serve(status)

    with pytest.raises(WebhookError, match=rf"127\.0\.0\.1: expected status 200, found {status}"):
        replace(webhook_of(server.url, None), pauses_s=(0.0, 0.0)).post({})

    # No secret goes where a redirect leads.
    assert [path for path, _, _ in server.requests] == ["/hook"] * attempts


@pytest.mark.parametrize("listens", [False, True], ids=["gone", "silent"])
def test_a_server_that_is_gone_or_silent_is_named(listens: bool) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        if listens:
            server.listen()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/hook"

        with pytest.raises(WebhookError, match=r"127\.0\.0\.1: expected an answer, found"):
            replace(webhook_of(url, None), pauses_s=(0.0,), timeout_s=0.2).post({})


def test_a_certificate_is_checked(serve: Any) -> None:
    # It speaks no TLS at all, so nothing of the report reaches it.
    server = serve(200)

    with pytest.raises(WebhookError, match="expected an answer, found"):
        replace(webhook_of(server.url.replace("http:", "https:"), None), pauses_s=()).post({})

    assert server.requests == []


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("ftp://x/y", "expected https://HOST/PATH without a user"),
        ("https:///y", "expected https://HOST/PATH without a user"),
        ("https://user:word@x/y", "expected https://HOST/PATH without a user"),
        ("https://x:port/y", "expected a URL, found another text"),
        ("https://x/y\r\nA: b", "found other characters"),
        ("", "expected https://HOST/PATH"),
    ],
)
def test_a_url_that_is_none_is_refused(url: str, message: str) -> None:
    with pytest.raises(InvalidRequestError) as raised:
        webhook_of(url, None)

    assert message in str(raised.value)
    assert "word" not in str(raised.value)


@pytest.mark.parametrize("text", ["secret", "A b: secret", "A: secret\x00", ": secret", "É: secret"])
def test_a_file_of_headers_that_is_none_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "headers").write_text(text)

    with pytest.raises(
        InvalidRequestError, match=r"headers, line 1: expected a header, Name: value"
    ) as raised:
        webhook_of("https://example.com/x", str(tmp_path / "headers"))

    assert "secret" not in str(raised.value)


def test_headers_go_to_another_machine_only_by_tls(tmp_path: Path) -> None:
    (tmp_path / "headers").write_text("A: b")

    with pytest.raises(
        InvalidRequestError, match="expected https for headers that may be secrets, found http"
    ):
        webhook_of("http://example.com/x", str(tmp_path / "headers"))
    with pytest.raises(InvalidRequestError, match="none: expected a file of headers, found No such file"):
        webhook_of("https://example.com/x", "none")


def test_what_fails_is_told_and_that_it_is_fine_again() -> None:
    notices = Notices(Severity.ERROR)
    gone = replace(BAD, error="it was deleted", is_gone=True, results=())
    unread = replace(FINE, name="chk-4", error="no magic", results=())

    told = [notices.body_of(one) for one in (FINE, BAD, gone, BAD, FINE, FINE, unread)]

    assert [body and body["text"] for body in told] == [
        None,
        "chk-2: failing: none",
        None,
        "chk-2: failing: none",
        "chk-1: fine again: all rules hold",
        None,
        "chk-4: failing: no magic",
    ]
    assert told[1] is not None
    assert told[1]["savepoint"]["results"][0]["status"] == "violated"
