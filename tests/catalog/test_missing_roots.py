"""A root that is missing, such as a mount that is not there yet, does not keep the others from being served."""

from __future__ import annotations

import logging
import shutil
import socket
import threading
from pathlib import Path

import pytest

from catalog import Catalog
from catalog import roots as catalog_roots
from catalog.catalog import Root
from readers import ReaderError, StorageOptions
from tests.support.paths import DATA

SAVEPOINT = DATA / "flink" / "2.3.0" / "wordcount-rocksdb-savepoints" / "native"


@pytest.fixture
def roots(tmp_path: Path) -> list[Root]:
    """Two roots, of which the second does not exist."""
    shutil.copytree(SAVEPOINT, tmp_path / "here" / "sp-1")
    return [Root(path=str(tmp_path / name), label=name) for name in ("here", "away")]


def test_a_root_may_come_later_and_go_again(
    roots: list[Root], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "savepointdb")
    catalog = Catalog(roots, rescan_after_s=0, allow_missing_roots=True)
    at_first = catalog.databases
    (tmp_path / "away").mkdir()
    (tmp_path / "here" / "sp-1").rename(tmp_path / "away" / "sp-2")
    later = catalog.databases
    (tmp_path / "away").rename(tmp_path / "gone")
    shutil.copytree(SAVEPOINT, tmp_path / "here" / "sp-3")
    in_the_end = catalog.databases

    assert (at_first, later) == (["here__sp-1"], ["away__sp-2"])
    # What was known stays known; the other root is looked at all the same.
    assert in_the_end == ["here__sp-3", "away__sp-2"]
    messages = [record.getMessage() for record in caplog.records]
    assert [message.split(":")[0] for message in messages] == [
        "root away cannot be read; the others are served",
        "root away can be read again",
        "root away cannot be read; the others are served",
    ]
    assert str(tmp_path / "away") in messages[0]


def test_a_missing_root_is_an_error_unless_it_is_allowed(roots: list[Root]) -> None:
    with pytest.raises(ReaderError, match="away"):
        Catalog(roots)


def test_one_root_must_be_there(roots: list[Root]) -> None:
    with pytest.raises(ReaderError, match="away"):
        Catalog(roots[1:], allow_missing_roots=True)


def test_a_root_that_does_not_answer_holds_up_no_other(
    roots: list[Root], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "savepointdb")
    monkeypatch.setattr(catalog_roots, "_PATIENCE_S", 0.2)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "nothing")
    # Connects, and never answers.
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        place = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        hung = Root(path=f"s3://bucket/checkpoints?endpoint_override={place}", label="hung")
        options = StorageOptions(allow_http=True)
        catalog = Catalog([hung, roots[0]], rescan_after_s=0, allow_missing_roots=True, options=options)
        at_first = catalog.databases
        looks = [thread for thread in threading.enumerate() if thread.name == "root hung"]
        again = catalog.databases
        looks_again = [thread for thread in threading.enumerate() if thread.name == "root hung"]

    assert at_first == again == ["here__sp-1"]
    assert looks == looks_again
    assert len(looks) == 1
    [message] = [record.getMessage() for record in caplog.records]
    assert message.startswith(
        "root hung cannot be read; the others are served: expected an answer within 0.2 s"
    )
    looks[0].join(30)
    assert not looks[0].is_alive()
