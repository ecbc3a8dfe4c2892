"""Rules, and their files. A rule is a query that must return no row, or one value within bounds.

| in the query | stands |
|---|---|
| `table`, `source_offsets`, `files`, … | a table of the savepoint that is tested |
| `previous.table` | the same in the savepoint before it, of the same job |
| `current.table` | the same as `table`; with `previous` it names the savepoints of `diff` |
| `{table}` | each state that `operator`, `state` and `states` choose: the rule is tested once for each |
| `{table_name}`, `{operator}`, `{state}` | the names of that state, as texts |
| `{created_at}` | the time of the savepoint, as TIMESTAMP in UTC; the time of the test where it is not known |
| `$name` | a parameter of the rule |

In TOML each rule is a table:

    [[rule]]
    name = "no negative counts"
    sql = "SELECT key, value FROM aggregate WHERE value < $least"
    severity = "error"                 # or warning, info
    description = "Counts only grow."
    expect = "no rows"                 # or { min = 0, max = 1000 }, of one value
    params = { least = 0 }
    operator = "agg*"                  # with {table} in the query: each state of these operators,
    state = "count*"                   # of these names,
    states = "has_ttl"                 # that meet this condition on StateMeta
    job = "prod__*"                    # only for jobs of these names

In SQL comments behind `-- rule:` say the same; `params` and `expect` are values of TOML, the others plain text:

    -- rule: no negative counts
    -- severity: warning
    -- params: { least = 0 }
    SELECT key, value FROM aggregate WHERE value < $least;

`standard.toml` holds the rules that come with the program: what every job wants of its state.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import StrEnum
from fnmatch import fnmatchcase
from importlib.resources import files
from pathlib import Path
from typing import Any

from service.base.errors import InvalidRequestError, known_words
from service.query.sql.text import quoted, value_constant

TABLE = "{table}"
OF_STATES = (TABLE, "{table_name}", "{operator}", "{state}")
_PLACE = re.compile(r"\{(?:table|table_name|operator|state|created_at)\}")
SUFFIXES = (".toml", ".sql")
_MOST_BYTES = 4 << 20
_MOST_RULES = 1000
_TEXT = "rules"
_NO_ROWS = ("no rows", "no row")
_RULE = re.compile(r"--\s*rule\s*:\s*(.*)", re.IGNORECASE)
# A key of many parts takes the parser seconds, and gigabytes: their product with themselves.
_LONG_KEY = re.compile(r"""(?:(?:(?<![\w-])[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){64}""")
_FACT = re.compile(r"--\s*(\w+)\s*:\s*(.*)")
_FILE = "standard.toml"
PREVIOUS, CURRENT = "previous", "current"
Bound = int | float | datetime | date


class InvalidRulesError(InvalidRequestError, code="INVALID_RULES"):
    """A file of rules is not as documented; the message says which rule of which file."""


class Severity(StrEnum):
    """How bad a violation is."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"

    @property
    def weight(self) -> int:
        """Its place among others, the worst first."""
        return list(Severity).index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The bounds of a value, both of them allowed.

    Attributes:
        least: the least value; None for any.
        most: the greatest value; None for any.
    """

    least: Bound | None = None
    most: Bound | None = None

    def holds(self, value: Any) -> bool:
        """Return whether a value is within the bounds; NULL and NaN are not.

        Raises:
            TypeError: the value cannot be compared with the bounds.
        """
        if value is None or (isinstance(value, float | Decimal) and math.isnan(value)):
            return False
        given = _comparable(value)
        return (self.least is None or given >= _comparable(self.least)) and (
            self.most is None or given <= _comparable(self.most)
        )

    def __str__(self) -> str:
        if self.most is None:
            return f"at least {self.least}"
        return f"at most {self.most}" if self.least is None else f"{self.least} to {self.most}"


def _comparable(value: Any) -> Any:
    """Return a value that can be compared with a bound: times are in UTC, and a date is its midnight."""
    if isinstance(value, bool):
        raise TypeError("a truth value has no bounds")
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A test for state.

    Attributes:
        name: unique among the rules of a run.
        sql: the query.
        severity: how bad a violation is.
        description: why the rule must hold, for people.
        bounds: of the one value that the query returns; None if it must return no row.
        params: values of its parameters.
        operator, state: patterns of the names of operators and states, as in a shell, for a rule that is tested for each state.
        states: a condition of SQL on `StateMeta` that these states meet.
        job: a pattern of the names of jobs.
    """

    name: str
    sql: str
    severity: Severity = Severity.ERROR
    description: str = ""
    bounds: Bounds | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    operator: str = "*"
    state: str = "*"
    states: str = "TRUE"
    job: str = "*"

    @property
    def is_for_each_state(self) -> bool:
        """True if it is tested once for each state that it chooses."""
        return any(place in self.sql for place in OF_STATES)

    @property
    def expectation(self) -> str:
        """The answer that is expected, for people."""
        return "no row" if self.bounds is None else f"one value, {self.bounds}"

    def is_for(self, job: str) -> bool:
        """Return whether it is tested for the job of this name."""
        return fnmatchcase(job, self.job)

    def chooses(self, names: tuple[str | None, ...], state: str) -> bool:
        """Return whether it is tested for a state.

        Args:
            names: of the operator: its uid, its name, its id; None for those that it lacks.
            state: the name of the state.
        """
        is_operator = any(name is not None and fnmatchcase(name, self.operator) for name in names)
        return is_operator and fnmatchcase(state, self.state)

    def query(self, *, created_at: datetime | None, chosen: ChosenState | None) -> str:
        """Return the query of one savepoint, and of one state if it is tested for each."""
        texts = {"{created_at}": _timestamp(created_at)}
        if chosen is not None:
            texts |= {
                TABLE: quoted(chosen.table),
                "{table_name}": value_constant(chosen.table),
                "{operator}": value_constant(chosen.operator),
                "{state}": value_constant(chosen.state),
            }
        # In one pass: a savepoint may have an operator that is called `{state}`.
        return _PLACE.sub(lambda found: texts.get(found[0], found[0]), self.sql)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenState:
    """A state that a rule is tested for.

    Attributes:
        operator: the uid of its operator, else the name, else the id.
        state: its name.
        table: the name of its table.
    """

    operator: str
    state: str
    table: str


def _timestamp(time: datetime | None) -> str:
    return f"TIMESTAMP '{(time or datetime.now(UTC)).astimezone(UTC):%Y-%m-%d %H:%M:%S}'"


def read_rules(paths: Iterable[str | Path], others: Iterable[Rule] = ()) -> list[Rule]:
    """Read files of rules.

    Args:
        paths: of the files.
        others: rules that come before theirs.

    Raises:
        InvalidRulesError: a file is missing or not as documented, or two rules have one name.
    """
    rules = {rule.name: rule for rule in others}
    for path in map(Path, paths):
        _add(rules, parse_rules(_text_of(path), path.suffix.casefold(), str(path)), str(path))
    return list(rules.values())


def read_text(text: str, others: Iterable[Rule] = ()) -> list[Rule]:
    """Parse rules in TOML that come as a text.

    Args:
        text: of the rules.
        others: rules that come before them.

    Raises:
        InvalidRulesError: the text is not as documented, or two rules have one name.
    """
    rules = {rule.name: rule for rule in others}
    _add(rules, parse_rules(text, ".toml", _TEXT), _TEXT)
    return list(rules.values())


def parse_rules(text: str, suffix: str, place: str) -> list[Rule]:
    """Parse the text of a file of rules.

    Args:
        text: of the file.
        suffix: of its name, which tells its language: one of `SUFFIXES`.
        place: the name of the file, for errors.

    Raises:
        InvalidRulesError: the text is not as documented.
    """
    if suffix not in SUFFIXES:
        raise InvalidRulesError(
            f"{place}: expected a file of rules, {' or '.join(SUFFIXES)}, found {suffix!r}"
        )
    tables = _toml_tables(text, place) if suffix == ".toml" else _sql_tables(text, place)
    rules = [_rule(table, where) for where, table in tables]
    if not rules:
        raise InvalidRulesError(
            f"{place}: expected rules, found none", hint="a rule begins with [[rule]] or -- rule: name"
        )
    return rules


def given_params(texts: Sequence[str]) -> dict[str, Any]:
    """Parse each `NAME=VALUE`: a value of TOML, or else a text.

    Raises:
        InvalidRulesError: there is no name.
    """
    found = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name.isidentifier():
            raise InvalidRulesError(f"expected NAME=VALUE of a parameter, found {text!r:.100}")
        found[name] = _value(value)
    return found


def with_params(rules: Iterable[Rule], params: Mapping[str, Any]) -> list[Rule]:
    """Return rules with other values of their parameters.

    Raises:
        InvalidRulesError: no rule has a parameter of this name.
    """
    rules = list(rules)
    known = {name for rule in rules for name in rule.params}
    for name in params:
        if name not in known:
            listed = ", ".join(sorted(known)) or "none"
            raise InvalidRulesError(f"expected a parameter of a rule, {listed}, found {name!r:.100}")
    return [
        replace(rule, params={name: params.get(name, value) for name, value in rule.params.items()})
        for rule in rules
    ]


def _add(rules: dict[str, Rule], others: Iterable[Rule], place: str) -> None:
    for rule in others:
        if rule.name in rules:
            raise InvalidRulesError(f"{place}: expected different names of rules, found {rule.name!r} twice")
        rules[rule.name] = rule
        if len(rules) > _MOST_RULES:
            raise InvalidRulesError(f"{place}: expected at most {_MOST_RULES} rules, found more")


def _text_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise InvalidRulesError(f"{path}: expected a file of rules, found {error.strerror}") from error
    if len(data) > _MOST_BYTES:
        raise InvalidRulesError(f"{path}: expected at most {_MOST_BYTES} bytes, found more")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidRulesError(f"{path}: expected UTF-8, found other bytes at {error.start}") from error


def _toml_tables(text: str, place: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    try:
        document = _document(text)
    # Deeply nested arrays exhaust the stack of the parser.
    except (ValueError, RecursionError) as error:
        raise InvalidRulesError(f"{place}: expected TOML: {error}") from error
    tables = document.pop("rule", [])
    if document:
        raise InvalidRulesError(f"{place}: expected [[rule]], found {next(iter(document))!r}")
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise InvalidRulesError(f"{place}: expected each rule as [[rule]]")
    for number, table in enumerate(tables, start=1):
        name = table.get("name")
        yield f"{place}: rule {name!r:.100}" if isinstance(name, str) else f"{place}: rule {number}", table


def _document(text: str) -> dict[str, Any]:
    if _LONG_KEY.search(text):
        raise ValueError("a name has more than 64 parts")
    return tomllib.loads(text)


def _sql_tables(text: str, place: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    rule: dict[str, Any] | None = None
    lines: list[str] = []
    where, is_head = place, False
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        begins = _RULE.fullmatch(stripped)
        if begins is not None:
            if rule is not None:
                yield where, {**rule, "sql": "\n".join(lines)}
            rule, lines, is_head = {"name": begins[1].strip()}, [], True
            where = f"{place}, line {number}: rule {begins[1].strip()!r:.100}"
            continue
        if rule is None:
            if stripped and not stripped.startswith("--"):
                raise InvalidRulesError(f"{place}, line {number}: expected '-- rule: name' before a query")
            continue
        is_head = is_head and stripped.startswith("--")
        fact = _FACT.fullmatch(stripped) if is_head else None
        if fact is not None:
            if fact[1].casefold() in rule:
                raise InvalidRulesError(f"{where}: expected {fact[1]} once, found it twice")
            key = fact[1].casefold()
            rule[key] = _value(fact[2].strip()) if key in _VALUES else fact[2].strip()
        else:
            lines.append(line)
    if rule is not None:
        yield where, {**rule, "sql": "\n".join(lines)}


def _value(text: str) -> Any:
    """Return a value of TOML, or the text itself if it is none."""
    try:
        found = _document(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    # A text of several lines could bring more keys than one.
    return found["value"] if found.keys() == {"value"} else text


def _rule(table: Mapping[str, Any], where: str) -> Rule:
    for key in table:
        if key not in _KEYS:
            raise InvalidRulesError(
                f"{where}: expected a word of rules, found {key!r:.100}{known_words(key, _KEYS)}"
            )
    name = _text(table, "name", where)
    sql = _text(table, "sql", where).rstrip().removesuffix(";").rstrip()
    for key, text in (("name", name), ("sql", sql)):
        if not text.strip():
            raise InvalidRulesError(f"{where}: expected {key}, found none")
    chosen = [key for key in ("operator", "state", "states") if key in table]
    if chosen and not any(place in sql for place in OF_STATES):
        raise InvalidRulesError(
            f"{where}: expected {TABLE} in the query of a rule with {chosen[0]}, found none"
        )
    return Rule(
        name=name.strip(),
        sql=sql,
        severity=_severity(table, where),
        description=" ".join(_text(table, "description", where, "").split()),
        bounds=_bounds(table.get("expect", _NO_ROWS[0]), where),
        params=_params(table, where),
        operator=_text(table, "operator", where, "*"),
        state=_text(table, "state", where, "*"),
        states=_text(table, "states", where, "TRUE"),
        job=_text(table, "job", where, "*"),
    )


def _text(table: Mapping[str, Any], key: str, where: str, default: str | None = None) -> str:
    value = table.get(key, default)
    if value is None:
        raise InvalidRulesError(f"{where}: expected {key}, found none")
    if not isinstance(value, str):
        raise InvalidRulesError(f"{where}: expected {key} as a text, found {value!r:.100}")
    return value


def _severity(table: Mapping[str, Any], where: str) -> Severity:
    text = _text(table, "severity", where, Severity.ERROR)
    try:
        return Severity(text.strip().casefold())
    except ValueError as error:
        known = ", ".join(Severity)
        raise InvalidRulesError(f"{where}: expected a severity of {known}, found {text!r:.100}") from error


def _params(table: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    params = table.get("params", {})
    if not isinstance(params, dict):
        raise InvalidRulesError(f"{where}: expected params as a table, found {params!r:.100}")
    return params


def _bounds(expected: Any, where: str) -> Bounds | None:
    if isinstance(expected, str) and expected.strip().casefold() in _NO_ROWS:
        return None
    if not isinstance(expected, dict) or not expected or expected.keys() - {"min", "max"}:
        raise InvalidRulesError(
            f"{where}: expected 'no rows' or {{ min = …, max = … }} behind expect, found {expected!r:.100}"
        )
    for value in expected.values():
        is_bound = isinstance(value, int | float | date | datetime) and not isinstance(value, bool)
        if not is_bound or value != value:
            raise InvalidRulesError(f"{where}: expected a number or a time as a bound, found {value!r:.100}")
    bounds = Bounds(least=expected.get("min"), most=expected.get("max"))
    if bounds.least is not None and bounds.most is not None and not _is_ordered(bounds):
        raise InvalidRulesError(f"{where}: expected min and max in this order, found {bounds}")
    return bounds


def _is_ordered(bounds: Bounds) -> bool:
    try:
        return bounds.holds(bounds.least)
    except TypeError:
        return False


# In SQL these are values of TOML, and the others plain text.
_VALUES = ("expect", "params")
_KEYS = ("name", "sql", "severity", "description", "expect", "params", "operator", "state", "states", "job")


def standard_text() -> str:
    """Return the file."""
    return (files("service.tasks.time.test") / _FILE).read_text(encoding="utf-8")


def standard_rules() -> list[Rule]:
    """Return the rules."""
    return parse_rules(standard_text(), ".toml", _FILE)
