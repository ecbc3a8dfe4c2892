"""This process and the machine under it: memory and cores, the parts of Arrow that it loads, files that it writes whole.

A process may use the smallest of what the machine, its cgroups and its affinity allow.
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

pyarrow is loaded without pandas by the command line and by workers. When pyarrow makes its first scalar, it imports pandas if
pandas is installed (Spark needs it). The import takes a third of a second, as long as the rest of a short query. Our code never
converts Arrow to pandas. Functions of Spark do, and still can: pyarrow looks for pandas again when it converts a table or a
series.

For the command line it is loaded without what a command does not use. `pyarrow.compute`, `dataset` and `parquet` make some
hundred functions and their documentation, in as much time as a short query takes. In a process that may not need them, they are
loaded when something of them is first used.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import Any

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
            limits += [int(word) for word in _text(folder / name).split() if word.isdecimal()]
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
        texts = (_text(folder / name) for name in ("cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us"))
        # A folder has either the file of version 2, or those of version 1.
        words = " ".join(texts).split()
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


_LATER = ("compute", "dataset", "parquet")
_DOCUMENTATION = "pyarrow.vendored.docscrape"


def load_without_pandas() -> None:
    """Load pyarrow while the import of pandas fails."""
    hidden = _PandasHider()
    sys.meta_path.insert(0, hidden)
    try:
        import_module("pyarrow").scalar(None)
    finally:
        sys.meta_path.remove(hidden)


def load_parts_later() -> None:
    """Load the heavy modules of pyarrow when something of them is first used."""
    arrow = import_module("pyarrow")
    for part in _LATER:
        name = f"pyarrow.{part}"
        spec = None if name in sys.modules else find_spec(name)
        if spec is not None:
            sys.modules[name] = module = _LaterModule(spec)
            setattr(arrow, part, module)


class _LaterModule(ModuleType):
    """A module that is loaded when a name of it is first looked up; any thread may be the first.

    The one of `importlib.util` is not for threads: another thread sees a module that is half loaded.
    """

    # The module's own code may look up its names; another thread waits until all of them are there.
    _loading = threading.RLock()

    def __init__(self, spec: ModuleSpec) -> None:
        super().__init__(spec.name)
        self.__spec__ = spec
        self.__loader__ = spec.loader
        self.__package__ = spec.parent
        self.__file__ = spec.origin
        if spec.submodule_search_locations is not None:
            # A package: without its path none of its modules is found.
            self.__path__ = spec.submodule_search_locations

    def __getattr__(self, name: str) -> Any:
        """Load the module if it is not loaded, and return a name of it."""
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        with _LaterModule._loading:
            state = vars(self)
            if "_is_begun" not in state:
                state["_is_begun"] = True
                _execute(self)
                self.__class__ = ModuleType  # type: ignore[assignment]  # the layout is the same
        try:
            return state[name]
        except KeyError:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}") from None


def _execute(module: ModuleType) -> None:
    """Run the code of a module, without the parser of pyarrow's documentation: it takes half the time of `pyarrow.compute`."""
    assert module.__spec__ is not None
    loader = module.__spec__.loader
    assert loader is not None
    if _DOCUMENTATION in sys.modules:
        loader.exec_module(module)
        return
    unread = ModuleType(_DOCUMENTATION)
    vars(unread)["NumpyDocString"] = lambda _text: {"Parameters": ()}
    vendored = import_module(_DOCUMENTATION.rpartition(".")[0])
    before = dict(vars(module))
    sys.modules[_DOCUMENTATION] = unread
    vars(vendored)["docscrape"] = unread
    is_loaded = False
    try:
        with contextlib.suppress(AttributeError):
            loader.exec_module(module)
            is_loaded = True
    finally:
        del sys.modules[_DOCUMENTATION], vars(vendored)["docscrape"]
    if not is_loaded:
        # Another pyarrow asks the parser for more.
        vars(module).clear()
        vars(module).update(before)
        loader.exec_module(module)


class _PandasHider:
    """An import hook that hides pandas."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> None:
        """Fail for pandas, and leave all other modules to the next hook; see `importlib.abc.MetaPathFinder`."""
        # This error, and not a missing module spec, stops the search in the hooks behind this one.
        if name == "pandas":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def write_whole(target: Path, text: str, *, is_new: bool = False) -> None:
    """Write a text to a file that only its owner may read; makes the folder. No reader ever sees half of it.

    Args:
        target: the file.
        text: its content.
        is_new: True if no file may be there, also none that another process makes meanwhile; else the file is replaced.

    Raises:
        FileExistsError: it is there already.
        OSError: it cannot be written; nothing is left then.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    # Whoever lists the folder passes over a name that begins with a dot.
    descriptor, unfinished = tempfile.mkstemp(dir=target.parent, prefix=".", suffix=".part")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        # A link, other than a rename, takes no name that is there.
        if is_new:
            os.link(unfinished, target)
        else:
            os.replace(unfinished, target)
    finally:
        Path(unfinished).unlink(missing_ok=True)
