"""Memory and cores that this process may use: the smallest of what the machine, its cgroups and its affinity allow.

A container is a cgroup: the system calls that count memory and processors report those of the host. Limits are in files
below `/sys/fs/cgroup`, in the folder PATH that `/proc/self/cgroup` names (a line `HIERARCHY:CONTROLLERS:PATH` for each
hierarchy) and in all folders above it.

| file | version | content |
|---|---|---|
| `PATH/memory.max` | 2 | bytes, or `max` |
| `PATH/cpu.max` | 2 | `QUOTA PERIOD` in microseconds; QUOTA may be `max` |
| `memory/PATH/memory.limit_in_bytes` | 1 | bytes; nearly 2**63 without a limit |
| `cpu/PATH/cpu.cfs_quota_us`, `cpu.cfs_period_us` | 1 | microseconds; the quota is -1 without a limit |

Linux: Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/memory.rst; Documentation/scheduler/sched-bwc.rst

The process also limits the freed memory that its allocators keep.

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
import resource
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

_ROOT = Path("/")
_CGROUPS = "sys/fs/cgroup"
_OWN_CGROUPS = "proc/self/cgroup"


def keep_algebra_to_one_thread() -> None:
    """Let numpy's library of linear algebra, which nothing here uses, start no threads; called before numpy is imported.

    It starts one for each further core, and each spins for a while before it sleeps. The environment wins.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def open_files() -> int:
    """Return how many files this process may have open."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return sys.maxsize if limit == resource.RLIM_INFINITY else limit


def memory_bytes(root: Path = _ROOT) -> int:
    """Return the bytes of memory that this process may use.

    Args:
        root: folder with `proc` and `sys`.
    """
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for folder in _folders("memory", root):
        for name in ("memory.max", "memory.limit_in_bytes"):
            limits += [int(word) for word in _words(folder / name) if word.isdecimal()]
    return min(limits)


def cores(root: Path = _ROOT) -> int:
    """Return how many threads of this process may run at a time, at least 1.

    Args:
        root: folder with `proc` and `sys`.
    """
    # Only Linux has an affinity to ask for.
    has_affinity = hasattr(os, "sched_getaffinity")
    limits = [len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1]
    for folder in _folders("cpu", root):
        words = _words(folder / "cpu.max")
        words = words or _words(folder / "cpu.cfs_quota_us") + _words(folder / "cpu.cfs_period_us")
        if len(words) == 2 and all(word.isdecimal() and int(word) for word in words):
            quota, period = map(int, words)
            # Rounded up, as the JVM does: a quota of one and a half cores keeps two threads busy most of the time.
            limits.append(-(-quota // period))
    return min(limits)


def _folders(controller: str, root: Path) -> Iterator[Path]:
    """Yield the folders whose limits hold for this process: those of its cgroups and all above."""
    for line in _text(root / _OWN_CGROUPS).splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and controller not in controllers.split(","):
            continue
        # Version 2 has one hierarchy, named by an empty list of controllers.
        mount = root / _CGROUPS / (controller if controllers else "")
        # A container may see the host's path but only its own cgroup, at the mount: so the path need not exist here.
        below = PurePosixPath(path.lstrip("/"))
        yield from (mount / part for part in (below, *below.parents) if ".." not in part.parts)


def _words(path: Path) -> list[str]:
    return _text(path).split()


def _text(path: Path) -> str:
    """Return the content of a file; empty if it is missing, as on systems without cgroups."""
    try:
        return path.read_text(encoding="ascii")
    except (OSError, ValueError):
        return ""


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
