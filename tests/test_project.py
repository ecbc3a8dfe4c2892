"""The rules of the project that no linter knows: who imports whom, what is documented, what may be named."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.modules import ROOMS, sources, trees
from tests.support.paths import PROJECT

# A room imports itself and the rooms to its right.
# Slow to load or not always installed: these, and these alone, are imported where they are used.
# Of pyarrow it is `pyarrow.fs`, with the clients of all object stores in it.
OPTIONAL_DEPENDENCIES = {
    *(
        "botocore",
        "deltalake",
        "fsspec",
        "jwt",
        "llvmlite",
        "pandas",
        "polars",
        "pyarrow",
        "pyiceberg",
        "pyspark",
    )
}
# Our own modules that stand on one of them.
OPTIONAL_MODULES = ("service.spark",)
# Our own modules that few savepoints or few statements need: `savepointdb query` would begin twice as late with all of them.
LATE_MODULES = (
    "catalog.differences",
    "catalog.facts",
    "catalog.masks",
    "catalog.savepointtables",
    "catalog.statetables",
    "catalog.upstream",
    "catalog.wide",
    "catalog.xray",
    "readers.jars",
    "readers.connectors",
    "readers.jars.jobclasses",
    "readers.serializers.kryo",
    "readers.serializers.protobuf",
    "readers.serializers.table",
    "readers.snapshots",
    "service.query.engines.duckdb.cached",
    "service.query.engines.duckdb.tables",
    "service.query.sql.syntax",
    "service.query.sql.translation",
    # `savepointdb lookup` scans, and needs no SQL.
    "service.query.running",
    "service.query.serving",
    "service.query.sql.text",
    "service.tasks.lookup.statements",
    "service.tasks.write.masks",
)

# In pieces, or this file would name them.
REGISTRY_HOSTS = [
    ".".join(labels).encode()
    for labels in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("registry", "npmjs", "org"),
        ("crates", "io"),
        ("repo1", "maven", "org"),
        ("repo", "maven", "apache", "org"),
        ("proxy", "golang", "org"),
        ("deb", "debian", "org"),
        ("archive", "ubuntu", "com"),
    )
]

MODULES = sorted(path for path in sources() if path.parts[0] in ROOMS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """An import; a relative one begins with its dots."""

    module: Path
    line: int
    name: str
    is_in_function: bool

    def __str__(self) -> str:
        return f"{self.module}:{self.line} {self.name}"


@cache
def parsed() -> dict[Path, tuple[str | None, list[Import]]]:
    """What every module says that it is, and what it imports."""
    return {
        module: (ast.get_docstring(trees()[module]), list(imports(module, trees()[module])))
        for module in MODULES
    }


def imports(module: Path, node: ast.AST, is_in_function: bool = False) -> Iterator[Import]:
    """Every import under a node."""
    is_in_function |= isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    for below in ast.iter_child_nodes(node):
        if isinstance(below, ast.expr):
            continue  # no statement is in an expression
        if isinstance(below, ast.Import | ast.ImportFrom):
            for name in names_of(below):
                yield Import(module=module, line=below.lineno, name=name, is_in_function=is_in_function)
        yield from imports(module, below, is_in_function)


def names_of(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return ["." * node.level + (node.module or "")]


def every_import() -> Iterator[Import]:
    for _, found in parsed().values():
        yield from found


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z][a-z-]*):", (PROJECT / "Makefile").read_text(), re.MULTILINE))


@pytest.mark.slow
def test_imports_go_from_service_to_catalog_to_doctor_to_writers_to_readers() -> None:
    forbidden = {room: {"tests", "examples", *ROOMS[: ROOMS.index(room)]} for room in ROOMS}

    assert {found.module.parts[0] for found in every_import()} == set(ROOMS)
    assert [
        str(found) for found in every_import() if found.name.split(".")[0] in forbidden[found.module.parts[0]]
    ] == []


def test_imports_are_absolute() -> None:
    assert [str(found) for found in every_import() if found.name.startswith(".")] == []


def test_imports_inside_functions_are_of_what_few_need() -> None:
    inside = [found for found in every_import() if found.is_in_function]

    assert inside
    assert [
        str(found)
        for found in inside
        if found.name.split(".")[0] not in OPTIONAL_DEPENDENCIES
        and not found.name.startswith((*OPTIONAL_MODULES, *LATE_MODULES))
    ] == []


def test_every_module_says_what_it_is() -> None:
    assert [str(module) for module, (docstring, _) in parsed().items() if not docstring] == []


def test_every_folder_of_modules_is_a_package() -> None:
    folders = {module.parent for module in MODULES}

    assert [folder for folder in sorted(folders) if folder / "__init__.py" not in MODULES] == []


def test_make_help_lists_every_target() -> None:
    shown = subprocess.run(["make", "help"], cwd=PROJECT, capture_output=True, text=True, check=True).stdout

    assert set(re.findall(r"^ +make ([a-z-]+)", shown, re.MULTILINE)) == make_targets()


def test_make_commands_of_the_readme_exist() -> None:
    code = re.findall(r"^```.*?^```|`[^`\n]+`", (PROJECT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    commands = re.findall(r"\bmake ((?:[a-z][a-z-]* ?)+)", "\n".join(code))
    targets = {target for command in commands for target in command.split()}

    assert targets
    assert targets - make_targets() == set()


@pytest.mark.parametrize("lock_name", ["requirements.lock", "requirements-dev.lock"])
def test_lock_files_fit_the_declared_dependencies(lock_name: str) -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    declared = list(project["project"]["dependencies"])
    if lock_name == "requirements-dev.lock":
        declared += project["project"]["optional-dependencies"]["spark"] + project["dependency-groups"]["dev"]
    pins = re.findall(r"^([\w.-]+)==([^\s;]+)", (PROJECT / lock_name).read_text(), re.MULTILINE)
    locked = {(canonicalize_name(name), version) for name, version in pins}

    unmet = [
        text
        for text in declared
        for requirement in [Requirement(text)]
        if not any(
            canonicalize_name(requirement.name) == name and version in requirement.specifier
            for name, version in locked
        )
    ]

    assert unmet == []


def test_no_file_names_a_registry_host() -> None:
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(listing, cwd=PROJECT, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("not a git work tree")
    files = [PROJECT / name.decode() for name in listed.stdout.split(b"\0") if name]
    found = [
        f"{file.relative_to(PROJECT)} names {host.decode()}"
        for file in files
        if file.is_file()
        for content in [file.read_bytes()]
        for host in REGISTRY_HOSTS
        if host in content
    ]

    assert found == []
