"""The command `write` as a user calls it, with what it prints."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from service.cli import main


class Ended(NamedTuple):
    """How a command ended."""

    code: int
    output: str
    errors: str


class WriteCommand:
    """`savepointdb write SOURCE … --to TARGET`.

    Args:
        source: of scripts that name no other one.
        target: of all scripts.
        capsys: has what is printed.
    """

    def __init__(self, source: Path, target: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.target = target
        self._source = source
        self._capsys = capsys

    def __call__(self, script: str, *options: str, source: Path | None = None) -> Ended:
        code = main(["write", str(source or self._source), script, "--to", str(self.target), *options])
        captured = self._capsys.readouterr()
        return Ended(code, captured.out, captured.err)
