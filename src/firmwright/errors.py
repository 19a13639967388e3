"""Defines the base class of errors that a user can fix, and helpers for messages.

A :class:`UserError` reaches the terminal without a traceback. All other unhandled exceptions are
bugs of firmwright and keep their traceback.
"""

from __future__ import annotations

import difflib
import re
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Diagnostic:
    """One error with its position: ``path:line:column: message`` (1-based; 0 if unknown)."""

    path: str
    line: int
    column: int
    message: str

    def __str__(self) -> str:
        location = self.path
        if self.line:
            location += f":{self.line}:{self.column}"
        return f"{location}: {self.message}" if location else self.message


class UserError(Exception):
    """An error of the user. The text states the remedy, and hides secret parts of addresses.

    Addresses are masked in this class, because messages go to terminals, to logs and to doit's
    state.
    """

    def __init__(self, message: object = "") -> None:
        super().__init__(mask_addresses(str(message)))


@contextmanager
def explain_failure(
    problem: str, remedy: str = "check the path and its permissions"
) -> Iterator[None]:
    """Convert an error of the system to a UserError: the problem, the reason and the remedy."""
    try:
        yield
    except OSError as error:
        raise UserError(f"{problem}: {error.strerror}; {remedy}") from None


class DiagnosticError(UserError):
    """Several errors, sorted by position. Each error is on a separate line."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = sorted(set(diagnostics))
        super().__init__("\n".join(str(d) for d in self.diagnostics))

    def __reduce__(self) -> tuple[type[DiagnosticError], tuple[list[Diagnostic]]]:
        """Return the arguments with which pickle restores an error from another process."""
        return type(self), (self.diagnostics,)


def did_you_mean(text: str, known: Iterable[str]) -> str:
    """Return ``; did you mean 'x'?`` for the nearest known word, or the list of known words."""
    candidates = sorted(known)
    close = difflib.get_close_matches(text, candidates, n=1, cutoff=0.6)
    if close:
        return f"; did you mean '{close[0]}'?"
    return f"; known: {', '.join(candidates)}" if candidates else ""


def suggest_known(text: str, known: Iterable[str]) -> str:
    """Return the nearest known word and all known words: ``; did you mean 'x'? Known: x, y``."""
    candidates = sorted(known)
    hint = did_you_mean(text, candidates)
    return f"{hint} Known: {', '.join(candidates)}" if hint.endswith("?") else hint


TVM_OPERATOR = re.compile(r'ir\.Op\(.*?name="([^"]+)".*?support_level=\d+\)')
"""Matches an operator with its whole declaration in messages of TVM."""


SCHEDULE_ERROR = re.compile(r"schedule primitive '([\w-]+)'.*^Error message: (.+?)$", re.S | re.M)
"""Matches TVM's messages about a schedule: the failed primitive and, at the end, the reason."""


LONGEST_LINE = 1000
"""The maximum length of a message, because a name in a damaged file can have megabytes."""


def first_line(error: BaseException) -> str:
    """Return the short message of another library's error, without the details that may follow."""
    of_schedule = SCHEDULE_ERROR.search(str(error))
    if of_schedule:
        return f"{of_schedule[1]}: {of_schedule[2]}"
    line = (str(error).strip() or type(error).__name__).splitlines()[0][:LONGEST_LINE]
    return TVM_OPERATOR.sub(r"\1", line)


def describe_exit(code: int) -> str:
    """Return the name of the signal or the exit code that ended a process."""
    known = {number.value: number.name for number in signal.Signals}
    return known.get(-code, f"signal {-code}") if code < 0 else f"exit code {code}"


CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 without tab and line feed, DEL, C1
    "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\uffa0"  # characters without width
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff0-\ufffb"  # characters for text direction
    "\ud800-\udfff\U000e0000-\U000e0fff]"  # halves of characters, tags
)
"""Characters that control a terminal or a page, or that are invisible.

The list is fixed, because ``str.isprintable`` differs between versions of Python. Without a fixed
list, bundles would also differ.
"""


def to_printable(text: str) -> str:
    r"""Return text in which ``\uXXXX`` replaces each of :data:`CONTROLS`.

    JSON, YAML and TOML read this escape within quotes. A character above U+FFFF has two escapes.
    """
    return CONTROLS.sub(escape_character, text)


def escape_character(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))


def mask_addresses(text: str) -> str:
    """Return text in which users, passwords, queries and fragments of addresses are masked.

    ``Path`` writes an address with one slash, so the pattern requires only one slash.
    """
    text = re.sub(r"(https?:/{0,2}|\w://)[^\s'\"]+@", r"\1…@", text, flags=re.IGNORECASE)
    query = r"((?:https?:/|\w://)[^\s?#'\"]*[?#])[^\s'\"]+"
    return re.sub(query, r"\1…", text, flags=re.IGNORECASE)
