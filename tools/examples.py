"""Runs the Python of a page of the documentation, or of a notebook, as a session does: what it prints, and what its last line shows.

python -m tools.examples examples/savepoint.ipynb     # runs a notebook and writes its outputs into it
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# A fence in a page, with its language and its text.
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# The time of a savepoint is that of a file, which a checkout makes anew.
_AGE = re.compile(r"(?:[\d,]+ \w+ ago|just now|in the future) \(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\)")
_SHOWN_AGE = "3 days ago (2026-11-19 08:12:44 UTC)"


@dataclass(frozen=True, slots=True)
class Shown:
    """What a session shows for one piece of code.

    Attributes:
        printed: what it prints.
        text: what its last line shows; None if that is no expression, or None.
        html: the same in HTML; None if it has none.
    """

    printed: str = ""
    text: str | None = None
    html: str | None = None


@dataclass(frozen=True, slots=True)
class Example:
    """A piece of code on a page.

    Attributes:
        code: the Python.
        output: the text that the page shows below it; None if it shows none.
    """

    code: str
    output: str | None


def examples_of(page: str) -> list[Example]:
    """Return the Python of a page in Markdown; a fence with `text` behind it is its output."""
    fences = [(match[1], match[2], match.start(), match.end()) for match in _FENCE.finditer(page)]
    examples = []
    for number, (language, text, _, end) in enumerate(fences):
        following = fences[number + 1] if number + 1 < len(fences) else None
        is_output = following is not None and following[0] == "text" and not page[end : following[2]].strip()
        if language == "python":
            examples.append(Example(text, following[1] if following is not None and is_output else None))
    return examples


def run(code: str, names: dict[str, Any]) -> Shown:
    """Run code in a session with these names, which it may change; return what the session shows."""
    tree = ast.parse(code)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    value = None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "<example>", "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "<example>", "eval"), names)  # type: ignore[attr-defined]  # an Expr has a value
        text = None if value is None else with_known_age(repr(value))
        written = None if isinstance(value, type) else getattr(value, "_repr_html_", None)
        html = None if written is None else written()
    return Shown(with_known_age(printed.getvalue()), text, html and with_known_age(html))


def with_known_age(text: str) -> str:
    """Return a text with one age and time for all savepoints."""
    return _AGE.sub(_SHOWN_AGE, text)


def cells_of(notebook: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the cells of a notebook that have code."""
    return (cell for cell in notebook["cells"] if cell["cell_type"] == "code")


def outputs_of(shown: Shown, number: int) -> list[dict[str, Any]]:
    """Return what a session shows in the format of notebooks."""
    outputs: list[dict[str, Any]] = []
    if shown.printed:
        outputs.append({"name": "stdout", "output_type": "stream", "text": _lines(shown.printed)})
    if shown.text is not None:
        data = {"text/plain": _lines(shown.text)}
        if shown.html is not None:
            data["text/html"] = _lines(shown.html)
        result = {"data": data, "execution_count": number, "metadata": {}, "output_type": "execute_result"}
        outputs.append(result)
    return outputs


def executed(notebook: dict[str, Any]) -> dict[str, Any]:
    """Run all cells of a notebook in one session; return it with their outputs."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(cells_of(notebook), 1):
        shown = run("".join(cell["source"]), names)
        cell["execution_count"], cell["outputs"] = number, outputs_of(shown, number)
    return notebook


def main(paths: Iterable[str]) -> None:
    """Run notebooks, and write their outputs into them."""
    for path in map(Path, paths):
        notebook = executed(json.loads(path.read_text(encoding="utf-8")))
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


if __name__ == "__main__":
    main(sys.argv[1:])
