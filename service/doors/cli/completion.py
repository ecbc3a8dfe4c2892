"""`savepointdb completion bash|zsh|fish`: a script that completes commands, options, choices and files, made from the parsers."""

from __future__ import annotations

import argparse
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from service.doors.cli.output import ended, write_lines
from service.doors.cli.parser import command_parsers, takes_path

_PROGRAM = "savepointdb"
_SHELL = "shell"


def main(options: Namespace) -> int:
    """Print the script; return the exit code."""
    return ended(lambda options: write_lines(script_lines(options.shell, options.parser_of()), None), options)


def script_lines(shell: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield the script for a shell.

    Args:
        shell: one of `SHELLS`.
        parser: of all commands.
    """
    return SHELLS[shell](_commands(parser))


@dataclass(frozen=True, slots=True)
class _Command:
    """A command, or an action of one.

    Attributes:
        words: its name, or its command and its name.
        help: what it does.
        options: its options.
        choices: what its arguments may be, as words; empty for anything.
        is_path: True if its arguments may be files or folders.
        actions: its actions.
    """

    words: tuple[str, ...]
    help: str
    options: tuple[argparse.Action, ...]
    choices: str
    is_path: bool
    actions: tuple[_Command, ...]

    @property
    def all(self) -> Iterator[_Command]:
        """It, and its actions."""
        yield self
        yield from self.actions


def _commands(parser: argparse.ArgumentParser, words: tuple[str, ...] = ()) -> tuple[_Command, ...]:
    return tuple(_command(below, (*words, name)) for name, below in command_parsers(parser).items())


def _command(parser: argparse.ArgumentParser, words: tuple[str, ...]) -> _Command:
    actions = _commands(parser, words)
    places = [one for one in parser._actions if not one.option_strings and not actions]
    return _Command(
        words=words,
        help=_sentence(parser.description),
        options=tuple(one for one in parser._actions if one.option_strings),
        choices=" ".join(filter(None, map(_choices, places))),
        is_path=any(map(takes_path, places)),
        actions=actions,
    )


def _choices(action: argparse.Action) -> str:
    """Return the values that an argument may have, as words; empty for any."""
    return " ".join(map(str, action.choices or ()))


def _sentence(text: str | None) -> str:
    return (text or "").replace("%%", "%").partition(". ")[0].partition("; ")[0].rstrip(".")


# ---- bash ----


def _bash(commands: tuple[_Command, ...]) -> Iterator[str]:
    names = " ".join(command.words[0] for command in commands)
    parents = "|".join(command.words[0] for command in commands if command.actions)
    yield f'# Completion for bash. In ~/.bashrc: eval "$({_PROGRAM} completion bash)"'
    yield f"_{_PROGRAM}() {{"
    yield "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command= action= options= words= i"
    # Bash cuts a word at its equals sign.
    yield '    if [[ $cur == "=" ]]; then cur=; elif [[ $prev == "=" ]]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi'
    yield "    for ((i = 1; i < COMP_CWORD; i++)); do"
    yield "        if [[ ${COMP_WORDS[i]} == -* ]]; then continue; elif [[ -z $command ]]; then command=${COMP_WORDS[i]}"
    yield f"        else case $command in {parents}) action=${{COMP_WORDS[i]}} ;; esac; break; fi"
    yield "    done"
    yield "    if [[ -z $command ]]; then"
    yield f'        COMPREPLY=($(compgen -W "{names} --help --version" -- "$cur"))'
    yield "        return"
    yield "    fi"
    yield "    case $command in"
    yield f"        {names.replace(' ', '|')}) ;;"
    yield f"        *) command={_SHELL} ;;"
    yield "    esac"
    yield '    case "$command $action" in'
    for command in (one for top in commands for one in top.all):
        yield f'        "{" ".join(command.words)}{"" if len(command.words) > 1 else " "}")'
        yield "            case $prev in"
        for option in command.options:
            if option.nargs != 0:
                yield f"                {'|'.join(option.option_strings)}) {_bash_value(option)} ;;"
        yield "            esac"
        yield f'            options="{" ".join(flag for option in command.options for flag in option.option_strings if flag[:2] == "--")}"'
        words = " ".join(action.words[-1] for action in command.actions) or command.choices
        if words:
            yield f'            words="{words}"'
        yield "            ;;"
    yield "    esac"
    yield "    if [[ $cur == -* ]]; then words=$options; fi"
    yield '    if [[ -n $words ]]; then COMPREPLY=($(compgen -W "$words" -- "$cur")); fi'
    yield "}"
    # What it leaves empty is a file.
    yield f"complete -o bashdefault -o default -F _{_PROGRAM} {_PROGRAM}"


def _bash_value(option: argparse.Action) -> str:
    if option.choices:
        return f'COMPREPLY=($(compgen -W "{_choices(option)}" -- "$cur")); return'
    # Old versions of bash, such as that of macOS, have no compopt: they offer files.
    return "return" if takes_path(option) else "compopt +o bashdefault +o default 2>/dev/null; return"


# ---- zsh ----


def _zsh(commands: tuple[_Command, ...]) -> Iterator[str]:
    yield f"#compdef {_PROGRAM}"
    yield f'# Completion for zsh. In ~/.zshrc, behind compinit: eval "$({_PROGRAM} completion zsh)"'
    for command in commands:
        for action in command.actions:
            yield from _zsh_command(action)
        yield from _zsh_command(command)
    yield from _zsh_parent(f"_{_PROGRAM}", commands, "--version[Show version, commit and formats]")
    yield f'if [ "$funcstack[1]" = "_{_PROGRAM}" ]; then _{_PROGRAM} "$@"; else compdef _{_PROGRAM} {_PROGRAM}; fi'


def _zsh_command(command: _Command) -> Iterator[str]:
    if command.actions:
        yield from _zsh_parent(_zsh_name(command), command.actions)
        return
    yield f"{_zsh_name(command)}() {{"
    yield "    _arguments -s \\"
    for option in command.options:
        repeats = "*" if isinstance(option, argparse._AppendAction) else ""
        for flag in option.option_strings:
            about = f"{repeats}{flag}[{_zsh_text(_sentence(option.help))}]{_zsh_value(option)}"
            yield f"        {_quoted(about)} \\"
    if command.choices:
        yield "        " + _quoted(f"1:argument:({command.choices})")
    else:
        yield "        " + _quoted("*:argument:" + ("_files" if command.is_path else ""))
    yield "}"


def _zsh_parent(name: str, commands: tuple[_Command, ...], *options: str) -> Iterator[str]:
    """Yield the function of what has commands, or actions."""
    is_top = name == f"_{_PROGRAM}"
    yield f"{name}() {{"
    yield "    local -a commands"
    yield "    local curcontext=$curcontext state line"
    yield "    typeset -A opt_args"
    yield "    commands=("
    for command in commands:
        yield f"        {_quoted(command.words[-1] + ':' + command.help.replace(':', chr(92) + ':'))}"
    yield "    )"
    shown = " ".join(map(_quoted, ("--help[Show the help]", *options)))
    yield f"    _arguments -C {shown} '1: :->command' '*:: :->arguments'"
    yield "    case $state in"
    yield f"        command) _describe command commands{'; _files' if is_top else ''} ;;"
    yield "        arguments)"
    yield "            case $words[1] in"
    for command in commands:
        yield f"                {command.words[-1]}) {_zsh_name(command)} ;;"
    if is_top:
        yield f"                *) _{_PROGRAM}_{_SHELL} ;;"
    yield "            esac ;;"
    yield "    esac"
    yield "}"


def _zsh_name(command: _Command) -> str:
    return "_".join(("", _PROGRAM, *command.words)).replace("-", "_")


def _zsh_value(option: argparse.Action) -> str:
    if option.nargs == 0:
        return ""
    kind = f"({_choices(option)})" if option.choices else "_files" if takes_path(option) else ""
    return f":{_zsh_text(str(option.metavar or option.dest.upper()))}:{kind}"


def _zsh_text(text: str) -> str:
    for mark in "\\[]:":
        text = text.replace(mark, f"\\{mark}")
    return text


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


# ---- fish ----


def _fish(commands: tuple[_Command, ...]) -> Iterator[str]:
    names = " ".join(command.words[0] for command in commands)
    yield f"# Completion for fish. In ~/.config/fish/config.fish: {_PROGRAM} completion fish | source"
    yield f"function __{_PROGRAM}_at --description 'Whether the words before the cursor begin so'"
    yield "    set -l words (commandline -opc | string match -v -- '-*')[2..-1]"
    yield f"    if set -q words[1]; and not contains -- $words[1] {names}"
    yield f"        set words {_SHELL}"
    yield "    end"
    yield "    set -l length (count $argv)"
    yield "    if test $length -eq 0"
    yield "        test (count $words) -eq 0"
    yield "    else"
    yield '        test (count $words) -ge $length; and test "$words[1..$length]" = "$argv"'
    yield "    end"
    yield "end"
    yield f"complete -c {_PROGRAM} -f"
    yield f"complete -c {_PROGRAM} -n __{_PROGRAM}_at -F"
    yield f"complete -c {_PROGRAM} -n __{_PROGRAM}_at -l help -d 'Show the help'"
    yield f"complete -c {_PROGRAM} -n __{_PROGRAM}_at -l version -d 'Show version, commit and formats'"
    for command in commands:
        yield f"complete -c {_PROGRAM} -n __{_PROGRAM}_at -a {command.words[0]} -d {_fish_quoted(command.help)}"
        for one in command.all:
            at = f"complete -c {_PROGRAM} -n '__{_PROGRAM}_at {' '.join(one.words)}'"
            for action in one.actions:
                yield f"{at} -a {action.words[-1]} -d {_fish_quoted(action.help)}"
            if one.choices:
                yield f"{at} -a {_fish_quoted(one.choices)}"
            if one.is_path:
                yield f"{at} -F"
            for option in one.options:
                flags = " ".join(
                    f"-l {flag[2:]}" if flag[:2] == "--" else f"-s {flag[1:]}"
                    for flag in option.option_strings
                )
                yield f"{at} {flags}{_fish_value(option)} -d {_fish_quoted(_sentence(option.help))}"


def _fish_value(option: argparse.Action) -> str:
    if option.nargs == 0:
        return ""
    if option.choices:
        return f" -x -a {_fish_quoted(_choices(option))}"
    return " -r -F" if takes_path(option) else " -x"


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


SHELLS: dict[str, Callable[[tuple[_Command, ...]], Iterator[str]]] = {
    "bash": _bash,
    "fish": _fish,
    "zsh": _zsh,
}
