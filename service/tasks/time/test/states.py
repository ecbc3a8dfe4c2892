"""What the rules of a service say of each job, from checkpoint to checkpoint, and the file that keeps it over restarts.

| state | when |
|---|---|
| `ok` | the last checkpoint on which it was tested keeps it |
| `firing` | that checkpoint violates it |
| `error` | it could not be tested there: it is wrong, or needs a file that cannot be read |

A checkpoint on which a rule is skipped, or that vanishes meanwhile, changes nothing.

The file is JSON, and holds no value of a savepoint:

    {"version": 1, "rules": [{"job": …, "rule": …, "state": "firing", "since": {…}, "told": "ok", "silenced_until": null}, …]}
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import orjson

from service.base.errors import QueryError
from service.base.machine import write_whole
from service.base.principal import Principal
from service.base.settings import InvalidSettingError
from service.query.sql.names import with_databases
from service.tasks.time.test.rules import CURRENT, PREVIOUS, Rule
from service.tasks.time.test.running import RuleResult, SavepointResult, Status

logger = logging.getLogger("savepointdb")

_VERSION = 1
_MOST_BYTES = 64 << 20
_MOST_STATES = 10_000
_MOST_RESULTS = 10
_MOST_ROW_BYTES = 64 << 10
# What servers and browsers take for an address.
_LONGEST_LINK = 8_000


class Condition(StrEnum):
    """The state of a rule."""

    OK = "ok"
    FIRING = "firing"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A savepoint on which a rule was tested.

    Attributes:
        database: its name.
        checkpoint_id: the number that Flink gave it; None if it cannot be read.
        created_at: the time of its `_metadata` in ISO 8601; None where it is not known.
    """

    database: str
    checkpoint_id: int | None
    created_at: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleState:
    """The state of a rule for a job.

    Attributes:
        job: the name of the job.
        rule: the rule.
        state: how it is.
        since: the first checkpoint of this state.
        told: the state that the receiver of the webhook knows.
        silenced_until: until then the receiver is told nothing; None if it is not silenced.
        tested: the last checkpoint on which it was tested; None if that was before the start of the service.
        previous: the name of the database before that one; None if there is none.
        message: what was found there, or why it was not tested; empty if all is well.
        results: the first ones that are violations or errors, as values that are JSON, with their first rows.
    """

    job: str
    rule: Rule
    since: Checkpoint
    state: Condition = Condition.OK
    told: Condition = Condition.OK
    silenced_until: datetime | None = None
    tested: Checkpoint | None = None
    previous: str | None = None
    message: str = ""
    results: Sequence[Mapping[str, Any]] = ()

    @property
    def databases(self) -> set[str]:
        """The names of the savepoints of which it tells."""
        tested = None if self.tested is None else self.tested.database
        return {name for name in (self.since.database, tested, self.previous) if name is not None}

    @property
    def is_silenced(self) -> bool:
        """True if the receiver of the webhook is told nothing now."""
        return self.silenced_until is not None and datetime.now(UTC) < self.silenced_until

    def to_dict(self) -> dict[str, Any]:
        """Return what people see as values that are JSON."""
        return {
            "job": self.job,
            "rule": self.rule.name,
            "severity": self.rule.severity.value,
            "description": self.rule.description,
            "state": self.state.value,
            "since": asdict(self.since),
            "tested": None if self.tested is None else asdict(self.tested),
            "message": self.message or None,
            "results": list(self.results),
            "silenced_until": _iso(self.silenced_until) if self.is_silenced else None,
        }

    def kept(self) -> dict[str, Any]:
        """Return what the file keeps."""
        return {
            "job": self.job,
            "rule": self.rule.name,
            "state": self.state.value,
            "since": asdict(self.since),
            "told": self.told.value,
            "silenced_until": _iso(self.silenced_until),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the results of a rule on a savepoint say.

    Attributes:
        state: of the rule; None if it was skipped.
        message: what was found; empty if all is well.
        results: as `RuleState` has them.
    """

    state: Condition | None
    message: str = ""
    results: Sequence[Mapping[str, Any]] = ()


def verdict_of(savepoint: SavepointResult, rule: Rule) -> Verdict:
    """Return what the results on a savepoint, which may have one for each state, say of a rule."""
    if savepoint.error:
        return Verdict(state=Condition.ERROR, message=savepoint.error)
    results = [one for one in savepoint.results if one.rule.name == rule.name]
    for state, statuses in _STATES.items():
        found = [one for one in results if one.status in statuses]
        if found:
            is_well = state in (Condition.OK, None)
            told = found[0].message if found[0].status is Status.SKIPPED else _told(found)
            return Verdict(state=state, message=told, results=() if is_well else _shown(savepoint, found))
    return Verdict(state=None)


def _told(found: Sequence[RuleResult]) -> str:
    first, *others = found
    message = f"{first.table}: {first.message}" if first.table and first.message else first.message
    return f"{message}; {len(others)} more of its states" if message and others else message


def _shown(savepoint: SavepointResult, found: Sequence[RuleResult]) -> list[dict[str, Any]]:
    shown = []
    left = _MOST_ROW_BYTES
    for one in found[:_MOST_RESULTS]:
        told = one.to_dict()
        left -= len(orjson.dumps(told["rows"]))
        told["rows"] = told["rows"] if left >= 0 else None
        told["all_rows"] = rows_link(savepoint, one)
        shown.append({name: told[name] for name in ("table", "status", "message", "rows", "all_rows")})
    return shown


def rows_link(savepoint: SavepointResult, one: RuleResult) -> str | None:
    """Return the address of all rows that violate a rule, as the service serves it; None if it would be too long, or there are none."""
    if one.rows is None:
        return None
    names = {CURRENT: savepoint.name} | ({PREVIOUS: savepoint.previous} if savepoint.previous else {})
    try:
        sql = with_databases(one.sql, names)
    except QueryError:
        return None
    link = f"/db/{quote(savepoint.name, safe='')}?{urlencode({'sql': sql}, quote_via=quote)}"
    return link if len(link) <= _LONGEST_LINK else None


class RuleStates:
    """The states of the rules of a service. Safe to share between threads.

    Args:
        path: the file that keeps them; it need not exist.
        rules: what it says of others is forgotten.

    Raises:
        InvalidSettingError: the file cannot be read or written.
    """

    def __init__(self, path: Path, rules: Iterable[Rule]) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._jobs: frozenset[str] = frozenset()
        self._written = ""
        # In the order in which they were tested.
        self._states = {
            (one.job, one.rule.name): one for one in _read(path, {rule.name: rule for rule in rules})
        }
        try:
            self._write()
        except OSError as error:
            raise InvalidSettingError(
                f"rules_state: expected a file that can be written, found {path}: {error.strerror}"
            ) from error

    def serve(self, jobs: frozenset[str]) -> None:
        """Show the states of these jobs; those of others wait until they are back, if they are not too many."""
        with self._lock:
            self._jobs = jobs
            others = [key for key in self._states if key[0] not in jobs]
            for key in others[: max(0, len(self._states) - _MOST_STATES)]:
                del self._states[key]

    def shown(self) -> list[RuleState]:
        """Return the states of the jobs that are served, by job and rule."""
        with self._lock:
            found = [one for one in self._states.values() if one.job in self._jobs]
        return sorted(found, key=lambda one: (one.job, one.rule.name))

    def seen_by(self, caller: Principal) -> list[RuleState]:
        """Return those of jobs that a user sees; a user with a mask gets no values, also none in messages."""
        found = [one for one in self.shown() if all(map(caller.sees, one.databases))]
        return found if caller.mask is None else [replace(one, message="", results=()) for one in found]

    def learn(self, job: str, rule: Rule, verdict: Verdict, savepoint: SavepointResult) -> None:
        """Take what a test on a savepoint says."""
        tested = Checkpoint(
            database=savepoint.name,
            checkpoint_id=savepoint.checkpoint_id,
            created_at=_iso(savepoint.created_at),
        )
        with self._lock:
            known = self._states.get((job, rule.name)) or RuleState(job=job, rule=rule, since=tested)
            if verdict.state is not None:
                known = replace(
                    known,
                    state=verdict.state,
                    since=known.since if verdict.state is known.state else tested,
                    tested=tested,
                    previous=savepoint.previous,
                    results=verdict.results,
                )
            elif known.results:
                return
            self._put(replace(known, message=verdict.message))

    def change(self, state: RuleState, **changes: Any) -> RuleState:
        """Change what is told of a state, keep it, and return it as it is now."""
        with self._lock:
            changed = replace(self._states[state.job, state.rule.name], **changes)
            self._put(changed)
        self.save()
        return changed

    def save(self) -> None:
        """Write the file; where that fails the log says so, and the next time may be better."""
        with self._lock:
            try:
                self._write()
            except OSError as error:
                logger.warning("the states of rules are not kept: %s: %s", self._path, error.strerror)

    def _put(self, state: RuleState) -> None:
        self._states.pop((state.job, state.rule.name), None)
        self._states[state.job, state.rule.name] = state

    def _write(self) -> None:
        document = {"version": _VERSION, "rules": [one.kept() for one in self._states.values()]}
        text = orjson.dumps(document, option=orjson.OPT_INDENT_2).decode()
        if text != self._written:
            write_whole(self._path, text)
            self._written = text


def _read(path: Path, rules: Mapping[str, Rule]) -> list[RuleState]:
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise InvalidSettingError(
            f"rules_state: expected a file that can be read, found {path}: {error.strerror}"
        ) from error
    try:
        return list(_states_in(orjson.loads(data), rules))
    except (ValueError, LookupError, TypeError) as error:
        logger.warning(
            "%s: expected the states of rules, found a damaged file; they begin anew: %s", path, error
        )
        return []


def _states_in(document: Mapping[str, Any], rules: Mapping[str, Rule]) -> Iterator[RuleState]:
    if document["version"] != _VERSION:
        raise ValueError(f"expected version {_VERSION}, found {document['version']!r:.100}")
    yield from (_state(one, rules[one["rule"]]) for one in document["rules"] if one["rule"] in rules)


def _state(one: Mapping[str, Any], rule: Rule) -> RuleState:
    since, until = one["since"], one["silenced_until"]
    return RuleState(
        job=_text(one["job"]),
        rule=rule,
        state=Condition(one["state"]),
        since=Checkpoint(
            database=_text(since["database"]),
            checkpoint_id=None if since["checkpoint_id"] is None else int(since["checkpoint_id"]),
            created_at=None if since["created_at"] is None else _text(since["created_at"]),
        ),
        told=Condition(one["told"]),
        silenced_until=None if until is None else datetime.fromisoformat(until).astimezone(UTC),
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected a text, found {value!r:.100}")
    return value


def _iso(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat()


# The worst first; None for a rule that was skipped.
_STATES: Mapping[Condition | None, tuple[Status, ...]] = {
    Condition.FIRING: (Status.VIOLATED,),
    Condition.ERROR: (Status.ERROR, Status.UNREADABLE),
    Condition.OK: (Status.PASSED,),
    None: (Status.SKIPPED,),
}
