"""What a use case is asked: a frozen dataclass, whose fields carry their help, their choices and their limits.

Every door derives its own form from it: the command line its arguments, HTTP and agents their schemas, the reference its tables. The
signatures of `savepointdb` are written out for type checkers, and a test compares them.
"""

from __future__ import annotations

import typing
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any

from service.base.errors import InvalidRequestError

_ABOUT, _KNOWN = "about", "_options"
_LONGEST = 1_000
LONGEST_TEXT = 1_000_000  # of a statement; settings limit it further


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One field of a request.

    Attributes:
        name: of the field.
        kind: `str`, `int`, `float` or `bool`.
        default: its value if it is not given; MISSING if it must be.
        help: a phrase for people.
        is_list: True for any number of values.
        is_mapping: True for any number of values by names.
        metavar: what stands for the value in a usage text.
        choices: the values that it may have; empty for any.
        at_least: the least number; None for any.
        longest: characters of the longest text.
        argument: True if the command line takes it by its place.
        flag: its name on the command line, if that is another one.
        reads_input: True if the command line reads it from standard input for `-`.
        file: the option of the command line that names a file with the value in its place; None for none.
        has_commas: True if the command line takes several values with commas between them.
        only_cli: True if no other door has it.
        named: a phrase for clients that know databases by their names, in place of `help`.
        old_name: another name of it over HTTP.
    """

    name: str
    kind: type
    default: Any
    help: str
    is_list: bool = False
    is_mapping: bool = False
    metavar: str | None = None
    choices: tuple[str, ...] = ()
    at_least: float | None = None
    longest: int = _LONGEST
    argument: bool = False
    flag: str | None = None
    reads_input: bool = False
    file: str | None = None
    has_commas: bool = False
    only_cli: bool = False
    named: str = ""
    old_name: str | None = None

    @property
    def is_required(self) -> bool:
        """True if a request without it means nothing."""
        return self.default is MISSING

    def check(self, value: Any) -> None:
        """Check one value.

        Raises:
            InvalidRequestError: it is none of the choices, too small, or too long.
        """
        several = value.values() if self.is_mapping else value if self.is_list else (value,)
        for one in several:
            if one is None and self.default is None:
                continue
            if not _is_of(one, self.kind):
                raise self._error(f"{_KINDS[self.kind]}", one)
            if self.choices and one not in self.choices:
                raise self._error(f"one of {', '.join(self.choices)}", one)
            if self.at_least is not None and not one >= self.at_least:
                raise self._error(f"{self.at_least:g} or more", one)
            if isinstance(one, str) and len(one) > self.longest:
                raise InvalidRequestError(
                    f"{self.name}: expected at most {self.longest} characters, found {len(one)}"
                )

    def _error(self, expected: str, found: object) -> InvalidRequestError:
        return InvalidRequestError(f"{self.name}: expected {expected}, found {found!r:.100}")


def option(help: str, *, default: Any = MISSING, **about: Any) -> Any:
    """Return a field of a request.

    Args:
        help: a phrase for people.
        default: its value if it is not given.
        **about: attributes of its `Option`.
    """
    metadata = {_ABOUT: {"help": help, **about}}
    # Each request has a mapping of its own.
    if default == {}:
        return field(default_factory=dict, metadata=metadata)
    return field(default=default, metadata=metadata)


class TaskRequest:
    """A request of a use case. Its classes are frozen dataclasses, all of whose fields are options."""

    def __post_init__(self) -> None:
        for one in options_of(type(self)):
            one.check(getattr(self, one.name))


def options_of(request: type[TaskRequest]) -> tuple[Option, ...]:
    """Return the options of a class of requests, in order."""
    known: tuple[Option, ...] | None = request.__dict__.get(_KNOWN)
    if known is None:
        hints = typing.get_type_hints(request)
        known = tuple(_option(one, hints[one.name]) for one in fields(request))  # type: ignore[arg-type]  # dataclasses
        setattr(request, _KNOWN, known)
    return known


def _option(one: Field[Any], hint: Any) -> Option:
    origin = typing.get_origin(hint)
    is_list, is_mapping = origin is tuple, origin is Mapping
    kinds = typing.get_args(hint) if origin is not None else (hint,)
    known = [kind for kind in kinds if kind not in (type(None), ...)]
    default = {} if is_mapping else one.default
    return Option(
        name=one.name,
        kind=known[-1],
        default=default,
        is_list=is_list,
        is_mapping=is_mapping,
        **one.metadata[_ABOUT],
    )


def _is_of(value: object, kind: type) -> bool:
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, kind)


_KINDS = {str: "a text", int: "an integer", float: "a number", bool: "true or false"}
