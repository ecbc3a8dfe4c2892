"""A root that is missing, such as a mount that is not there yet, does not keep the others from being served."""

from __future__ import annotations

import ctypes
import logging
import os
import shutil
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from catalog import Catalog, references
from catalog import roots as catalog_roots
from catalog.catalog import Root
from catalog.errors import ConflictingRootsError
from catalog.references import labelled
from readers import ReaderError, StorageOptions
from service.tasks.write.serving.targets import served_roots, write_roots_of
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


@pytest.fixture
def hung(tmp_path: Path) -> Iterator[Path]:
    """A folder whose file system never answers."""
    folder = tmp_path / "hung"
    folder.mkdir()
    libc = ctypes.CDLL(None)
    try:
        device = os.open("/dev/fuse", os.O_RDWR)
    except OSError:
        pytest.skip("this machine lets nobody mount")
    options = f"fd={device},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}"
    if libc.mount(b"hung", os.fsencode(folder), b"fuse", 0, options.encode()):
        os.close(device)
        pytest.skip("this user may not mount")
    yield folder
    libc.umount2(os.fsencode(folder), 2)  # MNT_DETACH
    os.close(device)


def test_a_mount_that_hangs_holds_up_no_other_root(
    roots: list[Root], hung: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (catalog_roots, references):
        monkeypatch.setattr(module, "_PATIENCE_S", 0.2)
    found = [roots[0], Root(path=str(hung), label="hung"), Root(path=str(hung / "below"), label="below")]
    catalog = Catalog(found[:2], allow_missing_roots=True)

    assert catalog.databases == ["here__sp-1"]
    assert [root.label for root in write_roots_of(found[:2], [roots[0]])] == ["here"]
    assert served_roots(found[:2], [roots[0]]) == tuple(found[:2])
    with pytest.raises(ConflictingRootsError, match="inside"):
        labelled(found)
