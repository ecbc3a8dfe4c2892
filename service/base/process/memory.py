"""Limits of the freed memory that the allocators of a process keep.

Allocators keep freed memory in an arena for each thread. With batches of megabytes, which one thread allocates and another
frees, this is a lot. So Arrow allocates from the C library, and the library keeps one arena for all threads. Measured with
exports of two states of two million keys from RocksDB: 363 MiB at most, 422 MiB without these limits.

Some megabytes at the end of the arena are kept: a scan frees and allocates as much with each batch, and pages that were
returned to the system come back as page faults. Measured with a map of eight million entries: a sixth of the processor
time.
"""

from __future__ import annotations

import ctypes
import os
import sys

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8
_KEPT_BYTES = 16 << 20
# Larger than the arrays of a batch; larger blocks return to the system as soon as they are freed.
_LARGE_BYTES = 4 << 20
_ARROW_POOL = "ARROW_DEFAULT_MEMORY_POOL"
_OPTIONS = (
    ("MALLOC_ARENA_MAX", _M_ARENA_MAX, 1),
    ("MALLOC_TRIM_THRESHOLD_", _M_TRIM_THRESHOLD, _KEPT_BYTES),
    ("MALLOC_MMAP_THRESHOLD_", _M_MMAP_THRESHOLD, _LARGE_BYTES),
)


def keep_little() -> None:
    """Let the allocators of this process keep little memory; best called before other imports. The environment wins."""
    if _ARROW_POOL not in os.environ:
        os.environ[_ARROW_POOL] = "system"
        pyarrow = sys.modules.get("pyarrow")
        if pyarrow is not None:
            pyarrow.set_memory_pool(pyarrow.system_memory_pool())
    # Only glibc has `mallopt`; other C libraries have one arena anyway.
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for variable, option, value in _OPTIONS:
            if variable not in os.environ:
                mallopt(option, value)
