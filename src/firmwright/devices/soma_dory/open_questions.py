"""Reads the open questions on DIANA's accelerators, which no public source answers.

The questions are in ``open_questions.yaml``.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from importlib.resources import files

import msgspec
import yaml


@dataclass(frozen=True)
class Question:
    """An unknown fact about the chip. ``about`` has kinds of layers, or is empty for all kinds."""

    question: str
    about: tuple[str, ...]


@dataclass(frozen=True)
class Questions:
    questions: tuple[Question, ...]


def list_open_questions(kinds: Collection[str]) -> tuple[str, ...]:
    text = files("firmwright.devices.soma_dory").joinpath("open_questions.yaml").read_text("utf-8")
    listed = msgspec.convert(yaml.safe_load(text), Questions).questions
    return tuple(q.question for q in listed if not q.about or not {*q.about}.isdisjoint(kinds))
