"""The README says what the code does."""

from __future__ import annotations

import pytest

from tests.support.paths import PROJECT
from tools.support import BEGIN, END, support, uncovered, with_support

README = PROJECT / "README.md"


def test_the_support_tables_are_those_of_the_registries() -> None:
    text = README.read_text(encoding="utf-8")

    assert text == with_support(text), "run: make support"


def test_every_kind_of_source_is_in_a_table() -> None:
    assert uncovered() == set()


def test_every_row_has_as_many_cells_as_its_table() -> None:
    for table in support().split("\n\n"):
        lines = table.splitlines()
        if lines[0].startswith("|"):
            assert {line.count("|") for line in lines} == {lines[0].count("|")}


def test_text_without_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="markers"):
        with_support(BEGIN + "no end")
    assert with_support(f"a\n{BEGIN}old\n{END}b") == f"a\n{BEGIN}{support()}{END}b"
