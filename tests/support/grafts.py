"""Operators that scripts copy from other savepoints, each to be restored by real Flink."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.support.proofs import Proof
from tests.support.restoring import VERSIONS, Restore
from tests.support.statements import COPY_OPERATOR, of_kinds

_COPY = "DROP TABLE aggregate; COPY OPERATOR other.aggregate"
_OTHERS = ("--allow-non-restored",)
_CHECKPOINT = "wordcount-rocksdb-checkpoint-incremental/checkpoint/chk-2"
_HASHMAP, _ROCKSDB = "wordcount-hashmap-savepoints", "wordcount-rocksdb-savepoints"
# The savepoint that is written, and the one with the operator, of the version that restores or of the other one.
_LAYOUTS = (
    ("rocksdb", _CHECKPOINT, f"own/{_ROCKSDB}/canonical"),
    ("rocksdb", _CHECKPOINT, f"other/{_ROCKSDB}/native"),
    ("rocksdb", f"{_ROCKSDB}/canonical", f"own/{_CHECKPOINT}"),
    ("rocksdb", f"{_ROCKSDB}/native", f"other/{_CHECKPOINT}"),
    ("rocksdb", f"{_ROCKSDB}/native", f"own/{_HASHMAP}/canonical"),
    ("hashmap", f"{_HASHMAP}/native", f"own/{_ROCKSDB}/canonical"),
    ("hashmap", f"{_HASHMAP}/canonical", f"other/{_HASHMAP}/native"),
    ("hashmap", f"{_HASHMAP}/native", f"other/{_HASHMAP}/canonical"),
)


def _of_layouts() -> Iterator[Restore]:
    for version, other in zip(VERSIONS, reversed(VERSIONS), strict=True):
        for backend, source, origin in _LAYOUTS:
            written_by, _, path = origin.partition("/")
            # RocksDB of Flink 1 does not read files of Flink 2: such a copy is refused.
            if (version, written_by, backend) == ("1.20.3", "other", "rocksdb"):
                continue
            yield _graft(
                f"copy-{_short(source)}-{_short(path)}-of-{written_by}",
                f"{version if written_by == 'own' else other}/{path}",
                version=version,
                backend=backend,
                source=source,
                restoring=("--emit", "2"),
            )


def _of_archives() -> Iterator[Restore]:
    """Changelogs, merged files, timers in raw keyed state, and ForSt."""
    log = (
        *("--conf", "state.changelog.enabled=true", "--conf", "state.changelog.storage=filesystem"),
        *("--conf", "dstl.dfs.base-path=file:///tmp/savepointdb-changelog"),
    )
    for backend, archive, restoring in (
        ("hashmap", "changelog-hashmap-materialized-chk-3", log),
        ("rocksdb", "changelog-rocksdb-materialized-chk-3", log),
        ("rocksdb", "filemerging-rocksdb-chk-3", ()),
    ):
        yield _graft(
            f"copy-{archive}",
            f"1.20.3-{archive}",
            version="1.20.3",
            backend=backend,
            source=f"wordcount-{backend}-savepoints/native",
            restoring=restoring,
        )
    for version in VERSIONS:
        yield _of_all_kinds("copy-heap-timers", f"{version}-heaptimers-chk-2", version)
    yield _of_all_kinds("copy-forst", "2.3.0-forst-kinds-native", "2.3.0")


def _of_all_kinds(name: str, archive: str, version: str) -> Restore:
    return _graft(
        name,
        archive,
        version=version,
        backend="rocksdb",
        source="everything-rocksdb-savepoints/native",
        job="kinds",
        script='DROP TABLE kinds; DROP TABLE "tumbling-window"; COPY OPERATOR other.kinds; COPY OPERATOR other."tumbling-window"',
        restoring=("--emit", "1", "--fire", *_OTHERS),
    )


def _graft(name: str, origin: str, **facts: Any) -> Restore:
    return Restore(name=name, others={"other": origin}, **{"script": _COPY, **facts})


def _short(path: str) -> str:
    """The backend and the kind of a savepoint."""
    folder, _, kind = path.removeprefix("wordcount-").rpartition("/")
    return f"{folder.partition('-')[0]}-{kind}"


GRAFTS = (*_of_layouts(), *_of_archives())

GRAFT_PROOFS: tuple[Proof, ...] = (
    of_kinds(
        "copy-operators",
        COPY_OPERATOR,
        "all kinds of state, timers and windows, of another version of Flink",
        'DROP TABLE kinds; DROP TABLE events; DROP TABLE broadcast; DROP TABLE "tumbling-window"',
        *(f'COPY OPERATOR other."{name}"' for name in ("kinds", "events", "broadcast", "tumbling-window")),
        restoring=("--emit", "1", "--fire"),
        others={"other": "{other}/everything-{backend}-savepoints/canonical"},
    ),
)
