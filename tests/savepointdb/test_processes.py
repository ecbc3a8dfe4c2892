"""Connections beside signals, threads, forks and other connections."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor

import pytest

import savepointdb
from tests.support.paths import DATA, PROJECT

pytestmark = pytest.mark.usefixtures("compiled_decoder")

WORDCOUNT = DATA / "flink" / "2.3.0" / "wordcount-rocksdb-savepoints" / "native"
CONNECTED = f"""
import os, signal, sys, threading
import savepointdb
db = savepointdb.connect({str(WORDCOUNT)!r}, cache="off")
"""
ENDLESS = "SELECT sum(i) FROM range(1000000000000) t(i)"


def output_of(code: str) -> list[str]:
    """What a process prints; the test fails if it hangs."""
    command = [sys.executable, "-X", "faulthandler", "-c", CONNECTED + code]
    ended = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=400, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize(
    "take", ["fetchall()", "df()", "to_reader().read_all()", "show()", "columns and list(answer)"]
)
def test_ctrl_c_ends_the_query_alone(take: str) -> None:
    # A library such as polars lets system calls go on after a signal.
    code = f"""
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.siginterrupt(signal.SIGINT, False)
db.sql("SELECT count(*) FROM aggregate").fetchall()
answer = db.sql({ENDLESS!r})
threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    answer.{take}
except KeyboardInterrupt:
    print("interrupted")
print(db.sql("SELECT count(*) FROM aggregate").fetchall())
"""

    assert output_of(code) == ["interrupted", "[(1000,)]"]


@pytest.mark.slow
def test_a_forked_process_asks_anew() -> None:
    code = """
import multiprocessing
rows = iter(db.sql("SELECT * FROM range(1000000)"))
first = next(rows)
def ask():
    try:
        list(rows)
    except savepointdb.QueryCancelledError as error:
        print(error)
    print("child", db.sql("SELECT count(*) FROM aggregate").fetchall(), flush=True)
child = multiprocessing.get_context("fork").Process(target=ask)
child.start()
child.join()
print("parent", child.exitcode, sum(1 for _ in rows), db.sql("SELECT count(*) FROM aggregate").fetchall())
"""

    assert output_of(code) == [
        "the query belongs to the process that was forked (run it again in this one)",
        "child [(1000,)]",
        "parent 0 999999 [(1000,)]",
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    [
        'rows = iter(db["aggregate"].scan()); next(rows)',
        # Arrow frees no Python object once the interpreter ends.
        'reader = db.sql("SELECT * FROM aggregate").to_reader()',
        'reader = db.sql("SELECT upper(key) FROM aggregate").to_reader(); reader.read_next_batch(); sys.exit(0)',
        # A thread that lives at the end keeps what it holds for ever.
        """
begun = threading.Event()
def hold():
    rows = iter(db.sql("SELECT * FROM range(1000000)"))
    next(rows)
    begun.set()
    threading.Event().wait()
threading.Thread(target=hold, daemon=True).start()
begun.wait()
""",
    ],
    ids=["rows", "reader", "exit", "thread"],
)
def test_nothing_is_said_at_the_end_of_a_process_that_closes_nothing(code: str) -> None:
    assert output_of(code) == []


@pytest.mark.slow
def test_a_process_ends_well_while_its_connection_is_closed_behind_it() -> None:
    # The connection is dropped with the last statement, and a thread closes it while the interpreter ends.
    code = f"print(savepointdb.connect({str(WORDCOUNT)!r}).sql('SELECT count(*) FROM aggregate').fetchall())"
    for _ in range(10):
        done = subprocess.run(
            [sys.executable, "-c", f"import savepointdb; {code}"],
            capture_output=True,
            text=True,
            cwd=PROJECT,
            check=False,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "[(1000,)]\n", "")


def test_threads_share_a_connection(db: savepointdb.Connection) -> None:
    def total(_: int) -> object:
        return db.sql("SELECT sum(value) FROM aggregate").fetchone()

    with ThreadPoolExecutor(16) as threads:
        assert set(threads.map(total, range(64))) == {(111695,)}


@pytest.mark.slow
def test_many_answers_are_open_at_once(db: savepointdb.Connection) -> None:
    # More than run at the same time, and each with more rows than wait in memory.
    rows = [iter(db.sql("SELECT range AS i FROM range(1000000)")) for _ in range(20)]

    assert [next(one) for one in rows] == [(0,)] * 20
    assert sum(1 for _ in rows[7]) == 999_999


def test_two_connections_do_not_meet(db: savepointdb.Connection) -> None:
    with savepointdb.connect(WORDCOUNT) as other:
        rows = iter(other.sql("SELECT * FROM range(1000000)"))
        next(rows)
        db.close()
        assert sum(1 for _ in rows) == 999_999


def test_closing_ends_what_is_being_read(db: savepointdb.Connection) -> None:
    rows = iter(db.sql("SELECT * FROM range(100000000000)"))
    next(rows)
    threading.Timer(0.1, db.close).start()

    # Nothing is kept of them: on a busy machine many come until then.
    with pytest.raises(savepointdb.QueryCancelledError):
        deque(rows, maxlen=0)


def test_what_is_dropped_ends(db: savepointdb.Connection) -> None:
    for _ in range(50):
        next(iter(db.sql("SELECT * FROM range(100000000000)")))
    reader = db.sql("SELECT * FROM range(100000000000)").to_reader()
    reader.read_next_batch()
    del reader

    # All of them would hold a slot.
    assert db.sql("SELECT 1").fetchall() == [(1,)]


def test_the_threads_of_a_dropped_connection_end() -> None:
    connection = savepointdb.connect(WORDCOUNT)
    before = set(threading.enumerate())
    connection.sql("SELECT 1").fetchall()
    own = set(threading.enumerate()) - before

    del connection
    gc.collect()

    assert own
    for thread in own:
        thread.join()
