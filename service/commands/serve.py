"""`savepointdb serve`: the HTTP service."""

from __future__ import annotations

import os
import socket
import sys
from argparse import Namespace

import uvicorn

from service.app import create_app
from service.commands.outcome import WrongUsageError, ended
from service.commands.sources import catalog_of, roots_of
from service.settings import Settings, settings_of


def main(options: Namespace) -> int:
    """Serve until told to stop; the exit code."""
    return ended(_serve, options)


def _serve(options: Namespace) -> None:
    settings = settings_of(vars(options), os.environ)
    catalog = catalog_of(options.root, options)
    app = create_app(settings, catalog, roots=[root.path for root in roots_of(options.root)])
    with _listening(settings) as listener:
        host, port = listener.getsockname()[:2]
        count = len(catalog.databases)
        print(
            f"savepointdb serves {count} savepoint{'' if count == 1 else 's'} at http://{host}:{port}/docs",
            file=sys.stderr,
        )
        log_level = "info" if options.verbose else "warning"
        config = uvicorn.Config(app, log_level=log_level, access_log=options.verbose, server_header=False)
        uvicorn.Server(config).run(sockets=[listener])


def _listening(settings: Settings) -> socket.socket:
    try:
        return socket.create_server((settings.host, settings.port), backlog=2048)
    except OSError as error:
        raise WrongUsageError(
            f"cannot listen on {settings.host} port {settings.port}: {error.strerror}; take another --port"
        ) from error
