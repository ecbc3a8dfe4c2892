"""The functions of `savepointdb` are written out for type checkers: they have the options of the requests, and their defaults."""

from __future__ import annotations

import inspect
from dataclasses import MISSING

import pytest

import savepointdb
from service.tasks.task import options_of
from tests.support.doors import request_of

# Where Python calls a savepoint, or a pair of them, by its path.
BY_PATH = {"database", "before", "after"}


@pytest.mark.parametrize(
    "task", ["bisect", "check", "convert", "create", "diff", "export", "history", "sample", "write", "xray"]
)
def test_a_function_has_the_options_of_its_request(task: str) -> None:
    given = dict(inspect.signature(getattr(savepointdb, task)).parameters)
    if script := given.pop("script", None):
        given["sql"] = script
    options = [one for one in options_of(request_of(task)) if not (one.only_cli or one.name in BY_PATH)]

    assert {one.name for one in options} - given.keys() == set()
    assert {one.name: given[one.name].default or None for one in options if one.name != "target"} == {
        one.name: inspect.Parameter.empty if one.default is MISSING else one.default or None
        for one in options
        if one.name != "target"
    }
