"""Families of cases of which a few are tested every time and all in `make test-slow`."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

import pytest


def thorough(cases: Iterable[Any], fast: Container[str]) -> list[Any]:
    """The cases as parameters; those whose name, or text, is not in `fast` are marked slow."""
    return [
        pytest.param(case, marks=() if getattr(case, "name", case) in fast else pytest.mark.slow)
        for case in cases
    ]
