"""The rules that come with the program: what every job wants of its state. They stand in `standard.toml`."""

from __future__ import annotations

from importlib.resources import files

from service.tasks.test.files import parse_rules
from service.tasks.test.rules import Rule

_FILE = "standard.toml"


def standard_text() -> str:
    """Return the file."""
    return (files("service.tasks.test") / _FILE).read_text(encoding="utf-8")


def standard_rules() -> list[Rule]:
    """Return the rules."""
    return parse_rules(standard_text(), ".toml", _FILE)
