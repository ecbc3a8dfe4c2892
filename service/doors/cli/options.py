"""The fields of a request → the arguments of its command; the arguments that were given → the request."""

from __future__ import annotations

import argparse
import sys
from argparse import Namespace
from collections.abc import Container, Iterator
from dataclasses import MISSING
from typing import Any, TypeVar

from service.base.errors import InvalidRequestError
from service.doors.cli.outcome import WrongUsageError
from service.tasks.request import Option, TaskRequest, options_of

_Asked = TypeVar("_Asked", bound=TaskRequest)
# PATH says it.
BY_PATH = frozenset({"database"})


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
        one.name: _value(one, getattr(options, one.name))
        for one in options_of(kind)
        if one.name not in without or (one.name in BY_PATH and hasattr(options, one.name))
    }
    try:
        return kind(**given, **own)
    except InvalidRequestError as error:
        raise WrongUsageError(f"--{error.message}") from error


def _options(kind: type[TaskRequest], without: Container[str]) -> Iterator[Option]:
    return (one for one in options_of(kind) if one.name not in without)


def _value(one: Option, given: Any) -> Any:
    if one.is_list:
        return tuple(given or ())
    return sys.stdin.read() if one.reads_input and given == "-" else given


def _add(parser: argparse.ArgumentParser, one: Option) -> None:
    flag = f"--{one.flag or one.name.replace('_', '-')}"
    text = one.help[0].upper() + one.help[1:]
    if one.argument:
        parser.add_argument(one.name, metavar=one.metavar or one.name.upper(), help=text)
    elif one.kind is bool:
        parser.add_argument(flag, dest=one.name, action="store_true", help=text)
    else:
        parser.add_argument(
            flag,
            dest=one.name,
            type=one.kind,
            default=None if one.is_list or one.default is MISSING else one.default,
            action="append" if one.is_list else "store",
            required=one.is_required,
            choices=one.choices or None,
            metavar=None if one.choices else one.metavar or one.name.upper(),
            help=text,
        )
