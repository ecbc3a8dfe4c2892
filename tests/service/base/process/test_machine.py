"""The memory and the cores of a container are its cgroups', not the host's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from service.base import machine

HOST_BYTES = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
HOST_CORES = len(os.sched_getaffinity(0))
MEGABYTE = 1 << 20


def root_of(folder: Path, own: str, files: dict[str, str]) -> Path:
    """A root folder in which a process of these cgroups finds these files below `/sys/fs/cgroup`."""
    paths = {"proc/self/cgroup": own} | {f"sys/fs/cgroup/{name}": files[name] for name in files}
    for name, content in paths.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return folder


@pytest.mark.parametrize(
    ("own", "files"),
    [
        ("0::/\n", {"memory.max": f"{MEGABYTE}\n"}),
        ("0::/pod/one\n", {"pod/one/memory.max": f"{MEGABYTE}\n"}),
        ("0::/pod/one\n", {"pod/one/memory.max": "max\n", "pod/memory.max": f"{MEGABYTE}\n"}),
        ("0::/pod/one\n", {"pod/one/memory.max": f"{MEGABYTE}\n", "pod/memory.max": f"{2 * MEGABYTE}\n"}),
        ("0::/docker/of-the-host\n", {"memory.max": f"{MEGABYTE}\n"}),
        ("0::/../elsewhere\n", {"memory.max": f"{MEGABYTE}\n"}),
        ("4:memory:/a\n0::/\n", {"memory/a/memory.limit_in_bytes": f"{MEGABYTE}\n"}),
        ("4:memory:/docker/of-the-host\n", {"memory/memory.limit_in_bytes": f"{MEGABYTE}\n"}),
    ],
)
def test_the_memory_of_a_container_is_the_least_limit_of_its_cgroups(
    tmp_path: Path, own: str, files: dict[str, str]
) -> None:
    assert machine.memory_bytes(root_of(tmp_path, own, files)) == MEGABYTE


@pytest.mark.parametrize(
    ("own", "files"),
    [
        ("", {}),
        ("0::/\n", {"memory.max": "max\n"}),
        ("4:memory:/\n", {"memory/memory.limit_in_bytes": f"{(1 << 63) - 4096}\n"}),
        ("0::/\n", {"memory.max": "nonsense\n"}),
        ("4:cpu:/\n", {"memory/memory.limit_in_bytes": "4096\n"}),
    ],
)
def test_without_a_limit_the_memory_is_the_machines(tmp_path: Path, own: str, files: dict[str, str]) -> None:
    assert machine.memory_bytes(root_of(tmp_path, own, files)) == HOST_BYTES


@pytest.mark.parametrize(
    ("own", "files"),
    [
        ("0::/\n", {"cpu.max": "100000 100000\n"}),
        ("0::/\n", {"cpu.max": "20000 100000\n"}),
        ("0::/pod/one\n", {"pod/one/cpu.max": "max 100000\n", "pod/cpu.max": "100000 100000\n"}),
        ("2:cpu,cpuacct:/a\n", {"cpu/a/cpu.cfs_quota_us": "50000\n", "cpu/a/cpu.cfs_period_us": "100000\n"}),
    ],
)
def test_the_cores_of_a_container_are_its_quota_rounded_up(
    tmp_path: Path, own: str, files: dict[str, str]
) -> None:
    assert machine.cores(root_of(tmp_path, own, files)) == 1


@pytest.mark.parametrize(
    ("own", "files"),
    [
        ("", {}),
        ("0::/\n", {"cpu.max": "max 100000\n"}),
        ("0::/\n", {"cpu.max": "100000 0\n"}),
        ("0::/\n", {"cpu.max": "100000000 100000\n"}),
        ("2:cpu:/\n", {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}),
    ],
)
def test_without_a_quota_the_cores_are_those_of_the_affinity(
    tmp_path: Path, own: str, files: dict[str, str]
) -> None:
    assert machine.cores(root_of(tmp_path, own, files)) == HOST_CORES


def test_this_process_has_memory_and_a_core() -> None:
    assert 0 < machine.memory_bytes() <= HOST_BYTES
    assert 1 <= machine.cores() <= HOST_CORES
