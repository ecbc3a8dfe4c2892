"""Tables in object stores: whatever is kept of them, what is read are the bytes of the file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from readers.formats.rocksdb.files import RemoteBytes
from readers.metadata import RelativeFileStateHandle
from readers.storage.location import SavepointLocation
from tests.readers.storage.test_remote import remote_stream
from tests.support.objectstore import ObjectStore, Proxy

SIZE = 300_000


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    path = tmp_path_factory.mktemp("tables") / "bucket" / "file"
    path.parent.mkdir()
    content = np.random.default_rng(2).integers(0, 256, SIZE, dtype=np.uint8).tobytes()
    path.write_bytes(content)
    return path, content


ranges = st.tuples(st.booleans(), st.integers(0, SIZE), st.integers(0, SIZE))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.floats(0, 1), st.lists(ranges, max_size=8))
def test_what_is_kept_and_what_is_not_are_the_bytes_of_the_file(
    table: tuple[Path, bytes], tail: float, asked: list[tuple[bool, int, int]]
) -> None:
    path, content = table
    opened = RemoteBytes(remote_stream(path, SIZE), tail)

    for keep, offset, length in asked:
        if keep:
            opened.keep(offset, length)
        else:
            buffer = np.zeros(length, dtype=np.uint8)
            found = opened.read_into(buffer, offset)
            assert buffer[:found].tobytes() == content[offset : offset + length]


def test_of_what_is_kept_only_the_rest_is_fetched(store: ObjectStore, proxy: Proxy) -> None:
    content = np.random.default_rng(3).integers(0, 256, SIZE, dtype=np.uint8).tobytes()
    store.put("sp/_metadata", b"meta")
    store.put("sp/table", content)
    handle = RelativeFileStateHandle(relative_path="table", state_size=SIZE)
    opened = RemoteBytes(SavepointLocation(proxy.url("sp")).open_stream(handle), 1 / 3)

    opened.keep(150_000, 140_000)
    buffer = np.zeros(140_000, dtype=np.uint8)
    opened.read_into(buffer, 150_000)

    assert buffer.tobytes() == content[150_000:290_000]
    assert [one.byte_range for one in proxy.taken() if one.key == "sp/table" and one.method == "GET"] == [
        "bytes=200000-299999",
        "bytes=150000-199999",
    ]
