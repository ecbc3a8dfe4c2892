"""The doors of the program: the same request by each of them, and what each answers."""

from __future__ import annotations

import contextlib
import io
import json
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

import savepointdb
from catalog import Catalog
from catalog.catalog import Root
from service.base.errors import QueryError
from service.base.settings import Settings
from service.cli import main
from service.doors.app import create_app
from service.tasks.registry import TASKS
from service.tasks.task import TaskRequest, options_of
from service.tasks.write.serving.targets import write_roots_of
from tests.support.agents import Agent
from tests.support.serving import listening


@dataclass(frozen=True)
class Told:
    """What a door answers.

    Attributes:
        outcome: as values of JSON; None after an error.
        message: of the error; empty without one.
        code: of the error; None where the door shows none.
        exit_code: of the command line; None elsewhere.
    """

    outcome: Any
    message: str = ""
    code: str | None = None
    exit_code: int | None = None


class Door(ABC):
    """One door.

    Attributes:
        name: as `service.tasks.registry.DOORS` has it.
    """

    name: str

    @abstractmethod
    def run(self, task: str, savepoint: Path, **options: Any) -> Told:
        """Run a use case on a savepoint."""


class CommandLine(Door):
    """`savepointdb TASK PATH …`."""

    name = "cli"

    def run(self, task: str, savepoint: Path, **options: Any) -> Told:
        known = {one.name: one for one in options_of(request_of(task))}
        found = TASKS[task].load() if task in TASKS else None
        words = [task] if found and not found.has_source else [task, str(savepoint)]
        if task == "diff":
            words.append(str(options.pop("after")))
        options = {name: value for name, value in options.items() if value is not None}
        words += [str(options[name]) for name in known if known[name].argument and name in options]
        for name, value in options.items():
            flag = f"--{known[name].flag or name.replace('_', '-')}"
            if known[name].is_mapping:
                value = next(f"{key}={one}" for key, one in value.items())
            if known[name].has_commas:
                value = ",".join(value)
            if not known[name].argument and value is not False:
                words += [flag] if value is True else [flag, str(value)]
        words += ["--json"] if found and found.makes else ["--format", "json"]
        out, errors = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
            try:
                code = main(words)
            except SystemExit as ended:
                code = int(ended.code or 0)
        out.seek(0)
        text = out.read()
        return Told(json.loads(text) if text else None, errors.getvalue(), exit_code=code)


class Http(Door):
    """`POST /api/TASK`, or the address of the use case."""

    name = "http"

    def __init__(self, client: httpx.Client) -> None:
        self._client = client

    def run(self, task: str, savepoint: Path, **options: Any) -> Told:
        if task in ("write", "create"):
            return self._written(**({"source": savepoint.name} if task == "write" else {}), **options)
        given = {**where(task, savepoint), **named(options)}
        route = f"/api/{TASKS[task].address or task}"
        if "{job}" in route:
            job = given.pop("job", None) or self._client.get("/api/jobs").json()["jobs"][0]["name"]
            route = route.format(job=job)
        answer = self._client.post(route, json=given)
        body = answer.json()
        error = body.get("error") if isinstance(body, dict) else None
        return Told(None, error["message"], error["code"]) if error else Told(body)

    def _written(self, **given: Any) -> Told:
        """Start a write, and wait for its end."""
        target = given.get("target")
        answer = self._client.post("/api/savepoints", json=given | {"target": target and str(target)})
        body = answer.json()
        while body.get("state") in ("queued", "running"):
            time.sleep(0.02)
            body = self._client.get(answer.headers["location"]).json()
        if error := body["error"]:
            return Told(None, error["message"], error["code"])
        return Told({"target": body["target"], "dry_run": body["dry_run"], **body["report"]})


class Mcp(Door):
    """The tool of an agent."""

    name = "mcp"

    def __init__(self, client: httpx.Client) -> None:
        self._agent = Agent(client)

    def run(self, task: str, savepoint: Path, **options: Any) -> Told:
        known = TASKS[task]
        tool = known.own.get(self.name) or known.tool or task
        result = self._agent.call(tool, max_bytes=200_000, **{**where(task, savepoint), **named(options)})
        content = result["structuredContent"]
        if result.get("isError"):
            return Told(None, content["error"]["message"], content["error"]["code"])
        return Told({name: value for name, value in content.items() if name != "notes"})


class Python(Door):
    """`savepointdb.TASK(path, …)`."""

    name = "python"

    def run(self, task: str, savepoint: Path, **options: Any) -> Told:
        try:
            with warnings.catch_warnings(category=savepointdb.QueryWarning, action="ignore"):
                paths = () if task == "create" else (savepoint,)
                if task in ("write", "create"):
                    options["script"] = options.pop("sql")
                outcome = getattr(savepointdb, task)(*paths, **options).to_dict()
                return Told(json.loads(json.dumps(outcome)))
        except QueryError as error:
            return Told(None, error.message, error.code)


def where(task: str, savepoint: Path) -> dict[str, str]:
    """Return what names the savepoint where a service has several."""
    names = [one.name for one in options_of(request_of(task))]
    if task == "diff":
        return {"before": savepoint.name}
    return {"database": savepoint.name} if "database" in names else {}


def named(options: dict[str, Any]) -> dict[str, Any]:
    """Return options with the names of savepoints in place of their paths."""
    return {name: value.name if isinstance(value, Path) else value for name, value in options.items()}


def request_of(task: str) -> type[TaskRequest]:
    """Return the class of the requests of a use case."""
    return TASKS[task].load().request


@contextmanager
def doors_over(*savepoints: Path, write_root: Path | None = None) -> Iterator[dict[str, Door]]:
    """Open all doors over savepoints, whose folders have different names.

    Args:
        savepoints: what they have.
        write_root: where a service may write; None for nowhere.
    """
    roots = [Root(path=str(path)) for path in savepoints]
    writable = [] if write_root is None else [Root(path=str(write_root))]
    roots += writable
    app = create_app(Settings(), Catalog(roots), write_roots=write_roots_of(roots, writable))
    with listening(app) as address, httpx.Client(base_url=address, timeout=60) as client:
        doors = (CommandLine(), Http(client), Mcp(client), Python())
        yield {door.name: door for door in doors}


def tellers(doors: dict[str, Door], task: str) -> list[Door]:
    """Return the doors that have a use case."""
    return [door for name, door in doors.items() if name not in TASKS[task].lacking]
