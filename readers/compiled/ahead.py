"""All units, compiled ahead of time: for images, installations, and services whose first query must not wait."""

from __future__ import annotations

from importlib import import_module

from readers.compiled.kernel import Kernel
from readers.compiled.store import is_kept

UNITS = (
    "readers.decode.machine.execute",
    "readers.formats.full.layout",
    "readers.formats.full.lookup",
    "readers.formats.changelog.log",
    "readers.formats.channelstate.layout",
    "readers.formats.rocksdb.sst.checksums",
    "readers.formats.rocksdb.sst.compression",
    "readers.formats.rocksdb.sst.blocks",
    "readers.formats.rocksdb.sst.merge",
)
"""The modules that have kernels."""


def kernels_of(unit: str) -> dict[str, Kernel]:
    """Return the kernels that a module declares, by name."""
    declared = (value for value in vars(import_module(unit)).values() if isinstance(value, Kernel))
    return {kernel.function.__name__: kernel for kernel in declared if kernel.unit == unit}


def missing_units() -> list[str]:
    """Return the units whose object code is not kept; compile none."""
    return [unit for unit in UNITS if not is_kept(unit, kernels_of(unit))]


def compile_all() -> None:
    """Load all units, and compile those that are not kept; takes 20 seconds if none is."""
    for unit in UNITS:
        # One kernel loads its whole unit.
        next(iter(kernels_of(unit).values())).load()
