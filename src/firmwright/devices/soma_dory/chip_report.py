"""Defines the result of a run on the model of the accelerator's registers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ChipReport:
    """The file ``chip.json``: the program, its agreement with the reference, open questions.

    ``driver`` and ``registers`` name the origin of the compiled sources: the user or a stand-in.
    """

    driver: str
    registers: str
    compiler: str
    reference: str
    samples: int
    values: int
    differences: int
    open_questions: tuple[str, ...]
