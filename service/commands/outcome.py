"""How a command ends: exit codes, and errors as one line on standard error.

| code | when |
|---|---|
| 0 | the command succeeded |
| 1 | the query failed, or a lookup found nothing |
| 2 | the command line is wrong |
| 3 | a savepoint cannot be read |
| 130 | Ctrl-C |

`savepointdb check` has exit codes of its own (`service.checks.findings`). Of `bisect` and `test` 1 is an answer, so that a query that
fails ends them with 2.
"""

from __future__ import annotations

import os
import sys
import traceback
from argparse import Namespace
from collections.abc import Callable

from catalog import CatalogError
from readers import ReaderError
from service.errors import QueryError, SavepointError, query_error_of
from service.settings import InvalidSettingError

OK, FAILED, WRONG_USAGE, UNREADABLE, INTERRUPTED = 0, 1, 2, 3, 130


class WrongUsageError(Exception):
    """A command line that makes no sense."""


class NothingFoundError(Exception):
    """A lookup without any rows."""


def ended(command: Callable[[Namespace], None], options: Namespace) -> int:
    """Run a command and return its exit code. Errors go to standard error, with `--verbose` after a traceback."""
    try:
        command(options)
    except (WrongUsageError, InvalidSettingError) as error:
        return reported(str(error), WRONG_USAGE, options)
    except NothingFoundError as error:
        return reported(str(error), FAILED, options)
    except (QueryError, CatalogError, ReaderError) as error:
        failure = query_error_of(error)
        code = UNREADABLE if isinstance(failure, SavepointError) else FAILED
        return reported(failure.told, code, options)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # A reader such as `head` has seen enough. Python would report the broken pipe again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    return OK


def answered(command: Callable[[Namespace], int], options: Namespace) -> int:
    """Run a command that returns its exit code, of which 1 is an answer: no error ends it with 1."""
    try:
        return command(options)
    except (WrongUsageError, InvalidSettingError) as error:
        return reported(str(error), WRONG_USAGE, options)
    except (QueryError, CatalogError, ReaderError) as error:
        failure = query_error_of(error)
        code = UNREADABLE if isinstance(failure, SavepointError) else WRONG_USAGE
        return reported(failure.told, code, options)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except Exception as error:  # libraries raise anything
        unexpected(error, verbose=options.verbose)
        return WRONG_USAGE


def unexpected(error: Exception, *, verbose: bool) -> int:
    """Report an error that no command expects, in one line; return the exit code."""
    if verbose:
        traceback.print_exception(error)
    message = " ".join(str(error).split())
    hint = "" if verbose else " (--verbose shows where; please report it)"
    print(f"savepointdb: unexpected {type(error).__name__}: {message}{hint}", file=sys.stderr)
    return FAILED


def reported(message: str, code: int, options: Namespace) -> int:
    """Report an error in one line, with `--verbose` after a traceback; return the exit code."""
    if options.verbose:
        traceback.print_exc()
    print(f"savepointdb: {' '.join(message.split())}", file=sys.stderr)
    return code
