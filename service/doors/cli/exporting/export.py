"""`savepointdb export`: the tables of savepoints as Parquet files, or as tables of Iceberg or Delta."""

from __future__ import annotations

import json
import os
import sys
from argparse import Namespace
from contextlib import closing
from time import monotonic

from readers import load_machine
from service.base.settings import UNLIMITED, settings_of
from service.doors.cli.compile import log_compilation
from service.doors.cli.outcome import ended
from service.doors.cli.progress import ProgressLine
from service.doors.cli.sources import cache_of, catalog_of, storage_options
from service.query.encode import counted, printable, size_text
from service.query.engines.registry import open_engines
from service.query.running.session import Session
from service.tasks.export.exporting import Export, lines_of, sources_of
from service.tasks.export.request import ExportRequest


def main(options: Namespace) -> int:
    """Export; return the exit code."""
    return ended(_export, options)


def _export(options: Namespace) -> None:
    request = ExportRequest(
        to=options.to,
        format=options.format,
        tables=tuple(name.strip() for given in options.tables or () for name in given.split(",")),
        partition_by=options.partition_by,
        nanoseconds=options.nanoseconds,
        allow_partial=options.allow_partial,
        engine=options.engine,
        namespace=options.namespace or "",
        catalog=options.catalog or "",
    )
    settings = settings_of(vars(options), os.environ, UNLIMITED)
    catalog = catalog_of([options.path], options, cache=cache_of(settings, writes=False))
    sources = sources_of(catalog, request)
    if not request.has_history and len(catalog.databases) > 1:
        print(
            f"savepointdb: {printable(sources[0].database.name)} is exported, the newest of {len(catalog.databases)}: parquet has one "
            "savepoint, iceberg and delta keep all of a job",
            file=sys.stderr,
        )
    log_compilation()
    load_machine()
    started = monotonic()
    with closing(Session(catalog, open_engines(settings, later=True), settings)) as queries:
        export = Export(sources, settings, request, storage_options(settings), queries.worker)

        def text() -> str:
            done = counted(export.tables_done, "table")
            return f"{done}, {size_text(export.bytes_read)} read, {monotonic() - started:,.0f} s"

        with ProgressLine(text):
            result = export.run()
    for note in result.notes:
        print(f"savepointdb: {printable(note)}", file=sys.stderr)
    if options.json:
        savepoints = [savepoint.to_dict() for savepoint in result.savepoints]
        print(
            json.dumps(
                {"target": result.destination, "known": list(result.known), "savepoints": savepoints},
                indent=2,
            )
        )
        return
    for line in lines_of(result):
        print(line)
