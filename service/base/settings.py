"""The settings of the program: one table that feeds the command line, the environment and a TOML file.

In: parsed arguments, environment variables, a TOML file. Out: `Settings`, groups of plain values. The command line wins over the
environment, and the environment over the file that `--config` or `SAVEPOINTDB_CONFIG` names.

A field `max_rows` of a group is `--max-rows` on the command line, `SAVEPOINTDB_MAX_ROWS` in the environment and `max_rows` in
the TOML file. Keys are flat: the group is no part of them. A field whose key is not its name gives the key as third argument
of `_setting`.

| text | value |
|---|---|
| `4GB`, `512MiB`, `1000000` | bytes |
| `true`, `1`, `yes`, `on` | a flag; `false`, `0`, `no`, `off` |
| `OLD=NEW` | the recorded prefix of a path → the prefix where its files are now |
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from importlib import import_module
from itertools import groupby
from typing import Any, TypeVar

ENVIRONMENT_PREFIX = "SAVEPOINTDB_"

_Value = TypeVar("_Value")


def _setting(default: _Value, meaning: str, key: str = "") -> _Value:
    value: _Value = field(default=default, metadata={"help": meaning, "key": key})
    return value


# The groups have no slots: with slots, dataclass makes each class twice, and every command would start 6 ms later.
@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """Settings of the HTTP server."""

    host: str = _setting("127.0.0.1", "Address to listen on.")
    port: int = _setting(8080, "Port to listen on; 0 takes any free port.")
    # Browsers send a foreign name after DNS rebinding, which would let a page read a local service.
    allowed_hosts: str = _setting(
        "",
        "Host names that requests may address, separated by commas. If empty, a service with authentication accepts every "
        "name; one without accepts only this machine's names. Trino's protocol always requires a name that the service "
        "knows.",
    )
    max_request_bytes: int = _setting(1024 * 1024, "Largest request body, in bytes.")
    header_timeout_s: float = _setting(
        10.0, "Timeout for the headers of a request and for a TLS handshake, in seconds."
    )
    body_timeout_s: float = _setting(30.0, "Timeout for the body of a request, in seconds.")
    idle_timeout_s: float = _setting(30.0, "Timeout of an idle connection between two requests, in seconds.")
    max_connections: int = _setting(
        0,
        "Maximum number of open connections. 0 means three quarters of the open file limit, at most 10000. Larger values are "
        "reduced to three quarters of that limit.",
    )
    max_connections_per_address: int = _setting(
        0,
        "Maximum number of connections per address, or per IPv6 /64 network. 0 means half of max_connections. Behind a proxy, "
        "set it to max_connections: all connections share one address.",
    )
    stall_timeout_s: float = _setting(
        60.0,
        "Timeout for a client that stops reading its answer, in seconds. Its connection is closed and its query cancelled.",
    )
    drain_s: float = _setting(30.0, "Time for running queries to finish during a shutdown, in seconds.")
    tls_certificate: str = _setting("", "File with the TLS certificate chain, in PEM; if empty, plain HTTP.")
    tls_key: str = _setting("", "File with the private key of the certificate, in PEM.")


@dataclass(frozen=True, kw_only=True)
class QuerySettings:
    """Limits of one query and of its answer."""

    max_rows: int = _setting(10_000, "Default maximum number of rows in a JSON answer.")
    max_rows_limit: int = _setting(1_000_000, "Largest maximum that a request may set for a JSON answer.")
    max_answer_bytes: int = _setting(
        64 * 1024 * 1024, "Most bytes of rows in a JSON answer; further rows are cut off."
    )
    # A batch is cut into pieces for its way out of a worker, but never inside of a row.
    max_row_bytes: int = _setting(16 * 1024 * 1024, "Largest row of an answer over HTTP, in bytes.")
    timeout_s: float = _setting(60.0, "Default timeout of a query, in seconds.")
    max_timeout_s: float = _setting(3600.0, "Longest timeout that a request may set, in seconds.")
    max_sql_bytes: int = _setting(256 * 1024, "Longest SQL text, in bytes.")
    max_scan_bytes: int = _setting(0, "Maximum bytes of savepoints that a query may read; 0 means no limit.")
    # Three steps for a slow client: memory, then a file, then the query waits.
    result_buffer_bytes: int = _setting(1024 * 1024, "Maximum unread bytes of one answer in memory.")
    spool_bytes: int = _setting(64 * 1024 * 1024, "Maximum unread bytes of one answer in a temporary file.")
    spool_total_bytes: int = _setting(
        1024**3, "Maximum bytes of all these files together; they are in temp_directory."
    )
    abandoned_after_s: float = _setting(300.0, "Timeout of a query that no request asks for, in seconds.")
    history_length: int = _setting(1000, "Number of ended queries that the service keeps.")
    saved_queries: str = _setting(
        "", "TOML file with saved queries. Queries that clients save go into the folder FILE.d."
    )
    save_queries: bool = _setting(
        False, "Allow clients to save queries. With authentication, they need a grant such as saved:prod/*."
    )
    compat: str = _setting("", "Additional naming scheme; flink accepts the names of Flink's State Catalog.")


@dataclass(frozen=True, kw_only=True)
class SlotSettings:
    """Limits of how many queries run and wait."""

    max_running: int = _setting(
        0,
        "Maximum number of running queries; 0 means 4 per core, at least 8. Half as many key lookups may run besides.",
    )
    max_running_per_user: int = _setting(
        0, "Maximum number of running queries per user; 0 means half of max_running."
    )
    max_stalled: int = _setting(
        4, "Maximum number of idle queries that hold a worker; the longest idle is cancelled."
    )
    max_queued: int = _setting(1000, "Maximum number of queued queries; more are rejected with HTTP 429.")
    max_queued_per_user: int = _setting(500, "Maximum number of queued queries per user.")
    large_scan_bytes: int = _setting(
        64 * 1024 * 1024,
        "Bytes read above which a query counts as large. Large queries take at most half of the slots.",
    )


@dataclass(frozen=True, kw_only=True)
class WriteSettings:
    """Settings of the savepoints that clients write over HTTP, each in a process of its own."""

    # A text, as the path map is: the command line gives it several times, the other sources separate its parts.
    root: str = _setting(
        "",
        "Directory where clients may write savepoints, as [LABEL=]DIR; it is also served. Repeat the option, or separate "
        "several by semicolons in other sources. If empty, clients cannot write.",
        "write_root",
    )
    running: int = _setting(2, "Maximum number of running writes.", "max_writes")
    queued: int = _setting(
        20, "Maximum number of queued writes; the service rejects more with HTTP 429.", "max_queued_writes"
    )
    timeout_s: float = _setting(
        3600.0, "Timeout of a write, including its time in the queue, in seconds.", "write_timeout_s"
    )
    memory: str = _setting(
        "", "Maximum memory of a write's process, such as 4GB; if empty, that of a worker.", "write_memory"
    )
    size_bytes: int = _setting(
        0,
        "Maximum bytes that a write puts into its target; 0 means no limit. Links to the source's files do not count. The same "
        "limit applies to its temporary files, also in a dry run.",
        "max_write_bytes",
    )
    free_bytes: int = _setting(1 << 30, "Minimum free disk; a write stops below it.", "write_free_bytes")
    history_length: int = _setting(100, "Number of ended writes to keep.", "write_history_length")


@dataclass(frozen=True, kw_only=True)
class CheckSettings:
    """Limits of checks over HTTP, each in a process of its own."""

    running: int = _setting(2, "Most checks that run at the same time.", "max_checks")
    queued: int = _setting(
        20, "Maximum number of queued checks; the service rejects more with HTTP 429.", "max_queued_checks"
    )
    timeout_s: float = _setting(60.0, "Timeout of a check, in seconds.", "check_timeout_s")
    jar_bytes: int = _setting(64 << 20, "Largest jar that a client may send, in bytes.", "max_jar_bytes")


@dataclass(frozen=True, kw_only=True)
class AgentSettings:
    """Settings of the Model Context Protocol over HTTP."""

    # A text and no flag, so that `--mcp off` reads well.
    mode: str = _setting("on", "on or off: answer agents at /mcp; requires the extra mcp.", "mcp")
    sessions: int = _setting(
        500,
        "Maximum number of agent sessions; one user may have half of them. The service rejects more with HTTP 429.",
        "mcp_sessions",
    )
    idle_s: float = _setting(900.0, "Timeout of an idle agent session, in seconds.", "mcp_idle_s")


@dataclass(frozen=True, kw_only=True)
class FlinkSettings:
    """Settings of the clusters of Flink whose jobs the service follows."""

    # Texts, as the path map is: the command line gives them several times, the other sources separate their parts.
    clusters: str = _setting(
        "",
        "REST API of a Flink cluster to follow, as [LABEL=]URL: prod=https://flink.example.com:8081. Repeat the option, or "
        "separate several by semicolons in other sources. The service only reads from it, except to trigger savepoints.",
        "flink",
    )
    token_file: str = _setting(
        "",
        "File with the bearer token of a cluster, as [LABEL=]FILE; without a label, for all clusters. The service reads it "
        "before each request. It sends the token over https only, or to this machine.",
        "flink_token_file",
    )
    ca_file: str = _setting("", "Authorities that sign the clusters' certificates (PEM).", "flink_ca_file")
    certificate: str = _setting("", "Client certificate for mutual TLS (PEM).", "flink_certificate")
    key: str = _setting("", "Private key of the client certificate (PEM), if in another file.", "flink_key")
    path_map: str = _setting(
        "",
        "Paths of the clusters, as OLD=NEW: a path OLD there is NEW here. Repeat the option, or separate several by semicolons "
        "in other sources.",
        "flink_path_map",
    )
    poll_s: float = _setting(2.0, "Interval between two requests to a cluster, in seconds.", "flink_poll_s")
    timeout_s: float = _setting(10.0, "Timeout of one request to a cluster, in seconds.", "flink_timeout_s")
    savepoints: bool = _setting(
        False,
        "Allow clients to trigger savepoints. With authentication, they need a grant such as savepoints:prod/*.",
        "flink_savepoints",
    )
    savepoint_directory: str = _setting(
        "",
        "Directory for triggered savepoints, as the cluster sees it; if empty, the cluster's default.",
        "flink_savepoint_directory",
    )
    savepoint_timeout_s: float = _setting(
        3600.0, "Timeout for a triggered savepoint, in seconds.", "flink_savepoint_timeout_s"
    )
    open_savepoints: int = _setting(
        4,
        "Maximum number of open triggered savepoints; the service rejects more with HTTP 429.",
        "max_savepoints",
    )


@dataclass(frozen=True, kw_only=True)
class RuleSettings:
    """Settings of the rules that the service tests on each new checkpoint."""

    # A text, as the path map is.
    files: str = _setting("", "File of rules to test on each new checkpoint. May be repeated.", "rules")
    state: str = _setting(
        "", "File that keeps the states of rules; if empty, FILE.state.json beside the rules.", "rules_state"
    )
    webhook: str = _setting("", "URL that receives a JSON report of each change of state.", "rules_webhook")
    webhook_header: str = _setting("", "File of headers for it, one a line.", "rules_webhook_header")


@dataclass(frozen=True, kw_only=True)
class WorkerSettings:
    """Settings of the worker processes that run the queries of the service."""

    count: int = _setting(0, "Minimum number of idle workers; 0 means two more than cores.", "workers")
    memory: str = _setting(
        "",
        "Maximum memory of a worker process, such as 4GB. If empty, 80 % of the machine's memory divided by max_running; at "
        "least 512MB.",
        "worker_memory",
    )


@dataclass(frozen=True, kw_only=True)
class DuckDBSettings:
    """Settings of DuckDB, and the threads that the readers share with it."""

    memory_limit: str = _setting(
        "",
        "Maximum memory of DuckDB, such as 4GB. If empty, the service uses 60 % of worker_memory. The command line uses 80 % "
        "of the machine's memory; write and create use 128MB, or 48MB per thread.",
    )
    # A text, because DuckDB parses it.
    max_temp_size: str = _setting("100GB", "Maximum disk space of DuckDB in temp_directory.")
    threads: int = _setting(0, "Threads of DuckDB and of the readers; 0 means one per core.")


@dataclass(frozen=True, kw_only=True)
class StorageSettings:
    """Settings of where savepoints and temporary files are."""

    temp_directory: str = _setting(
        "",
        "Directory for large sorts, groups and unread answers; if empty, the system's temporary directory.",
    )
    rescan_after_s: float = _setting(5.0, "Interval between two searches for new savepoints, in seconds.")
    path_map: str = _setting(
        "", "Moved files, as OLD=NEW, separated by semicolons: a path OLD in savepoints is NEW here."
    )
    jar: str = _setting(
        "",
        "Jars of the job, separated by semicolons. They describe objects that the savepoint does not: Kryo's, and subclasses "
        "of POJOs. No code in them runs.",
    )
    allow_http: bool = _setting(False, "Read savepoints at http:// and https:// addresses.")
    file_cache_directory: str = _setting(
        "", "Directory for fetched RocksDB files; if empty, a folder in the system's temporary directory."
    )
    file_cache_bytes: int = _setting(4 << 30, "Maximum bytes of fetched RocksDB files to keep.")


@dataclass(frozen=True, kw_only=True)
class CacheSettings:
    """Settings of the cache of decoded states."""

    # A text and no flag, so that `--cache off` reads well; `--no-cache` is the same.
    mode: str = _setting("on", "on or off: keep decoded states on disk for later queries.", "cache")
    directory: str = _setting(
        "", "Directory of the decoded states; if empty, the user's cache directory.", "cache_directory"
    )
    size_bytes: int = _setting(10 * 1024**3, "Maximum bytes of decoded states to keep.", "cache_bytes")


@dataclass(frozen=True, kw_only=True)
class AuthSettings:
    """Settings of authentication: API keys and an identity provider."""

    allow_anonymous: bool = _setting(
        False,
        "Answer every client without authentication, at any address. Use it behind a proxy that authenticates.",
    )
    keys_file: str = _setting("", "File of API keys (`savepointdb keys`); if empty, no key is required.")
    mask: str = _setting("", "Mask of keys and tokens: its name, and its masks.toml. May be repeated.")
    oidc_issuer: str = _setting(
        "", "Identity provider whose tokens are accepted, such as https://login.example.com."
    )
    oidc_audience: str = _setting("", "Audience that a token must name.")
    oidc_keys_url: str = _setting(
        "", "Address of the provider's signing keys; if empty, the provider's configuration names it."
    )
    oidc_user_claim: str = _setting("sub", "Claim of a token that names the user.")
    oidc_grants_claim: str = _setting("savepointdb", "Claim of a token that lists patterns of databases.")
    oidc_mask_claim: str = _setting("savepointdb_mask", "Claim of a token that names a mask.")
    oidc_default_grants: str = _setting(
        "", "Patterns of database names for tokens without that claim, separated by spaces."
    )


@dataclass(frozen=True, kw_only=True)
class LogSettings:
    """Settings of the logs."""

    level: str = _setting("warning", "Lowest level to log: debug, info, warning or error.", "log_level")
    format: str = _setting("text", "text, or json: one object per line.", "log_format")
    audit: bool = _setting(
        False, "Log every ended query and write: user, shape and duration, never a value.", "audit_log"
    )


@dataclass(frozen=True, kw_only=True)
class SparkOptions:
    """Settings of Spark, as texts; `service.query.engines.spark` parses them."""

    master: str = _setting(
        "", "Spark's master, such as spark://host:7077, k8s://…, yarn or local[4].", "spark_master"
    )
    remote: str = _setting(
        "", "Spark Connect server to use instead of a master, such as sc://host:15002.", "spark_remote"
    )
    python: str = _setting(
        "", "Path of Python on Spark's workers; if empty, the path of this Python.", "spark_python"
    )
    options: str = _setting(
        "",
        "Further settings of Spark, such as 'spark.executor.memory=4g spark.executor.cores=4'.",
        "spark_options",
    )
    export_directory: str = _setting(
        "",
        "Directory where Spark's executors write long answers. Its path must be the same for them and this service.",
        "spark_export_directory",
    )
    threshold_bytes: int = _setting(
        0,
        "Bytes read above which a query runs on a Spark cluster. 0 means the memory of this machine.",
        "spark_threshold_bytes",
    )


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All settings, by group."""

    server: ServerSettings = field(default_factory=ServerSettings, metadata={"title": "HTTP server"})
    queries: QuerySettings = field(default_factory=QuerySettings, metadata={"title": "queries and answers"})
    slots: SlotSettings = field(default_factory=SlotSettings, metadata={"title": "queries that run and wait"})
    writes: WriteSettings = field(default_factory=WriteSettings, metadata={"title": "writing over HTTP"})
    checks: CheckSettings = field(default_factory=CheckSettings, metadata={"title": "checks over HTTP"})
    mcp: AgentSettings = field(default_factory=AgentSettings, metadata={"title": "agents over HTTP"})
    flink: FlinkSettings = field(default_factory=FlinkSettings, metadata={"title": "live jobs of Flink"})
    rules: RuleSettings = field(default_factory=RuleSettings, metadata={"title": "rules that watch"})
    workers: WorkerSettings = field(default_factory=WorkerSettings, metadata={"title": "worker processes"})
    duckdb: DuckDBSettings = field(default_factory=DuckDBSettings, metadata={"title": "DuckDB"})
    storage: StorageSettings = field(
        default_factory=StorageSettings, metadata={"title": "savepoints and temporary files"}
    )
    cache: CacheSettings = field(default_factory=CacheSettings, metadata={"title": "cache of decoded states"})
    auth: AuthSettings = field(default_factory=AuthSettings, metadata={"title": "authentication"})
    logs: LogSettings = field(default_factory=LogSettings, metadata={"title": "logs"})
    spark: SparkOptions = field(default_factory=SparkOptions, metadata={"title": "Spark"})

    @classmethod
    def of(cls, **values: Any) -> Settings:
        """Return the defaults with these values, by key: `Settings.of(max_rows=10, spark_master="yarn")`."""
        return cls().replaced(values)

    def replaced(self, values: Mapping[str, Any]) -> Settings:
        """Return these settings with other values, by key.

        Raises:
            KeyError: a key that no setting has.
        """
        groups: dict[str, dict[str, Any]] = {}
        for key, value in values.items():
            setting = SETTINGS[key]
            groups.setdefault(setting.group, {})[setting.name] = value
        return replace(
            self, **{group: replace(getattr(self, group), **below) for group, below in groups.items()}
        )


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One line of the table.

    Attributes:
        key: the name on the command line, in the environment and in the file; unique.
        group: the field of `Settings`.
        title: of the group, for people.
        name: the field of the group.
        default: its type is the type of the setting: str, int, float or bool.
        meaning: the help text.
    """

    key: str
    group: str
    title: str
    name: str
    default: Any
    meaning: str

    @property
    def kind(self) -> type[Any]:
        """The type of the values."""
        kind: type[Any] = type(self.default)
        return kind

    @property
    def variable(self) -> str:
        """The environment variable."""
        return ENVIRONMENT_PREFIX + self.key.upper()

    @property
    def option(self) -> str:
        """The option of the command line."""
        return f"--{self.key.replace('_', '-')}"


def _lines() -> Iterator[Setting]:
    defaults = Settings()
    for group in fields(Settings):
        for below in fields(getattr(defaults, group.name)):
            yield Setting(
                key=below.metadata["key"] or below.name,
                group=group.name,
                title=group.metadata["title"],
                name=below.name,
                default=below.default,
                meaning=below.metadata["help"],
            )


SETTINGS = {setting.key: setting for setting in _lines()}


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
    "mask": "NAME=FILE",
    "flink": "[LABEL=]URL",
    "flink_token_file": "[LABEL=]FILE",
    "flink_path_map": "OLD=NEW",
    "rules": "FILE",
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
