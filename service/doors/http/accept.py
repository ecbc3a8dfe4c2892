"""The header `Accept`: the types of media that a client takes, with their weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple


class AcceptedType(NamedTuple):
    """A type of media that a client takes, in small letters.

    Attributes:
        name: such as `text/csv`, `text/*` or `*/*`.
        weight: how much the client wants it; 0 for not at all, as for a weight that is no number.
        parameters: all words behind the name, such as `formulas=escape`; the weight is one of them.
    """

    name: str
    weight: float
    parameters: Sequence[str]


def accepted_types(header: str) -> Iterator[AcceptedType]:
    """Yield the types of a header in its order."""
    for part in header.split(","):
        name, *parameters = [word.strip().lower() for word in part.split(";")]
        weight = next((_weight(word) for word in parameters if word.startswith("q=")), 1.0)
        yield AcceptedType(name, weight, parameters)


def _weight(parameter: str) -> float:
    try:
        return float(parameter.removeprefix("q="))
    except ValueError:
        return 0.0
