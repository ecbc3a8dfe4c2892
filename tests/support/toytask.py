"""A use case of three lines: how many operators a savepoint has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from service.tasks.task import Context, Task, TaskRequest, option


@dataclass(frozen=True, slots=True, kw_only=True)
class ToyRequest(TaskRequest):
    """A savepoint, and a word."""

    database: str | None = option("name or alias; default: the newest", default=None)
    word: str = option(
        "word that comes with the number", default="operators", choices=("operators", "vertices")
    )
    least: int = option("least number that is fine", default=0, at_least=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToyOutcome:
    """A number of operators."""

    number: int
    word: str
    least: int

    @property
    def exit_code(self) -> int:
        return int(self.number < self.least)

    def to_dict(self) -> dict[str, Any]:
        return {"number": self.number, "word": self.word}

    def lines(self, width: int | None) -> Iterator[str]:
        yield f"{self.number} {self.word}"


def run(request: ToyRequest, context: Context) -> ToyOutcome:
    database = context.database(request.database)
    found = context.query(f'SELECT count(*) AS n FROM "{database.name}".operators')
    return ToyOutcome(number=found["n"][0].as_py(), word=request.word, least=request.least)


TASK = Task(request=ToyRequest, run=run)
