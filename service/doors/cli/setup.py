"""Commands that prepare an installation.

keys create | list | revoke    the API keys of a service
stateinfo write                describe a savepoint in a `stateInfo` file
compile                        compile the decoder now instead of at the first query
"""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from datetime import UTC, datetime, timedelta

import readers
from catalog.kernels import COMPILED_UNITS
from catalog.stateinfo import write
from service.base.settings import path_map_of, settings_of
from service.doors.cli.output import WrongUsageError, ended, log_compilation
from service.doors.http.auth.keys import KeyFile, KeyFileError
from service.tasks.task import storage_options


def run_keys(options: Namespace) -> int:
    """Run the action; return the exit code."""
    return ended(_keys, options)


def _keys(options: Namespace) -> None:
    path = settings_of(vars(options), os.environ).auth.keys_file
    if not path:
        raise WrongUsageError(
            "expected --keys-file or SAVEPOINTDB_KEYS_FILE: the file that holds the hashes of keys"
        )
    try:
        _ACTIONS[options.action](KeyFile(path), options)
    except KeyFileError as error:
        raise WrongUsageError(str(error)) from error


def _create(keys: KeyFile, options: Namespace) -> None:
    days = options.expires_days
    expires = None if days is None else datetime.now(UTC) + timedelta(days=days)
    secret = keys.create(options.name, options.grant or ["*"], expires, options.mask)
    # The secret alone goes to standard output, so that a script can capture it.
    print(secret)
    print("this is shown once: the file holds its hash only", file=sys.stderr)


def _list(keys: KeyFile, _options: Namespace) -> None:
    for key in keys.keys:
        state = "expired" if key.has_expired else f"until {key.expires}" if key.expires else "valid"
        print(f"{key.name}\t{' '.join(key.grants)}\t{key.created}\t{state}\t{key.mask or ''}".rstrip())


def _revoke(keys: KeyFile, options: Namespace) -> None:
    keys.revoke(options.name)
    print(f"revoked {options.name}", file=sys.stderr)


_ACTIONS = {"create": _create, "list": _list, "revoke": _revoke}


def run_stateinfo(options: Namespace) -> int:
    """Write the file and show its path; return the exit code."""
    return ended(_write, options)


def _write(options: Namespace) -> None:
    log_compilation()
    settings = settings_of(vars(options), os.environ)
    where = write(
        options.path,
        output=options.output,
        plan=options.plan,
        protobuf=options.protobuf,
        path_map=path_map_of(vars(options), settings),
        options=storage_options(settings),
    )
    print(f"written to {where}", file=sys.stderr)


def run_compile(options: Namespace) -> int:
    """Compile everything; return the exit code."""
    return ended(_compile, options)


def _compile(options: Namespace) -> None:
    log_compilation()
    readers.compile_all(COMPILED_UNITS)
    print("savepointdb: all is compiled", file=sys.stderr)
