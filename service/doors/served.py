"""Clients of a service, or of an agent's program, and use cases: bodies → requests, and what answers them."""

from __future__ import annotations

import re
from collections.abc import Callable, Container
from dataclasses import MISSING, dataclass
from functools import cached_property
from typing import Annotated, Any, TypeVar

from pydantic import AliasChoices, BaseModel, BeforeValidator, Field, create_model

from catalog import Catalog
from service.base.errors import ForbiddenError
from service.base.principal import Principal
from service.base.settings import Settings
from service.base.waiting import found_in_thread
from service.doors.operations.logs import audit_check
from service.query.running.request import QueryRequest
from service.query.running.session import QueryGroup
from service.query.serving.query import Query
from service.query.serving.registry import Queries
from service.tasks.check.process import ToldFindings
from service.tasks.check.registry import Checks
from service.tasks.check.running import CheckRequest
from service.tasks.saved.store import SavedQueries, UserQueries
from service.tasks.task import Context, Option, Outcome, Task, TaskRequest, options_of
from service.tasks.write.request import WriteRequest
from service.tasks.write.serving.writes import WriteOrder, Writes
from service.tasks.write.statements.script import statements_of

# The history of queries keeps what a program calls itself, which may have any length.
_LONGEST_SOURCE = 200
_MOST_VALUES = 100
_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_Asked = TypeVar("_Asked", bound=TaskRequest)
_Model = TypeVar("_Model", bound=BaseModel)


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """The objects that answer questions, in a service or without one.

    Attributes:
        settings: the limits.
        catalog: the databases.
        queries: the queries over them.
        checks: the checks of clients.
        saved: the saved queries.
        writes: the savepoints that clients write, and their previews.
    """

    settings: Settings
    catalog: Catalog
    queries: Queries
    checks: Checks
    saved: SavedQueries
    writes: Writes


@dataclass(frozen=True, kw_only=True)
class Client:
    """Who asks.

    Attributes:
        served: the objects that answer.
        caller: the user.
        source: the program, as it calls itself.
    """

    served: Served
    caller: Principal
    source: str

    @cached_property
    def visible(self) -> Catalog:
        """The databases that the caller may see; an alias means the same all the time."""
        return self.caller.part_of(self.served.catalog)

    @property
    def saved(self) -> UserQueries:
        """The saved queries of the caller."""
        return UserQueries(store=self.served.saved, caller=self.caller, catalog=self.visible)

    def request(self, sql: str, **about: Any) -> QueryRequest:
        """Return the request of a statement.

        Args:
            sql: the statement.
            **about: other attributes of `QueryRequest`.
        """
        known: dict[str, Any] = {
            "user": self.caller.name,
            "principal": self.caller,
            "source": self.source[:_LONGEST_SOURCE],
            "abandoned_after_s": self.served.settings.queries.abandoned_after_s,
        }
        return QueryRequest(sql=sql, **known | about)

    def write_order(self, asked: WriteRequest, *, is_checked: bool = False) -> WriteOrder:
        """Return the order of a write, without its target; see `WriteOrder`.

        Raises:
            ForbiddenError: a mask hides values from the caller, and a write would show them.
            QueryError: the script means nothing.
        """
        self._check_unmasked("a write copies the values")
        statements = statements_of(asked.sql, self.served.settings.queries.max_sql_bytes)
        return WriteOrder(
            request=asked,
            databases=tuple(self.visible.known()),
            target=None,
            kinds=tuple(_CAPITAL.sub(" ", type(one).__name__).upper() for one in statements),
            owner=self.caller.identity,
            client=self.source[:_LONGEST_SOURCE],
            is_checked=is_checked,
        )

    def _check_unmasked(self, why: str) -> None:
        if self.caller.mask is not None:
            raise ForbiddenError(
                f"expected a user who sees all values, found one with the mask {self.caller.mask!r:.100}: {why}"
            )

    @cached_property
    def queries(self) -> QueryGroup[Query]:
        """The queries that are started for what the caller asks."""
        return QueryGroup(self.served.queries.start)

    def context(self, **about: Any) -> Context:
        """Return what a use case may use.

        Args:
            **about: attributes of the context, and limits of each query as `QueryRequest` has them.
        """
        warn = about.pop("warn", lambda _: None)
        asked = self.request("", abandoned_after_s=None, **about)
        return Context(
            catalog=self.visible,
            settings=self.served.settings,
            start=self.queries.start,
            request=lambda: asked,
            warn=warn,
        )

    async def outcome(self, task: Task[Any, Any], asked: TaskRequest, **about: Any) -> Outcome:
        """Return the outcome of a use case; a caller that is cancelled ends what it waits for.

        Args:
            task: the use case.
            asked: its request.
            **about: as for `context`.

        Raises:
            CatalogError, QueryError, ReaderError: as the use case says.
        """
        if isinstance(asked, CheckRequest):
            return await self.checked(asked)
        context = self.context(**about)
        found: Outcome = await found_in_thread(lambda: task.run(asked, context), self.queries.cancel)
        return found

    async def checked(
        self, asked: CheckRequest, jar: bytes | None = None, jar_name: str = ""
    ) -> ToldFindings:
        """Return what a check finds, of a process of its own, and write its line of the audit log.

        Args:
            asked: the savepoint, and how it would be restored.
            jar: the bytes of the new job's jar; None if there is none.
            jar_name: its name.

        Raises:
            CatalogError, QueryError: as `Checks.outcome` says.
        """
        if asked.values is not None:
            self._check_unmasked("a check of values shows those that are damaged")
        context = self.context()
        found = await self.served.checks.outcome(asked, context, jar, jar_name)
        report = found.report
        audit_check(self.caller.identity, report["savepoint"], report["against"], report)
        return found


def body_of(
    name: str, request: type[TaskRequest], base: type[_Model], without: Container[str] = ()
) -> type[_Model]:
    """Return the model of a body: a field for each option of a request.

    Args:
        name: of the use case.
        request: the class of its requests.
        base: the class of such bodies.
        without: options that are no fields.
    """
    return _model(f"{name.capitalize()}Body", request, base, without, __doc__=request.__doc__)


def with_options(
    request: type[TaskRequest], without: Container[str] = ()
) -> Callable[[type[_Model]], type[_Model]]:
    """Return a decorator that adds to a model the options of a request that it lacks.

    Args:
        request: the class of requests.
        without: options that are no fields.
    """
    return lambda base: _model(base.__name__, request, base, without, __doc__=base.__doc__)


def request_of(kind: type[_Asked], body: BaseModel, **own: Any) -> _Asked:
    """Return the request of a body.

    Args:
        kind: the class of the request.
        body: its model.
        **own: values that are no fields of the body, or stand there in another form.

    Raises:
        InvalidRequestError: a value is out of its limits.
    """
    names = [one.name for one in options_of(kind) if one.name in type(body).model_fields]
    given = {name: getattr(body, name) for name in names} | own
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in given.items()})


def _model(
    name: str, request: type[TaskRequest], base: type[_Model], without: Container[str] = (), **about: Any
) -> type[_Model]:
    fields = {
        one.name: (_annotation(one), ... if one.default is MISSING else one.default)
        for one in options_of(request)
        if not (one.only_cli or one.name in base.model_fields or one.name in without)
    }
    make: Any = create_model  # its overloads know no fields that are made
    model: type[_Model] = make(name, __base__=base, __module__=base.__module__, **about, **fields)
    return model


def _annotation(one: Option) -> Any:
    kind: Any = one.kind
    limits: dict[str, Any] = {"max_length": one.longest} if kind is str else {}
    limits |= {} if one.at_least is None else {"ge": one.at_least}
    described: dict[str, Any] = {
        "description": one.named or one.help,
        "examples": list(one.choices) or None,
        "validation_alias": AliasChoices(one.name, one.old_name) if one.old_name else None,
    }
    element = Annotated[kind, Field(**limits)]
    if one.is_mapping:
        return Annotated[dict[str, element], Field(**described)]
    if one.is_list:
        return Annotated[list[element], BeforeValidator(_listed), Field(max_length=_MOST_VALUES, **described)]
    kind = kind | None if one.default is None else kind
    return Annotated[kind, Field(**limits, **described)]


def _listed(given: object) -> object:
    """Return one value, or none, as a list."""
    return [] if given is None else [given] if isinstance(given, str) else given
