"""How a command ends: exit codes, and errors as one line on standard error.

| code | when |
|---|---|
| 0 | the command succeeded |
| 1 | the query failed, a lookup found nothing, or an inspected savepoint lacks files |
| 2 | the command line is wrong |
| 3 | a savepoint cannot be read |
| 130 | Ctrl-C |

Use cases may have exit codes of their own (`service.tasks.task.Exits`): `check` has, and of `bisect`, `diff` and `test` 1 is an answer, so
that a query that fails ends them with 2.
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
from service.tasks.task import Exits

OK, FAILED, WRONG_USAGE, UNREADABLE, INTERRUPTED = 0, 1, 2, 3, 130


_USUAL = Exits()


class WrongUsageError(Exception):
    """A command line that makes no sense."""


class OutputError(Exception):
    """Standard output cannot be written."""


def ended(command: Callable[[Namespace], int | None], options: Namespace, exits: Exits = _USUAL) -> int:
    """Run a command and return its exit code, or 0. Errors go to standard error, with `--verbose` after a traceback.

    Args:
        command: the command.
        options: of the command line.
        exits: the exit codes after errors.
    """
    try:
        return command(options) or OK
    except (WrongUsageError, InvalidSettingError) as error:
        return reported(str(error), exits.wrong_usage, options)
    except (QueryError, CatalogError, ReaderError) as error:
        failure = query_error_of(error)
        code = exits.unreadable if isinstance(failure, SavepointError) else exits.failed
        return reported(failure.told, code, options)
    except OutputError as error:
        return reported(str(error), exits.failed, options)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        discard_output()
        return OK
    except Exception as error:  # libraries raise anything
        if isinstance(error, OSError) and is_full(error):
            return reported(query_error_of(error).told, exits.failed, options)
        if exits.unexpected is None:
            raise
        unexpected(error, verbose=options.verbose)
        return exits.unexpected


def discard_output() -> None:
    """Write what follows nowhere: a reader such as `head` has seen enough."""
    # Python would report the broken pipe again when it flushes at exit.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


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
