"""`savepointdb check`: will a savepoint restore in a job, and what to do about it."""

from __future__ import annotations

import argparse
import os
import sys
from argparse import Namespace
from pathlib import Path

import orjson

from catalog import CatalogError
from doctor import Against, against_of
from readers import ReaderError
from service.base import settings
from service.base.errors import QueryError, query_error_of
from service.base.settings import InvalidSettingError, path_map_of, settings_of
from service.doors.cli.options import add_options, request_of
from service.doors.cli.outcome import INTERRUPTED, WrongUsageError, reported, unexpected
from service.doors.cli.output import screen_width, suffix_of
from service.doors.cli.parser import SOURCE, STORAGE_SETTINGS, add_names
from service.doors.cli.progress import ProgressLine
from service.doors.cli.sources import catalog_of, newest_of, storage_options
from service.query.encode import printable
from service.tasks.check.findings import BAD_INPUT, CANNOT_BE_TOLD, Findings
from service.tasks.check.junit import junit_text
from service.tasks.check.markup import html_page
from service.tasks.check.running import CheckRequest, findings_on
from service.tasks.check.text import text_lines


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("path", metavar="SAVEPOINT", help=f"{SOURCE} Of several the newest is checked.")
    add_options(parser, CheckRequest)
    parser.add_argument(
        "--format",
        choices=("text", "json", "html", "junit"),
        help="Format of the report; if not given, by the suffix of --output, or else text. Known suffixes: .json, .html, .xml.",
    )
    parser.add_argument("--output", metavar="FILE", help="Output file; standard output if not given.")
    add_names(parser)
    settings.add_arguments(parser, STORAGE_SETTINGS)


def main(options: Namespace) -> int:
    """Check, show what was found, and return the exit code of `service.tasks.check.findings`."""
    try:
        found = _checked(options)
        _show(found, options)
    except (WrongUsageError, InvalidSettingError) as error:
        return reported(str(error), BAD_INPUT, options)
    except (QueryError, CatalogError, ReaderError) as error:
        return reported(query_error_of(error).told, BAD_INPUT, options)
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:  # 0 and 1 would say that it restores
        unexpected(error, verbose=options.verbose)
        return CANNOT_BE_TOLD
    return found.exit_code


def _checked(options: Namespace) -> Findings:
    progress = _Progress()
    request = request_of(CheckRequest, options)
    database = newest_of(catalog_of([options.path], options), "checked")
    against = _against(request, options)
    # A savepoint in an object store, and a jar of 20,000 classes, take a while.
    with ProgressLine(lambda: f"checking {printable(database.path)}{progress.text}"):
        return findings_on(database.savepoint, against, request, database.uids, progress.note)


class _Progress:
    """How many values were read.

    Attributes:
        text: the state, and how many of its entries were read; empty before the first.
    """

    def __init__(self) -> None:
        self.text = ""

    def note(self, state_name: str, entries: int) -> None:
        """Note how far a state was read."""
        self.text = f": {printable(state_name)}, {entries:,} entries"


_SUFFIXES = {"json": "json", "html": "html", "htm": "html", "xml": "junit"}


def _against(request: CheckRequest, options: Namespace) -> tuple[Against, ...]:
    found = settings_of(vars(options), os.environ)
    return against_of(
        request.against,
        path_map=path_map_of(vars(options), found),
        options=storage_options(found),
    )


def _show(found: Findings, options: Namespace) -> None:
    text = _text(found, options)
    if options.output is None:
        try:
            print(text, flush=True)
        except BrokenPipeError:
            # A reader such as `head` has seen enough; the exit code says the rest.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return
    try:
        Path(options.output).write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise WrongUsageError(f"--output: cannot write {options.output}: {error.strerror}") from error


def _text(found: Findings, options: Namespace) -> str:
    match options.format or _SUFFIXES.get(suffix_of(options.output)):
        case "json":
            return orjson.dumps(found.to_dict(), option=orjson.OPT_INDENT_2).decode()
        case "html":
            return html_page(found).rstrip()
        case "junit":
            return junit_text(found).rstrip()
        case _:
            return "\n".join(text_lines(found, screen_width(options.output)))
