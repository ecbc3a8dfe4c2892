"""`savepointdb mcp`: tools for an agent, which starts this command and speaks the Model Context Protocol with it."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from argparse import Namespace
from contextlib import closing
from dataclasses import replace
from importlib import import_module
from typing import NoReturn

from catalog.masks.masks import Masks
from readers import load_machine
from service.base.principal import ANYBODY
from service.base.settings import settings_of
from service.doors.cli.output import INTERRUPTED, WrongUsageError, ended, log_compilation
from service.doors.cli.sources import cache_of, catalog_of
from service.doors.mcp.guide import MISSING
from service.doors.served import Served
from service.query.engines.registry import open_engines
from service.query.serving.registry import Queries
from service.tasks.check.registry import Checks
from service.tasks.saved.store import SavedQueries
from service.tasks.write.serving.writes import Writes

# As a shell tells of a process that a signal ended.
_SIGNALLED = 128
_MASK = "masks"


def main(options: Namespace) -> int:
    """Serve until the client closes standard input; return the exit code."""
    return ended(_serve, options)


def _serve(options: Namespace) -> None:
    try:
        standardio = import_module("service.doors.mcp.server")
    except ImportError as error:
        raise WrongUsageError(MISSING) from error
    sources = [*options.paths, *(options.root or ())]
    if not sources:
        raise WrongUsageError("expected PATH or --root: a savepoint, a checkpoint, or a folder with some")
    chosen = settings_of(vars(options), os.environ)
    logging.getLogger("savepointdb").addHandler(logging.NullHandler())
    cache = cache_of(chosen, writes=False)
    masks = {} if options.masks is None else {_MASK: Masks.load(options.masks)}
    catalog = catalog_of(
        sources,
        options,
        option="--root",
        rescan_after_s=chosen.storage.rescan_after_s,
        cache=cache,
        may_be_empty=True,
        masks=masks,
    )
    if not catalog.databases:
        print(f"savepointdb: there is no savepoint yet in {', '.join(sources)}", file=sys.stderr)
    log_compilation()
    # Beside the first messages of the client: it takes seconds where the decoder is not compiled yet.
    threading.Thread(target=load_machine, name="machine", daemon=True).start()
    if sys.stdin.isatty():
        print(
            "savepointdb: an agent starts this command, and speaks with it by standard input and output; Ctrl-C ends it",
            file=sys.stderr,
        )
    checks, writes = Checks(chosen), Writes(chosen, catalog)
    saved = SavedQueries(chosen.queries.saved_queries)
    with closing(Queries(catalog, open_engines(chosen), chosen)) as queries, closing(checks), closing(writes):

        def interrupted(number: int) -> NoReturn:
            writes.close()
            checks.close()
            queries.close()
            os._exit(INTERRUPTED if number == signal.SIGINT else _SIGNALLED + number)

        served = Served(
            settings=chosen, catalog=catalog, queries=queries, checks=checks, saved=saved, writes=writes
        )
        caller = replace(ANYBODY, mask=_MASK) if masks else ANYBODY
        standardio.serve(served, caller, interrupted)
