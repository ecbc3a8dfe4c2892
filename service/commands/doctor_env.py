"""`savepointdb doctor-env`: check the environment."""

from __future__ import annotations

import os
from argparse import Namespace

from service.commands.outcome import FAILED, OK, ended
from service.operations.doctor import WRONG, checks
from service.settings import settings_of


def main(options: Namespace) -> int:
    """Show all checks; return exit code 1 if one of them found something wrong."""
    states: list[str] = []
    return ended(lambda given: _show(given, states), options) or (FAILED if WRONG in states else OK)


def _show(options: Namespace, states: list[str]) -> None:
    for check in checks(settings_of(vars(options), os.environ), tuple(options.root or ())):
        states.append(check.state)
        print(f"{check.state:8}{check.name:16}{check.found}")
