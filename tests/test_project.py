"""The rules of the project that no linter knows: who imports whom, what is documented, what may be named."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = Path(__file__).parent.parent

# A room imports itself and the rooms to its right.
ROOMS = ("service", "catalog", "readers")

# Slow to load or not always installed: these, and these alone, are imported where they are used.
# Of pyarrow it is `pyarrow.fs`, with the clients of all object stores in it.
OPTIONAL_DEPENDENCIES = {"fsspec", "jwt", "pandas", "pyarrow", "pyspark"}
# Our own modules that stand on one of them.
OPTIONAL_MODULES = ("service.spark",)

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

MODULES = sorted(path.relative_to(PROJECT) for room in ROOMS for path in (PROJECT / room).rglob("*.py"))
every_module = pytest.mark.parametrize("module", MODULES, ids=Path.as_posix)


def parse(module: Path) -> ast.Module:
    return ast.parse((PROJECT / module).read_bytes(), filename=str(module))


def imported_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and dotted name of every import under `tree`; a relative one begins with its dots."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, "." * node.level + (node.module or "")


def function_level_imports(tree: ast.AST) -> set[tuple[int, str]]:
    functions = (
        n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    )
    return {found for function in functions for found in imported_names(function)}


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z][a-z-]*):", (PROJECT / "Makefile").read_text(), re.MULTILINE))


@every_module
def test_imports_go_from_service_to_catalog_to_readers(module: Path) -> None:
    forbidden = {"tests", "examples", *ROOMS[: ROOMS.index(module.parts[0])]}
    found = [
        f"{module}:{line} {name}"
        for line, name in imported_names(parse(module))
        if name.split(".")[0] in forbidden
    ]

    assert found == []


@every_module
def test_imports_are_absolute(module: Path) -> None:
    found = [
        f"{module}:{line} {name}" for line, name in imported_names(parse(module)) if name.startswith(".")
    ]

    assert found == []


@every_module
def test_imports_inside_functions_are_of_optional_dependencies(module: Path) -> None:
    found = [
        f"{module}:{line} {name}"
        for line, name in sorted(function_level_imports(parse(module)))
        if name.split(".")[0] not in OPTIONAL_DEPENDENCIES and not name.startswith(OPTIONAL_MODULES)
    ]

    assert found == []


@every_module
def test_every_module_says_what_it_is(module: Path) -> None:
    assert ast.get_docstring(parse(module))


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
