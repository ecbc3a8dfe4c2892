"""The modules that have kernels, for `readers.compiled.kernel`."""

from __future__ import annotations

from readers import COMPILED_UNITS as _READER_UNITS

COMPILED_UNITS = (
    *_READER_UNITS,
    "writers.creation.grouping",
    "writers.encode.machine.execute",
    "writers.keyed.assembly",
    "writers.keyed.resharding",
    "writers.keyed.sampling",
)
"""The modules that have kernels, those of the readers among them."""
