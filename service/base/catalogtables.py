"""Names to the catalog who makes the rows of `restore_check` and `required_classes`: it knows no rules of restores."""

from __future__ import annotations

from importlib import import_module

from catalog.table import MadeAbove, make_above


def name_tables() -> None:
    """Name them; whoever scans tables of a catalog calls this first."""
    make_above("restore_check", _restore_check("restore_check_rows"))
    make_above("required_classes", _restore_check("required_class_rows"))


def _restore_check(function: str) -> MadeAbove:
    # Loaded for those who ask for it: with the rules of restores every query would start 20 ms later.
    return lambda *known: getattr(import_module("service.base.restorecheck"), function)(*known)
