"""The functions of `savepointdb` are written out for type checkers: they have the options of the requests, and their defaults."""

from __future__ import annotations

import inspect
from dataclasses import MISSING

import pytest

import savepointdb
from service.tasks.request import options_of
from tests.support.doors import request_of

# Where Python calls a savepoint, or a pair of them, by its path.
BY_PATH = {"database", "before", "after"}


@pytest.mark.parametrize("task", ["bisect", "check", "diff", "history", "xray"])
def test_a_function_has_the_options_of_its_request(task: str) -> None:
    given = inspect.signature(getattr(savepointdb, task)).parameters
    options = [one for one in options_of(request_of(task)) if one.name not in BY_PATH]

    assert {one.name for one in options} - given.keys() == set()
    assert {one.name: given[one.name].default or None for one in options} == {
        one.name: None if one.default is MISSING else one.default or None
        for one in options
        if not one.is_required
    } | {one.name: inspect.Parameter.empty for one in options if one.is_required}
