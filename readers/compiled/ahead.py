"""Everything that is ever compiled, compiled now: for images, installations and services that are to answer at once."""

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
    """The kernels that a module declares, by name."""
    declared = (value for value in vars(import_module(unit)).values() if isinstance(value, Kernel))
    return {kernel.function.__name__: kernel for kernel in declared if kernel.unit == unit}


def missing_units() -> list[str]:
    """The units that would have to be compiled; compiles none."""
    return [unit for unit in UNITS if not is_kept(unit, kernels_of(unit))]


def compile_all() -> None:
    """Compile and load the units that are not; takes some 20 seconds where none is kept."""
    for unit in UNITS:
        next(iter(kernels_of(unit).values())).load()
