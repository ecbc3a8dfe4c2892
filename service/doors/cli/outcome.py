"""How a command ends: exit codes, and errors as one line on standard error.

| code | when |
|---|---|
| 0 | the command succeeded |
| 1 | the query failed, a lookup found nothing, or an inspected savepoint lacks files |
| 2 | the command line is wrong |
| 3 | a savepoint cannot be read |
| 130 | Ctrl-C |

`savepointdb check` has exit codes of its own (`service.tasks.check.findings`). Of `bisect` and `test` 1 is an answer, so that a query that
fails ends them with 2.
"""

from __future__ import annotations

import os
import sys
import traceback
from argparse import Namespace
from collections.abc import Callable

from catalog import CatalogError
from readers import ReaderError, take_lost_pages
from service.base.errors import QueryError, SavepointError, is_full, query_error_of
from service.base.settings import InvalidSettingError

OK, FAILED, WRONG_USAGE, UNREADABLE, INTERRUPTED = 0, 1, 2, 3, 130


class WrongUsageError(Exception):
    """A command line that makes no sense."""


class OutputError(Exception):
    """Standard output cannot be written."""


class NothingFoundError(Exception):
    """A lookup without any rows."""


def ended(command: Callable[[Namespace], None], options: Namespace) -> int:
    """Run a command and return its exit code. Errors go to standard error, with `--verbose` after a traceback."""

    def run(options: Namespace) -> int:
        command(options)
        return OK

    try:
        return _run(run, options, failed=FAILED, cut=OK)
    except NothingFoundError as error:
        return reported(str(error), FAILED, options)


def concluded(command: Callable[[Namespace], int], options: Namespace, failed: int) -> int:
    """Run a command that returns its exit code; an error of the query, or an unknown name, ends it with `failed`."""
    try:
        return _run(command, options, failed=failed, cut=OK)
    except NothingFoundError as error:
        return reported(str(error), FAILED, options)


def answered(
    command: Callable[[Namespace], int], options: Namespace, *, cut: int = OK, unknown: int = WRONG_USAGE
) -> int:
    """Run a command that returns its exit code, of which 1 is an answer: no error ends it with 1.

    Args:
        command: the command.
        options: of the command line.
        cut: the code if a reader of the output, such as `head`, has seen enough.
        unknown: the code after an error that no command expects.
    """
    try:
        return _run(command, options, failed=WRONG_USAGE, cut=cut)
    except Exception as error:  # libraries raise anything
        unexpected(error, verbose=options.verbose)
        return unknown


def _run(command: Callable[[Namespace], int], options: Namespace, *, failed: int, cut: int) -> int:
    try:
        return command(options)
    except (WrongUsageError, InvalidSettingError) as error:
        return reported(str(error), WRONG_USAGE, options)
    except (QueryError, CatalogError, ReaderError) as error:
        failure = query_error_of(error)
        return reported(failure.told, UNREADABLE if isinstance(failure, SavepointError) else failed, options)
    except OutputError as error:
        return reported(str(error), failed, options)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Python would report the broken pipe again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return cut
    except OSError as error:
        if not is_full(error):
            raise
        return reported(query_error_of(error).told, failed, options)


def unexpected(error: Exception, *, verbose: bool) -> int:
    """Report an error that no command expects, in one line; return the exit code."""
    if verbose:
        traceback.print_exception(error)
    message = " ".join(str(error).split())
    # What the system refuses, such as room on a full disk, is no defect of the program.
    report = "" if isinstance(error, OSError) else "; please report it"
    hint = "" if verbose else f" (--verbose shows where{report})"
    print(f"savepointdb: unexpected {type(error).__name__}: {message}{hint}", file=sys.stderr)
    return FAILED


def reported(message: str, code: int, options: Namespace) -> int:
    """Report an error in one line, with `--verbose` after a traceback; return the exit code."""
    if options.verbose:
        traceback.print_exc()
    loss = take_lost_pages()
    text = message if loss is None else str(loss)
    print(f"savepointdb: {' '.join(text.split())}", file=sys.stderr)
    return code
