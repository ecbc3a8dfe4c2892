"""How many times a lookup in an object store has to wait for an answer, which is what it takes: no latency is measured here.

The store answers only when all requests of a round have come. Nothing that is kept in this process helps, for every proxy has
an address of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import catalog
from catalog.cache.states import cache_key
from catalog.references import StateReference
from catalog.scan import Predicate
from catalog.statetables import StatesTable
from readers.formats import streams
from readers.formats.full import source
from readers.states import State
from readers.storage import remote
from tests.catalog.test_objectstore import texts
from tests.support.objectstore import ObjectStore, Proxy, Request, Rounds
from tests.support.waiting import wait_until
from tools.synthetic.rocksdb import write_native_savepoint
from tools.synthetic.savepoints import STATES, write_savepoint

# A store that answers late is waited for again and again.
pytestmark = pytest.mark.slow

KEYS = 3000
TABLE_ORDER = ("account", "count", "events", "perDay")
UID = "aggregate"
_TO_OPEN = 1 + 2 + 6 + 6  # requests, as `test_a_key_in_rocksdb_takes_seven_rounds_at_most` has them


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a savepoint of RocksDB: two subtasks, nine tables each, of 20 to 120 kB."""
    path = tmp_path_factory.mktemp("rounds") / "native"
    write_native_savepoint(path, KEYS)
    return path


@pytest.fixture(scope="module")
def canonical(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rounds") / "canonical"
    write_savepoint(path, KEYS)
    return path


@pytest.fixture
def gated(store: ObjectStore) -> Iterator[Proxy]:
    """A second proxy, which answers in rounds."""
    with store.proxy() as found:
        yield found
        if found.rounds is not None:
            found.rounds.failed = True


@pytest.mark.slow
def test_statemeta_takes_four_rounds(store: ObjectStore, gated: Proxy, canonical: Path) -> None:
    url = gated.url(store.upload(canonical, "rounds/canonical"))
    gated.rounds = Rounds(
        [1, 2, 2, 2]
    )  # _metadata: is it there; it, and is there stateInfo; two files: HEAD; GET

    assert rows_of(url)

    assert (gated.rounds.left, gated.rounds.failed) == (0, False)


@pytest.mark.slow
def test_a_key_in_a_canonical_savepoint_takes_a_round_more(
    store: ObjectStore, gated: Proxy, canonical: Path
) -> None:
    url = gated.url(store.upload(canonical, "rounds/canonical"))
    gated.rounds = Rounds([1, 2, 2, 2, 1])

    assert rows_of(url, "count") == rows_of(str(canonical), "count")

    assert (gated.rounds.left, gated.rounds.failed) == (0, False)


@pytest.mark.slow
@pytest.mark.parametrize("state", STATES)
def test_of_a_large_key_group_a_key_takes_what_stands_before_it(
    store: ObjectStore, proxy: Proxy, canonical: Path, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    monkeypatch.setattr(remote, "_FIRST_STEP_BYTES", 256)
    prefix = store.upload(canonical, "rounds/canonical")

    found = rows_of(proxy.url(prefix), state)

    assert found == rows_of(str(canonical), state) != []
    fetched = [one.size_bytes for one in proxy.taken() if one.method == "GET" and "subtask" in one.key]
    steps = fetched[2:]  # behind the headers
    assert steps == STEPS[state]


@pytest.mark.slow
def test_scans_fetch_their_own_entries_once_the_places_of_all_are_known(
    store: ObjectStore, proxy: Proxy, canonical: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "_SMALL_STREAM_BYTES", 0)
    monkeypatch.setattr(remote, "_LARGEST_GAP_BYTES", -1)
    monkeypatch.setattr(remote, "_MARGIN_BYTES", 0)
    there, here = (
        catalog.connect(proxy.url(store.upload(canonical, "rounds/canonical"))),
        catalog.connect(canonical),
    )
    tables = [f"{UID}__{state}" for state in STATES]
    there.table(tables[0]).scan(["key"]).to_arrow()
    read = [one.size_bytes for one in proxy.taken() if one.method == "GET" and "subtask" in one.key][2:]

    fetched = []
    for table in tables:
        rows = there.table(table).scan().to_arrow()
        assert rows.equals(here.table(table).scan().to_arrow())
        fetched += [one.size_bytes for one in proxy.taken()]

    # Of each key group all but the id of its first state.
    assert len(read) == len(fetched) / len(STATES) == 128
    assert sum(fetched) == sum(read) - 2 * 128


@pytest.mark.slow
@pytest.mark.parametrize(("states", "most"), [(TABLE_ORDER, 1.25), (tuple(reversed(TABLE_ORDER)), 2.3)])
def test_scans_of_large_key_groups_fetch_nothing_behind_their_entries(
    store: ObjectStore,
    proxy: Proxy,
    canonical: Path,
    monkeypatch: pytest.MonkeyPatch,
    states: tuple[str, ...],
    most: float,
) -> None:
    monkeypatch.setattr(streams, "_SMALL_STREAM_BYTES", 0)
    monkeypatch.setattr(remote, "_FIRST_STEP_BYTES", 256)
    monkeypatch.setattr(source, "_LARGE_GROUP_BYTES", 0)
    there, here = (
        catalog.connect(proxy.url(store.upload(canonical, "rounds/canonical"))),
        catalog.connect(canonical),
    )
    whole = sum(file.stat().st_size for file in canonical.iterdir())

    fetched = 0
    for state in states:
        scan = there.table(f"{UID}__{state}").scan()
        assert scan.to_arrow().equals(here.table(f"{UID}__{state}").scan().to_arrow())
        assert scan.bytes_read == scan.bytes_total
        fetched += sum(one.size_bytes for one in proxy.taken() if one.method == "GET")

    assert whole < fetched < most * whole
    counts = {state: there.table(f"{UID}__{state}").scan([]).to_arrow().num_rows for state in states}
    assert counts == {state: here.table(f"{UID}__{state}").scan([]).to_arrow().num_rows for state in states}


@pytest.mark.slow
def test_keys_in_several_key_groups_wait_together(
    store: ObjectStore, gated: Proxy, canonical: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = gated.url(store.upload(canonical, "rounds/canonical"))
    table = f"{UID}__account"
    groups = catalog.connect(str(canonical)).table(table).scan(["key", "_key_group"]).to_arrow().to_pylist()
    keys = {row["_key_group"]: row["key"] for row in groups if row["_key_group"] < 16}
    gated.rounds = Rounds([1, 2, 2, 2, len(keys)])

    scan = catalog.connect(url).table(table).scan(["key"], predicate=Predicate({"key": tuple(keys.values())}))
    rows = scan.to_arrow()

    assert len(keys) == 16
    assert sorted(rows.column("key").to_pylist()) == sorted(keys.values())
    assert (gated.rounds.left, gated.rounds.failed) == (0, False)


@pytest.mark.slow
@pytest.mark.parametrize("state", STATES)
def test_a_key_in_rocksdb_takes_seven_rounds_at_most(
    store: ObjectStore, proxy: Proxy, gated: Proxy, native: Path, state: str
) -> None:
    prefix = store.upload(native, "rounds/native")
    local = rows_of(str(native), state)
    assert rows_of(proxy.url(prefix), state) == local
    requests = proxy.taken()
    gated.rounds = Rounds(
        [
            1,  # _metadata: is it there
            2,  # it, and is there stateInfo
            6,  # OPTIONS, the header of both subtasks, CURRENT and MANIFEST of each: are they there
            6,  # these
            *rounds_of([one for one in requests if one.key.endswith(".sst")]),
        ]
    )

    assert rows_of(gated.url(prefix), state) == local

    assert (gated.rounds.left, gated.rounds.failed) == (0, False)
    assert totals(requests) == REQUESTS[state]


@pytest.mark.slow
def test_whether_a_state_is_in_the_cache_takes_two_rounds(
    store: ObjectStore, proxy: Proxy, gated: Proxy, native: Path
) -> None:
    prefix = store.upload(native, "rounds/native")
    reference, state = counted_state(proxy.url(prefix))
    wait_until(lambda: len(proxy.requests) == _TO_OPEN)  # some are read ahead, and nobody waits for them
    proxy.taken()
    known = cache_key(reference, state)
    asked = [one.method for one in proxy.taken()]
    reference, state = counted_state(gated.url(prefix))
    wait_until(lambda: len(gated.requests) == _TO_OPEN)
    gated.rounds = Rounds([16, len(asked) - 16])

    found = cache_key(reference, state)

    assert known is not None
    assert found is not None
    assert set(asked) == {"HEAD"}
    assert (gated.rounds.left, gated.rounds.failed) == (0, False)


def counted_state(savepoint: str) -> tuple[StateReference, State]:
    """Return `count`, before any of its files is requested."""
    table = catalog.connect(savepoint).table(f"{UID}__count")
    assert isinstance(table, StatesTable)
    (known,) = table.states
    return table.reference(known), known.state


def rows_of(savepoint: str, state: str = "") -> list[tuple[str | None, ...]]:
    """Return the rows of a key in a state, or those of StateMeta."""
    found = catalog.connect(savepoint)
    table = found.table(f"{UID}__{state}" if state else "StateMeta")
    columns = [column for column in table.schema.names if column != "path"]
    scan = table.scan(columns=columns, key="key_662") if state else table.scan()
    rows = texts(scan.to_arrow())
    database = found.default
    assert database is not None
    database.savepoint.close()
    return rows


def rounds_of(tables: list[Request]) -> list[int]:
    """Return the rounds of requests: do the tables exist, their ends, the blocks outside the ends."""
    asked = [one for one in tables if one.method == "HEAD"]
    blocks = len(tables) - 2 * len(asked)
    return [len(asked), len(asked), blocks] if blocks else [len(asked), len(asked)]


def totals(requests: list[Request]) -> tuple[int, int]:
    """Return the number of requests and of bytes."""
    return len(requests), sum(one.size_bytes for one in requests if one.method == "GET")


REQUESTS = {"account": (19, 100034), "count": (19, 71294), "events": (21, 115902), "perDay": (19, 163685)}
STEPS = {
    "account": [256, 512],
    "count": [256, 512, 1536],
    "events": [256, 512, 1536],
    "perDay": [256, 512, 1536, 4143],
}
