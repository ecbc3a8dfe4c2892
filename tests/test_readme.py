"""The README says what the code does."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import PROJECT
from tools.support import TABLES, support, uncovered, with_support

README = PROJECT / "README.md"


def has_tables(page: Path) -> bool:
    return any(f"\n<!-- {name} -->\n" in page.read_text(encoding="utf-8") for name in TABLES)


PAGES = [README, *filter(has_tables, sorted((PROJECT / "docs").rglob("*.md")))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_support_tables_are_those_of_the_registries(page: Path) -> None:
    text = page.read_text(encoding="utf-8")

    assert text == with_support(text), "run: make support"


def test_every_kind_of_source_is_in_a_table() -> None:
    assert uncovered() == set()


@pytest.mark.parametrize("name", TABLES)
def test_every_row_has_as_many_cells_as_its_table(name: str) -> None:
    lines = [line for line in support(name).splitlines() if line.startswith("|")]

    assert {line.count("|") for line in lines} == {lines[0].count("|")}


def test_a_page_without_its_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="expected markers of"):
        with_support("no markers")
    with pytest.raises(ValueError, match="expected the marker <!-- /files -->"):
        with_support("<!-- files -->\nno end")
    page = "a\n<!-- files -->\nold\n<!-- /files -->b"
    assert with_support(page) == f"a\n<!-- files -->\n{support('files')}<!-- /files -->b"


@pytest.mark.slow
def test_the_three_answers_are_those_of_make_run() -> None:
    root = "tests/data/flink/2.3.0/wordcount-rocksdb-savepoints/native"
    command = [sys.executable, "examples/first_answers.py", "--root", root, "--port", "0", "--once"]
    answered = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True).stdout
    _, _, rest = README.read_text(encoding="utf-8").partition("<!-- tour -->\n```text\n")
    shown, _, _ = rest.partition("```\n<!-- /tour -->")

    assert lines_of(shown) == lines_of(answered)


def lines_of(text: str) -> list[str]:
    """The lines of the three answers, without those that say how long each took."""
    lines = [line.rstrip() for line in text.splitlines() if not re.match(r"  \d+ rows?, \d+ ms on ", line)]
    return [line for line in lines if line]
