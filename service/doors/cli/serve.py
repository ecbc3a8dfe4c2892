"""`savepointdb serve`: run the HTTP service. `savepointdb demo`: write the savepoints of two small jobs, and serve them.

`demo.tar.xz` beside this module holds what real Flink 2.3.0 wrote (`tests/flink/restore/demo.sh`):

    orders/       five checkpoints and a savepoint of a job that adds up orders by customer. A wrong order came before the third
                  checkpoint; before the fifth, the source jumped over records.
    wordcount/    a native savepoint of RocksDB
"""

from __future__ import annotations

import gc
import logging
import math
import os
import shlex
import ssl
import sys
import tarfile
import threading
import time
import urllib.request
import webbrowser
from argparse import Namespace
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType

import uvicorn

from catalog import Catalog
from catalog.errors import MaskError
from catalog.masks.masks import Masks
from readers import ReaderError, missing_units
from service.base.principal import checked_grants
from service.base.settings import Settings, config_path, parts_of, read_config, settings_of
from service.doors.app import create_app
from service.doors.cli.output import OK, WrongUsageError, ended
from service.doors.cli.sources import cache_of, catalog_of, roots_of
from service.doors.http.admission import ConnectionLimits, Connections, Listener
from service.doors.http.auth.gate import Authenticator, is_loopback
from service.doors.http.auth.keys import KeyFile
from service.doors.http.auth.tokens import Provider, TokenVerifier
from service.doors.http.connections import AdmittingServer, listening, protocol_of
from service.doors.operations import logs
from service.query.encode import counted
from service.query.engines.workers import COMPILING
from service.query.serving.registry import Queries
from service.tasks.write.serving.targets import served_roots, write_roots_of
from service.tasks.write.serving.writes import Writes

logger = logging.getLogger("savepointdb")

_LAST_PORT = 65_535
_LAST_ANSWERS_S = 5
# Threads that plan queries hold the interpreter for this long before the thread that serves connections gets it. With 200 clients,
# answers came three times as fast as with Python's default of 5 ms.
_SWITCH_S = 0.0005
# The collector looks for garbage after so many new objects, where Python's default is 700: an answer makes some hundred.
_YOUNG_OBJECTS = 10_000
_JOBS = ("orders", "wordcount")
_WRITTEN = "written"
_START_S = 120.0


class _Server(AdmittingServer):
    """Lets running queries and writes end before it stops; a second signal stops it at once."""

    def __init__(
        self, config: uvicorn.Config, listener: Listener, queries: Queries, writes: Writes, drain_s: float
    ) -> None:
        super().__init__(config, listener)
        self._queries = queries
        self._writes = writes
        self._drain_s = drain_s

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop after the queries and the writes, or at once after a second signal."""
        if self._queries.is_ending:
            super().handle_exit(sig, frame)
            return

        def drain() -> None:
            deadline = time.monotonic() + self._drain_s
            self._queries.drain(self._drain_s)
            self._writes.drain(deadline)
            self.handle_exit(sig, frame)

        # At once, not when the thread has started: the next query must be refused.
        self._queries.is_ending = self._writes.is_ending = True
        threading.Thread(target=drain, name="drain", daemon=True).start()


def main(options: Namespace) -> int:
    """Serve until a signal comes; return the exit code."""
    return ended(_serve, options)


def _serve(options: Namespace) -> None:
    settings = settings_of(vars(options), os.environ)
    sources = options.root or _configured_roots(options)
    if not sources:
        raise WrongUsageError("expected --root, or roots in the settings file")
    try:
        logs.install(settings.replaced({"log_level": "info"}) if options.verbose else settings)
    except ValueError as error:
        raise WrongUsageError(str(error)) from error
    cache = cache_of(settings, writes=True)
    given = roots_of(sources)
    writable = roots_of(parts_of(settings.writes.root))
    served = served_roots(given, writable)
    catalog = catalog_of(
        served,
        options,
        option="--root",
        rescan_after_s=settings.storage.rescan_after_s,
        cache=cache,
        may_be_empty=True,
        masks=_masks_of(parts_of(settings.auth.mask)),
    )
    authenticator = authenticator_of(settings)
    _check_address(settings, authenticator)
    app = create_app(
        settings,
        catalog,
        roots=[root.path for root in served],
        write_roots=write_roots_of(served, writable),
        authenticator=authenticator,
    )
    sys.setswitchinterval(_SWITCH_S)
    connections = Connections(ConnectionLimits.of(settings))
    with _listening(settings, connections) as listener:
        host, port = listener.getsockname()[:2]
        count = counted(len(catalog.databases), "savepoint")
        scheme = "https" if settings.server.tls_certificate else "http"
        print(f"savepointdb serves {count} at {scheme}://{host}:{port}/", file=sys.stderr)
        if missing_units():
            print(f"savepointdb: {COMPILING}", file=sys.stderr)
        # Beside the requests: of many savepoints, this takes its time.
        threading.Thread(target=_log_unreadable, args=(catalog,), name="unreadable", daemon=True).start()
        config = uvicorn.Config(
            app,
            http=protocol_of(settings.server.stall_timeout_s, connections),
            loop="uvloop",
            # The protocol of WebSockets would pass by the limits of connections.
            ws="none",
            log_config=None,
            access_log=options.verbose,
            server_header=False,
            ssl_certfile=settings.server.tls_certificate or None,
            ssl_keyfile=settings.server.tls_key or None,
            timeout_keep_alive=math.ceil(settings.server.idle_timeout_s) + 1,
            timeout_graceful_shutdown=_LAST_ANSWERS_S,
        )
        try:
            config.load()
        except (OSError, ssl.SSLError) as error:
            raise WrongUsageError(f"expected a certificate and its key in PEM, found {error}") from error
        state = app.state.service
        # What has been made so far stays to the end: the collector must not look at it for every few answers.
        gc.collect()
        gc.freeze()
        gc.set_threshold(_YOUNG_OBJECTS)
        _Server(config, listener, state.queries, state.writes, settings.server.drain_s).run(sockets=[])


def _log_unreadable(catalog: Catalog) -> None:
    """Log each savepoint that cannot be read: it is listed, and its queries fail."""
    for database in catalog.described():
        if not database.is_described:
            try:
                database.describe()
            except ReaderError as error:
                logger.warning("%s cannot be read: %s", database.name, error)


def _configured_roots(options: Namespace) -> tuple[str, ...]:
    path = config_path(vars(options), os.environ)
    return () if path is None else read_config(path).roots


def authenticator_of(settings: Settings) -> Authenticator:
    """Return the authenticator that the settings describe.

    Raises:
        WrongUsageError: the file of keys cannot be read, grants are no patterns, or the audience is missing.
    """
    try:
        keys = KeyFile(settings.auth.keys_file) if settings.auth.keys_file else None
        grants = checked_grants(settings.auth.oidc_default_grants.split())
    except ValueError as error:
        raise WrongUsageError(str(error)) from error
    if not settings.auth.oidc_issuer:
        return Authenticator(keys)
    if not settings.auth.oidc_audience:
        raise WrongUsageError(
            "expected the setting oidc_audience beside oidc_issuer: tokens for others are not valid"
        )
    provider = Provider(
        issuer=settings.auth.oidc_issuer,
        audience=settings.auth.oidc_audience,
        keys_url=settings.auth.oidc_keys_url,
        user_claim=settings.auth.oidc_user_claim,
        grants_claim=settings.auth.oidc_grants_claim,
        mask_claim=settings.auth.oidc_mask_claim,
        default_grants=grants,
    )
    return Authenticator(keys, TokenVerifier(provider))


def _masks_of(given: Sequence[str]) -> dict[str, Masks]:
    """Return the masks of each `NAME=FILE`, by their names.

    Raises:
        WrongUsageError: a file cannot be read, or is no file of masks; or two masks have one name.
    """
    found: dict[str, Masks] = {}
    for one in given:
        name, separator, path = one.partition("=")
        if not separator or not name.isprintable() or not name or name in found:
            raise WrongUsageError(f"expected --mask NAME=FILE, each name once, found {one!r:.100}")
        try:
            found[name] = Masks.load(path)
        except MaskError as error:
            raise WrongUsageError(f"--mask {name}: {error}") from error
    return found


def _check_address(settings: Settings, authenticator: Authenticator) -> None:
    if not 0 <= settings.server.port <= _LAST_PORT:
        raise WrongUsageError(f"expected a port from 0 to {_LAST_PORT}, found {settings.server.port}")
    if authenticator.is_open and not settings.auth.allow_anonymous and not is_loopback(settings.server.host):
        raise WrongUsageError(
            f"expected keys or an identity provider to listen on {settings.server.host}, because other machines reach it: "
            "give --keys-file (savepointdb keys create), or --allow-anonymous if a proxy authenticates the clients"
        )


def _listening(settings: Settings, connections: Connections) -> Listener:
    try:
        return Listener(listening(settings.server.host, settings.server.port), connections)
    except OSError as error:
        raise WrongUsageError(
            f"cannot listen on {settings.server.host} port {settings.server.port}: {error.strerror}; take another --port"
        ) from error


def run_demo(options: Namespace) -> int:
    """Write the savepoints and serve them; return the exit code."""
    return ended(_demo, options)


def write_savepoints(folder: Path) -> bool:
    """Write the savepoints of the demo; return False if they are there already.

    Args:
        folder: becomes their folder; an existing one must be empty, or have them.

    Raises:
        WrongUsageError: something else is there.
    """
    if all((folder / job).is_dir() for job in _JOBS):
        return False
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise WrongUsageError(f"expected a new or empty folder, found something in {folder}")
    with tarfile.open(Path(__file__).with_name("demo.tar.xz")) as archive:
        for member in archive:
            path = folder / member.name
            if member.isdir():
                path.mkdir(parents=True)
                continue
            file = archive.extractfile(member)
            assert file is not None
            path.write_bytes(file.read())
            os.utime(path, (member.mtime, member.mtime))
    (folder / _WRITTEN).mkdir()
    return True


def _demo(options: Namespace) -> int:
    folder = Path(options.folder)
    verb = "wrote" if write_savepoints(folder) else "found"
    orders = shlex.quote(str(folder / "orders"))
    print(
        f"savepointdb {verb} the savepoints of two jobs in {folder}. One customer of the job orders has a wrong total:\n\n"
        f"  savepointdb lookup {orders} customer-42\n"
        f"  savepointdb history {orders} customer-42 --state account\n",
        flush=True,
    )
    if options.no_serve:
        return OK
    words = [word for job in _JOBS for word in ("--root", f"{job}={folder / job}")]
    words += ["--write-root", f"{_WRITTEN}={folder / _WRITTEN}", "--port", str(options.port)]
    if options.port and not options.no_browser and _has_screen():
        threading.Thread(target=_show, args=(f"http://127.0.0.1:{options.port}/",), daemon=True).start()
    return main(options.parser_of("serve").parse_args(["serve", *words]))


def _has_screen() -> bool:
    return sys.platform == "darwin" or bool({"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys())


def _show(address: str) -> None:
    """Open the page as soon as the service answers."""
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        with suppress(OSError), urllib.request.urlopen(f"{address}healthz", timeout=5):
            webbrowser.open(address)
            return
        time.sleep(0.1)
