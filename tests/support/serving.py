"""An application that listens on a port of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import uvicorn
from fastapi import FastAPI

from service.base.settings import Settings
from service.doors.http import connections
from service.doors.http.admission import ConnectionLimits, Connections
from service.query.engines.workers import pool


@pytest.fixture(scope="session", autouse=True)
def workers_with_their_share() -> Iterator[None]:
    """Lets workers yield to everything else a little only: tests that run beside each other use all cores, and would starve them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pool, "_NICE_OF_OTHERS", 6)
        patch.setattr(pool, "_NICE_OF_LONG", 7)
        yield


@contextmanager
def listening(app: FastAPI, last_answers_s: int | None = None, *, starts: bool = True) -> Iterator[str]:
    """The address of an application while the block lasts.

    Args:
        app: the application.
        last_answers_s: so long it waits in the end for clients that are connected; None for as long as they are.
        starts: False if it need not start workers, which takes a second: it then runs no query, and follows no cluster by itself.
    """
    listener = connections.listening("127.0.0.1", 0)
    config = uvicorn.Config(
        app,
        http=connections.protocol_of(60, Connections(ConnectionLimits.of(Settings()))),
        log_level="critical",
        timeout_graceful_shutdown=last_answers_s,
        lifespan="auto" if starts else "off",
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listener.close()
