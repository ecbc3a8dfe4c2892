"""Requests to Flink's REST API: what an endpoint that is down, slow, hostile or of another version may do to us, and what not."""

from __future__ import annotations

import json
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.base.errors import FlinkAnswerError, FlinkError, FlinkRefusalError, FlinkUnavailableError
from service.base.settings import InvalidSettingError, Settings
from service.tasks.jobs import client as client_module
from service.tasks.jobs.answers import Document, checkpoints_in, jobs_in, savepoint_in, version_in
from service.tasks.jobs.client import RestClient, endpoints_of
from tests.support.certificates import certificate
from tests.support.flinkrest import RECORDED, VERSIONS, RecordedFlink, recorded_flink

SECRET = "t0ken-of-a-cluster"


def client_of(served: RecordedFlink, timeout_s: float = 5, **values: Any) -> RestClient:
    [endpoint] = endpoints_of(Settings.of(**{"flink": f"prod={served.url}"} | values))
    return RestClient(endpoint, timeout_s)


def raw(*parts: bytes, pause_s: float = 0, repeat: bool = False) -> Callable[[Any], None]:
    """What sends bytes as they are."""

    def send(handler: Any) -> None:
        while True:
            for part in parts:
                handler.wfile.write(part)
                handler.wfile.flush()
                time.sleep(pause_s)
            if not repeat:
                return

    return send


def after(*senders: Callable[[Any], None]) -> Callable[[Any], None]:
    """What sends one after the other."""

    def send(handler: Any) -> None:
        for sender in senders:
            sender(handler)

    return send


HEADERS = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"
ENDLESS = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ((200, [1, 2]), "prod: GET /config: expected an object, found a list"),
        ((200, {}), "prod: GET /config: expected a text flink-version, found nothing"),
        ((200, {"flink-version": 2}), "prod: GET /config: expected a text flink-version, found the number 2"),
        (raw(HEADERS, b"<html>hello</html>"), "prod: GET /config: expected JSON, found something else"),
        (raw(HEADERS, b"[" * 100_000), "prod: GET /config: expected JSON, found something else"),
        (raw(HEADERS, b"1" * 10_000), "prod: GET /config: expected JSON, found something else"),
        (raw(HEADERS, b'"\xff"'), "prod: GET /config: expected JSON, found something else"),
        (raw(b"GARBAGE\r\n\r\n"), "prod: /config: expected an answer in HTTP, found BadStatusLine"),
        (raw(), "prod: /config: expected Flink's REST API, found RemoteDisconnected"),
        (
            raw(b"HTTP/1.1 200 OK\r\nA: " + b"a" * 70_000 + b"\r\n\r\n"),
            "prod: /config: expected an answer in HTTP, found LineTooLong",
        ),
        (
            raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}"),
            "prod: /config: expected an answer in HTTP, found IncompleteRead",
        ),
        ((500, {"errors": ["Internal server error.\nat a.b.c"]}), "HTTP status 500: Internal server error."),
        ((404, {"errors": ["File /opt/flink/secret/x not found"]}), "HTTP status 404: File …/x not found"),
        ((401, {"errors": 3}), "HTTP status 401: no reason"),
        (raw(b"HTTP/1.1 503 Busy\r\n\r\nlater"), "prod: GET /config: HTTP status 503"),
    ],
)
def test_an_answer_that_is_none_is_one_error(newest_flink: RecordedFlink, answer: Any, expected: str) -> None:
    newest_flink.set("GET /config", answer)

    with pytest.raises(FlinkError) as caught:
        version_in(client_of(newest_flink).get("/config"))

    assert expected in caught.value.message


def test_an_answer_without_an_end_is_cut_off(
    newest_flink: RecordedFlink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "_MAX_ANSWER_BYTES", 1 << 20)
    chunk = b"10000\r\n" + b" " * 65_536 + b"\r\n"
    newest_flink.set("GET /config", after(raw(ENDLESS), raw(chunk, repeat=True)))

    with pytest.raises(FlinkAnswerError, match="expected an answer of at most 1 MiB, found a longer one"):
        client_of(newest_flink).get("/config")


@pytest.mark.parametrize(
    "answer",
    [
        lambda _: time.sleep(60),
        raw(b"H", pause_s=0.05, repeat=True),
        raw(b"HTTP/1.1 200 OK\r\n", *[b"A: a\r\n"] * 90, pause_s=0.5),
        after(raw(ENDLESS), raw(b"1\r\n \r\n", pause_s=0.05, repeat=True)),
    ],
    ids=["silent", "slow status", "slow headers", "slow body"],
)
def test_an_endpoint_that_takes_its_time_gets_one_deadline_for_all(
    newest_flink: RecordedFlink, answer: Any
) -> None:
    newest_flink.set("GET /config", answer)

    with pytest.raises(FlinkUnavailableError, match=r"expected an answer within 0\.3 s, found none"):
        client_of(newest_flink, 0.3).get("/config")


def test_a_tls_handshake_has_the_same_deadline(newest_flink: RecordedFlink) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"https://127.0.0.1:{server.getsockname()[1]}"
        [endpoint] = endpoints_of(Settings.of(flink=f"prod={address}"))

        with pytest.raises(FlinkUnavailableError, match=r"within 0\.3 s"):
            RestClient(endpoint, 0.3).get("/config")


def test_tls_checks_the_cluster_and_shows_it_our_certificate(tmp_path: Path) -> None:
    own, key = certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own, key)
    context.load_verify_locations(own)
    context.verify_mode = ssl.CERT_REQUIRED
    trusted: dict[str, Any] = {"flink_ca_file": str(own)}
    shown = trusted | {"flink_certificate": str(own), "flink_key": str(key)}
    with recorded_flink(VERSIONS[-1], context) as flink:
        address = flink.url.replace("127.0.0.1", "localhost")

        assert version_in(client_of(flink, flink=address, **shown).get("/config")) == "2.3.0"
        with pytest.raises(
            FlinkUnavailableError, match="expected a certificate that we trust, found: self-signed"
        ):
            client_of(flink, flink=address).get("/config")
        with pytest.raises(
            FlinkUnavailableError, match="expected a certificate that we trust, found: IP address mis"
        ):
            client_of(flink, **shown).get("/config")
        # Of TLS 1.3 a client may see only that the other side is gone.
        with pytest.raises(FlinkUnavailableError) as caught:
            client_of(flink, flink=address, **trusted).get("/config")
        assert caught.value.hint == "a cluster that asks for a certificate needs --flink-certificate"


def test_plain_http_where_tls_was_expected_is_an_error(newest_flink: RecordedFlink) -> None:
    [endpoint] = endpoints_of(Settings.of(flink=newest_flink.url.replace("http:", "https:")))

    with pytest.raises(FlinkUnavailableError, match="expected TLS, found"):
        RestClient(endpoint, 60).get("/config")


def test_a_port_where_nobody_listens_is_an_error() -> None:
    # Nobody else gets the port meanwhile.
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        [endpoint] = endpoints_of(Settings.of(flink=f"http://127.0.0.1:{deaf.getsockname()[1]}"))

        with pytest.raises(
            FlinkUnavailableError, match="expected Flink's REST API, found Connection refused"
        ):
            RestClient(endpoint, 60).get("/config")


def redirect(location: str) -> Callable[[Any], None]:
    return lambda handler: handler.send(307, b"", Location=location)


def test_a_redirect_on_the_same_host_is_followed(newest_flink: RecordedFlink) -> None:
    newest_flink.set("GET /config", redirect("/elsewhere"))
    newest_flink.set("GET /elsewhere", redirect(f"{newest_flink.url}/at-last?x=1"))
    newest_flink.set("GET /at-last?x=1", (200, {"flink-version": "9"}))

    assert version_in(client_of(newest_flink).get("/config")) == "9"


def test_a_redirect_to_another_host_is_not_followed(newest_flink: RecordedFlink, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(SECRET)
    with socket.create_server(("127.0.0.1", 0)) as other:
        other.settimeout(0.05)
        for location in (
            f"http://127.0.0.1:{other.getsockname()[1]}/config",
            f"//localhost:{other.getsockname()[1]}/config",
            "https://flink.example.com/config",
            "http://[",
            "",
            "file:///etc/passwd",
        ):
            newest_flink.set("GET /config", redirect(location))

            with pytest.raises(FlinkAnswerError, match="found a redirect to another"):
                client_of(newest_flink, flink_token_file=str(token)).get("/config")

        with pytest.raises(TimeoutError):
            other.accept()


def test_redirects_in_a_circle_end(newest_flink: RecordedFlink) -> None:
    newest_flink.set("GET /config", redirect("/config"))

    with pytest.raises(FlinkAnswerError, match="found more than 3 redirects"):
        client_of(newest_flink).get("/config")


def test_an_order_is_sent_once_and_follows_no_redirect(newest_flink: RecordedFlink) -> None:
    newest_flink.set("POST /jobs", redirect("/other"))

    with pytest.raises(FlinkAnswerError, match="found a redirect"):
        client_of(newest_flink).post("/jobs", {"a": 1})

    [(method, path, _, body)] = newest_flink.requests
    assert (method, path, json.loads(body)) == ("POST", "/jobs", {"a": 1})


def test_a_token_is_read_before_each_request_and_never_shown(
    newest_flink: RecordedFlink, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text(f"{SECRET}\n")
    client = client_of(newest_flink, flink_token_file=str(token))
    client.get("/config")
    token.write_text("another")
    client.get("/config")
    token.write_text("two\r\nX-Header: lines")

    with pytest.raises(FlinkUnavailableError) as caught:
        client.get("/config")

    assert [headers.get("authorization") for _, _, headers, _ in newest_flink.requests] == [
        f"Bearer {SECRET}",
        "Bearer another",
    ]
    assert "lines" not in caught.value.detail
    assert str(tmp_path) not in caught.value.message
    assert str(token) in caught.value.detail


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"flink": "jobmanager:8081"}, "expected the address of Flink's REST API"),
        ({"flink": "ftp://a"}, "expected the address of Flink's REST API"),
        ({"flink": "http://a:99999"}, "expected the address of Flink's REST API"),
        ({"flink": "http://a b"}, "expected the address of Flink's REST API"),
        ({"flink": "http://a/?x=1"}, "expected the address of Flink's REST API"),
        ({"flink": "http://me:secret@a:8081"}, "expected an address without a user"),
        ({"flink": "a=http://x;A=http://y"}, "expected different labels, found 'a' twice"),
        ({"flink": "http://a", "flink_token_file": "/nowhere"}, "expected https:// for a:80"),
        ({"flink": "http://127.0.0.1", "flink_token_file": "/nowhere"}, "No such file or directory"),
        ({"flink": "a=http://127.0.0.1", "flink_token_file": "b=/x"}, "found 'b'; there are a"),
        ({"flink": "https://a", "flink_ca_file": "/nowhere"}, "expected certificates in PEM in /nowhere"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused_at_the_start(values: dict[str, str], expected: str) -> None:
    with pytest.raises(InvalidSettingError) as caught:
        endpoints_of(Settings.of(**values))

    assert expected in str(caught.value)
    assert "secret" not in str(caught.value)


def test_addresses_have_labels_ports_and_prefixes() -> None:
    found = endpoints_of(
        Settings.of(flink="http://jobmanager:8081/;prod=https://h/proxy/application_1/; http://[::1]")
    )

    assert [(one.label, one.is_secure, one.host, one.port, one.prefix) for one in found] == [
        ("jobmanager:8081", False, "jobmanager", 8081, ""),
        ("prod", True, "h", 443, "/proxy/application_1"),
        ("::1:80", False, "::1", 80, ""),
    ]
    assert isinstance(found[1].tls, ssl.SSLContext)


def test_recorded_answers_are_read(flink: RecordedFlink) -> None:
    body = {name: Document(one["body"], name) for name, one in flink.recorded.items()}
    [job] = jobs_in(body["jobs-overview"])
    [ended] = jobs_in(body["jobs-overview-canceled"])
    checkpoints = checkpoints_in(body["checkpoints"])
    done, failed = savepoint_in(body["savepoint-done"]), savepoint_in(body["savepoint-failed"])

    assert version_in(body["config"]) in ("1.20.3", "2.3.0")
    assert (job.job_id, job.name, job.state, job.has_ended) == (flink.job_id, "counting", "RUNNING", False)
    assert (ended.state, ended.has_ended) == ("CANCELED", True)
    assert checkpoints.completed >= 12
    completed = [one for one in checkpoints.checkpoints if one.status == "COMPLETED"]
    assert len(completed) >= 8
    for one in completed:
        assert one.acknowledged == one.subtasks == 4
        assert one.triggered_at is not None
        assert one.path is not None
        tail = f"/checkpoints/{flink.job_id}/chk-{one.number}"
        assert one.path.endswith(tail) if one.kind == "CHECKPOINT" else "/savepoints/" in one.path
    assert not savepoint_in(body["savepoint-begun"]).failure
    assert done.path is not None
    assert f"/savepoints/savepoint-{flink.job_id[:6]}-" in done.path
    assert failed.is_completed
    assert failed.path is None
    assert failed.failure


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["COMPLETED", "a" * 32]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
READ: dict[str, Callable[[Document], Any]] = {
    "config": version_in,
    "jobs-overview": jobs_in,
    "checkpoints": checkpoints_in,
    "savepoint-done": savepoint_in,
    "savepoint-failed": savepoint_in,
}


@given(data=st.data(), name=st.sampled_from(sorted(READ)), version=st.sampled_from(VERSIONS))
def test_whatever_stands_in_an_answer_is_read_or_is_one_error(
    data: st.DataObject, name: str, version: str
) -> None:
    body = json.loads((RECORDED / version / f"{name}.json").read_text())["body"]
    place: Any = body
    # Go down to some member, and put something else there.
    while True:
        keys = sorted(place) if isinstance(place, dict) else range(len(place))
        key = data.draw(st.sampled_from(list(keys)))
        below = place[key]
        if not isinstance(below, dict | list) or not below or data.draw(st.booleans()):
            place[key] = data.draw(ANYTHING)
            break
        place = below

    with suppress(FlinkError):
        READ[name](Document(body, name))


def test_what_flink_refuses_carries_its_status(flink: RecordedFlink) -> None:
    flink.answer("job-unknown")

    with pytest.raises(FlinkRefusalError) as caught:
        client_of(flink).get(flink.request_of("job-unknown").partition(" ")[2])

    assert caught.value.found_status == 404
