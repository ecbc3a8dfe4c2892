"""The command line: `savepointdb serve | query | inspect | lookup | history | diff | check | …`, as `_COMMANDS` lists them.

This module imports only what it needs to parse arguments; the module of a command is imported when the command is called.
Results go to standard output, everything else to standard error; exit codes are in `service.doors.cli.output`.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import NoReturn

from service.base import machine, settings
from service.doors.cli.parser import (
    FLINK_SETTINGS,
    QUERY_SETTINGS,
    SOURCE,
    CommandParser,
    VersionAction,
    add_asking,
    add_names,
    add_no_cache,
    add_path_map,
    add_shell,
    is_source,
)
from service.tasks.registry import CLI, OTHERS, TASKS, tasks_at

# `service.doors.cli.output` and `service.tasks.check.findings` have the same codes, and import Arrow.
_FAILED, _UNREADABLE, _INTERRUPTED, _SIGNALLED = 1, 3, 130, 128
_SHELL = "shell"
# What they answer is out before they could find that it was wrong: they end by SIGBUS.
_ENDLESS = {"demo", "mcp", "serve", _SHELL}
_QUERY = "query"
_TASK = "service.doors.cli.task"
_TERMINAL = "service.doors.cli.shell.terminal"
# So many objects a query makes before its first row, modules among them: their garbage is not worth a look.
_OBJECTS_OF_A_QUERY = 100_000
_WRONG_USAGE = {"check": 4}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that the arguments name, and return its exit code."""
    options = _parsed(arguments)
    return _ended(_loaded(options.command), options)


def run() -> NoReturn:
    """Run the program `savepointdb`: run the command, then end the process."""
    # Imported modules stay until the end: collecting garbage among them, and taking them apart at exit, cost more than a
    # short query takes.
    gc.disable()
    machine.keep_little()
    machine.keep_algebra_to_one_thread()
    # Until the command begins, Ctrl-C would end an import in the middle, with a traceback.
    signal.signal(signal.SIGINT, _interrupted)
    try:
        options = _parsed(None)
    except SystemExit as ended:  # help, version or wrong usage
        _end(ended.code if isinstance(ended.code, int) else 0)
    command = _loaded(options.command)
    gc.freeze()
    if options.command == _QUERY:
        gc.set_threshold(_OBJECTS_OF_A_QUERY)
    gc.enable()
    ends = options.command not in _ENDLESS
    if ends:
        import_module("readers").survive_lost_pages()
    asked: list[int] = []
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if ends:
            with _ending_as_by_ctrl_c(asked):
                code = _ended(command, options)
            code = _unharmed(code, options)
        else:
            code = _ended(command, options)
    except KeyboardInterrupt:
        code = _INTERRUPTED
    if asked:
        code = _SIGNALLED + asked[0]
    signal.signal(signal.SIGINT, _interrupted)
    # Exit handlers close the engines; os._exit does not call them.
    atexit._run_exitfuncs()
    _end(code)


@contextlib.contextmanager
def _ending_as_by_ctrl_c(asked: list[int]) -> Iterator[None]:
    """Let a command that is asked to end remove what it has begun, as Ctrl-C does; `asked` gets the signal."""

    def end(number: int, _: object) -> NoReturn:
        asked.append(number)
        signal.signal(number, signal.SIG_DFL)  # at once, when asked again
        raise KeyboardInterrupt

    # Those that nobody handles or ignores: nohup ignores one.
    free = [one for one in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(one) is signal.SIG_DFL]
    for number in free:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in free:
            signal.signal(number, signal.SIG_DFL)


def _end(code: int) -> NoReturn:
    """End the process without taking its modules apart."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        pass  # the reader of a pipe has seen enough
    except OSError as error:
        if not code:  # else the command has reported an error
            code = _FAILED
            with contextlib.suppress(OSError):
                os.write(2, f"savepointdb: the output cannot be written: {error.strerror}\n".encode())
    os._exit(code)


def _ended(command: Callable[[argparse.Namespace], int], options: argparse.Namespace) -> int:
    """Run a command and return its exit code; an error that it does not expect is reported in one line."""
    try:
        return command(options)
    except Exception as error:  # the last resort: libraries raise anything
        return int(import_module("service.doors.cli.output").unexpected(error, verbose=options.verbose))


def _unharmed(code: int, options: argparse.Namespace) -> int:
    """Return the exit code of a command; if what it has read was wrong, report that in its place."""
    loss = import_module("readers").take_lost_pages()
    if loss is None:
        return code
    unreadable = _WRONG_USAGE.get(options.command, _UNREADABLE)
    return int(import_module("service.doors.cli.output").reported(str(loss), unreadable, options))


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    words = sys.argv[1:] if arguments is None else arguments
    # The options before a command take no value.
    command = next((word for word in words if not word.startswith("-")), "")
    if command and command not in _commands():
        command, words = _SHELL, _for_shell(words, command)
    parser = parser_of(command)
    options, rest = parser.parse_known_args(words)
    # argparse reads an argument that may be missing only beside the argument before it, and not behind options.
    missing = next((name for name in ("sql", "after") if getattr(options, name, "") is None), None)
    several = next((name for name in ("words", "paths") if hasattr(options, name)), None)
    if not rest:
        return options
    if any(word != "-" and word.startswith("-") for word in rest):
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    if several is not None:
        setattr(options, several, [*getattr(options, several), *rest])
    elif missing is not None and len(rest) == 1:
        setattr(options, missing, rest[0])
    else:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    return options


def _for_shell(words: Sequence[str], path: str) -> Sequence[str]:
    """Return the command line of a shell for one that begins with a path in place of a command."""
    if not is_source(path):
        near = import_module("catalog.errors").near_names(path, _commands())
        hint = f"did you mean {near[0]}?" if near else "savepointdb --help lists the commands"
        parser_of(_SHELL).error(
            f"expected a command or the path of a savepoint, found {path!r}: there is no such file or folder ({hint})"
        )
    return [_SHELL, *words]


def _interrupted(*_: object) -> NoReturn:
    os._exit(_INTERRUPTED)


def _loaded(command: str) -> Callable[[argparse.Namespace], int]:
    """Return the function of a command."""
    if command == _SHELL and sys.stdin.isatty() and sys.stdout.isatty():
        # The prompt does not wait for Arrow.
        module, name = _TERMINAL, ""
    else:
        _load_arrow()
        module, _, name = _home_of(command).partition(":")
    found: Callable[[argparse.Namespace], int] = getattr(import_module(module), name or "main")
    return found


def _home_of(command: str) -> str:
    """Return the module of a command, whose `main` it is, or module:function."""
    if command in TASKS and command not in _COMMANDS:
        return _TASK
    return _HOMES.get(command, f"service.doors.cli.{command.replace('-', '_')}")


def _commands() -> Mapping[str, tuple[str, Callable[[argparse.ArgumentParser], None]]]:
    # A use case whose command line has a grammar of its own has a line in the table below.
    own = {name: (task.summary, _add_task(name)) for name, task in tasks_at(CLI) if name not in _COMMANDS}
    return _COMMANDS | own


def _load_arrow() -> None:
    if "pandas" not in sys.modules:
        machine.load_without_pandas()
        machine.load_parts_later()


def parser_of(only: str | None = None) -> argparse.ArgumentParser:
    """Return the parser of all commands.

    Args:
        only: the command that needs its arguments, because adding those of all takes 6 ms; None for all.
    """
    parser = CommandParser(
        prog="savepointdb",
        usage="savepointdb COMMAND …  or  savepointdb [NAME=]PATH…, which opens a shell",
        description="SQL over Apache Flink savepoints and checkpoints, without Flink.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.wrong_usage = _WRONG_USAGE.get(only or "", parser.wrong_usage)
    parser.add_argument(
        "--version", action=VersionAction, nargs=0, help="Show version, commit and formats, and exit."
    )
    known = _commands()
    parser.epilog = _listed({name: summary for name, (summary, _) in known.items()})
    commands = parser.add_subparsers(
        dest="command", metavar="COMMAND", required=True, prog=parser.prog, help=argparse.SUPPRESS
    )
    for name, (summary, add_arguments) in known.items():
        command = commands.add_parser(name, description=summary)
        command.wrong_usage = parser.wrong_usage
        if only in (None, name):
            command.usage = _USAGES.get(name)
            add_arguments(command)
            command.add_argument("--verbose", action="store_true", help="Show a traceback with every error.")
    return parser


def _listed(summaries: Mapping[str, str]) -> str:
    """Return the commands in their groups, a line each."""
    grouped = {name for names in _GROUPS.values() for name in names}
    groups = {**_GROUPS, "Other": tuple(name for name in summaries if name not in grouped)}
    lines = []
    for title, names in groups.items():
        shown = [f"  {name:<10}  {summaries[name]}" for name in names if name in summaries]
        lines += ["", f"{title}:", *shown] if shown else []
    return "\n".join([*lines[1:], "", "Each command has its own --help."])


def _add_serve(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--root",
        action="append",
        metavar="[LABEL=]DIR",
        help=f"{SOURCE} The label, or else the name of the folder, begins the names of its databases. "
        "May be repeated; if not given, the roots of the settings file are served.",
    )
    add_names(parser)
    settings.add_arguments(parser, settings.keys_of(), first=("port", "host", "keys_file"))
    _add_config(parser)
    add_no_cache(parser)


def _add_query(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words",
        metavar="PATH SQL",
        nargs="*",
        help=f"[NAME=]PATH, once or several times. {SOURCE} "
        "Then one SELECT, EXPLAIN, SHOW, DESCRIBE or SUMMARIZE statement; - reads it from standard input.",
    )
    parser.add_argument(
        "--savepoint",
        default=[],
        action="append",
        metavar="[NAME=]PATH",
        help="Another way to give PATH. May be repeated.",
    )
    parser.add_argument("--saved", metavar="NAME", help="Saved query of --saved-queries, in place of SQL.")
    parser.add_argument(
        "--param",
        action="append",
        metavar="NAME=VALUE",
        help="Value for :NAME in the statement; it never becomes SQL. May be repeated.",
    )
    add_asking(parser)


def _add_shell(parser: argparse.ArgumentParser) -> None:
    add_shell(parser)
    # Its commands take the arguments of those here.
    parser.set_defaults(parser_of=parser_of)


def _add_mcp(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "paths", nargs="*", metavar="PATH", help=f"[LABEL=]PATH. {SOURCE} Several may be given."
    )
    parser.add_argument(
        "--root",
        action="append",
        metavar="[LABEL=]DIR",
        help="The same as PATH, as serve has it. May be repeated.",
    )
    parser.add_argument(
        "--mask",
        dest="masks",
        metavar="FILE",
        help="File of masks, as masks.toml: hides values from the agent.",
    )
    add_names(parser)
    settings.add_arguments(
        parser, (*QUERY_SETTINGS, "saved_queries", "max_scan_bytes", "rescan_after_s", "check_timeout_s")
    )
    _add_config(parser)
    add_no_cache(parser)


def _add_demo(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder",
        nargs="?",
        default="savepointdb-demo",
        metavar="DIR",
        help="Folder for the savepoints. (default: savepointdb-demo)",
    )
    parser.add_argument("--port", type=int, default=8080, help="Port to listen on. (default: 8080)")
    parser.add_argument("--no-serve", action="store_true", help="Only write the savepoints.")
    parser.add_argument("--no-browser", action="store_true", help="Do not open the page in a browser.")
    # It serves with the defaults of `serve`.
    parser.set_defaults(parser_of=parser_of)


def _add_stateinfo(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    write = _add_action(actions, "write", "Describe a savepoint in a stateInfo file.")
    write.add_argument("path", metavar="PATH", help="Savepoint or checkpoint.")
    write.add_argument("--output", metavar="FILE", help="Output file; a file beside _metadata if not given.")
    write.add_argument(
        "--plan", metavar="FILE", help="Plan with names, from Flink's REST API or a compiled SQL plan."
    )
    write.add_argument(
        "--protobuf",
        metavar="FILE",
        help="Descriptors of Protobuf messages, from protoc --descriptor_set_out.",
    )
    add_path_map(write)


def _add_doctor(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--root",
        action="append",
        metavar="[NAME=]DIR",
        help="Folder to check beside the roots of the settings file. May be repeated.",
    )
    _add_config(parser)
    settings.add_arguments(parser, ["temp_directory", "keys_file", "oidc_issuer", *FLINK_SETTINGS])


def _add_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", metavar="FILE", help="TOML file of settings.")


def _add_keys(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    create = _add_action(actions, "create", "Create a key and show it once.")
    create.add_argument("name", metavar="NAME", help="Name of the key; BI tools send it as the user name.")
    create.add_argument(
        "--grant",
        action="append",
        metavar="PATTERN",
        help="Pattern of databases that the key may read, such as prod/* or prod__jobA__*. With the prefix write:, it may write "
        "them. With savepoints:, it may trigger savepoints of their jobs. With saved:, it may save queries for them. With "
        "operator:, it sees and ends all users' queries on them. May be repeated; if not given, the key may read all and write "
        "none.",
    )
    create.add_argument(
        "--mask", metavar="NAME", help="Mask of all that the key may read: a name of serve --mask."
    )
    create.add_argument(
        "--expires-days", type=float, metavar="DAYS", help="Days until the key expires; never if not given."
    )
    listing = _add_action(actions, "list", "List the names, grants and times of all keys.")
    revoke = _add_action(actions, "revoke", "Revoke a key.")
    revoke.add_argument("name", metavar="NAME", help="Name of the key.")
    for action in (create, listing, revoke):
        settings.add_arguments(action, ["keys_file"])


def _add_action(
    actions: argparse._SubParsersAction[argparse.ArgumentParser], name: str, summary: str
) -> argparse.ArgumentParser:
    return actions.add_parser(name, help=summary, description=summary)


def _add_task(name: str) -> Callable[[argparse.ArgumentParser], None]:
    """Return what adds the arguments of a use case, which loads it."""

    def add(parser: argparse.ArgumentParser) -> None:
        _load_arrow()
        import_module(_TASK).add_arguments(parser, name)

    return add


def _add_own(name: str) -> Callable[[argparse.ArgumentParser], None]:
    """Return what adds the arguments of a command by its own module, which knows the request of a use case."""

    def add(parser: argparse.ArgumentParser) -> None:
        _load_arrow()
        import_module(_home_of(name)).add_arguments(parser)

    return add


def _add_completion(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "shell", metavar="SHELL", choices=("bash", "zsh", "fish"), help="The shell: bash, zsh or fish."
    )
    parser.set_defaults(parser_of=parser_of)


def _add_compile(parser: argparse.ArgumentParser) -> None:
    """Add nothing: the command has no arguments."""


# For the commands with many options: what every call needs.
_USAGES = {
    "shell": "savepointdb [shell] [NAME=]PATH … [option …]",
    "serve": "savepointdb serve --root [LABEL=]DIR [--port PORT] [option …]",
    "query": "savepointdb query [NAME=]PATH… (SQL | --saved NAME) [--format FORMAT] [--output FILE] [option …]",
    "mcp": "savepointdb mcp PATH… [option …]",
    "inspect": "savepointdb inspect PATH [option …]",
    "lookup": "savepointdb lookup PATH KEY [option …]",
    "diff": "savepointdb diff BEFORE [AFTER] [--operator NAME] [--state NAME] [--key KEY] [--format FORMAT] [option …]",
    "history": "savepointdb history PATH KEY [--last N] [option …]",
    "follow": "savepointdb follow PATH TABLE|SELECT [--job NAME] [--since CHECKPOINT] [--once] [--format FORMAT] [option …]",
    "check": "savepointdb check PATH [--against X] [--flink VERSION] [--backend NAME] [--format FORMAT] [option …]",
    "test": "savepointdb test [--standard] RULES… PATH… [--junit FILE] [--json FILE] [--watch] [option …]",
    "write": "savepointdb write PATH (SCRIPT | --file FILE) --to DIR [--dry-run] [option …]",
    "convert": "savepointdb convert PATH --to DIR [--flink VERSION] [--against X] [--dry-run] [option …]",
    "savepoint": "savepointdb savepoint JOB --flink [LABEL=]URL [--format canonical|native] [--wait] [option …]",
    "export": "savepointdb export PATH --to DIR [--format parquet|iceberg|delta] [--tables NAMES] [option …]",
    "create": "savepointdb create DIR (SCRIPT | --file FILE) [--dry-run] [option …]",
}
# Of the others, the module has the name of the command.
_HOMES = {
    "compile": "service.doors.cli.setup:run_compile",
    "demo": "service.doors.cli.serve:run_demo",
    "keys": "service.doors.cli.setup:run_keys",
    _SHELL: "service.doors.cli.shell.console:run_pipe",
    "stateinfo": "service.doors.cli.setup:run_stateinfo",
    "follow": "service.doors.cli.jobs.follow",
    "test": "service.doors.cli.jobs.test",
}
_COMMANDS = {
    "serve": ("Serve savepoints over HTTP.", _add_serve),
    "shell": ("Open a shell over savepoints.", _add_shell),
    "query": (OTHERS["query"].summary, _add_query),
    "test": (TASKS["test"].summary, _add_own("test")),
    "follow": (OTHERS["follow"].summary, _add_own("follow")),
    "demo": ("Serve the savepoints of two small jobs, which it brings.", _add_demo),
    "mcp": ("Serve savepoints to an agent by the Model Context Protocol.", _add_mcp),
    "doctor-env": ("Check the environment: memory, disk, dependencies, keys and files.", _add_doctor),
    "keys": ("Create, list and revoke API keys.", _add_keys),
    "stateinfo": ("Describe the states of a savepoint in a file.", _add_stateinfo),
    "completion": ("Print a completion script for bash, zsh or fish.", _add_completion),
    "compile": ("Compile the decoder ahead of the first query.", _add_compile),
}
# What is in none of them is shown behind them.
_GROUPS = {
    "Read": ("query", "shell", "inspect", "lookup", "xray"),
    "Compare": ("diff", "history", "follow", "bisect", "test", "check"),
    "Write": ("write", "create", "convert", "savepoint", "export"),
    "Serve": ("serve", "mcp", "demo"),
    "Set up": ("keys", "stateinfo", "doctor-env", "completion", "compile"),
}

if __name__ == "__main__":
    run()
