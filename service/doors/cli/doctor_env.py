"""`savepointdb doctor-env`: check the environment."""

from __future__ import annotations

import os
from argparse import Namespace

from service.base.settings import config_path, path_map_of, read_config, settings_of
from service.doors.cli.outcome import FAILED, OK, ended
from service.doors.cli.sources import roots_of, storage_options
from service.doors.operations.doctor import WRONG, checks


def main(options: Namespace) -> int:
    """Show all checks; return exit code 1 if one of them found something wrong."""
    states: list[str] = []
    return ended(lambda given: _show(given, states), options) or (FAILED if WRONG in states else OK)


def _show(options: Namespace, states: list[str]) -> None:
    path = config_path(vars(options), os.environ)
    sources = [*(options.root or ()), *(() if path is None else read_config(path).roots)]
    settings = settings_of(vars(options), os.environ)
    path_map = path_map_of(vars(options), settings)
    for check in checks(settings, roots_of(sources), path_map, storage_options(settings)):
        states.append(check.state)
        print(f"{check.state:8}{check.name:16}{check.found}")
