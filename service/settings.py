"""The settings, in one table: the fields of `Settings`. They feed the command line, the environment and a file.

A field `timeout_s` is `--timeout-s` on the command line, `SAVEPOINTDB_TIMEOUT_S` in the environment and `timeout_s` in the TOML
file that `--config` or `SAVEPOINTDB_CONFIG` names; the first of these that has it wins.
"""

from __future__ import annotations

import argparse
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import Field, dataclass, field, fields
from difflib import get_close_matches
from typing import Any, TypeVar

ENVIRONMENT_PREFIX = "SAVEPOINTDB_"

# May be given again and again on the command line.
_REPEATED = "path_map"
# Paths may have `=` in them: the first one that a path or a URL stands behind.
_MAPPING = re.compile(r"(.+?)=((?:/|\.|[A-Za-z][A-Za-z0-9+.-]*:).*)", re.DOTALL)

_Value = TypeVar("_Value")
_SIZE = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[KMGT]?)(?P<binary>i?)B?", re.IGNORECASE)


def _setting(default: _Value, meaning: str) -> _Value:
    value: _Value = field(default=default, metadata={"help": meaning})
    return value


class InvalidSettingError(ValueError):
    """A value that is not of the setting's type."""


def bytes_of(size: str) -> int:
    """`4GB`, `512MiB`, `1000000`.

    Raises:
        InvalidSettingError: it is no size.
    """
    found = _SIZE.fullmatch(size.strip())
    if found is None:
        raise InvalidSettingError(f"expected a size such as 4GB, found {size!r}")
    base = 1024 if found["binary"] else 1000
    return int(float(found["number"]) * base ** " KMGT".index(found["unit"].upper() or " "))


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Each field is a setting: its default, and what it means."""

    host: str = _setting("127.0.0.1", "address to listen on")
    port: int = _setting(8080, "port to listen on; 0 takes any free one")
    max_rows: int = _setting(10_000, "rows of a JSON answer, where the request does not say")
    max_rows_limit: int = _setting(1_000_000, "rows of a JSON answer at most, whatever the request says")
    max_answer_bytes: int = _setting(
        64 * 1024 * 1024, "bytes of the rows of a JSON answer at most; those behind are cut off"
    )
    timeout_s: float = _setting(60.0, "seconds a query may take, where the request does not say")
    max_timeout_s: float = _setting(3600.0, "seconds a query may take at most, whatever the request says")
    max_sql_bytes: int = _setting(256 * 1024, "length of a SQL text at most")
    max_request_bytes: int = _setting(1024 * 1024, "length of a request at most")
    max_scan_bytes: int = _setting(0, "bytes of savepoints a query may read at most; any number where 0")
    max_running: int = _setting(
        0, "queries that run at a time, beside half as many lookups of keys; 4 a core where 0, 8 at least"
    )
    max_running_per_user: int = _setting(0, "queries of one user that run at a time; half of all where 0")
    max_stalled: int = _setting(
        4,
        "queries that keep a process while nobody reads their rows, at most; the one that did so longest ends",
    )
    max_queued: int = _setting(1000, "queries that wait at most; more are told to come again")
    max_queued_per_user: int = _setting(500, "queries of one user that wait at most")
    large_scan_bytes: int = _setting(
        64 * 1024 * 1024, "a query that reads more leaves the last slots to others"
    )
    result_buffer_bytes: int = _setting(
        1024 * 1024, "bytes of an answer that wait to be read in memory, at most"
    )
    spool_bytes: int = _setting(
        64 * 1024 * 1024, "bytes of an answer that wait in a file while its reader is slow, at most"
    )
    spool_total_bytes: int = _setting(1024**3, "bytes of all such files at most; they are in temp_directory")
    stall_timeout_s: float = _setting(
        60.0, "seconds after which a connection is cut, and its query ends, whose reader takes nothing"
    )
    drain_s: float = _setting(
        30.0, "seconds that queries which run may still take when the service is told to stop"
    )
    abandoned_after_s: float = _setting(300.0, "seconds after which a query ends that nobody asks for")
    history_length: int = _setting(1000, "queries that are remembered after their end")
    workers: int = _setting(0, "processes that wait for queries at least; 2 more than cores where 0")
    worker_memory: str = _setting(
        "",
        "memory of a query's process at most, such as 4GB; where empty, its part of 80 % of the machine's, 512MB at least",
    )
    max_row_bytes: int = _setting(16 * 1024 * 1024, "length of a row of an answer at most, over HTTP")
    memory_limit: str = _setting("", "memory of the engine, such as 4GB; the most it may be where empty")
    temp_directory: str = _setting(
        "", "where large sorts, groups and unread answers spill to; the system's where empty"
    )
    max_temp_size: str = _setting("100GB", "size of the spilled data at most")
    rescan_after_s: float = _setting(5.0, "seconds after which the roots are looked at for new savepoints")
    cache: str = _setting("on", "whether decoded states are kept for the next query: on or off")
    cache_directory: str = _setting("", "where they are kept; the user's cache directory where empty")
    cache_bytes: int = _setting(10 * 1024**3, "size of what is kept at most")
    path_map: str = _setting(
        "", "where files are that savepoints name elsewhere: OLD=NEW, several with a semicolon between them"
    )
    allow_http: bool = _setting(False, "whether http:// and https:// are places for savepoints")
    file_cache_directory: str = _setting(
        "", "where fetched RocksDB files are kept; a folder in the system's temporary one where empty"
    )
    file_cache_bytes: int = _setting(4 << 30, "bytes of fetched RocksDB files that are kept at most")
    threads: int = _setting(0, "threads of the engine and of the readers; as many as cores where 0")
    allow_anonymous: bool = _setting(
        False, "answer anybody at any address: for where something in front decides who comes"
    )
    allowed_hosts: str = _setting(
        "", "names of this service in requests, with commas between; where anybody may ask, this machine's"
    )
    keys_file: str = _setting(
        "", "file of API keys, as `savepointdb keys` writes it; without it none is asked for"
    )
    oidc_issuer: str = _setting("", "identity provider whose tokens are valid, as https://login.example.com")
    oidc_audience: str = _setting("", "what its tokens must be for")
    oidc_keys_url: str = _setting("", "where its keys are; the provider is asked where empty")
    oidc_user_claim: str = _setting("sub", "claim of its tokens that names the user")
    oidc_grants_claim: str = _setting("savepointdb", "claim of its tokens with patterns of database names")
    oidc_default_grants: str = _setting("", "patterns, with spaces between, of tokens without that claim")
    tls_certificate: str = _setting("", "file with the certificate chain, in PEM; http where empty")
    tls_key: str = _setting("", "file with its private key, in PEM")
    log_level: str = _setting("warning", "least level that is logged: debug, info, warning or error")
    log_format: str = _setting("text", "text, or json: an object a line")
    audit_log: bool = _setting(False, "log every query that ended: who, what shape, how long; never a value")
    spark_master: str = _setting("", "Spark's master, such as spark://host:7077, k8s://…, yarn or local[4]")
    spark_remote: str = _setting("", "a Spark Connect server instead of a master, such as sc://host:15002")
    spark_python: str = _setting("", "Python of Spark's workers; by the path of this one where empty")
    spark_options: str = _setting(
        "", "more of Spark's settings, such as 'spark.executor.memory=4g spark.executor.cores=4'"
    )
    spark_export_directory: str = _setting(
        "", "where Spark's executors write long answers; they and this service see it by this path"
    )
    spark_threshold_bytes: int = _setting(
        0, "a query that reads more goes to Spark, if it has a cluster; the machine's memory where 0"
    )


def settings_of(options: Mapping[str, Any], environment: Mapping[str, str]) -> Settings:
    """The settings of a command line and of an environment.

    Args:
        options: parsed arguments; those that are None or no settings are passed over.
        environment: such as `os.environ`.

    Raises:
        InvalidSettingError: a variable or a member of the file that is not of the setting's type, or no setting.
    """
    path = config_path(options, environment)
    values: dict[str, Any] = {} if path is None else read_config(path).settings
    for setting in fields(Settings):
        text = environment.get(ENVIRONMENT_PREFIX + setting.name.upper())
        if options.get(setting.name) is not None and setting.name != _REPEATED:
            values[setting.name] = options[setting.name]
        elif text is not None:
            values[setting.name] = _parsed(setting, text)
    return Settings(**values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """A file of settings: those that it has, and the roots that it names."""

    settings: dict[str, Any]
    roots: tuple[str, ...] = ()


def config_path(options: Mapping[str, Any], environment: Mapping[str, str]) -> str | None:
    """The file of settings that is named; None for none."""
    return options.get("config") or environment.get(ENVIRONMENT_PREFIX + "CONFIG") or None


def read_config(path: str) -> Config:
    """A TOML file: settings by their names, and `roots`, a list of `[label=]PATH`.

    Raises:
        InvalidSettingError: it is not there, no TOML, or has something that is no setting or not of its type.
    """
    try:
        with open(path, "rb") as file:
            document = tomllib.load(file)
    except OSError as error:
        raise InvalidSettingError(f"{path}: expected a file of settings, found {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidSettingError(f"{path}: expected TOML: {error}") from error
    roots = document.pop("roots", [])
    if not isinstance(roots, list) or not all(isinstance(root, str) for root in roots):
        raise InvalidSettingError(f"{path}: expected roots as a list of texts")
    known = {setting.name: setting for setting in fields(Settings)}
    for name, value in document.items():
        if name not in known:
            near = get_close_matches(name, known, 1)
            raise InvalidSettingError(
                f"{path}: expected a setting, found {name}{f'; is it {near[0]}?' if near else ''}"
            )
        kind = _type_of(known[name])
        if type(value) is not kind and not (kind is float and type(value) is int):
            raise InvalidSettingError(
                f"{path}: {name}: expected a value of type {kind.__name__}, found {value!r:.100}"
            )
    return Config(settings=document, roots=tuple(roots))


def path_map_of(options: Mapping[str, Any], settings: Settings) -> dict[str, str]:
    """Recorded prefix → what stands there now; the command line's before the environment's.

    Raises:
        InvalidSettingError: not OLD=NEW.
    """
    given = [text for text in settings.path_map.split(";") if text.strip()]
    found = {}
    for text in (*given, *(options.get(_REPEATED) or ())):
        match = _MAPPING.fullmatch(text.strip())
        if match is None:
            raise InvalidSettingError(f"path map: expected OLD=NEW, found {text!r}")
        found[match[1]] = match[2]
    return found


def add_arguments(parser: argparse.ArgumentParser, names: Iterable[str]) -> None:
    """An option for each of these settings."""
    known = {setting.name: setting for setting in fields(Settings)}
    for name in names:
        setting = known[name]
        if name == _REPEATED:
            continue
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            help=f"{setting.metadata['help']} (default: {setting.default or 'none'})".replace("%", "%%"),
            **_argument(setting),
        )


def _argument(setting: Field[Any]) -> dict[str, Any]:
    if _type_of(setting) is bool:
        return {"action": "store_const", "const": not setting.default}
    return {"type": _type_of(setting), "metavar": setting.name.rpartition("_")[2].upper()}


def names() -> tuple[str, ...]:
    """The names of all settings."""
    return tuple(setting.name for setting in fields(Settings))


def _parsed(setting: Field[Any], text: str) -> Any:
    kind = _type_of(setting)
    try:
        return parsed_flag(text) if kind is bool else kind(text)
    except ValueError as error:
        raise InvalidSettingError(
            f"{ENVIRONMENT_PREFIX}{setting.name.upper()}: expected a value of type {kind.__name__}, found {text!r}"
        ) from error


def parsed_flag(text: str) -> bool:
    """`true`, `1`, `yes`, `on` and their opposites.

    Raises:
        ValueError: another text.
    """
    folded = text.strip().casefold()
    if folded not in _FLAGS:
        raise ValueError(f"expected true or false, found {text!r}")
    return _FLAGS[folded]


def _type_of(setting: Field[Any]) -> type[Any]:
    kind: type[Any] = type(setting.default)
    return kind


_FLAGS = dict.fromkeys(("true", "1", "yes", "on"), True) | dict.fromkeys(("false", "0", "no", "off"), False)
