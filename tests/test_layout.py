"""The order of the house: which room and which floor a file stands on, and what every room must keep."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from tests.support.modules import ROOMS, sources, trees
from tests.support.paths import PROJECT

# A file imports files of its own room and of the rooms behind it.
# Inside a room a file imports from its own floor and from the floors before it.
FLOORS = {
    "readers": (
        ("errors", "keygroups", "recognition", "latenames", "schemas"),
        ("cursor", "jsontext"),
        ("javaio",),
        ("metadata",),
        ("storage",),
        ("compiled",),
        ("decode",),
        ("serializers",),
        ("snapshots",),
        ("metainfo",),
        ("headers",),
        ("formats",),
        ("jars",),
        ("stateinfo", "rows"),
        ("connectors",),
        ("states",),
        ("differences", "surveys", "samples"),
        ("operators", "savepoint"),
        ("offsets", "description", "leftovers"),
    ),
    "savepointdb": (
        ("rooms",),
        ("errors",),
        ("processes", "values"),
        ("answer",),
        ("results",),
        ("followed",),
        ("connection",),
        ("tasks", "spark"),
        ("__main__",),
    ),
    "writers": (
        ("errors", "kernels"),
        ("headers",),
        ("metadata",),
        ("encode", "target", "kryo"),
        ("stores",),
        ("changes", "hashes"),
        ("edits", "evolution"),
        ("operatorstate",),
        ("keyed",),
        ("creation", "copies"),
        ("elsewhere",),
        ("savepoint",),
    ),
    "doctor": (
        ("errors", "report"),
        ("job",),
        ("rules",),
        ("against",),
        ("states", "values"),
        ("check",),
    ),
    "catalog": (
        ("errors", "stateinfo", "kernels"),
        ("masks",),
        ("references",),
        ("cache",),
        ("scan",),
        ("table",),
        ("statetables", "facts"),
        ("views", "xray", "wide"),
        ("upstream", "changedtables"),
        ("savepointtables",),
        ("database",),
        ("keys", "differences", "history"),
        ("aliases",),
        ("roots",),
        ("catalog",),
        ("follow",),
    ),
    "service": (
        ("base",),
        ("spark",),
        ("query",),
        ("tasks",),
        ("doors",),
        ("cli",),
    ),
    "service.base": (
        ("version", "machine", "waiting", "rowgroups"),
        ("errors", "settings"),
        ("catalogtables", "hosts", "principal", "restorecheck"),
    ),
    "service.query": (
        ("encode",),
        ("sql",),
        ("engines",),
        ("running",),
        ("serving",),
    ),
    "service.tasks": (
        ("task",),
        ("registry", "inspect", "lookup", "xray"),
        ("saved", "time", "check", "follow"),
        ("write",),
        ("copies", "jobs"),
    ),
    "service.doors": (
        ("operations",),
        ("served",),
        ("http",),
        ("mcp", "trino", "page"),
        ("app",),
        ("cli",),
    ),
}

MOST_LINES = 700
# The opcode loops are one function each, and stay so.
LONG_FILES = {"readers/decode/machine/execute.py", "writers/encode/machine/execute.py"}
MOST_MODULES = 20
MOST_CHILDREN = 12
MOST_FRAGMENTS = 0.05
LEAST_COMMENTS = 0.02

# A sentence that begins so has no subject or no verb.
FRAGMENT = re.compile(r"^(As|Of|What|Where|Whether|How|Who|Which|If)\b")


@cache
def modules() -> dict[str, Path]:
    """Dotted name → path; a package has the name of its folder."""
    return {dotted(path): path for path in sources()}


def dotted(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def by_name() -> dict[str, ast.Module]:
    """Dotted name → tree."""
    return {dotted(path): tree for path, tree in trees().items()}


def hidden(tree: ast.Module) -> set[str]:
    """The modules that a module imports when it needs them, by a name in the text of its calls of `import_module`."""
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    names = {
        call.args[0].value
        for call in calls
        if ast.unparse(call.func).endswith("import_module")
        and call.args
        and isinstance(call.args[0], ast.Constant)
    }
    return {name for name in names if isinstance(name, str) and name in modules()}


@cache
def imported() -> dict[str, frozenset[str]]:
    """The modules of the project that each module imports, those for type checkers only among them."""
    return {dotted(path): frozenset(imports_of(tree) - {dotted(path)}) for path, tree in trees().items()}


def imports_of(tree: ast.Module) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = (f"{node.module}.{alias.name}" for alias in node.names)
            found |= {name if name in modules() else node.module for name in names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return {name for name in found if name in modules()}


def floor_of(module: str, room: str) -> int | None:
    """The floor of a module inside a room; None for the room's own `__init__`."""
    head = module.removeprefix(f"{room}.").split(".")[0]
    return next((floor for floor, names in enumerate(FLOORS[room]) if head in names), None)


@pytest.mark.parametrize("room", FLOORS)
def test_every_module_has_a_floor(room: str) -> None:
    inside = [module for module in modules() if module.startswith(f"{room}.")]

    assert [module for module in inside if floor_of(module, room) is None] == []
    assert {module.removeprefix(f"{room}.").split(".")[0] for module in inside} == {
        name for floor in FLOORS[room] for name in floor
    }


def test_the_catalog_knows_no_rules_of_restores() -> None:
    found = {
        module: imported()[module] | hidden(tree)
        for module, tree in by_name().items()
        if module.startswith("catalog")
    }

    assert [
        module for module, others in found.items() if any(one.startswith("doctor") for one in others)
    ] == []


@pytest.mark.parametrize("room", FLOORS)
def test_imports_inside_a_room_go_to_lower_floors(room: str) -> None:
    upwards = [
        f"{module} imports {other}"
        for module, others in imported().items()
        for other in sorted(others)
        if module.startswith(f"{room}.") and other.startswith(f"{room}.")
        if (floor_of(module, room) or 0) < (floor_of(other, room) or 0)
    ]

    assert upwards == []


def test_no_files_import_each_other_in_a_circle() -> None:
    # A package's `__init__` re-exports its modules; it is not counted, as a module that imports it wants one of those.
    graph = {
        module: {other for other in imported()[module] | hidden(tree) if not is_package(other)}
        for module, tree in by_name().items()
        if not is_package(module)
    }

    assert circles(graph) == []


def is_package(module: str) -> bool:
    return modules()[module].name == "__init__.py"


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """The modules that reach each other, by leaving out again and again what imports nothing that is left."""
    left = {module: set(others) for module, others in graph.items()}
    while True:
        free = {module for module, others in left.items() if not others & left.keys()}
        if not free:
            break
        left = {module: others for module, others in left.items() if module not in free}
    in_circles = {module for module in left if module in reached(left, module)}
    return [sorted(in_circles)] if in_circles else []


def reached(graph: dict[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    todo = [start]
    while todo:
        for other in graph[todo.pop()] & graph.keys() - found:
            found.add(other)
            todo.append(other)
    return found


def test_imports_that_are_hidden_count() -> None:
    assert hidden(ast.parse("import_module('readers.savepoint').Savepoint; import_module(name)")) == {
        "readers.savepoint"
    }


def test_circles_are_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set()}) == [["b", "c"]]
    assert circles({"a": {"b"}, "b": set()}) == []


def test_other_rooms_import_the_faces_of_readers_writers_and_doctor_only() -> None:
    deep = [
        f"{module} imports {other}"
        for module, others in imported().items()
        for other in sorted(others)
        # The writers write what `readers.metadata` reads, class by class.
        if (
            module.split(".")[0] in ROOMS[:-1]
            and other.startswith("readers.")
            and not (module.startswith(("writers.", "doctor.")) and other == "readers.metadata")
        )
        or (module.split(".")[0] in ROOMS[:-2] and other.startswith("writers."))
        or (module.split(".")[0] in ROOMS[:-3] and other.startswith("doctor."))
    ]

    assert deep == []


def test_the_face_of_the_readers_is_what_other_rooms_use() -> None:
    rooms = [tree for path, tree in trees().items() if path.parts[0] in ROOMS[:-1]]
    used = {
        alias.name
        for tree in rooms
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "readers"
        for alias in node.names
    }
    used |= {
        node.attr
        for tree in rooms
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "readers"
    }
    face = set(importlib.import_module("readers").__all__)
    errors = {name for name in face if name.endswith("Error")}

    assert face - used - errors == set()


@pytest.mark.parametrize("room", ["readers", "writers", "catalog"])
def test_a_face_loads_each_name_from_where_type_checkers_see_it(room: str) -> None:
    face = importlib.import_module(room)
    seen = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for block in trees()[Path(room, "__init__.py")].body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in ROOMS
        for alias in node.names
    }

    assert face.__all__ == sorted(seen)
    assert [
        name for name, place in seen.items() if getattr(face, name) is not pkgutil.resolve_name(place)
    ] == []


def test_files_are_short() -> None:
    long = {str(path): text.count("\n") for path, text in sources().items() if text.count("\n") > MOST_LINES}

    assert long.keys() - LONG_FILES == set()


def test_folders_are_small() -> None:
    count = Counter(str(path.parent) for path in sources() if path.name != "__init__.py")

    assert {folder for folder, number in count.items() if number > MOST_MODULES} == set()


def test_folders_of_the_service_have_few_children() -> None:
    modules = Counter(str(path.parent) for path in sources() if path.name != "__init__.py")
    packages = Counter(str(path.parent.parent) for path in sources() if path.name == "__init__.py")
    count = modules + packages

    assert [
        folder for folder, number in count.items() if folder.startswith("service") and number > MOST_CHILDREN
    ] == []


@pytest.mark.parametrize(
    "package", [path for path in sources() if path.name == "__init__.py"], ids=lambda path: str(path.parent)
)
def test_the_tour_of_a_package_names_its_modules(package: Path) -> None:
    folder = PROJECT / package.parent
    files = {path.name for path in folder.glob("*.py")} - {"__init__.py"}
    packages = {f"{path.parent.name}/" for path in folder.glob("*/__init__.py")}
    others = {f"{path.name}/" for path in folder.iterdir() if path.is_dir()} - packages
    named = named_in(ast.get_docstring(trees()[package]) or "")

    assert named - others == files | packages


def named_in(tour: str) -> set[str]:
    """The names that open the lines of a docstring: `module.py` and `folder/`."""
    names: set[str] = set()
    for line in tour.splitlines():
        for word in line.split():
            if not re.fullmatch(r"\w+(\.py|/)", word):
                break
            names.add(word)
    return names


def test_docstrings_of_functions_are_sentences() -> None:
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [
        (path, node)
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, functions) and ast.get_docstring(node)
    ]
    fragments = [
        f"{path}:{node.lineno} {node.name}"
        for path, node in nodes
        if FRAGMENT.match(ast.get_docstring(node) or "")
    ]

    assert len(fragments) <= MOST_FRAGMENTS * len(nodes), fragments


def test_comments_say_why_often_enough() -> None:
    lines = [line for text in sources().values() for line in text.splitlines() if line.strip()]
    comments = [line for line in lines if line.lstrip().startswith("#") or "  # " in line]
    code = [line for line in lines if not line.lstrip().startswith("#")]

    assert len(comments) >= LEAST_COMMENTS * len(code)


def test_no_name_of_a_module_is_given_twice() -> None:
    # Linters see a function that is defined again, and no constant: the first half of the module would use the second's.
    twice = [
        f"{path} {name}"
        for path, tree in trees().items()
        for name, count in Counter(
            target.id
            for node in tree.body
            if isinstance(node, ast.Assign | ast.AnnAssign)
            for whole in (node.targets if isinstance(node, ast.Assign) else [node.target])
            for target in ast.walk(whole)
            if isinstance(target, ast.Name) and isinstance(target.ctx, ast.Store)
        ).items()
        if count > 1
    ]

    assert twice == []


def test_no_name_is_defined_and_never_used() -> None:
    folders = (*ROOMS, "tools", "tests", "examples", "benchmarks")
    texts = [
        path.read_text(encoding="utf-8") for folder in folders for path in (PROJECT / folder).rglob("*.py")
    ]
    used = Counter(word for text in texts for word in re.findall(r"\w+", text))

    dead = [
        f"{path}:{line} {name}"
        for path, tree in trees().items()
        for name, line in defined(tree)
        if used[name] == 1 and not name.startswith("__")
    ]

    assert dead == []


def defined(tree: ast.Module) -> list[tuple[str, int]]:
    """The functions, methods, classes and constants of a module, with their lines; not what a decorator registers."""
    found: list[tuple[str, int]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            registered = any(isinstance(decorator, ast.Call) for decorator in node.decorator_list)
            if not registered or isinstance(node, ast.ClassDef):
                found.append((node.name, node.lineno))
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        found += [(target.id, node.lineno) for target in targets if isinstance(target, ast.Name)]
    return found
