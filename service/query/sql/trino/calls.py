"""Trino's functions: those that mean the same in DuckDB, those that are rewritten, and those that are refused.

A name of Trino's documentation is in one of three tables. Names that Trino does not know are DuckDB's.

Source: Trino's list of functions, and the classes that `macros.py` names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from service.base.errors import InvalidQueryError
from service.query.sql.trino.macros import PREFIX
from service.query.sql.trino.patterns import of_joda, of_mysql, of_path, of_replacement

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


def takes(name: str, arguments: _Arguments, *counts: int) -> None:
    """Check how many arguments a function has.

    Raises:
        InvalidQueryError: it takes another number.
    """
    if len(arguments) not in counts:
        expected = " or ".join(map(str, counts))
        raise InvalidQueryError(
            f"expected {expected} arguments of {name}(), found {len(arguments)}", code="FUNCTION_NOT_FOUND"
        )


def constant(name: str, argument: exp.Expr) -> str:
    """Return the constant text that is an argument of a function.

    Raises:
        InvalidQueryError: the argument is something else.
    """
    if not (isinstance(argument, exp.Literal) and argument.is_string):
        raise InvalidQueryError(
            f"expected a constant as the pattern of {name}(): it is translated before it runs",
            code="NOT_SUPPORTED",
        )
    return str(argument.this)


def refused(name: str) -> InvalidQueryError:
    """Return the error of a function of Trino that is not known here."""
    return InvalidQueryError(
        f"Trino's function {name if '(' in name else name + '()'} is not known here",
        hint="docs/bi.md lists what differs from Trino",
        code="NOT_SUPPORTED",
    )


def substring(arguments: _Arguments) -> exp.Expr:
    """Return a part of a text. From a constant place on, DuckDB's function is the same, which Spark knows, too."""
    text_, *numbers = arguments
    if all(isinstance(number, exp.Literal) and number.is_int and int(number.name) > 0 for number in numbers):
        return exp.Substring(this=text_, start=numbers[0], length=numbers[1] if len(numbers) > 1 else None)
    return macro("substr", *arguments)


def _substr(name: str, arguments: _Arguments) -> exp.Expr:
    takes(name, arguments, 2, 3)
    return substring(arguments)


def _macro(*counts: int) -> _Rewrite:
    def rewrite(name: str, arguments: _Arguments) -> exp.Expr:
        takes(name, arguments, *counts)
        return macro(name, *arguments)

    return rewrite


def _renamed(new: str, *counts: int) -> _Rewrite:
    def rewrite(name: str, arguments: _Arguments) -> exp.Expr:
        takes(name, arguments, *counts)
        return call(new, *arguments)

    return rewrite


def _count_if(name: str, arguments: _Arguments) -> exp.Expr:
    # DuckDB's is a HUGEINT.
    takes(name, arguments, 1)
    return exp.Count(this=exp.Case(ifs=[exp.If(this=arguments[0], true=exp.Literal.number(1))]))


def _formatted(translate: Callable[[str], str]) -> _Rewrite:
    def rewrite(name: str, arguments: _Arguments) -> exp.Expr:
        takes(name, arguments, 2)
        return call("strftime", arguments[0], text(translate(constant(name, arguments[1]))))

    return rewrite


def _parsed(translate: Callable[[str], str], kind: str) -> _Rewrite:
    def rewrite(name: str, arguments: _Arguments) -> exp.Expr:
        takes(name, arguments, 2)
        pattern = text(translate(constant(name, arguments[1])))
        return exp.cast(call("strptime", arguments[0], pattern), exp.DataType.build(kind, dialect="duckdb"))

    return rewrite


def _replaced(name: str, arguments: _Arguments) -> exp.Expr:
    takes(name, arguments, 2, 3)
    replacement = of_replacement(constant(name, arguments[2])) if len(arguments) == 3 else ""
    return call("regexp_replace", *arguments[:2], text(replacement), text("g"))


def _at_path(name: str, arguments: _Arguments) -> exp.Expr:
    takes(name, arguments, 2)
    return macro(name, arguments[0], text(of_path(constant(name, arguments[1]))))


def _url_part(name: str, arguments: _Arguments) -> exp.Expr:
    takes(name, arguments, 1)
    return call("regexp_extract", arguments[0], text(_URL_PARTS[name]), exp.Literal.number(1))


def _double(value: str) -> _Rewrite:
    def rewrite(name: str, arguments: _Arguments) -> exp.Expr:
        takes(name, arguments, 0)
        return exp.cast(text(value), "DOUBLE")

    return rewrite


def _sha1(name: str, arguments: _Arguments) -> exp.Expr:
    takes(name, arguments, 1)
    return call("unhex", call("sha1", *arguments))


def _contains(name: str, arguments: _Arguments) -> exp.Expr:
    takes(name, arguments, 2)
    return macro("array_contains", *arguments)


# By their names as they are written, in small letters.
REWRITTEN: dict[str, _Rewrite] = {
    # With weights it is refused: DuckDB has none.
    "approx_percentile": _renamed("approx_quantile", 2),
    # `zones.py` rewrites them with a zone, and leaves none of them.
    "at_timezone": _macro(2),
    "with_timezone": _macro(2),
    "array_max": _macro(1),
    "array_min": _macro(1),
    "array_position": _macro(2),
    "cardinality": _macro(1),
    "codepoint": _renamed("unicode", 1),
    "contains": _contains,
    "count_if": _count_if,
    "date_add": _macro(3),
    "date_diff": _macro(3),
    "date_format": _formatted(of_mysql),
    "date_parse": _parsed(of_mysql, "TIMESTAMP_MS"),
    "date_trunc": _macro(2),
    "e": _double("2.718281828459045"),
    "element_at": _macro(2),
    "every": _renamed("bool_and", 1),
    "format_datetime": _formatted(of_joda),
    "from_unixtime": _macro(1),
    "infinity": _double("inf"),
    "is_finite": _renamed("isfinite", 1),
    "is_infinite": _renamed("isinf", 1),
    "json_array_length": _macro(1),
    "json_extract": _at_path,
    "json_extract_scalar": _at_path,
    "json_size": _at_path,
    "millisecond": _macro(1),
    "nan": _double("nan"),
    "parse_datetime": _parsed(of_joda, "TIMESTAMPTZ"),
    "regexp_extract": _macro(2, 3),
    "regexp_replace": _replaced,
    "repeat": _macro(2),
    "sequence": _macro(2, 3),
    "sha1": _sha1,
    "slice": _macro(3),
    "split": _renamed("string_split", 2),
    "split_part": _macro(3),
    "substr": _substr,
    "substring": _substr,
    "to_base": _macro(2),
    "yow": _renamed("isoyear", 1),
    **dict.fromkeys(_URL_PARTS, _url_part),
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
