"""The reference pages of the documentation, made from the code. `python -m tools.reference docs/reference` writes them.

index.md
  settings    the table in `service.base.settings`
  commands    the parsers of `service.cli`
  shell       `COMMANDS` of `service.doors.cli.shell.dotcommands`
  doors       the tables of `service.tasks.registry`
  tools       those of agents, in `service.doors.mcp.tools`
  rules       the standard ones of `savepointdb test`
  columns     the schemas of the tables of facts, in `catalog`
  errors      `QueryError` and its subclasses, and the codes that errors of the other rooms become
  HTTP        the OpenAPI description of the application
python.md     the docstrings of `savepointdb`
"""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa

import savepointdb
from catalog import Catalog
from catalog.facts import FILES, OPERATORS, REQUIRED_CLASSES, RESTORE_CHECK, STATE_META
from catalog.xray import XRAY, XRAY_KEYS, XRAY_LARGEST, XRAY_ORPHAN_TIMERS
from readers import SOURCE_OFFSETS, sql_type
from service.base.errors import QueryError, translated_codes
from service.base.settings import ENVIRONMENT_PREFIX, SETTINGS, Settings
from service.cli import parser_of
from service.doors.app import create_app
from service.doors.cli.shell.dotcommands import COMMANDS
from service.doors.mcp.tools import TOOLS
from service.query.engines.registry import ENGINES
from service.tasks.registry import CLI, DOORS, HTTP, MCP, OTHERS, PYTHON, TASKS, RegisteredTask, tasks_at
from service.tasks.time.test.rules import standard_rules

_HEAD = """# Reference

This page lists every setting, command, tool, column, error and HTTP call. It is made from the code (`make reference`).
"""


_PYTHON_HEAD = """# Python reference

Made from the docstrings (`make reference`): the public names of `savepointdb`. [Python](../guides/python.md) has examples; `help(name)`
describes the arguments.
"""


def reference() -> str:
    """Return the page of settings, commands, the shell, doors, tools, rules, errors and HTTP, as Markdown."""
    return "\n".join(
        [
            _HEAD,
            *_settings(),
            *_commands(),
            *_shell(),
            *_doors(),
            *_tools(),
            *_rules(),
            *_columns(),
            *_errors(),
            *_http(),
        ]
    )


def python_reference() -> str:
    """Return the page of the public names of `savepointdb`, as Markdown."""
    named = {name: getattr(savepointdb, name) for name in savepointdb.__all__}
    errors = {name: one for name, one in named.items() if _is_error(one)}
    classes = {name: one for name, one in named.items() if inspect.isclass(one) and name not in errors}
    functions = {name: one for name, one in named.items() if name not in {**errors, **classes}}
    lines = [_PYTHON_HEAD, "## Functions\n"]
    lines += _table(("function", "does"), _described(functions))
    for name, one in classes.items():
        lines += [f"## {name}\n", _first_line(one), *_bases(one, classes), ""]
        lines += _table(("member", "is or does"), _described(_members(one, classes)))
    lines += [
        "## Errors and warnings\n",
        "Every error is a `QueryError` with a stable `code`; most have a `hint`.\n",
    ]
    del errors["QueryError"]
    lines += _table(("class", "meaning"), _described(errors))
    return "\n".join(lines)


def _bases(one: type, classes: Mapping[str, type]) -> list[str]:
    return [f"It is a `{base.__name__}`." for base in one.__bases__ if base.__name__ in classes]


def _members(one: type, classes: Mapping[str, type]) -> dict[str, object]:
    """Return the public members of a class, with those of bases that are not public."""
    hidden = [
        base
        for base in one.__mro__[1:]
        if base.__name__ not in classes and base.__module__[:11] == "savepointdb"
    ]
    return {
        name: member
        for base in (one, *hidden)
        for name, member in vars(base).items()
        if not name.startswith("_")
    }


def _is_error(named: object) -> bool:
    return inspect.isclass(named) and issubclass(named, BaseException)


def _described(members: Mapping[str, object]) -> list[tuple[str, str]]:
    rows = [(f"`{name}{_arguments(one)}`", _first_line(one)) for name, one in members.items()]
    return [(name, text) for name, text in rows if text and "for the other modules" not in text]


def _arguments(named: object) -> str:
    """Return the names of the arguments of a function, in brackets; nothing for others."""
    if not inspect.isfunction(named):
        return ""
    parameters = inspect.signature(named).parameters.values()
    names = [f"**{one.name}" if one.kind is one.VAR_KEYWORD else one.name for one in parameters]
    return f"({', '.join(name for name in names if name != 'self')})"


def _first_line(named: object) -> str:
    return (inspect.getdoc(named) or "").split("\n\n")[0].replace("\n", " ")


def _settings() -> Iterator[str]:
    yield "## Settings\n"
    yield (
        "A setting `timeout_s` is `--timeout-s` on the command line, "
        f"`{ENVIRONMENT_PREFIX}TIMEOUT_S` in the environment and `timeout_s` in the TOML file that `--config` names. "
        "The command line wins over the environment, and the environment over the file. "
        "`roots` in the file is a list of `[label=]PATH`.\n"
    )
    for title, settings in groupby(SETTINGS.values(), key=lambda setting: setting.title):
        yield f"### Settings: {title}\n"
        rows = [(f"`{setting.key}`", _default(setting.default), setting.meaning) for setting in settings]
        yield from _table(("setting", "default", "meaning"), rows)


def _default(value: object) -> str:
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"  # as TOML and the environment spell it
    return f"`{value}`" if value != "" else ""


def _commands() -> Iterator[str]:
    yield "## Commands\n"
    # A command may have an option of its own with the name of a setting, such as --mask.
    known = {setting.option: setting.meaning.replace("%", "%%") for setting in SETTINGS.values()}
    for name, parser in parsers(parser_of(), "savepointdb"):
        rows = []
        for action in parser._actions:
            if isinstance(action, argparse._HelpAction | argparse._SubParsersAction):
                continue
            if any((action.help or "").startswith(known.get(one, "\0")) for one in action.option_strings):
                continue
            called = ", ".join(f"`{option}`" for option in action.option_strings) or f"`{action.metavar}`"
            rows.append((called, (action.help or "").replace("%%", "%")))
        yield f"### `{name}`\n"
        yield f"{parser.description}\n"
        if rows:
            yield from _table(("argument", "meaning"), rows)
    yield "Commands also take the settings that they use; `--help` of a command lists them.\n"


def parsers(parser: argparse.ArgumentParser, name: str) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield the parsers of a command and of those below it, with their names."""
    yield name, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below, subparser in action.choices.items():
                yield from parsers(subparser, f"{name} {below}")


def _shell() -> Iterator[str]:
    yield "## Commands of the shell\n"
    yield "[Shell](../guides/shell.md) explains how to use them. `.help NAME` shows the options of a task.\n"
    rows = [(f"`{one.name} {one.arguments}".rstrip() + "`", one.meaning) for one in COMMANDS.values()]
    yield from _table(("command", "does"), rows)


def _doors() -> Iterator[str]:
    yield "## Use cases and doors\n"
    yield "What each use case is called at each door, and why a door lacks it.\n"
    rows = [
        (f"`{name}`", *(_at(_names_of(name, one).get(door), one.lacking.get(door)) for door in DOORS))
        for name, one in sorted({**TASKS, **OTHERS}.items())
    ]
    yield from _table(("use case", "command line", "HTTP", "agents", "Python"), rows)


def _names_of(name: str, task: RegisteredTask) -> dict[str, str]:
    names = {CLI: name, HTTP: f"POST /api/{task.address or name}", MCP: task.tool or name, PYTHON: name}
    return {door: called for door, called in names.items() if door not in task.lacking} | dict(task.own)


def _at(name: str | None, lacking: str | None) -> str:
    return ": ".join(filter(None, (f"`{name}`" if name else "–", lacking)))


def _tools() -> Iterator[str]:
    yield "## Tools of agents\n"
    yield "What an agent reads about each tool. [Agents](../guides/agents.md) explains how to connect one.\n"
    rows = [(f"`{name}`", tool.description) for name, tool in TOOLS.items()]
    rows += [(f"`{one.tool or name}`", one.advice or one.summary) for name, one in tasks_at(MCP)]
    yield from _table(("tool", "description"), rows)


def _rules() -> Iterator[str]:
    yield "## Standard rules\n"
    yield "The rules of `savepointdb test --standard`; `--print-standard` prints their queries.\n"
    rows = [(one.name, one.severity, _with_params(one.description, one.params)) for one in standard_rules()]
    yield from _table(("rule", "severity", "why"), rows)


def _with_params(description: str, params: Mapping[str, object]) -> str:
    shown = ", ".join(f"`${name}` is {value}" for name, value in params.items())
    return f"{description} {shown}." if shown else description


_SCHEMAS: dict[str, pa.Schema] = {
    "StateMeta": STATE_META,
    "operators": OPERATORS,
    "files": FILES,
    "source_offsets": SOURCE_OFFSETS,
    "restore_check": RESTORE_CHECK,
    "required_classes": REQUIRED_CLASSES,
    "xray": XRAY,
    "xray_keys": XRAY_KEYS,
    "xray_largest": XRAY_LARGEST,
    "xray_orphan_timers": XRAY_ORPHAN_TIMERS,
}


def _columns() -> Iterator[str]:
    yield "## Columns\n"
    yield "Tables with the same columns in every savepoint. [Tables and types](tables.md) explains them; DESCRIBE shows those of states.\n"
    for name, schema in _SCHEMAS.items():
        yield f"### `{name}`\n"
        yield from _table(("column", "type"), [(f"`{field.name}`", sql_type(field.type)) for field in schema])


def _errors() -> Iterator[str]:
    yield "## Errors\n"
    yield '`{"error": {"code", "message", "hint", "position": {"line", "column"}}}`, with the status.\n'
    for engine in ENGINES:
        engine.load()  # an engine's own errors are known once it is loaded
    for room in ("service.tasks.write.request", "service.tasks.time.test.rules", "savepointdb.errors"):
        import_module(room)  # and those of rooms that are imported only where they are needed
    rows: dict[str, tuple[str, str, str]] = {}
    for kind in _below(QueryError):
        # A class without a code of its own has that of the class above it.
        rows.setdefault(kind.code, (f"`{kind.code}`", str(kind.status), (kind.__doc__ or "").splitlines()[0]))
    for code, status, meaning in translated_codes():
        rows.setdefault(code, (f"`{code}`", str(status), meaning))
    yield from _table(("code", "status", "meaning"), sorted(rows.values()))


def _below(kind: type[QueryError]) -> Iterator[type[QueryError]]:
    yield kind
    for derived in kind.__subclasses__():
        yield from _below(derived)


def _http() -> Iterator[str]:
    yield "## HTTP\n"
    yield "A running service describes request bodies and answers at `/docs`.\n"
    description: dict[str, Any] = create_app(Settings(), Catalog()).openapi()
    rows = [
        (f"`{method.upper()} {path}`", str(call.get("description", call.get("summary", ""))).splitlines()[0])
        for path, calls in sorted(description["paths"].items())
        for method, call in sorted(calls.items())
    ]
    yield from _table(("call", "does"), [*rows, ("`POST /v1/statement`", "Trino's client protocol.")])


LONGEST_CELL = 200
"""A cell holds a phrase: what is longer goes on below its table."""


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    notes = []
    for *cells, last in rows:
        phrase, rest = _cut(last)
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in (*cells, phrase))} |"
        notes += [f"- {cells[0]}: {rest}"] if rest else []
    yield ""
    if notes:
        yield from (*notes, "")


def _cut(text: str) -> tuple[str, str]:
    """Return the sentences of a text that fit into a cell, and the others."""
    if len(text) <= LONGEST_CELL:
        return text, ""
    end = text.rfind(". ", 0, LONGEST_CELL) + 1
    return text[:end], text[end + 1 :]


PAGES: dict[str, Callable[[], str]] = {"index.md": reference, "python.md": python_reference}
"""Name of a generated page → its text."""

if __name__ == "__main__":
    for page, text_of in PAGES.items():
        (Path(sys.argv[1]) / page).write_text(text_of(), encoding="utf-8")
