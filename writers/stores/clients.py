"""The clients of the stores: botocore for S3 and what speaks its protocol, pyarrow for Google and Azure.

S3: pyarrow's client can neither give up an upload nor write only what is new.

| request | for |
|---|---|
| PutObject, with `If-None-Match: *` for the first and the last object | small objects |
| CreateMultipartUpload, UploadPart, CompleteMultipartUpload | large ones |
| CopyObject, UploadPartCopy | files that do not change |
| ListMultipartUploads, AbortMultipartUpload, DeleteObject | what is taken back |

A store that does not know `If-None-Match` answers 501 and gets the object without it, after a look whether it is there. Faults that
may pass are retried as the readers retry theirs: see `readers.storage.remote`.

Google and Azure: nobody sees an object of Google before it is closed. Azure shows an empty object before; a data file that is not whole
does no harm, for `_metadata` is sent in one piece and last. Neither client writes on a condition, so a key is looked for before it is
written.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from readers import Location, StorageOptions, arrow_filesystem, needed_credentials, s3_arguments
from writers.errors import TargetError
from writers.stores.store import KeyExistsError, Store, Upload
from writers.target import Chunk

if TYPE_CHECKING:
    from pyarrow import NativeFile


_TRIES = 6
_FIRST_WAIT_S = 0.1
_CONNECTIONS = 16
# An upload is completed, and a part copied, without a byte being sent for a while.
_LEAST_READ_TIMEOUT_S = 120.0
_GONE = frozenset({"404", "NoSuchKey", "NoSuchUpload", "NotFound"})
_EXISTS = frozenset({"412", "409", "PreconditionFailed", "ConditionalRequestConflict"})
_NOT_IMPLEMENTED = frozenset({"501", "NotImplemented"})
_DENIED_STATUS = frozenset({401, 403})
_PASSING_STATUS = frozenset({408, 429, 500, 502, 503, 504})
_PASSING = frozenset({"SlowDown", "RequestTimeout", "InternalError", "ServiceUnavailable"})

_Answer = TypeVar("_Answer")


class S3Store(Store):
    """A bucket of S3.

    Args:
        location: only its scheme and bucket are used.
        query: the options of its URL.
        options: credentials of other processes.

    Raises:
        StorageError: the options are wrong.
        TargetError: botocore is not installed.
    """

    copies_parts = True

    def __init__(self, location: Location, query: str, options: StorageOptions) -> None:
        arguments = s3_arguments(location, query, dict(options.variables))
        self.bucket = location.authority
        self._scheme = location.scheme
        self._client, self._errors = _client(arguments, str(location))

    def asked(self, key: str, request: Callable[[], _Answer], *, path: str = "") -> _Answer:
        """Return the answer to a request about a key.

        Args:
            key: the key.
            request: sends it.
            path: what errors name; the key if it is empty.

        Raises:
            TargetError: the store refuses it, or does not answer.
        """
        path = path or self._path(key)
        for number in range(_TRIES):
            try:
                return request()
            except self._errors.ClientError as error:
                if number == _TRIES - 1 or not _passes(error):
                    raise self._answered(error, path) from error
            except (self._errors.NoCredentialsError, self._errors.PartialCredentialsError) as error:
                raise self._denied(path) from error
            except (self._errors.BotoCoreError, self._errors.HTTPClientError, OSError) as error:
                if number == _TRIES - 1:
                    raise TargetError(f"expected the store to answer: {error}", path=path) from error
            time.sleep(random.uniform(0, _FIRST_WAIT_S * 2**number))
        raise AssertionError("the last try returns or raises")

    def _path(self, key: str) -> str:
        return f"{self._scheme}://{self.bucket}/{key}"

    def _answered(self, error: Any, path: str) -> TargetError:
        code = _code_of(error)
        if code in _GONE:
            return GoneError("expected an object, found nothing", path=path)
        if code in _EXISTS:
            return KeyExistsError("expected a new object, found one that exists", path=path)
        if code in _NOT_IMPLEMENTED:
            return UnknownRequestError(f"expected a store that knows the request: {error}", path=path)
        if _status_of(error) in _DENIED_STATUS:
            return self._denied(path, f" to {error.operation_name}")
        return TargetError(f"expected the store to take it: {error}", path=path)

    def _denied(self, path: str, operation: str = "") -> TargetError:
        return TargetError(
            f"expected a place that may be written to, found access denied{operation}: the credentials are missing, "
            f"expired, or without the permission; {needed_credentials(self._scheme)}",
            path=path,
        )

    def keys(self, prefix: str, after: str = "") -> list[str]:
        since = {"StartAfter": after} if after else {}
        answer = self.asked(
            prefix, lambda: self._client.list_objects_v2(Bucket=self.bucket, Prefix=prefix, **since)
        )
        return [item["Key"] for item in answer.get("Contents", ())]

    def put(self, key: str, body: Chunk, *, new: bool = False) -> None:
        try:
            self._put(key, body, **({"IfNoneMatch": "*"} if new else {}))
        except UnknownRequestError:
            if self.get(key) is not None:
                message = "expected a new object, found one that exists"
                raise KeyExistsError(message, path=self._path(key)) from None
            self._put(key, body)

    def _put(self, key: str, body: Chunk, **condition: str) -> None:
        sent = _sent(body)
        self.asked(key, lambda: self._client.put_object(Bucket=self.bucket, Key=key, Body=sent, **condition))

    def get(self, key: str) -> bytes | None:
        try:
            return self.asked(
                key, lambda: bytes(self._client.get_object(Bucket=self.bucket, Key=key)["Body"].read())
            )
        except GoneError:
            return None

    def read(self, key: str, start: int, size_bytes: int) -> bytes:
        if not size_bytes:
            return b""
        wanted = f"bytes={start}-{start + size_bytes - 1}"
        return self.asked(
            key,
            lambda: bytes(self._client.get_object(Bucket=self.bucket, Key=key, Range=wanted)["Body"].read()),
        )

    def size_of(self, key: str) -> int | None:
        """Return the size of an object; None if there is none."""
        try:
            answer = self.asked(key, lambda: self._client.head_object(Bucket=self.bucket, Key=key))
        except GoneError:
            return None
        return int(answer["ContentLength"])

    def copy(self, source: Location, key: str) -> None:
        copied = _copied(source)
        self.asked(
            key,
            lambda: self._client.copy_object(Bucket=self.bucket, Key=key, CopySource=copied),
            path=str(source),
        )

    def begin(self, key: str) -> Upload:
        answer = self.asked(key, lambda: self._client.create_multipart_upload(Bucket=self.bucket, Key=key))
        return _S3Upload(self, self._client, key, answer["UploadId"])

    def delete(self, key: str) -> None:
        self.asked(key, lambda: self._client.delete_object(Bucket=self.bucket, Key=key))

    def abort_all(self, prefix: str) -> None:
        answer = self.asked(
            prefix, lambda: self._client.list_multipart_uploads(Bucket=self.bucket, Prefix=prefix)
        )
        for upload in answer.get("Uploads", ()):
            # Some stores list the uploads of the whole bucket, and those in folders below are of others.
            if upload["Key"].rpartition("/")[0] + "/" == prefix:
                _S3Upload(self, self._client, upload["Key"], upload["UploadId"]).abort()


class GoneError(TargetError):
    """There is no such object, or no such upload."""


class UnknownRequestError(TargetError):
    """The store does not know such a request."""


class _S3Upload(Upload):
    def __init__(self, store: S3Store, client: Any, key: str, upload_id: str) -> None:
        self._store = store
        self._client = client
        self._named = {"Bucket": store.bucket, "Key": key, "UploadId": upload_id}
        self._key = key
        # number → tag and size
        self._parts: dict[int, tuple[str, int]] = {}

    def send(self, number: int, part: Chunk) -> None:
        sent = _sent(part)
        answer = self._store.asked(
            self._key, lambda: self._client.upload_part(**self._named, PartNumber=number, Body=sent)
        )
        self._parts[number] = answer["ETag"], len(sent)

    def copy(self, number: int, source: Location, start: int, size_bytes: int) -> None:
        copied = {"CopySource": _copied(source), "CopySourceRange": f"bytes={start}-{start + size_bytes - 1}"}
        answer = self._store.asked(
            self._key,
            lambda: self._client.upload_part_copy(**self._named, PartNumber=number, **copied),
            path=str(source),
        )
        self._parts[number] = answer["CopyPartResult"]["ETag"], size_bytes

    def complete(self) -> None:
        parts = [{"PartNumber": number, "ETag": tag} for number, (tag, _) in sorted(self._parts.items())]
        try:
            self._store.asked(
                self._key,
                lambda: self._client.complete_multipart_upload(
                    **self._named, MultipartUpload={"Parts": parts}
                ),
            )
        except TargetError:
            # The answer to an earlier try may have been lost, and the upload be complete.
            if self._store.size_of(self._key) != sum(size for _, size in self._parts.values()):
                raise

    def abort(self) -> None:
        try:
            self._store.asked(self._key, lambda: self._client.abort_multipart_upload(**self._named))
        except GoneError:
            return


def _client(arguments: dict[str, Any], path: str) -> tuple[Any, Any]:
    """Return a client, and the module of its errors."""
    try:
        import botocore.exceptions  # optional: only writing to S3 needs it
        import botocore.session
        from botocore.config import Config
        from botocore.handlers import disable_signing
    except ImportError as error:
        raise TargetError(
            "expected botocore, which writes to S3, found it not installed: python -m pip install 'savepointdb[s3]'",
            path=path,
        ) from error
    if "role_arn" in arguments:
        raise TargetError("expected a place to write to without the option role_arn, found it", path=path)
    endpoint = arguments.get("endpoint_override")
    if endpoint is not None:
        endpoint = f"{arguments.get('scheme', 'https')}://{endpoint}"
    virtual = arguments.get("force_virtual_addressing", endpoint is None)
    client = botocore.session.get_session().create_client(
        "s3",
        region_name=arguments.get("region") or os.environ.get("AWS_REGION"),
        endpoint_url=endpoint,
        verify=arguments.get("tls_ca_file_path"),
        config=Config(
            connect_timeout=arguments["connect_timeout"],
            read_timeout=max(arguments["request_timeout"], _LEAST_READ_TIMEOUT_S),
            retries={"total_max_attempts": 1},
            max_pool_connections=_CONNECTIONS,
            # Stores other than Amazon's know no checksums of requests.
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
            s3={"addressing_style": "virtual" if virtual else "path"},
        ),
        # Without keys it looks for them itself.
        aws_access_key_id=arguments.get("access_key"),
        aws_secret_access_key=arguments.get("secret_key"),
        aws_session_token=arguments.get("session_token"),
    )
    if arguments.get("anonymous"):
        client.meta.events.register("choose-signer.s3.*", disable_signing)
    return client, botocore.exceptions


def _sent(body: Chunk) -> bytes | bytearray:
    """Return bytes as botocore takes them."""
    return bytes(body) if isinstance(body, memoryview) else body


def _copied(source: Location) -> dict[str, str]:
    return {"Bucket": source.authority, "Key": source.path.lstrip("/")}


def _code_of(error: Any) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _status_of(error: Any) -> int:
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def _passes(error: Any) -> bool:
    """Return whether the request may do later what it did not do now."""
    return _status_of(error) in _PASSING_STATUS or _code_of(error) in _PASSING


class ArrowStore(Store):
    """A bucket of Google, or a container of Azure.

    Args:
        location: only its scheme and bucket are used.
        query: the options of its URL.
        options: credentials of other processes.

    Raises:
        StorageError: the options are wrong, or there are no credentials.
    """

    sends_in_order = True

    def __init__(self, location: Location, query: str, options: StorageOptions) -> None:
        self._arrow = arrow_filesystem(location, query, variables=dict(options.variables))
        self._bucket = location.authority.partition("@")[0]
        self._location = location

    @contextmanager
    def asked(self, key: str) -> Iterator[None]:
        """Translate the errors of a request about a key."""
        try:
            yield
        except (OSError, ValueError) as error:
            path = str(self._location._replace(path=f"/{key}"))
            raise TargetError(f"expected the store to take it: {error}", path=path) from error

    def _path(self, key: str) -> str:
        return f"{self._bucket}/{key}"

    def keys(self, prefix: str, after: str = "") -> list[str]:
        from pyarrow import fs  # heavy, and loaded by now

        with self.asked(prefix):
            selector = fs.FileSelector(self._path(prefix).rstrip("/"), recursive=True, allow_not_found=True)
            found = self._arrow.get_file_info(selector)
        keys = (
            info.path.removeprefix(f"{self._bucket}/")
            for info in found
            if info.type is not fs.FileType.Directory
        )
        return sorted(key for key in keys if key > after)

    def put(self, key: str, body: Chunk, *, new: bool = False) -> None:
        if new and self.get(key) is not None:
            path = str(self._location._replace(path=f"/{key}"))
            raise KeyExistsError("expected a new object, found one that exists", path=path)
        upload = self.begin(key)
        upload.send(1, body)
        upload.complete()

    def get(self, key: str) -> bytes | None:
        with self.asked(key):
            try:
                with self._arrow.open_input_file(self._path(key)) as file:
                    return bytes(file.readall())
            except FileNotFoundError:
                return None

    def read(self, key: str, start: int, size_bytes: int) -> bytes:
        with self.asked(key), self._arrow.open_input_file(self._path(key)) as file:
            return bytes(file.read_at(size_bytes, start))

    def copy(self, source: Location, key: str) -> None:
        with self.asked(key):
            self._arrow.copy_file(source.authority.partition("@")[0] + source.path, self._path(key))

    def begin(self, key: str) -> Upload:
        with self.asked(key):
            return _ArrowUpload(self, key, self._arrow.open_output_stream(self._path(key), compression=None))

    def delete(self, key: str) -> None:
        with self.asked(key):
            try:
                self._arrow.delete_file(self._path(key))
            except FileNotFoundError:
                return

    def abort_all(self, prefix: str) -> None:
        """Do nothing: these stores forget unfinished uploads themselves."""


class _ArrowUpload(Upload):
    def __init__(self, store: ArrowStore, key: str, stream: NativeFile) -> None:
        self._store = store
        self._key = key
        self._stream = stream

    def send(self, number: int, part: Chunk) -> None:
        with self._store.asked(self._key):
            self._stream.write(part)

    def copy(self, number: int, source: Location, start: int, size_bytes: int) -> None:
        raise NotImplementedError

    def complete(self) -> None:
        with self._store.asked(self._key):
            self._stream.close()

    def abort(self) -> None:
        """Close it: the target removes the object."""
        self.complete()


def store_of(location: Location, query: str, options: StorageOptions) -> Store:
    """Return the bucket of a location.

    Args:
        location: in the bucket.
        query: the options of its URL.
        options: credentials of other processes.

    Raises:
        TargetError: such a place cannot be written to.
        ReaderError: the options of the URL are wrong.
    """
    if location.scheme not in _STORES:
        raise TargetError(
            f"expected a path of this machine or one of {sorted(_STORES)}, found {location.scheme}://",
            path=str(location),
        )
    return _STORES[location.scheme](location, query, options)


_STORES: dict[str, Callable[[Location, str, StorageOptions], Store]] = {
    "s3": S3Store,
    "oss": S3Store,
    "gs": ArrowStore,
    "abfs": ArrowStore,
}
