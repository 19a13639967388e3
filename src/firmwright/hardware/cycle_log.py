"""Reads the cycles of each layer from a raw log of a board: the output of a demo application.

templates/demo/demo.c.j2 prints this output if ``profile`` is ``individual``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from firmwright.errors import UserError

BUILD = re.compile(r"build: ([0-9a-f]{40})")
"""The first line of a pass, which has the id of the build."""
CYCLES = re.compile(r"(\w+): ([0-9]{1,20}) cycles")
OUTPUT = re.compile(r"(\w+): ([0-9]{1,20}) of ([0-9]{1,20}) elements differ")
LAST = re.compile(r"allocated: \d+ bytes, at most \d+")
NO_COUNTER = "this board has no cycle counter"
NANOSECONDS = re.compile(r"\w+: [0-9]{1,20} ns")
NO_CYCLES = "this demo prints nanoseconds of an operating system, not cycles"
WHOLE = "network"
"""The name in the line with the cycles of the whole inference."""


@dataclass(frozen=True)
class MeasuredCycles:
    """Clock cycles of a function in ``passes`` inferences: mean (rounded down), minimum, maximum.

    ``name`` is a region of the network, or ``network`` for the whole inference.
    """

    name: str
    mean: int
    least: int
    most: int


class CycleLog:
    """A log of a board. Lines of other programs are ignored.

    ``layers`` are the names of the regions. A log may have another order. ``outputs`` are the
    outputs that each pass compares. Each UserError names the line.
    """

    def __init__(
        self, path: Path, build_id: str, layers: Sequence[str], outputs: Sequence[str]
    ) -> None:
        self._path, self._build_id = path, build_id
        self._names, self._outputs = [*layers, WHOLE], outputs
        self._compared: set[str] = set()
        self._passes: list[dict[str, int]] = []
        self._pending: dict[str, int] | None = None

    def read(self, text: str) -> list[MeasuredCycles]:
        """Return the cycles of each layer. The last item is the whole inference."""
        lines = text.splitlines()
        for number, line in enumerate(lines, 1):
            self._read_line(number, line.strip("\r\0 "))
        if self._pending is not None:
            self._fail(len(lines), f"the log ends within a pass; {self._list_missing()}")
        if not self._passes:
            first = f"build: {self._build_id}"
            problem = f"the log has no complete pass, which begins with the line `{first}`"
            self._fail(max(1, len(lines)), f"{problem}; record the log from a reset")
        return [
            MeasuredCycles(name, sum(cycles) // len(cycles), min(cycles), max(cycles))
            for name in self._names
            for cycles in [[one[name] for one in self._passes]]
        ]

    @property
    def passes(self) -> int:
        return len(self._passes)

    def _read_line(self, number: int, line: str) -> None:
        if match := BUILD.fullmatch(line):
            self._begin(number, match[1])
        elif line.endswith(NO_COUNTER):
            self._fail(number, f"{NO_COUNTER}; measure on a core with a counter")
        elif self._pending is not None and NANOSECONDS.fullmatch(line):
            self._fail(number, f"{NO_CYCLES}; measure on a core with a counter")
        elif match := OUTPUT.fullmatch(line):
            if int(match[2]):
                problem = f"{match[2]} of {match[3]} elements of '{match[1]}' are wrong"
                self._fail(number, f"{problem}; flash the demo of this bundle again")
            self._compared.add(match[1])
        elif match := CYCLES.fullmatch(line):
            self._add(number, match[1], int(match[2]))
        elif LAST.fullmatch(line):
            self._end(number)

    def _begin(self, number: int, build_id: str) -> None:
        if self._pending is not None:
            self._fail(number, f"a pass begins within another; {self._list_missing()}")
        if build_id != self._build_id:
            self._fail(
                number,
                f"the firmware has the build id {build_id}; expected {self._build_id}, as the "
                "bundle states; flash the demo of this bundle",
            )
        self._pending = {}
        self._compared = set()

    def _add(self, number: int, name: str, cycles: int) -> None:
        if self._pending is None:
            self._fail(number, f"'{name}' is outside of a pass; record the log from a reset")
        if name in self._pending:
            self._fail(number, f"'{name}' is in the pass twice; {self._list_missing()}")
        if name not in self._names:
            self._fail(number, f"the bundle has no layer '{name}'; {self._list_missing()}")
        layers = sum(self._pending.values())
        self._pending[name] = cycles
        if name != WHOLE:
            return
        for output in self._outputs:
            if output not in self._compared:
                self._fail(number, f"the pass does not compare '{output}'; record a whole pass")
        if len(self._pending) < len(self._names):
            self._fail(number, f"the network ends; {self._list_missing()}")
        if cycles < layers:
            problem = f"the network has {cycles:,} cycles, less than the {layers:,} of its layers"
            self._fail(number, f"{problem}; check the counter of the board")
        self._passes.append(self._pending)
        self._pending = None

    def _end(self, number: int) -> None:
        if self._pending is not None:
            self._fail(number, f"the pass ends; {self._list_missing()}")

    def _list_missing(self) -> str:
        """Return the names of at most three lines that are missing in the current pass."""
        assert self._pending is not None
        missing = [name for name in self._names if name not in self._pending]
        if not {*self._pending} - {WHOLE}:
            return (
                f"expected the cycles of {missing[0]}; build with `demo: {{profile: individual}}`"
            )
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        return f"expected the cycles of {', '.join(missing[:3])}{more}; record a whole pass"

    def _fail(self, number: int, problem: str) -> NoReturn:
        raise UserError(f"{self._path}:{number}: {problem}")
