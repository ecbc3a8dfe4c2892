"""The rules of a service: tested on each new checkpoint of its jobs, in one thread beside its requests.

The queries have the limits of all queries, and wait for the same slots, as those of a user `rules`. The receiver of the webhook is told
of a change of a state once: what it knows is kept with the states. What it does not take, it is told after the next look, if that is
still so; and what changed in a silence, when the silence is over.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from catalog import Catalog
from readers import ReaderError
from service.base.errors import QueryError, ServiceEndingError, TooManyQueriesError
from service.base.principal import EVERYTHING, Principal
from service.base.settings import InvalidSettingError, Settings, parts_of
from service.query.running.request import QueryRequest
from service.query.running.run import Run
from service.query.running.session import QueryGroup
from service.tasks.time.test.rules import Rule, read_rules
from service.tasks.time.test.running import Runner, SavepointResult, Subject
from service.tasks.time.test.states import RuleState, RuleStates, verdict_of
from service.tasks.time.test.watching import Watch, Webhook, WebhookError, webhook_of

logger = logging.getLogger("savepointdb")

USER = "rules"
_SUFFIX = ".state.json"
_LEAST_PAUSE_S = 0.1
_LONGEST_END_S = 2.0
# A job whose checkpoints come faster than its rules are tested must not fall behind without end.
_MOST_BEHIND = 100


class ServedRules:
    """The rules that the settings name; without any there is no thread, and nothing to see.

    Args:
        settings: the files of rules, the file of states, and the webhook.
        catalog: the savepoints.
        start: starts queries.

    Attributes:
        states: what the rules say of each job; None without rules.

    Raises:
        InvalidRulesError: a file of rules is not as documented.
        InvalidRequestError: the webhook is none that can be used.
        InvalidSettingError: the file of states cannot be read or written, or settings have no meaning without rules.
    """

    def __init__(self, settings: Settings, catalog: Catalog, start: Callable[[QueryRequest], Run]) -> None:
        files = parts_of(settings.rules.files)
        self.states: RuleStates | None = None
        self._webhook = _webhook_of(settings)
        if not files:
            if self._webhook is not None or settings.rules.state:
                raise InvalidSettingError("expected rules beside rules_state and rules_webhook, found none")
            return
        self._rules = read_rules(files)
        self.states = RuleStates(Path(settings.rules.state or files[0] + _SUFFIX), self._rules)
        self._watch = Watch(catalog)
        self._start = start
        self._group = QueryGroup(start)
        self._pause_s = max(_LEAST_PAUSE_S, settings.storage.rescan_after_s)
        self._failure = ""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(self.states,), name=USER, daemon=True)

    def start(self) -> None:
        """Begin to test."""
        if self.states is not None:
            self._thread.start()

    def close(self) -> None:
        """Test no more: the query that runs is cancelled, and a report on its way is not waited for."""
        if self.states is not None and self._thread.is_alive():
            self._ended.set()
            self._group.cancel()
            self._thread.join(_LONGEST_END_S)

    def _run(self, states: RuleStates) -> None:
        pause_s = 0.0
        while not self._ended.wait(pause_s):
            pause_s = self._pause_s
            try:
                self._look(states)
            except Exception:  # the thread must not end, whatever a library raises
                logger.exception("rules: a look failed")
            states.save()

    def _look(self, states: RuleStates) -> None:
        """Test the new checkpoints, and tell what has changed."""
        subjects = self._new_ones()
        states.serve(self._watch.jobs)
        listens = self._tell(states)
        for subject in subjects:
            rules = [rule for rule in self._rules if rule.is_for(subject.job)]
            savepoint = self._tested(subject, rules) if rules else None
            if self._ended.is_set():
                return
            # That Flink deletes old checkpoints says nothing of the job.
            if savepoint is None or savepoint.is_gone:
                continue
            for rule in rules:
                states.learn(subject.job, rule, verdict_of(savepoint, rule), savepoint)
            listens = listens and self._tell(states)

    def _new_ones(self) -> list[Subject]:
        try:
            found = self._watch.look()
        except (ReaderError, OSError) as error:
            # A root that cannot be listed for a moment is no reason to stop.
            if str(error) != self._failure:
                logger.warning("rules: new checkpoints cannot be looked for: %s", error)
            self._failure = str(error)
            return []
        self._failure = ""
        return list(_newest(found))

    def _tested(self, subject: Subject, rules: Sequence[Rule]) -> SavepointResult | None:
        """Test a savepoint, as soon as there is room; return None if somebody ends a query of it."""
        principal = Principal(name=USER, grants=(EVERYTHING,))
        asked = QueryRequest(sql="", user=USER, principal=principal, source=USER)
        pause_s = 0.0
        while not self._ended.wait(pause_s):
            # A group remembers all its queries, so each savepoint has its own.
            self._group = QueryGroup(self._start)
            try:
                return Runner(start=self._group.start, rules=rules, asked=asked).run(subject)
            except TooManyQueriesError as error:
                pause_s = error.retry_after_s or self._pause_s
            except ServiceEndingError:
                self._ended.set()
            except QueryError as error:
                if not self._ended.is_set():
                    logger.warning("rules: %s is not tested: %s", subject.database.name, error.message)
                return None
        return None

    def _tell(self, states: RuleStates) -> bool:
        """Post each change that the receiver does not know; return whether it takes them."""
        for state in states.shown():
            if self._webhook is None or state.told is state.state or state.is_silenced:
                continue
            if self._ended.is_set():
                return False
            try:
                self._webhook.post(report_of(state))
            except WebhookError as error:
                logger.warning("rules: %s of %s is not posted: %s", state.rule.name, state.job, error)
                return False
            states.change(state, told=state.state)
        return True


def report_of(state: RuleState) -> dict[str, Any]:
    """Return what the receiver of the webhook gets when a state has changed."""
    told = f": {state.message}" if state.message else ""
    text = f"{state.job}: {state.rule.name}: {state.state}{told}"
    return {"event": state.state.value, "text": text, **state.to_dict()}


def _newest(subjects: Sequence[Subject]) -> Iterator[Subject]:
    """Yield the newest savepoints of each job, as many as may be behind; the log names the others."""
    left = Counter(subject.job for subject in subjects)
    for subject in subjects:
        if left[subject.job] <= _MOST_BEHIND:
            yield subject
        else:
            logger.warning("rules: %s is not tested: too many newer ones wait", subject.database.name)
        left[subject.job] -= 1


def _webhook_of(settings: Settings) -> Webhook | None:
    given = settings.rules
    if not given.webhook:
        if given.webhook_header:
            raise InvalidSettingError("expected rules_webhook beside rules_webhook_header, found none")
        return None
    # The next look is the next attempt: no other checkpoint waits for a receiver that is gone.
    return replace(
        webhook_of(given.webhook, given.webhook_header or None, "--rules-webhook"),
        pauses_s=(),
    )
