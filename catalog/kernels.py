"""The modules that have kernels, for `readers.compiled.kernel`."""

from __future__ import annotations

from writers import COMPILED_UNITS as _WRITER_UNITS

COMPILED_UNITS = (*_WRITER_UNITS, "catalog.masks.integers", "catalog.masks.permutation")
"""The modules that have kernels, those of the readers and the writers among them."""
