"""Completion in the shells of people: the scripts, run by bash, zsh and fish; and the help that lists all commands."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from service import cli
from service.doors.cli.completion import script_lines

# What is typed → what the last word may be.
CASES = {
    "savepointdb loo": ["lookup"],
    "savepointdb query --form": ["--format"],
    "savepointdb query --format js": ["json", "jsonl"],
    "savepointdb check savepoint --backend r": ["rocksdb"],
    "savepointdb keys ": ["create", "list", "revoke"],
    "savepointdb keys create --gr": ["--grant"],
    "savepointdb stateinfo write --pl": ["--plan"],
    "savepointdb write . --dry": ["--dry-run"],
    "savepointdb completion ": ["bash", "fish", "zsh"],
    "savepointdb xray . --qu": ["--quick"],
    "savepointdb . --dial": ["--dialect"],
}
BASH = """
source "$1"; shift
complete -p savepointdb
for line in "$@"; do
    read -ra COMP_WORDS <<< "$line"
    [[ $line == *" " ]] && COMP_WORDS+=("")
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMPREPLY=()
    _savepointdb
    echo "${COMPREPLY[*]}"
done
"""
FISH = (
    "source $argv[1]; for line in $argv[2..-1]; echo (complete -C $line | string replace -r '\\t.*' ''); end"
)


@pytest.fixture
def script(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The script of the shell that the test is for."""
    path = tmp_path / "script"
    path.write_text("\n".join(script_lines(request.param, cli.parser_of())) + "\n", encoding="utf-8")
    return path


def needs(shell: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(shell) is None, reason=f"{shell} is not installed")


@needs("bash")
@pytest.mark.parametrize("script", ["bash"], indirect=True)
def test_bash_completes(script: Path) -> None:
    typed = [*CASES, "savepointdb query --output ", "savepointdb query --format = js"]

    head, *lines = run("bash", "--norc", "-c", BASH, "bash", str(script), *typed)

    assert head == "complete -o bashdefault -o default -F _savepointdb savepointdb"
    # What it leaves empty, bash completes by files.
    assert [sorted(line.split()) for line in lines] == [*CASES.values(), [], ["json", "jsonl"]]


@needs("fish")
@pytest.mark.parametrize("script", ["fish"], indirect=True)
def test_fish_completes(script: Path) -> None:
    typed = [
        *CASES,
        f"savepointdb query {script.parent}/scr",
        f"savepointdb query --output={script.parent}/scr",
    ]

    lines = run("fish", "--no-config", "-c", FISH, str(script), *typed)

    files = [[str(script)], [f"--output={script}"]]
    assert [sorted(line.split()) for line in lines] == [*CASES.values(), *files]


@needs("zsh")
@pytest.mark.parametrize("script", ["zsh"], indirect=True)
def test_zsh_takes_the_script(script: Path) -> None:
    # zsh completes on terminals alone: what its own functions are given is shown here.
    show = "compdef() { print compdef $@ }; _arguments() { print -rl -- $@ }; source $1; _savepointdb_query; _savepointdb_keys_create"

    head, *shown = run("zsh", "-f", "-c", show, "zsh", str(script))

    assert head == "compdef _savepointdb savepointdb"
    assert "--engine[Engine that runs the statement]:ENGINE:(auto duckdb spark scan)" in shown
    assert "*--savepoint[Another way to give PATH]:\\[NAME=\\]PATH:_files" in shown
    assert "*:argument:_files" in shown
    assert "--expires-days[Days until the key expires]:DAYS:" in shown


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_has_every_command_and_long_option(shell: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["completion", shell]) == 0
    script = capfd.readouterr().out

    for name, options in commands().items():
        assert re.search(rf"\b{name}\b", script), name
        for option in options:
            assert (f"-l {option[2:]}" if shell == "fish" else option) in script, (name, option)


def test_a_shell_that_has_no_script_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["completion", "tcsh"])

    assert ended.value.code == 2
    assert "invalid choice: 'tcsh'" in capsys.readouterr().err


def test_the_help_lists_each_command_once_in_a_short_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["--help"])

    found = re.findall(r"^  ([a-z-]+) +(.+)$", capsys.readouterr().out.partition("Read:\n")[2], re.MULTILINE)
    summaries = dict(found)
    assert sorted(name for name, _ in found) == sorted(commands())
    assert {name: text for name, text in summaries.items() if len(text.split()) > 12 or text[-1] != "."} == {}
    assert "Other:" not in capsys.readouterr().out


def commands() -> dict[str, list[str]]:
    """Each command, with its long options."""
    parsers = next(one for one in cli.parser_of()._actions if one.dest == "command").choices
    assert isinstance(parsers, dict)
    return {
        name: [flag for one in parser._actions for flag in one.option_strings if flag.startswith("--")]
        for name, parser in parsers.items()
    }


def run(*command: str) -> list[str]:
    """The lines that a command prints."""
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()
