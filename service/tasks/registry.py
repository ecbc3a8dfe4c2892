"""The use cases that every door offers, one line each: to add one, write its module or package, and add its line to `TASKS`.

The table holds names, import paths and phrases only: the command line lists the use cases before it loads any of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from service.tasks.task import Task


@dataclass(frozen=True, slots=True)
class RegisteredTask:
    """A line of the table.

    Attributes:
        home: the module whose `TASK` it is, or module:NAME.
        summary: an imperative of at most 12 words.
        lacking: door → why that door lacks the use case, or a part of it.
        own: door → what the use case is called there, where it has a form of its own.
        tool: the name of the agents' tool, if it is another one.
        address: the last part of its address over HTTP, if it is another one; it may name options, such as `{job}`.
        title: of the agents' tool, for people.
        advice: what agents read in place of the summary.
        members: those that each result of the agents' tool has → their types in JSON schema.
    """

    home: str
    summary: str
    lacking: Mapping[str, str] = field(default_factory=dict)
    own: Mapping[str, str] = field(default_factory=dict)
    tool: str | None = None
    address: str | None = None
    title: str | None = None
    advice: str | None = None
    members: Mapping[str, str] = field(default_factory=dict)

    def load(self) -> Task[Any, Any]:
        """Load the use case."""
        module, _, name = self.home.partition(":")
        task: Task[Any, Any] = getattr(import_module(module), name or "TASK")
        return task


def tasks_at(door: str) -> Iterator[tuple[str, RegisteredTask]]:
    """Yield the use cases that a door, one of `DOORS`, makes of their requests, by name."""
    return ((name, task) for name, task in TASKS.items() if door not in {*task.lacking, *task.own})


CLI, HTTP, MCP, PYTHON = DOORS = ("cli", "http", "mcp", "python")
_NEVER_WRITES = "an agent never writes to disk"
_JOBS_ARE_ROWS = "rows of the table savepointdb.jobs"
_STARTS_A_WRITE = {HTTP: "POST /api/savepoints"}
TASKS: dict[str, RegisteredTask] = {
    "bisect": RegisteredTask(
        "service.tasks.time.bisect", "Find the first checkpoint for which a query returns a row."
    ),
    "check": RegisteredTask(
        "service.tasks.check.running",
        "Check whether a savepoint restores in a job.",
        address="checks",
        title="Check a restore",
        advice="Check whether Flink restores a savepoint in another version, backend or job. `against` names savepoints of the new "
        "job. Returns findings by operator and state, and what to do.",
        members={
            **dict.fromkeys(("database", "outcome", "severity", "headline"), "string"),
            "findings": "array",
        },
    ),
    "convert": RegisteredTask(
        "service.tasks.copies.convert",
        "Rewrite a savepoint for another version of Flink or another job.",
        {HTTP: "it needs classes of the job on the machine that runs it", MCP: _NEVER_WRITES},
    ),
    "create": RegisteredTask(
        "service.tasks.write.writing:CREATE",
        "Create a savepoint by SQL from files and queries.",
        {MCP: _NEVER_WRITES},
        _STARTS_A_WRITE,
    ),
    "diff": RegisteredTask(
        "service.tasks.time.diff.running",
        "Show the differences between two savepoints.",
        title="Compare two databases",
        advice="What changed between two savepoints: rows added, removed and changed by state with samples, types, and offsets of "
        "sources. Without arguments: the newest one and the one before it in its job.",
        members={
            "before": "string",
            "after": "string",
            "is_equal": "boolean",
            "headline": "string",
            "states": "array",
        },
    ),
    "export": RegisteredTask(
        "service.tasks.copies.export.exporting",
        "Export tables as Parquet files, or as Iceberg or Delta tables.",
        {HTTP: "a service writes savepoints only; an answer may be Parquet", MCP: _NEVER_WRITES},
    ),
    "forget": RegisteredTask(
        "service.tasks.copies.forget",
        "Remove what belongs to some ids, and prove that nothing is left.",
        {HTTP: "the ids and the report are files of who answers for the deletion", MCP: _NEVER_WRITES},
    ),
    "history": RegisteredTask(
        "service.tasks.time.history",
        "Show one key in all checkpoints of a job.",
        address="jobs/{job}/timeline",
        title="History of a key",
        advice="The values of one key in all checkpoints of a job, oldest first: since when is it wrong? Checkpoints in which nothing "
        "changed are one row. SQL over all checkpoints: the schema of the job's history, whose tables have a column `_database`.",
        members={"job": "string", "key": "string", "columns": "array", "rows": "array"},
    ),
    "inspect": RegisteredTask("service.tasks.inspect", "Show the operators and states of a savepoint."),
    "lookup": RegisteredTask(
        "service.tasks.lookup.lookup", "Show all states and timers of one key.", tool="lookup_key"
    ),
    "mask": RegisteredTask(
        "service.tasks.copies.mask",
        "Show which columns of a savepoint a file of masks covers.",
        {HTTP: "it reads a file of the machine that runs it", MCP: "it shows values before they are masked"},
    ),
    "sample": RegisteredTask(
        "service.tasks.copies.sample",
        "Copy a savepoint with some of its keys, in every state.",
        {HTTP: "it reads lists of keys on the machine that runs it", MCP: _NEVER_WRITES},
    ),
    "savepoint": RegisteredTask(
        "service.tasks.jobs.savepoint",
        "Let a running Flink take a savepoint of a job.",
        {MCP: "an agent starts nothing in a cluster", PYTHON: "a program asks Flink's REST API itself"},
        {HTTP: "POST /api/jobs/{job}/savepoints"},
    ),
    "test": RegisteredTask(
        "service.tasks.time.test.testing",
        "Test savepoints, or each new checkpoint, against rules.",
        address="tests",
    ),
    "write": RegisteredTask(
        "service.tasks.write.writing",
        "Change a savepoint by SQL and write a new one.",
        {MCP: f"a preview only: {_NEVER_WRITES}"},
        {**_STARTS_A_WRITE, MCP: "preview_write"},
    ),
    "xray": RegisteredTask("service.tasks.xray", "Show how large state is, where, and how much is garbage."),
}


# Their doors have forms of their own, so they have no requests; docs/decisions.md says why.
OTHERS: dict[str, RegisteredTask] = {
    "follow": RegisteredTask(
        "",
        "Follow a state: show what each new checkpoint changes.",
        {MCP: "an agent waits for nothing; `changes` in SQL has what each checkpoint changed"},
        {CLI: "follow", HTTP: "GET /api/jobs/{job}/changes", PYTHON: "Connection.follow"},
    ),
    "jobs": RegisteredTask(
        "",
        "List the jobs that wrote the savepoints.",
        {CLI: _JOBS_ARE_ROWS, PYTHON: _JOBS_ARE_ROWS},
        {CLI: "query", HTTP: "GET /api/jobs", MCP: "list_databases", PYTHON: "Connection.sql"},
    ),
    "query": RegisteredTask(
        "",
        "Run one SQL statement.",
        own={CLI: "query", HTTP: "POST /api/query", MCP: "query", PYTHON: "Connection.sql"},
    ),
    "saved": RegisteredTask(
        "",
        "Save queries with names and parameters, and run them.",
        {
            CLI: "`--saved` runs one of a file, which people edit",
            MCP: "an agent saves nothing",
            PYTHON: "a program has functions",
        },
        {CLI: "query", HTTP: "PUT /api/saved/{name}", MCP: "run_saved_query"},
    ),
}
