"""Units, compiled ahead of time: for images, installations, and services whose first query must not wait."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module

from readers.compiled.kernel import Kernel
from readers.compiled.store import is_kept

UNITS = (
    "readers.decode.machine.execute",
    "readers.decode.dictionaries",
    "readers.formats.full.layout",
    "readers.formats.full.lookup",
    "readers.formats.full.lockstep",
    "readers.formats.heap.lockstep",
    "readers.formats.changelog.log",
    "readers.formats.channelstate.layout",
    "readers.formats.rocksdb.sst.checksums",
    "readers.formats.rocksdb.sst.compression",
    "readers.formats.rocksdb.sst.blocks",
    "readers.formats.rocksdb.sst.merge",
    "readers.differences.hashes",
    "readers.formats.rocksdb.sst.lockstep",
    "readers.surveys.keytable",
)
"""The modules of this room that have kernels; the writers add theirs."""


def kernels_of(unit: str) -> dict[str, Kernel]:
    """Return the kernels that a module declares, by name."""
    declared = (value for value in vars(import_module(unit)).values() if isinstance(value, Kernel))
    return {kernel.function.__name__: kernel for kernel in declared if kernel.unit == unit}


def missing_units(units: Iterable[str] = UNITS) -> list[str]:
    """Return the units whose object code is not kept; compile none."""
    return [unit for unit in units if not is_kept(unit, kernels_of(unit))]


def compile_all(units: Iterable[str] = UNITS) -> None:
    """Load units, and compile those that are not kept; takes 30 seconds if none is."""
    for unit in units:
        # One kernel loads its whole unit.
        next(iter(kernels_of(unit).values())).load()
