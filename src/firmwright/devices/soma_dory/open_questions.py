"""What no public source says of DIANA's accelerators: ``open_questions.yaml``."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from importlib.resources import files

import msgspec
import yaml


@dataclass(frozen=True)
class Question:
    """What is unknown of the chip; ``about`` are kinds of layers, none of them for all."""

    question: str
    about: tuple[str, ...]


@dataclass(frozen=True)
class Questions:
    questions: tuple[Question, ...]


def list_open_questions(kinds: Collection[str]) -> tuple[str, ...]:
    """Return what is unknown of the chip and is about one of these kinds of layers."""
    text = files("firmwright.devices.soma_dory").joinpath("open_questions.yaml").read_text("utf-8")
    listed = msgspec.convert(yaml.safe_load(text), Questions).questions
    return tuple(q.question for q in listed if not q.about or not {*q.about}.isdisjoint(kinds))
