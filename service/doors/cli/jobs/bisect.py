"""`savepointdb bisect`: the first checkpoint of a job for which a query returns a row."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from contextlib import closing

import orjson

from readers import load_machine
from service.base.settings import UNLIMITED, settings_of
from service.doors.cli.compile import log_compilation
from service.doors.cli.outcome import FAILED, OK, answered
from service.doors.cli.output import screen_width
from service.doors.cli.progress import ProgressLine
from service.doors.cli.sources import cache_of, catalog_of
from service.query.encode import counted, printable
from service.query.engines.registry import open_engines
from service.query.serving.registry import Queries
from service.query.serving.request import QueryRequest
from service.tasks.bisect.bisection import Bisection, Question, bisect, only_job
from service.tasks.bisect.report import outcome_of, question_line, report_of, text_lines


def main(options: Namespace) -> int:
    """Ask the checkpoints; return the exit code: 1 if none has a row."""
    return answered(lambda options: FAILED if outcome_of(_bisect(options)) == "none" else OK, options)


def _bisect(options: Namespace) -> Bisection:
    settings = settings_of(vars(options), os.environ, UNLIMITED)
    sql = sys.stdin.read() if options.sql == "-" else options.sql
    catalog = catalog_of([options.path], options, cache=cache_of(settings, writes=False))
    job = only_job(catalog, options.job, option="--job NAME")
    log_compilation()
    load_machine()
    is_text = options.format == "text"
    if is_text:
        print(printable(f"{job.name}: {counted(len(job.databases), 'checkpoint')}"), flush=True)
    asked = 0

    def heard(question: Question) -> None:
        nonlocal asked
        asked += 1
        if is_text:
            progress.hide()
            print(question_line(asked, question), flush=True)
            progress.show()

    with (
        closing(Queries(catalog, open_engines(settings), settings)) as queries,
        ProgressLine(lambda: f"question {asked + 1}") as progress,
    ):
        found = bisect(
            queries,
            catalog,
            job,
            QueryRequest(sql=sql, engine=options.engine, timeout_s=options.timeout_s),
            start=options.start,
            end=options.end,
            asks_all=options.check_all,
            heard=heard,
        )
    if is_text:
        print()
        for line in text_lines(found, screen_width(None)):
            print(line)
    else:
        print(orjson.dumps(report_of(found), option=orjson.OPT_INDENT_2).decode())
    sys.stdout.flush()
    return found
