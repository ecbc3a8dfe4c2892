"""Command line, environment and TOML file → `Settings`.

The command line wins over the environment, and the environment over the file that `--config` or `SAVEPOINTDB_CONFIG` names.

Texts → values of settings: sizes, flags and path prefixes.

4GB, 512MiB, 1000000    bytes
true, 1, yes, on        a flag; false, 0, no, off
OLD=NEW                 the recorded prefix of a path → the prefix where its files are now
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import groupby
from typing import Any

from service.base.settings.groups import ENVIRONMENT_PREFIX, SETTINGS, Setting, Settings

# A path may contain `=`, so the separator is the first `=` that a path or a URL follows.
_PREFIXES = re.compile(r"(.+?)=((?:/|\.|[A-Za-z][A-Za-z0-9+.-]*:).*)", re.DOTALL)
_SIZE = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[KMGT]?)(?P<binary>i?)B?", re.IGNORECASE)
_FLAGS = dict.fromkeys(("true", "1", "yes", "on"), True) | dict.fromkeys(("false", "0", "no", "off"), False)


class InvalidSettingError(ValueError):
    """A value that does not fit the type of its setting."""


def bytes_of(size: str) -> int:
    """Return the number of bytes that a size such as `4GB`, `512MiB` or `1000000` means.

    Raises:
        InvalidSettingError: the text is not a size.
    """
    match = _SIZE.fullmatch(size.strip())
    if match is None:
        raise InvalidSettingError(f"expected a size such as 4GB, found {size!r}")
    base = 1024 if match["binary"] else 1000
    return int(float(match["number"]) * base ** " KMGT".index(match["unit"].upper() or " "))


def parsed_flag(text: str) -> bool:
    """Parse `true`, `1`, `yes`, `on` or one of their opposites.

    Raises:
        ValueError: another text.
    """
    folded = text.strip().casefold()
    if folded not in _FLAGS:
        raise ValueError(f"expected true or false, found {text!r}")
    return _FLAGS[folded]


def parsed_prefixes(text: str) -> tuple[str, str]:
    """Parse `OLD=NEW`, both prefixes of paths.

    Raises:
        InvalidSettingError: the text is not of that form.
    """
    match = _PREFIXES.fullmatch(text.strip())
    if match is None:
        raise InvalidSettingError(f"path map: expected OLD=NEW, found {text!r}")
    return match[1], match[2]


# The command line may give it several times, and adds it to the other sources instead of replacing them.
_REPEATED = "path_map"
# The command line may give these several times, too, with what each is.
_LISTS = {
    "write_root": "[LABEL=]DIR",
    "jar": "FILE",
    "flink": "[LABEL=]URL",
    "flink_token_file": "[LABEL=]FILE",
    "flink_path_map": "OLD=NEW",
}
_SEPARATOR = ";"
_UNITS = {"s": "SECONDS"}
UNLIMITED: Mapping[str, Any] = {"timeout_s": math.inf, "max_timeout_s": math.inf}
"""Defaults of a command that a person can stop: a service ends queries whose users are gone."""


def settings_of(
    options: Mapping[str, Any], environment: Mapping[str, str], defaults: Mapping[str, Any] | None = None
) -> Settings:
    """Return the settings of a command line, an environment and the file that one of them names.

    Args:
        options: parsed arguments; those that are None or no settings are ignored.
        environment: such as `os.environ`.
        defaults: values of settings that nobody gives, in place of those of the table.

    Raises:
        InvalidSettingError: a value that does not fit its setting, or an unknown setting in the file.
    """
    path = config_path(options, environment)
    values: dict[str, Any] = dict(defaults or {})
    values.update({} if path is None else read_config(path).settings)
    for key, setting in SETTINGS.items():
        text = environment.get(setting.variable)
        if options.get(key) is not None and key != _REPEATED:
            given = options[key]
            values[key] = _SEPARATOR.join(given) if isinstance(given, list) else given
        elif text is not None:
            values[key] = _parsed(setting, text)
    return Settings.of(**values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """A file of settings.

    Attributes:
        settings: the values in the file, by key.
        roots: folders to serve, as `[label=]PATH`.
    """

    settings: dict[str, Any]
    roots: tuple[str, ...] = ()


def config_path(options: Mapping[str, Any], environment: Mapping[str, str]) -> str | None:
    """Return the path of the file of settings; None if there is none."""
    return options.get("config") or environment.get(ENVIRONMENT_PREFIX + "CONFIG") or None


def read_config(path: str) -> Config:
    """Read a TOML file: settings by key, and `roots`, a list of `[label=]PATH`.

    Raises:
        InvalidSettingError: the file is missing or not TOML, or has an unknown setting or a value of the wrong type.
    """
    # Few commands read a file of settings.
    tomllib = import_module("tomllib")
    try:
        with open(path, "rb") as file:
            document = tomllib.load(file)
    except OSError as error:
        raise InvalidSettingError(f"{path}: expected a file of settings, found {error.strerror}") from error
    # Deeply nested arrays exhaust the stack of the parser.
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidSettingError(f"{path}: expected TOML: {error}") from error
    roots = document.pop("roots", [])
    if not isinstance(roots, list) or not all(isinstance(root, str) for root in roots):
        raise InvalidSettingError(f"{path}: expected roots as a list of texts")
    for key, value in document.items():
        check_value(path, key, value)
    return Config(settings=document, roots=tuple(roots))


def check_value(where: str, key: str, value: Any) -> None:
    """Check a setting that does not come as text.

    Raises:
        InvalidSettingError: `where` gives an unknown setting, or a value of the wrong type.
    """
    if key not in SETTINGS:
        near = import_module("catalog.errors").near_names(key, SETTINGS)
        raise InvalidSettingError(
            f"{where}: expected a setting, found {key}{f'; is it {near[0]}?' if near else ''}"
        )
    kind = SETTINGS[key].kind
    # The exact type: `isinstance` would take true for the integer 1.
    if type(value) is not kind and not (kind is float and type(value) is int):
        raise InvalidSettingError(
            f"{where}: {key}: expected a value of type {kind.__name__}, found {value!r:.100}"
        )


def path_map_of(options: Mapping[str, Any], settings: Settings) -> dict[str, str]:
    """Return recorded prefixes of paths with the prefixes that replace them; the command line wins.

    Raises:
        InvalidSettingError: a text that is not OLD=NEW.
    """
    texts = parts_of(settings.storage.path_map)
    return dict(parsed_prefixes(text) for text in (*texts, *(options.get(_REPEATED) or ())))


def parts_of(text: str) -> list[str]:
    """Return the parts of a setting that semicolons separate."""
    return [part for part in text.split(_SEPARATOR) if part.strip()]


def add_arguments(
    parser: argparse.ArgumentParser,
    chosen: Iterable[str],
    defaults: Mapping[str, Any] | None = None,
    first: Sequence[str] = (),
) -> None:
    """Add an option for each of the chosen keys, in the order and under the titles of the table.

    Args:
        parser: the parser of a command.
        chosen: the keys.
        defaults: those that the command passes to `settings_of`.
        first: those of the chosen keys that stand among the command's own options, in this order.
    """
    for key in first:
        _add_argument(parser, SETTINGS[key], defaults)
    wanted = set(chosen) - {_REPEATED, *first}
    known = (setting for setting in SETTINGS.values() if setting.key in wanted)
    for title, settings in groupby(known, key=lambda setting: setting.title):
        group = parser.add_argument_group(title)
        for setting in settings:
            _add_argument(group, setting, defaults)


def _add_argument(
    container: argparse._ActionsContainer, setting: Setting, defaults: Mapping[str, Any] | None
) -> None:
    meaning = _help(setting, (defaults or {}).get(setting.key, setting.default)).replace("%", "%%")
    container.add_argument(setting.option, help=meaning, **_argument(setting))


def _help(setting: Setting, default: Any) -> str:
    # An empty text and False need no mention: the help says what happens without the option.
    has_default = default not in ("", False) or setting.kind is int
    text = "no limit" if default == math.inf else default
    return f"{setting.meaning} (default: {text})" if has_default else setting.meaning


def _argument(setting: Setting) -> dict[str, Any]:
    if setting.kind is bool:
        return {"action": "store_const", "const": not setting.default}
    if setting.key in _LISTS:
        return {"action": "append", "metavar": _LISTS[setting.key]}
    unit = setting.key.rpartition("_")[2]
    return {"type": setting.kind, "metavar": _UNITS.get(unit, unit.upper())}


def keys_of(*groups: str) -> tuple[str, ...]:
    """Return the keys of the settings in these groups; of all settings without a group."""
    return tuple(key for key, setting in SETTINGS.items() if not groups or setting.group in groups)


def _parsed(setting: Setting, text: str) -> Any:
    try:
        return parsed_flag(text) if setting.kind is bool else setting.kind(text)
    except ValueError as error:
        raise InvalidSettingError(
            f"{setting.variable}: expected a value of type {setting.kind.__name__}, found {text!r}"
        ) from error
