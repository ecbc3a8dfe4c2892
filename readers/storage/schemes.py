"""URL schemes: the client of each, its options and its credentials.

| scheme | client | credentials, if the URL has no other |
|---|---|---|
| s3, s3a, s3n, s3p | pyarrow | AWS_ACCESS_KEY_ID …, the profile (AWS_PROFILE), the role of the instance or the pod |
| gs, gcs | pyarrow | GOOGLE_APPLICATION_CREDENTIALS, `gcloud auth application-default login`, the service account of the instance |
| abfs, abfss | pyarrow | AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN, else AZURE_CLIENT_ID …, the managed identity, `az login` |
| oss | pyarrow (its S3 interface) | OSS_ACCESS_KEY_ID, OSS_ACCESS_KEY_SECRET |
| hdfs | pyarrow with libhdfs | Kerberos ticket (`kinit`), or none |
| webhdfs | fsspec | the user of this machine, or `?user=` |
| http, https | fsspec; only if a setting allows it | none |

Options of one root stand behind the `?` of its URL: `s3://bucket/savepoints?region=eu-west-1`. The table `OPTIONS` lists
them. Secrets in a URL are refused, because URLs are listed and logged: `credentials=PROD` names environment variables
instead, PROD_ACCESS_KEY_ID, PROD_SECRET_ACCESS_KEY and PROD_SESSION_TOKEN.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from readers.errors import AccessDeniedError, StorageError
from readers.storage.filesystems import Location

if TYPE_CHECKING:
    from pyarrow import fs

_CONNECT_TIMEOUT_S = 5.0
_REQUEST_TIMEOUT_S = 30.0
# The client of GCS retries itself, and this cannot be turned off.
_GCS_RETRIES = timedelta(seconds=30)
_AZURE_TRIAL_TIMEOUT_S = 60.0
_AZURE_TRIAL = """
import json, sys
from pyarrow import fs
try:
    fs.AzureFileSystem(sys.argv[1], **json.loads(sys.argv[2])).get_file_info(sys.argv[3])
except OSError:
    pass
"""
_CREDENTIAL_NAMES = ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN")
_SECRET_OPTION = re.compile(r"(?i)key|secret|token|sas|password|sig")


def arrow_filesystem(
    location: Location, options: str, *, allow_http: bool = False, variables: Mapping[str, str] | None = None
) -> fs.FileSystem:
    """Return the pyarrow file system of a location.

    Args:
        location: only its scheme and authority are used.
        options: the query of the URL.
        allow_http: True if web addresses are allowed.
        variables: environment variables in addition to those of this process, for `credentials`.

    Raises:
        StorageError: unknown scheme or option, secrets in the URL, missing library.
        OSError, ValueError, ImportError: from the client.
    """
    _check_scheme(location, allow_http)
    return _CLIENTS[location.scheme](location, _arguments(location, options, variables))


def s3_arguments(
    location: Location, options: str, variables: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return what the client of an s3 or oss location is made with, by pyarrow's names; see `arrow_filesystem`."""
    _check_scheme(location, allow_http=False)
    arguments = _arguments(location, options, variables)
    return _oss_arguments(arguments) if location.scheme == "oss" else _s3_arguments(arguments)


def _check_scheme(location: Location, allow_http: bool) -> None:
    scheme = location.scheme
    if scheme not in _CLIENTS or (scheme in WEB_SCHEMES and not allow_http):
        known = sorted(_CLIENTS.keys() - (frozenset() if allow_http else WEB_SCHEMES))
        raise StorageError(
            f"expected a path of this machine or one of {known}, found {scheme}://", path=public(location)
        )


def _arguments(location: Location, options: str, variables: Mapping[str, str] | None) -> dict[str, Any]:
    """Return the options of a URL, with the credentials that they name."""
    scheme = location.scheme
    user = location.authority.rpartition("@")[0]
    if ":" in user or (user and scheme in {"s3", "gs", "oss"}):
        raise StorageError(
            f"expected credentials outside of the URL, found some in it; {needed_credentials(scheme)}",
            path=public(location),
        )
    given = dict(parse_qsl(options, keep_blank_values=True))
    for name in given.keys() - OPTIONS[scheme].keys():
        if _SECRET_OPTION.search(name):
            message = f"expected credentials outside of the URL, found {name}; {needed_credentials(scheme)}"
        else:
            message = f"expected options of {scheme}, which are {sorted(OPTIONS[scheme])}, found {name}"
        raise StorageError(message, path=public(location))
    arguments = {name: OPTIONS[scheme][name](value) for name, value in given.items()}
    prefix = arguments.pop("credentials", None)
    if prefix is not None:
        arguments |= _named_credentials(prefix, {**os.environ, **(variables or {})})
    return arguments


def credential_variables(options: str) -> dict[str, str]:
    """Return the environment variables that `credentials` in the query of a URL names, as far as they are set."""
    prefix = dict(parse_qsl(options)).get("credentials")
    names = [f"{prefix}_{name}" for name in _CREDENTIAL_NAMES] if prefix else []
    return {name: os.environ[name] for name in names if name in os.environ}


def needed_credentials(scheme: str) -> str:
    """Name the places where credentials of a scheme are looked for, as the end of an error message."""
    return f"{scheme} takes {_CREDENTIALS.get(scheme, 'none')}"


def public(location: Location) -> str:
    """Return the location as text, without credentials in it."""
    return str(location._replace(authority=location.authority.rpartition("@")[2]))


def _boolean(text: str) -> bool:
    if text.lower() not in {"true", "false", "1", "0", ""}:
        raise ValueError(f"expected true or false, found {text!r}")
    return text.lower() in {"true", "1", ""}


def _s3(location: Location, options: Mapping[str, Any]) -> fs.FileSystem:
    from pyarrow import fs  # heavy, and not needed for local savepoints

    arguments = _oss_arguments(options) if location.scheme == "oss" else _s3_arguments(options)
    # One attempt: `readers.storage.remote` retries, for all clients by the same rules.
    return fs.S3FileSystem(**arguments, retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=1))


def _s3_arguments(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments of pyarrow's S3 client."""
    arguments = {"connect_timeout": _CONNECT_TIMEOUT_S, "request_timeout": _REQUEST_TIMEOUT_S, **options}
    endpoint = arguments.pop("endpoint", None)
    if endpoint is not None:
        scheme, separator, host = endpoint.partition("://")
        arguments["endpoint_override"] = host if separator else endpoint
        if separator:
            arguments["scheme"] = scheme
    path_style = arguments.pop("path_style", None)
    if path_style is not None:
        arguments["force_virtual_addressing"] = not path_style
    return arguments


def _named_credentials(prefix: str, variables: Mapping[str, str]) -> dict[str, str]:
    key, secret, token = (variables.get(f"{prefix}_{name}") for name in _CREDENTIAL_NAMES)
    if not key or not secret:
        raise AccessDeniedError(
            f"expected the environment variables {prefix}_ACCESS_KEY_ID and {prefix}_SECRET_ACCESS_KEY, found them not set"
        )
    return {"access_key": key, "secret_key": secret, **({"session_token": token} if token else {})}


def _oss_arguments(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments of pyarrow's S3 client for the S3 interface of OSS."""
    arguments = _s3_arguments({"path_style": False, **options})
    if "access_key" not in arguments and not arguments.get("anonymous"):
        key, secret = (os.environ.get(f"OSS_ACCESS_KEY_{name}") for name in ("ID", "SECRET"))
        if not key or not secret:
            raise AccessDeniedError(f"expected credentials, found none; {needed_credentials('oss')}")
        arguments |= {"access_key": key, "secret_key": secret}
    if "endpoint_override" not in arguments:
        if "region" not in arguments:
            raise StorageError("expected the region or the endpoint of the bucket behind ?, found neither")
        arguments["endpoint_override"] = f"oss-{arguments['region']}.aliyuncs.com"
    return arguments


def _gs(location: Location, options: Mapping[str, Any]) -> fs.FileSystem:
    from pyarrow import fs  # heavy, and not needed for local savepoints

    return fs.GcsFileSystem(retry_time_limit=_GCS_RETRIES, **options)


def _abfs(location: Location, options: Mapping[str, Any]) -> fs.FileSystem:
    from pyarrow import fs  # heavy, and not needed for local savepoints

    account = location.authority.rpartition("@")[2].partition(".")[0]
    secrets = {"account_key": "AZURE_STORAGE_KEY", "sas_token": "AZURE_STORAGE_SAS_TOKEN"}
    found = {name: os.environ[variable] for name, variable in secrets.items() if os.environ.get(variable)}
    if not found:
        _check_azure(account, location, options)
    return fs.AzureFileSystem(account, **{**dict(list(found.items())[:1]), **options})


def _check_azure(account: str, location: Location, options: Mapping[str, Any]) -> None:
    """Check in another process that Azure gives a token: without a token the client ends its process.

    Raises:
        AccessDeniedError: the other process ended by a signal, or did not end in time.
    """
    container = location.authority.partition("@")[0]
    command = [sys.executable, "-c", _AZURE_TRIAL, account, json.dumps(options), container]
    try:
        ended = subprocess.run(command, check=False, capture_output=True, timeout=_AZURE_TRIAL_TIMEOUT_S)
    except subprocess.TimeoutExpired as error:
        raise _no_azure_token(location) from error
    if ended.returncode < 0:
        raise _no_azure_token(location)


def _no_azure_token(location: Location) -> AccessDeniedError:
    message = f"expected credentials, found none that give a token; {needed_credentials('abfs')}"
    return AccessDeniedError(message, path=public(location))


def _hdfs(location: Location, options: Mapping[str, Any]) -> fs.FileSystem:
    from pyarrow import fs  # heavy, and not needed for local savepoints

    host, _, port = location.authority.partition(":")
    return fs.HadoopFileSystem(host or "default", int(port or 0), **options)


def _through_fsspec(location: Location, options: Mapping[str, Any]) -> fs.FileSystem:
    from pyarrow import fs  # heavy, and not needed for local savepoints

    try:
        import fsspec
    except ImportError as error:
        raise StorageError(
            f"expected fsspec, which serves {location.scheme}://, found it not installed: "
            "python -m pip install fsspec requests aiohttp",
            path=public(location),
        ) from error
    arguments = dict(options)
    if location.scheme not in WEB_SCHEMES:
        host, _, port = location.authority.partition(":")
        arguments |= {"host": host, **({"port": int(port)} if port else {})}
    return fs.PyFileSystem(fs.FSSpecHandler(_ArrowAdapter(fsspec.filesystem(location.scheme, **arguments))))


class _ArrowAdapter:
    """A file system of fsspec, adapted for pyarrow.

    Errors are raised, where `isfile` of fsspec returns False for any error. A read fetches exactly the requested range,
    where files of fsspec read 5 MB ahead. `mtime` is the time of modification in seconds.
    """

    def __init__(self, system: Any) -> None:
        self._system = system

    def __getattr__(self, name: str) -> Any:
        return getattr(self._system, name)

    def info(self, path: str) -> dict[str, Any]:
        """Return the facts of one file or folder."""
        return _with_mtime(self._system.info(path))

    def find(self, path: str, **options: Any) -> dict[str, dict[str, Any]]:
        """Return the facts of all files in a folder."""
        return {name: _with_mtime(info) for name, info in self._system.find(path, **options).items()}

    def isfile(self, path: str) -> bool:
        """Return whether the path is an existing file."""
        try:
            return bool(self._system.info(path)["type"] == "file")
        except FileNotFoundError:
            return False

    def open(self, path: str, mode: str) -> Any:
        """Open a file without read-ahead: blocks of one byte, because 0 means a stream that cannot seek."""
        return self._system.open(path, mode=mode, block_size=1)


def _with_mtime(info: dict[str, Any]) -> dict[str, Any]:
    """Add `mtime` from the time of WebHDFS, which has another name and is in milliseconds."""
    return info | {"mtime": info["modificationTime"] / 1000} if "modificationTime" in info else info


_Client = Callable[[Location, Mapping[str, Any]], "fs.FileSystem"]
_CLIENTS: dict[str, _Client] = {
    "s3": _s3,
    "gs": _gs,
    "abfs": _abfs,
    "oss": _s3,
    "hdfs": _hdfs,
    "webhdfs": _through_fsspec,
    "http": _through_fsspec,
    "https": _through_fsspec,
}
WEB_SCHEMES = frozenset({"http", "https"})

_Options = dict[str, Callable[[str], Any]]


def _texts(names: str) -> _Options:
    return dict.fromkeys(names.split(), str)


_S3_OPTIONS: _Options = {
    **_texts(
        "endpoint endpoint_override scheme region credentials role_arn session_name external_id tls_ca_file_path"
    ),
    **dict.fromkeys(("anonymous", "path_style"), _boolean),
    **dict.fromkeys(("connect_timeout", "request_timeout"), float),
}
_AZURE_OPTIONS = (
    "blob_storage_authority blob_storage_scheme dfs_storage_authority dfs_storage_scheme client_id tenant_id"
)
OPTIONS: dict[str, _Options] = {
    "s3": _S3_OPTIONS,
    "oss": _S3_OPTIONS,
    "gs": {"anonymous": _boolean, **_texts("endpoint_override scheme project_id target_service_account")},
    "abfs": _texts(_AZURE_OPTIONS),
    "hdfs": _texts("user kerb_ticket"),
    "webhdfs": {"user": str, "kerberos": _boolean, "use_https": _boolean},
    "http": {},
    "https": {},
}
_CREDENTIALS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile (AWS_PROFILE), the role of the instance, or ?anonymous=true",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS, gcloud's default login, the instance's service account, or ?anonymous=true",
    "abfs": "AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN, AZURE_CLIENT_ID and its like, or a managed identity",
    "oss": "OSS_ACCESS_KEY_ID and OSS_ACCESS_KEY_SECRET, or ?anonymous=true",
    "hdfs": "a Kerberos ticket (kinit)",
    "webhdfs": "a Kerberos ticket (kinit) with ?kerberos=true, or ?user=",
}
