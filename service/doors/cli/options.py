"""The fields of a request → the arguments of its command; the arguments that were given → the request."""

from __future__ import annotations

import argparse
import sys
from argparse import Namespace
from collections.abc import Container, Iterator
from dataclasses import MISSING
from pathlib import Path
from typing import Any, TypeVar

from service.base.errors import InvalidRequestError
from service.doors.cli.outcome import WrongUsageError
from service.tasks.request import Option, TaskRequest, options_of

_Asked = TypeVar("_Asked", bound=TaskRequest)
# PATH says it, or BEFORE and AFTER.
BY_PATH = frozenset({"database", "before", "after"})


def add_options(
    parser: argparse.ArgumentParser, kind: type[TaskRequest], without: Container[str] = BY_PATH
) -> None:
    """Add an argument for each field of a class of requests.

    Args:
        parser: of the command.
        kind: the class.
        without: fields that the command has in its own way.
    """
    for one in _options(kind, without):
        _add(parser, one)


def request_of(
    kind: type[_Asked], options: Namespace, without: Container[str] = BY_PATH, **own: Any
) -> _Asked:
    """Return the request that the options of a command line make.

    Args:
        kind: its class.
        options: the parsed command line.
        without: fields that are no arguments.
        **own: their values, if they have no defaults.

    Raises:
        WrongUsageError: a value is out of its limits.
    """
    # A line of the shell has the database that is chosen there.
    given = {
        one.name: _value(one, getattr(options, one.name), options)
        for one in options_of(kind)
        if one.name not in own
        and (one.name not in without or (one.name == "database" and hasattr(options, one.name)))
    }
    try:
        return kind(**given, **own)
    except InvalidRequestError as error:
        name, colon, rest = error.message.partition(":")
        flags = {one.name: one.flag for one in options_of(kind) if one.flag}
        raise WrongUsageError(f"--{flags.get(name, name)}{colon}{rest}") from error


def _options(kind: type[TaskRequest], without: Container[str]) -> Iterator[Option]:
    return (one for one in options_of(kind) if one.name not in without)


def _value(one: Option, given: Any, options: Namespace) -> Any:
    if one.file is not None and (given is None or getattr(options, one.file) is not None):
        return _file_text(one, given, getattr(options, one.file))
    if one.is_mapping:
        return dict(_named(one, text) for text in given or ())
    if one.has_commas:
        given = [part.strip() for text in given or () for part in text.split(",")]
    if one.is_list:
        return tuple(given or ())
    return sys.stdin.read() if one.reads_input and given == "-" else given


def _named(one: Option, text: str) -> tuple[str, Any]:
    name, separator, value = text.rpartition("=")
    if not separator or not value.isdecimal():
        raise WrongUsageError(f"--{one.name}: expected {one.metavar}, found {text!r}")
    return name, one.kind(value)


def _file_text(one: Option, given: str | None, file: str | None) -> str:
    """Return a text that stands in a file.

    Raises:
        WrongUsageError: it is given twice, or not at all, or the file cannot be read.
    """
    if file is None or given is not None:
        what = (one.metavar or one.name).lower()
        raise WrongUsageError(f"expected a {what}, either as an argument or by --{one.file}")
    try:
        return Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise WrongUsageError(f"--{one.file}: cannot read {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise WrongUsageError(f"--{one.file}: expected UTF-8 in {file}: {error.reason}") from error


def _add(parser: argparse.ArgumentParser, one: Option) -> None:
    flag = f"--{one.flag or one.name.replace('_', '-')}"
    text = one.help[0].upper() + one.help[1:]
    is_several = one.is_list or one.is_mapping
    if one.argument:
        metavar = one.metavar or one.name.upper()
        parser.add_argument(one.name, metavar=metavar, nargs="?" if one.file else None, help=text)
        if one.file is not None:
            parser.add_argument(f"--{one.file}", metavar="FILE", help=f"File to read {metavar} from.")
    elif one.kind is bool:
        parser.add_argument(flag, dest=one.name, action="store_true", help=text)
    else:
        parser.add_argument(
            flag,
            dest=one.name,
            type=str if one.is_mapping else one.kind,
            default=None if is_several or one.default is MISSING else one.default,
            action="append" if is_several else "store",
            required=one.is_required,
            choices=one.choices or None,
            metavar=None if one.choices else one.metavar or one.name.upper(),
            help=text,
        )
