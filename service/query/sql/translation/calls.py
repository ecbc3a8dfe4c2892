"""Trino's functions: those that mean the same in DuckDB, those that are rewritten, and those that are refused.

A name of Trino's documentation is in one of three tables. Names that Trino does not know are DuckDB's.

Source: Trino's list of functions, and the classes that `macros.py` names.

Trino and DuckDB write some patterns differently: of dates, of replacements, of JSON paths. A pattern is translated when the
statement is, so it must be a constant; what has no counterpart is refused.

CAST, TRY_CAST and typed literals differ:

| Trino | DuckDB |
|---|---|
| a text is an integer only if it has digits only | `2.5` and ` 2 ` are integers |
| a half of a double is rounded away from zero | to the even number |
| `CAST(1e0 AS varchar)` = `1.0E0`; a timestamp has all digits of its type | `1.0`; without zeros at the end |
| `varchar(2)` cuts texts; a number must fit | no limit |
| `timestamp` is `timestamp(3)` | microseconds |
| `CAST('a' AS json)` is the JSON text `"a"` | `a` must be JSON |
| `decimal` has no digits behind the point | three of them |
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial

from sqlglot import exp

from service.base.errors import InvalidQueryError, NotSupportedError
from service.query.sql.translation.macros import PREFIX, failure

# MySQL's letters, as in Trino's date_format and date_parse.
_MYSQL = {
    "%a": "%a", "%b": "%b", "%c": "%-m", "%d": "%d", "%e": "%-d", "%f": "%f", "%H": "%H", "%h": "%I",
    "%I": "%I", "%i": "%M", "%j": "%j", "%k": "%-H", "%l": "%-I", "%M": "%B", "%m": "%m", "%p": "%p",
    "%r": "%I:%M:%S %p", "%S": "%S", "%s": "%S", "%T": "%H:%M:%S", "%v": "%V", "%W": "%A", "%x": "%G",
    "%Y": "%Y", "%y": "%y", "%%": "%%",
}  # fmt: skip
_JODA = {
    "yyyy": "%Y", "yy": "%y", "MMMM": "%B", "MMM": "%b", "MM": "%m", "dd": "%d", "d": "%-d", "HH": "%H",
    "hh": "%I", "mm": "%M", "ss": "%S", "SSS": "%g", "EEEE": "%A", "EEE": "%a", "a": "%p", "DDD": "%j",
}  # fmt: skip
_STEP = re.compile(r"""\.([A-Za-z_]\w*)|\[(\d+)\]|\["([^"\\]*)"\]""")


def of_mysql(pattern: str) -> str:
    """Return a pattern of `date_format` as one of strftime.

    Raises:
        InvalidQueryError: it has a letter without a counterpart.
    """

    def translated(field: re.Match[str]) -> str:
        if field.group() not in _MYSQL:
            raise _unsupported(f"{field.group()!r} in a pattern of dates")
        return _MYSQL[field.group()]

    return re.sub(r"%.?", translated, pattern, flags=re.DOTALL)


def of_joda(pattern: str) -> str:
    """Return a pattern of Joda-Time as one of strftime.

    Raises:
        InvalidQueryError: it has a letter without a counterpart.
    """

    def translated(field: re.Match[str]) -> str:
        text = field.group()
        if text.startswith("'"):
            return (text[1:-1] or "'").replace("%", "%%")
        if text not in _JODA and text[0].isalpha():
            raise _unsupported(f"{text!r} in a pattern of dates")
        return _JODA.get(text, text.replace("%", "%%"))

    return re.sub(r"'[^']*'|([A-Za-z])\1*|[^A-Za-z']+", translated, pattern)


def of_replacement(text: str) -> str:
    r"""Return the replacement of a regular expression: `$1` is `\1` in DuckDB, and `\$` is `$`.

    Raises:
        InvalidQueryError: it names a group, or one above 9.
    """

    def translated(found: re.Match[str]) -> str:
        escaped, group, other = found.groups()
        if escaped is not None:
            return "\\\\" if escaped == "\\" else str(escaped)
        if other is not None or len(group) > 1:
            raise _unsupported(f"{found.group()!r} in a replacement")
        return f"\\{group}"

    return re.sub(r"\\(.?)|\$(?:(\d+)|(.?))", translated, text, flags=re.DOTALL)


def of_path(path: str) -> str:
    """Return a JSON path such as `$.a[0]["b c"]` as DuckDB writes it.

    Raises:
        InvalidQueryError: it is none, or has wildcards.
    """
    steps, end = [], 1
    while path.startswith("$") and (found := _STEP.match(path, end)):
        name, index, quoted = found.groups()
        steps.append(f"[{index}]" if index is not None else f'."{quoted if name is None else name}"')
        end = found.end()
    if not path.startswith("$") or end != len(path):
        raise _unsupported(f'the JSON path {path!r}; it knows $.name, $[0] and $["name"]')
    return "$" + "".join(steps)


def _unsupported(what: str) -> InvalidQueryError:
    return NotSupportedError(f"this service does not know {what}")


_Arguments = Sequence[exp.Expr]
_Rewrite = Callable[[str, _Arguments], exp.Expr]
_URL_PARTS = {
    "url_extract_host": r"^[^:/?#]+://(?:[^/?#@]*@)?([^/?#:]*)",
    "url_extract_path": r"^[^:/?#]+://[^/?#]*([^?#]*)",
    "url_extract_protocol": r"^([^:/?#]+)://",
    "url_extract_query": r"^[^?#]*\?([^#]*)",
}


def call(name: str, *arguments: exp.Expr) -> exp.Expr:
    """Return a call of one of DuckDB's functions."""
    return exp.Anonymous(this=name, expressions=list(arguments))


def macro(name: str, *arguments: exp.Expr, prefix: str = PREFIX) -> exp.Expr:
    """Return a call of a macro; NULL if an argument is NULL, whose type would say nothing."""
    if any(isinstance(argument, exp.Null) for argument in arguments):
        return exp.null()
    return call(prefix + name, *arguments)


def text(value: str) -> exp.Expr:
    """Return a constant text."""
    return exp.Literal.string(value)


def constant(name: str, argument: exp.Expr) -> str:
    """Return the constant text that is an argument of a function.

    Raises:
        InvalidQueryError: the argument is something else.
    """
    if not (isinstance(argument, exp.Literal) and argument.is_string):
        raise NotSupportedError(
            f"expected a constant as the pattern of {name}(): it is translated before it runs"
        )
    return str(argument.this)


def refused(name: str) -> InvalidQueryError:
    """Return the error of a function of Trino that is not known here."""
    return NotSupportedError(
        f"Trino's function {name if '(' in name else name + '()'} is not known here",
        hint="docs/reference/trino.md lists what differs from Trino",
    )


def substring(text_: exp.Expr, *numbers: exp.Expr) -> exp.Expr:
    """Return a part of a text. From a constant place on, DuckDB's function is the same, which Spark knows, too."""
    if all(isinstance(number, exp.Literal) and number.is_int and int(number.name) > 0 for number in numbers):
        return exp.Substring(this=text_, start=numbers[0], length=numbers[1] if len(numbers) > 1 else None)
    return macro("substr", text_, *numbers)


def taking(make: Callable[..., exp.Expr], *counts: int) -> _Rewrite:
    """Return the rewriting of a call with one of these numbers of arguments, of which `make` makes another expression.

    Raises:
        InvalidQueryError: the call has another number.
    """

    def rewrite(name: str, arguments: _Arguments) -> exp.Expr:
        if len(arguments) not in counts:
            expected = " or ".join(map(str, counts))
            raise InvalidQueryError(
                f"expected {expected} arguments of {name}(), found {len(arguments)}",
                code="FUNCTION_NOT_FOUND",
            )
        return make(*arguments)

    return rewrite


def of_macro(*counts: int, prefix: str = PREFIX) -> _Rewrite:
    """Return the rewriting of a call to one of a macro of its name."""
    return lambda name, arguments: taking(partial(macro, name.lower(), prefix=prefix), *counts)(
        name, arguments
    )


def renamed(new: str, *counts: int) -> _Rewrite:
    """Return the rewriting of a call to one of another name, with one of these numbers of arguments."""
    return taking(partial(call, new), *counts)


def formatted(name: str, translate: Callable[[str], str]) -> _Rewrite:
    """Return the rewriting of a call that writes a time by a pattern."""
    return taking(lambda time, pattern: call("strftime", time, text(translate(constant(name, pattern)))), 2)


def _parsed(name: str, translate: Callable[[str], str], kind: str) -> _Rewrite:
    def made(value: exp.Expr, pattern: exp.Expr) -> exp.Expr:
        parsed = call("strptime", value, text(translate(constant(name, pattern))))
        return exp.cast(parsed, exp.DataType.build(kind, dialect="duckdb"))

    return taking(made, 2)


def _count_if(condition: exp.Expr) -> exp.Expr:
    # DuckDB's is a HUGEINT.
    return exp.Count(this=exp.Case(ifs=[exp.If(this=condition, true=exp.Literal.number(1))]))


def _replaced(value: exp.Expr, pattern: exp.Expr, replacement: exp.Expr | None = None) -> exp.Expr:
    new = "" if replacement is None else of_replacement(constant("regexp_replace", replacement))
    return call("regexp_replace", value, pattern, text(new), text("g"))


def _at_path(name: str) -> _Rewrite:
    return taking(lambda value, path: macro(name, value, text(of_path(constant(name, path)))), 2)


def _url_part(pattern: str) -> _Rewrite:
    return taking(lambda url: call("regexp_extract", url, text(pattern), exp.Literal.number(1)), 1)


def _double(value: str) -> _Rewrite:
    return taking(lambda: exp.cast(text(value), "DOUBLE"), 0)


# Functions that become macros of their names, by their numbers of arguments. `trino.py` rewrites those with a zone, and leaves none.
_MACROS = {
    (1,): "array_max array_min cardinality from_unixtime json_array_length millisecond",
    (2,): "at_timezone with_timezone array_position date_trunc element_at repeat to_base",
    (2, 3): "regexp_extract sequence",
    (3,): "date_add date_diff slice split_part",
}
# By their names as they are written, in small letters.
REWRITTEN: dict[str, _Rewrite] = {
    # With weights it is refused: DuckDB has none.
    "approx_percentile": renamed("approx_quantile", 2),
    "codepoint": renamed("unicode", 1),
    "contains": taking(partial(macro, "array_contains"), 2),
    "count_if": taking(_count_if, 1),
    "date_format": formatted("date_format", of_mysql),
    "date_parse": _parsed("date_parse", of_mysql, "TIMESTAMP_MS"),
    "e": _double("2.718281828459045"),
    "every": renamed("bool_and", 1),
    "format_datetime": formatted("format_datetime", of_joda),
    "infinity": _double("inf"),
    "is_finite": renamed("isfinite", 1),
    "is_infinite": renamed("isinf", 1),
    "json_extract": _at_path("json_extract"),
    "json_extract_scalar": _at_path("json_extract_scalar"),
    "json_size": _at_path("json_size"),
    "nan": _double("nan"),
    "parse_datetime": _parsed("parse_datetime", of_joda, "TIMESTAMPTZ"),
    "regexp_replace": taking(_replaced, 2, 3),
    "sha1": taking(lambda value: call("unhex", call("sha1", value)), 1),
    "split": renamed("string_split", 2),
    "substr": taking(substring, 2, 3),
    "substring": taking(substring, 2, 3),
    "yow": renamed("isoyear", 1),
    **{name: of_macro(*counts) for counts, names in _MACROS.items() for name in names.split()},
    **{name: _url_part(pattern) for name, pattern in _URL_PARTS.items()},
}
# They mean the same in DuckDB, as sqlglot translates them.
_SAME = """
    abs acos any_value approx_distinct arbitrary array_agg array_except array_join array_sort asin atan atan2
    avg bitwise_and bitwise_and_agg bitwise_not bitwise_or bitwise_or_agg bitwise_xor bool_and bool_or cast cbrt ceil ceiling
    chr coalesce concat concat_ws corr cos cosh count covar_pop covar_samp cume_dist current_date current_time current_timestamp
    current_user date day day_of_month day_of_week day_of_year degrees dense_rank dow doy ends_with exp extract filter
    first_value flatten floor from_base64 from_hex from_iso8601_date from_iso8601_timestamp from_utf8 geometric_mean greatest
    hour if is_nan json_format json_parse lag last_day_of_month last_value lead least length levenshtein_distance listagg ln
    localtime localtimestamp log log10 log2 lower lpad ltrim map map_concat map_entries map_from_entries map_keys map_values max max_by
    md5 min min_by minute mod month now nth_value ntile nullif percent_rank pi position pow power quarter radians rand random rank
    regexp_count regexp_extract_all regexp_like regexp_split regr_intercept regr_slope replace reverse round row row_number rpad
    rtrim second sha256 sign sin sinh sqrt starts_with stddev stddev_pop stddev_samp strpos sum tan tanh to_base64 to_hex
    to_unixtime to_utf8 transform translate trim truncate try try_cast upper uuid var_pop var_samp variance version week
    week_of_year year year_of_week
"""
SAME = frozenset(_SAME.split())
# Trino's others, as far as they are no functions of geometry, of machine learning or of sketches: DuckDB or sqlglot may know
# the name in another meaning, now or in its next release.
_REFUSED = """
    all_match any_match approx_most_frequent approx_set array_distinct array_first array_histogram array_intersect array_last
    array_remove array_union arrays_overlap bar beta_cdf bit_count bitwise_left_shift bitwise_right_shift
    bitwise_right_shift_arithmetic char2hexint checksum color combinations contains_sequence cosine_distance cosine_similarity
    crc32 current_groups current_timezone empty_approx_set format format_number from_base from_base32 from_base64url
    from_big_endian_32 from_big_endian_64 from_ieee754_32 from_ieee754_64 from_iso8601_timestamp_nanos from_unixtime_nanos
    hamming_distance hash_counts histogram hmac_md5 hmac_sha1 hmac_sha256 hmac_sha512 human_readable_seconds index
    intersection_cardinality inverse_beta_cdf inverse_normal_cdf is_json_scalar jaccard_index json json_array
    json_array_contains json_array_get json_exists json_object json_query json_scalar json_serialize json_value kurtosis
    luhn_check map_agg map_filter map_union map_zip_with merge multimap_agg multimap_from_entries murmur3 ngrams none_match
    normal_cdf normalize numeric_histogram objectid_timestamp parse_data_size parse_duration qdigest_agg reduce reduce_agg
    regexp_position render rgb sha512 shuffle skewness soundex split_to_map split_to_multimap spooky_hash_v2_32
    spooky_hash_v2_64 tdigest_agg timestamp_objectid timezone timezone_hour timezone_minute title_case to_base32 to_base64url
    to_big_endian_32 to_big_endian_64 to_char to_date to_ieee754_32 to_ieee754_64 to_iso8601 to_milliseconds to_timestamp
    transform_keys transform_values trim_array typeof url_decode url_encode url_extract_fragment url_extract_parameter
    url_extract_port value_at_quantile values_at_quantiles width_bucket wilson_interval_lower wilson_interval_upper word_stem
    xxhash64 zip zip_with
"""
REFUSED = frozenset(_REFUSED.split())


_Type = exp.DataType.Type
INTEGERS = {
    _Type.TINYINT: "integer_of_8",
    _Type.SMALLINT: "integer_of_16",
    _Type.INT: "integer_of_32",
    _Type.BIGINT: "integer_of_64",
}
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d*)?|[+-]?\.\d+")
_WHOLE = re.compile(r"[+-]?\d+")
_FRACTION = re.compile(r"\.(\d+)$")
_OFFSET = re.compile(r"\s+([+-]\d\d?:\d\d)$")
_MICROSECOND_DIGITS = 6
_PRECISIONS = (0, 3, 6, 9)


def cast_as_trino(node: exp.Expr) -> exp.Expr | None:
    """Return what a CAST or TRY_CAST is in DuckDB; None if it is the same.

    Raises:
        InvalidQueryError: the type is not known here.
    """
    assert isinstance(node, exp.Cast)
    found = _CASTS.get(node.to.this)
    if found is None:
        return None
    made = found(node)
    if made is None or not isinstance(node, exp.TryCast) or isinstance(made, exp.TryCast | exp.Null):
        return made
    return call("try", made)


def _integer(node: exp.Cast) -> exp.Expr | None:
    value = node.this
    if isinstance(value, exp.Literal) and _WHOLE.fullmatch(value.this):
        return None
    if isinstance(value, exp.Literal) and value.is_string:
        # A plain cast that fails, because DuckDB computes constants of macros before TRY could catch their errors.
        value.set("this", failure(f"Cannot cast '{value.this}' to {node.to.sql().upper()}"))
        return None
    return macro(INTEGERS[node.to.this], value)


def _boolean(node: exp.Cast) -> exp.Expr | None:
    is_constant = isinstance(node.this, exp.Literal | exp.Boolean | exp.Null)
    return None if is_constant else macro("boolean", node.this)


def _varchar(node: exp.Cast) -> exp.Expr | None:
    value, length = node.this, [parameter.this for parameter in node.to.expressions]
    if isinstance(value, exp.Null) or (isinstance(value, exp.Literal) and value.is_string and not length):
        return None
    return macro("varchar", value, *length)


def _char(node: exp.Cast) -> exp.Expr:
    raise NotSupportedError("the type char(n) is not known here: use varchar")


def _json(node: exp.Cast) -> exp.Expr | None:
    return None if isinstance(node.this, exp.Null) else call("to_json", node.this)


def _timestamp(node: exp.Cast) -> exp.Expr | None:
    if not node.to.expressions:
        node.to.set("expressions", [exp.DataTypeParam(this=exp.Literal.number(3))])
    digits = int(node.to.expressions[0].name)
    # A literal has the digits that it shows.
    if digits > max(_PRECISIONS) or (digits not in _PRECISIONS and not node.this.is_string):
        raise _too_fine("timestamp", digits)
    return None


def _zoned(node: exp.Cast) -> exp.Expr | None:
    value = node.this
    if node.to.expressions and int(node.to.expressions[0].name) > _MICROSECOND_DIGITS:
        raise _too_fine("timestamp with time zone", int(node.to.expressions[0].name))
    if isinstance(value, exp.Literal) and value.is_string:
        # `… +02:00`: DuckDB expects the offset without a blank before it.
        value.set("this", _OFFSET.sub(r"\1", value.this))
    return None


def _too_fine(kind: str, digits: int) -> InvalidQueryError:
    return NotSupportedError(
        f"{kind} of {digits} digits is not known here",
        hint="timestamps have 0, 3, 6 or 9 digits, those with a time zone 6",
    )


def _time(node: exp.Cast) -> exp.Expr | None:
    value = node.this
    found = _FRACTION.search(value.this) if isinstance(value, exp.Literal) and value.is_string else None
    if found and len(found[1]) > _MICROSECOND_DIGITS:
        return type(node)(this=value, to=exp.DataType.build("TIME_NS", dialect="duckdb"))
    return None


def _decimal(node: exp.Cast) -> exp.Expr | None:
    if node.to.expressions:
        return None
    value = node.this
    # sqlglot reads `DECIMAL '1.50'` as a cast of the text.
    if isinstance(value, exp.Literal) and value.is_string and _NUMBER.fullmatch(value.this.strip()):
        number = value.this.strip()
        if "." not in number:
            node.to.set("expressions", _digits(len(number.lstrip("+-0")) or 1))
            return None
        literal: exp.Expr = exp.Literal.number(number.lstrip("+-"))
        return exp.Neg(this=literal) if number.startswith("-") else literal
    node.to.set("expressions", _digits(38))
    return None


def _digits(count: int) -> list[exp.Expr]:
    return [exp.DataTypeParam(this=exp.Literal.number(number)) for number in (count, 0)]


_CASTS = {
    **dict.fromkeys(INTEGERS, _integer),
    _Type.BOOLEAN: _boolean,
    _Type.CHAR: _char,
    _Type.NCHAR: _char,
    _Type.DECIMAL: _decimal,
    _Type.JSON: _json,
    _Type.TIME: _time,
    _Type.TIMESTAMP: _timestamp,
    _Type.TIMESTAMPTZ: _zoned,
    _Type.TEXT: _varchar,
    _Type.VARCHAR: _varchar,
}
