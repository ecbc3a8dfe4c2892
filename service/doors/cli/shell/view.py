"""How the shell shows answers, and where they go."""

from __future__ import annotations

from dataclasses import dataclass

from service.doors.cli.outcome import WrongUsageError
from service.doors.cli.output import (
    BINARY,
    ROWS_ON_SCREEN,
    TABLE,
    refuse_other_suffix,
    screen_width,
    suffix_format,
)
from service.query.encode import printable


@dataclass(slots=True, kw_only=True)
class View:
    """How answers are shown; commands of the shell change it.

    Attributes:
        mode: the format of the rows that was chosen; None for the one that the suffix of the output names, or `table`.
        output: the file that answers go to; None for standard output.
        once: True if only the next answer goes there.
        answers: how many answers the output has.
        rows_on_screen: most rows of a table that a terminal shows; None for all.
        width: characters per line of a screen; None for those of the terminal.
        shows_time: True to tell how long each statement took.
        database: of tables that name none; None for the only or the newest one.
        dialect: of the statements.
        engine: runs the statements.
        allows_partial: whether rows of files that cannot be read are left out.
        max_rows: most rows of an answer; None for all.
        timeout_s: seconds that a statement may take; None for what the settings say.
    """

    mode: str | None
    output: str | None = None
    once: bool = False
    answers: int = 0
    rows_on_screen: int | None = ROWS_ON_SCREEN
    width: int | None = None
    shows_time: bool = False
    database: str | None = None
    dialect: str
    engine: str
    allows_partial: bool = False
    max_rows: int | None = None
    timeout_s: float | None = None

    @property
    def format(self) -> str:
        """The format of the rows."""
        return self.mode or suffix_format(self.output) or TABLE

    @property
    def contradiction(self) -> str:
        """What to say of a file whose suffix names another format than the chosen one; empty if there is nothing to say."""
        return f" as {self.format}" if suffix_format(self.output) not in (None, self.format) else ""

    @property
    def appends(self) -> bool:
        """True if the next answer follows others in the file."""
        return self.answers > 0

    def write_to(self, path: str | None, *, once: bool = False) -> None:
        """Send the answers to a file, which loses what it has; None for standard output.

        Raises:
            WrongUsageError: the file cannot be written, or its suffix names a format that is not written.
        """
        if self.mode is None:
            refuse_other_suffix(path)
        if path is not None:
            try:
                with open(path, "wb"):
                    pass
            except OSError as error:
                raise WrongUsageError(f"cannot write {printable(path)}: {error.strerror}") from error
        self.output, self.once, self.answers = path, once, 0

    def check(self) -> None:
        """Refuse an answer that the output cannot take.

        Raises:
            WrongUsageError: bytes for a terminal, or a second answer for a file of a format that has one.
        """
        if self.format not in BINARY:
            return
        if screen_width(self.output) is not None:
            raise WrongUsageError(
                f"{self.format} is not for terminals: .output FILE names a file, .mode another format"
            )
        if self.answers:
            output = "standard output" if self.output is None else printable(self.output)
            raise WrongUsageError(
                f"{output} has an answer already, and {self.format} holds one: .output FILE names another file"
            )

    def answered(self) -> None:
        """Count an answer that was written, or a part of one."""
        self.answers += 1
        if self.once:
            self.write_to(None)
