"""The arguments of `savepointdb export`.

Like `service.cli` it imports only what it needs to parse arguments.
"""

from __future__ import annotations

import argparse

from service.base import settings
from service.doors.cli.parser import (
    QUERY_SETTINGS,
    SOURCE,
    add_allow_partial,
    add_engine,
    add_names,
    add_no_cache,
)


def add_export(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `savepointdb export`."""
    parser.add_argument(
        "path",
        metavar="PATH",
        help=f"{SOURCE} Of several the newest is exported to parquet, and all, the oldest first, to iceberg and delta.",
    )
    parser.add_argument(
        "--to",
        required=True,
        metavar="DIR",
        help="Folder of the export, or a URL such as s3://bucket/export; empty, or an export that goes on.",
    )
    parser.add_argument(
        "--format",
        default="parquet",
        choices=("parquet", "iceberg", "delta"),
        help="Folders of Parquet files; or tables of Iceberg or Delta, with a snapshot or a version for each checkpoint.",
    )
    parser.add_argument(
        "--tables",
        action="append",
        metavar="NAMES",
        help="Tables, with commas between them; * and ? stand for any characters. If not given, all that do not repeat others. May be "
        "repeated.",
    )
    parser.add_argument(
        "--partition-by",
        choices=("_key_group",),
        help="A folder for each key group of keyed tables.",
    )
    parser.add_argument(
        "--nanoseconds",
        choices=("micros", "bigint", "text"),
        help="What times in nanoseconds become: micros, an error where a value is finer; bigint; or text. If not given, parquet keeps "
        "them, and iceberg and delta, which have none, have micros.",
    )
    parser.add_argument(
        "--namespace",
        metavar="NAME",
        help="Namespace of the tables of iceberg and delta; the job's name if not given.",
    )
    parser.add_argument(
        "--catalog",
        metavar="NAME",
        help="Catalog of Iceberg: a name in ~/.pyiceberg.yaml, or a URI; if not given, catalog.db in the folder.",
    )
    add_engine(
        parser,
        "What reads and writes: this machine (duckdb), or a cluster whose machines see the savepoint and the folder.",
    )
    add_allow_partial(parser, "export")
    parser.add_argument("--json", action="store_true", help="Show what was exported as a JSON object.")
    add_names(parser)
    settings.add_arguments(parser, QUERY_SETTINGS, settings.UNLIMITED)
    add_no_cache(parser)
