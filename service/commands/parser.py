"""What the parsers of all commands share: exit codes of wrong usage, and `--version`."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from typing import NoReturn


class VersionAction(argparse.Action):
    """`--version`: reads the version when it is asked for, because reading it takes longer than parsing."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """Print the version and exit."""
        print(f"{parser.prog} {import_module('service.version').installed_version()}")
        parser.exit()


class CommandParser(argparse.ArgumentParser):
    """A parser that ends with the exit code of its command where the arguments are wrong: 2 says "fails" of a check."""

    wrong_usage = 2

    def error(self, message: str) -> NoReturn:
        """Print the usage and the message, and exit."""
        self.print_usage(sys.stderr)
        self.exit(self.wrong_usage, f"{self.prog}: error: {message}\n")
