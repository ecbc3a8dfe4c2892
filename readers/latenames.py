"""Names of a face that are loaded when they are first used: to import a whole room takes as long as a short query."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def late_names(face: dict[str, Any], homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a face; it keeps what it has loaded.

    Args:
        face: the globals of its module.
        homes: name → its module, and its name there; a name without one is a module itself.
    """

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {face['__name__']!r} has no attribute {name!r}")
        module, _, attribute = homes[name].partition(":")
        value: Any = import_module(module)
        if attribute:
            value = getattr(value, attribute)
        face[name] = value
        return value

    return load
