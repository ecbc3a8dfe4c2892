"""The rules of masks, applied to the values of one column.

| rule | values | nulls stay | two values stay two |
|---|---|---|---|
| keep | all | yes | yes |
| null | all | yes | |
| constant(x) | all without parts | yes | |
| hash | texts, bytes: 32 hexadecimal digits; integers: others of the type | yes | yes |
| pseudonym | texts, bytes, integers, decimals: of the same form | yes | yes |
| shuffle | all without parts: those of other rows | yes | |
| bucket(month) | dates and times: the beginning of a second … year | yes | |
| bucket(1000) | numbers: the next lower multiple | yes | |
| truncate(n) | texts, bytes: the first n | yes | |
| drop-row | all: rows that have a value are left out | | |

Types stay. Keys of states and of maps take only rules by which two values stay two, so that no two keys become one.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from catalog.errors import InvalidMaskFileError, UnmaskableValueError
from catalog.masks.integers import lowered_integers, permuted_words, pseudonyms_of_integers
from catalog.masks.permutation import HEX_DIGITS, hashes_of_bytes, pseudonyms_of_bytes, pseudonyms_of_texts
from readers import sql_type

_TEXT = re.compile(r"\s*([a-z]+(?:-[a-z]+)?)\s*(?:\((.*)\))?\s*\Z", re.DOTALL)
_KEY_BYTES = 16
# Of so many rows is told whether values repeat: to find the distinct ones takes a fifth of the time of a pseudonym.
_TRIED_ROWS = 512
_FEW = 0.5
_UNITS = ("second", "minute", "hour", "day", "week", "month", "quarter", "year")


@dataclass(frozen=True, slots=True)
class Rule(ABC):
    """What becomes of the values of a column. `text` is how a file of masks writes it."""

    name: ClassVar[str]
    is_injective: ClassVar[bool] = False
    """Whether two values stay two."""
    needs_all_rows: ClassVar[bool] = False
    """Whether a value depends on other rows."""
    is_per_value: ClassVar[bool] = True
    """Whether it is enough to mask the distinct values: equal ones become equal, and to mask one takes longer than to find it."""
    types: ClassVar[tuple[Callable[[pa.DataType], bool], ...]] = (lambda _type: True,)
    """Tests of types that it can mask, which have no parts."""

    @property
    def text(self) -> str:
        """The rule as the file has it."""
        arguments = ", ".join(str(getattr(self, one.name)) for one in fields(self))
        return f"{self.name}({arguments})" if arguments else self.name

    def fits(self, data_type: pa.DataType) -> bool:
        """Return whether it can mask values of a type, which has no parts."""
        return any(test(data_type) for test in self.types)

    @abstractmethod
    def masked(self, array: pa.Array, key: bytes) -> pa.Array:
        """Return the masks of values that `fits` is true for, under a key of 16 bytes."""


class Keep(Rule):
    name, is_injective = "keep", True

    def masked(self, array: pa.Array, key: bytes) -> pa.Array:
        return array


class DropRow(Keep):
    name = "drop-row"


class Null(Rule):
    name, is_per_value = "null", False

    def masked(self, array: pa.Array, key: bytes) -> pa.Array:
        return pa.nulls(len(array), array.type)


@dataclass(frozen=True, slots=True)
class Constant(Rule):
    """The same value for all."""

    value: str
    name, is_per_value = "constant", False

    def fits(self, data_type: pa.DataType) -> bool:
        return self._scalar(data_type) is not None

    def masked(self, array: pa.Array, key: bytes) -> pa.Array:
        return pc.if_else(array.is_valid(), self._scalar(array.type), pa.scalar(None, array.type))

    def _scalar(self, data_type: pa.DataType) -> pa.Scalar | None:
        text = pa.scalar(self.value)
        try:
            if pa.types.is_binary(data_type):
                return pa.scalar(self.value.encode(), data_type)
            if pa.types.is_time(data_type):
                # Arrow parses no times of a day.
                return (
                    pa.scalar(f"1970-01-01T{self.value}").cast(pa.timestamp(data_type.unit)).cast(data_type)
                )
            found = text.cast(data_type)
        except (pa.ArrowException, TypeError, ValueError):
            return None
        return found if found.is_valid else None


@dataclass(frozen=True, slots=True)
class Truncate(Rule):
    """The first characters or bytes."""

    count: int
    name, is_per_value, types = "truncate", False, (pa.types.is_string, pa.types.is_binary)

    def masked(self, array: pa.Array, key: bytes) -> pa.Array:
        cut = pc.utf8_slice_codeunits if pa.types.is_string(array.type) else pc.binary_slice
        return cut(array, 0, self.count)


@dataclass(frozen=True, slots=True)
class BucketOfTime(Rule):
    """The beginning of the second, …, year."""

    unit: str
    name, is_per_value, types = "bucket", False, (pa.types.is_timestamp, pa.types.is_date)

    def fits(self, data_type: pa.DataType) -> bool:
        # `super()` without arguments does not know the class that `slots` makes anew.
        return Rule.fits(self, data_type) or (pa.types.is_time(data_type) and self.unit in _SECONDS)

    def masked(self, array: pa.Array, key: bytes) -> pa.Array:
        if pa.types.is_time(array.type):
            width = pa.int32() if pa.types.is_time32(array.type) else pa.int64()
            step = pa.scalar(_SECONDS[self.unit] * _PER_SECOND[array.type.unit], width)
            numbers = array.view(width)
            return pc.multiply(pc.divide(numbers, step), step).view(array.type)
        if pa.types.is_date(array.type):
            return pc.floor_temporal(array.cast(pa.timestamp("s")), unit=self.unit).cast(array.type)
        return pc.floor_temporal(array, unit=self.unit)


_SECONDS = {"second": 1, "minute": 60, "hour": 3600}
_PER_SECOND = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}


@dataclass(frozen=True, slots=True)
class BucketOfNumbers(Rule):
    """The next lower multiple of a number."""

    step: int
    name, is_per_value = "bucket", False
    types = (pa.types.is_signed_integer, pa.types.is_floating, pa.types.is_decimal128)

    def masked(self, array: pa.Array, key: bytes) -> pa.Array:
        if pa.types.is_floating(array.type):
            numbers = pc.multiply(pc.floor(pc.divide(array.cast(pa.float64()), self.step)), float(self.step))
            return numbers.cast(array.type)
        if pa.types.is_decimal(array.type):
            step = self.step * 10 ** max(array.type.scale, 0)
            values = (None if one is None else int(one) for one in _unscaled(array).to_pylist())
            found = [None if value is None else value - value % step for value in values]
            return _scaled(pa.array(found, _DIGITS), array.type)
        least = int(np.iinfo(array.type.to_pandas_dtype()).min)
        return _of_words(lowered_integers(_words(array), self.step, least), array)


class Shuffle(Rule):
    name, needs_all_rows, is_per_value = "shuffle", True, False

    def masked(self, array: pa.Array, key: bytes) -> pa.Array:
        valid = np.flatnonzero(np.asarray(array.is_valid()))
        # The order depends on the values, too: two batches with one order would give each other away.
        content = hashlib.blake2b(key=key, digest_size=16)
        values = array.take(pa.array(valid))
        for buffer in values.buffers():
            if buffer is not None:
                content.update(buffer)
        order = np.random.Generator(np.random.PCG64(int.from_bytes(content.digest(), "little"))).permutation(
            len(valid)
        )
        places = np.arange(len(array))
        places[valid] = valid[order]
        return array.take(pa.array(places))


class Pseudonym(Rule):
    name, is_injective = "pseudonym", True
    types = (pa.types.is_string, pa.types.is_binary, pa.types.is_signed_integer, pa.types.is_decimal128)

    def masked(self, array: pa.Array, key: bytes) -> pa.Array:
        if pa.types.is_integer(array.type):
            return _of_words(pseudonyms_of_integers(_words(array), key), array)
        if pa.types.is_decimal(array.type):
            return _scaled(self.masked(_unscaled(array).cast(pa.string()), key).cast(_DIGITS), array.type)
        permute = pseudonyms_of_texts if pa.types.is_string(array.type) else pseudonyms_of_bytes
        offsets, data = _bytes(array)
        return _of_bytes(offsets, permute(data, offsets, key), array)


class Hash(Rule):
    name, is_injective = "hash", True
    types = (pa.types.is_string, pa.types.is_binary, pa.types.is_signed_integer)

    def masked(self, array: pa.Array, key: bytes) -> pa.Array:
        key = derived_key(key, "hash")
        if pa.types.is_integer(array.type):
            return _of_words(permuted_words(_words(array), array.type.bit_width, key), array)
        offsets, data = _bytes(array)
        digests = hashes_of_bytes(data, offsets, key)
        places = np.arange(0, len(digests) + 1, HEX_DIGITS, dtype=np.int32)
        return _of_bytes(places, digests, array)


def derived_key(secret: bytes, label: str) -> bytes:
    """Return 16 bytes of HMAC-SHA256: another secret for each label."""
    return hmac.digest(secret, label.encode(), "sha256")[:_KEY_BYTES]


def masked_values(rule: Rule, array: pa.Array, key: bytes) -> pa.Array:
    """Return the masks of values without parts; each distinct value is masked once where values repeat."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if not rule.is_per_value or isinstance(rule, Keep):
        return rule.masked(array, key)
    tried = array[:_TRIED_ROWS]
    if len(array) <= _TRIED_ROWS or pc.count_distinct(tried).as_py() > _FEW * _TRIED_ROWS:
        return rule.masked(array, key)
    encoded = array.dictionary_encode()
    return rule.masked(encoded.dictionary, key).take(encoded.indices)


def check_fits(rule: Rule, data_type: pa.DataType, place: str) -> None:
    """Check that a rule can mask values of a type without parts.

    Raises:
        UnmaskableValueError: it cannot.
    """
    if not rule.fits(data_type):
        raise UnmaskableValueError(
            f"expected values that {rule.text} can mask, found {sql_type(data_type)} in {place}; {_ADVICE}"
        )


_ADVICE = "null, shuffle, keep and drop-row mask any type"


def read_rule(text: str) -> Rule:
    """Return the rule that a text of a file of masks is.

    Raises:
        InvalidMaskFileError: there is no such rule.
    """
    found = _TEXT.match(text)
    name, argument = (found[1], found[2]) if found is not None else (text, None)
    if name in _PLAIN and argument is None:
        return _PLAIN[name]
    if name in _WITH_ARGUMENT and argument is not None:
        rule = _WITH_ARGUMENT[name](argument.strip())
        if rule is not None:
            return rule
        raise InvalidMaskFileError(f"expected {_EXPECTED[name]}, found {text!r:.100}")
    raise InvalidMaskFileError(
        f"expected one of {', '.join((*_PLAIN, *_EXPECTED.values()))}, found {text!r:.100}"
    )


def _bucket(argument: str) -> Rule | None:
    if argument in _UNITS:
        return BucketOfTime(argument)
    number = _number(argument)
    return None if number is None or number < 1 else BucketOfNumbers(number)


def _truncate(argument: str) -> Rule | None:
    number = _number(argument)
    return None if number is None else Truncate(number)


def _number(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else None


_PLAIN: dict[str, Rule] = {
    rule.name: rule for rule in (Keep(), Null(), Hash(), Pseudonym(), Shuffle(), DropRow())
}
_WITH_ARGUMENT: dict[str, Callable[[str], Rule | None]] = {
    "constant": Constant,
    "bucket": _bucket,
    "truncate": _truncate,
}
_EXPECTED = {
    "constant": "constant(x)",
    "bucket": "bucket(month) or bucket(1000)",
    "truncate": "truncate(n)",
}


# ---- columns as arrays of numpy ----
# No operation of Arrow or numpy on all values where none is needed: each lets another thread run Python, and then waits for it.


def _words(array: pa.Array) -> Any:
    """Return integers as 64 bits, a view where they are; nulls are any number."""
    narrow = np.frombuffer(array.buffers()[1] or b"", f"int{array.type.bit_width}")
    return narrow[array.offset : array.offset + len(array)].astype(np.int64, copy=False)


def _of_words(values: Any, like: pa.Array) -> pa.Array:
    data = values.astype(f"int{like.type.bit_width}", copy=False)
    return pa.Array.from_buffers(
        like.type, len(like), [_validity(like), pa.py_buffer(data)], null_count=like.null_count
    )


def _bytes(array: pa.Array) -> tuple[Any, Any]:
    """Return the offsets of texts or byte strings, int32 from 0, and their bytes, uint8."""
    _, offsets, data = array.buffers()
    count = len(array)
    if not count:
        return np.zeros(1, dtype=np.int32), np.zeros(0, dtype=np.uint8)
    places = np.frombuffer(offsets, np.int32)[array.offset : array.offset + count + 1]
    first, last = int(places[0]), int(places[-1])
    known = np.frombuffer(data, np.uint8)[first:last] if last > first else np.zeros(0, dtype=np.uint8)
    return places - np.int32(first) if first else places, known


def _of_bytes(offsets: Any, data: Any, like: pa.Array) -> pa.Array:
    buffers = [_validity(like), pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(like.type, len(like), buffers, null_count=like.null_count)


def _validity(array: pa.Array) -> pa.Buffer | None:
    """Return which values are valid, a bit each; None if all are."""
    if not array.null_count:
        return None
    if not array.offset:
        return array.buffers()[0]
    return pa.py_buffer(np.packbits(np.asarray(array.is_valid()), bitorder="little"))


_DIGITS = pa.decimal128(38, 0)


def _unscaled(array: pa.Array) -> pa.Array:
    """Return the digits of decimals as integers: no arithmetic of Python's, which rounds to 28 digits."""
    return pa.Array.from_buffers(_DIGITS, len(array), array.buffers(), array.null_count, array.offset)


def _scaled(digits: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Return decimals of a type that have these digits."""
    return pa.Array.from_buffers(data_type, len(digits), digits.buffers(), digits.null_count, digits.offset)
