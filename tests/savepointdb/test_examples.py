"""The examples of the documentation and the notebook show what they say."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.support.paths import PROJECT
from tools.examples import Example, cells_of, examples_of, executed, run

PAGE = (PROJECT / "docs" / "guides" / "python.md").read_text(encoding="utf-8")
README = (PROJECT / "README.md").read_text(encoding="utf-8")
NOTEBOOK = PROJECT / "examples" / "savepoint.ipynb"


@pytest.fixture(autouse=True)
def in_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(PROJECT)
    monkeypatch.setenv("COLUMNS", "100")


def test_the_page_shows_what_python_shows() -> None:
    examples = examples_of(PAGE)
    names: dict[str, Any] = {"__name__": "__main__"}

    assert len(examples) > 10
    for example in without_missing(examples):
        shown = run(example.code, names)
        last = "" if shown.text is None else f"{shown.text}\n"
        assert lines_of(shown.printed + last) == lines_of(example.output or ""), example.code


def test_the_readme_has_python_that_runs() -> None:
    names: dict[str, Any] = {"__name__": "__main__"}

    for example in examples_of(README):
        code = example.code if has_polars() else example.code.replace("to_polars", "to_arrow")
        assert run(code, names).text


def test_the_notebook_has_the_outputs_of_its_cells() -> None:
    kept = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    cells = list(cells_of(kept))

    found = executed(json.loads(NOTEBOOK.read_text(encoding="utf-8")))

    assert len(cells) > 5
    for cell, other in zip(cells, cells_of(found), strict=True):
        assert cell == other, "run: python -m tools.examples examples/savepoint.ipynb"


def test_fences_are_examples() -> None:
    page = "```python\n1\n```\n\n```text\n1\n```\n\nwords\n\n```python\n2\n```\n\nwords\n\n```text\n3\n```\n"

    assert examples_of(page) == [Example("1\n", "1\n"), Example("2\n", None)]


def without_missing(examples: list[Example]) -> list[Example]:
    """Those examples that need no package that is not installed."""
    return [example for example in examples if has_polars() or "polars" not in example.code]


def has_polars() -> bool:
    try:
        import polars  # noqa: F401  # looked for
    except ImportError:
        return False
    return True


def lines_of(text: str) -> list[str]:
    return [line.rstrip() for line in re.sub(r"\n+\Z", "\n", text).splitlines()]
