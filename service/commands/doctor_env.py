"""`savepointdb doctor-env`: what this environment has and lacks."""

from __future__ import annotations

import os
from argparse import Namespace

from service.commands.outcome import FAILED, OK, ended
from service.operations.doctor import WRONG, checks
from service.settings import settings_of


def main(options: Namespace) -> int:
    """Show all checks; the exit code is 1 if something has to be mended."""
    found: list[str] = []
    return ended(lambda given: _show(given, found), options) or (FAILED if WRONG in found else OK)


def _show(options: Namespace, found: list[str]) -> None:
    for check in checks(settings_of(vars(options), os.environ), tuple(options.root or ())):
        found.append(check.state)
        print(f"{check.state:8}{check.name:16}{check.found}")
