"""Reads an archive's ``*_mpk.json``: the steps of the pipeline, their programs, and the batch."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files as package_files
from itertools import islice
from typing import Any

from firmwright.devices.mla.mpk_archive import PROGRAM_SUFFIXES
from firmwright.documents.schema_check import find_errors
from firmwright.documents.yaml_text import format_pointer
from firmwright.errors import UserError

MAX_LISTED = 5
DESIRED_KEYS = ("desired_batch_size", "batch_size")
ACTUAL_KEYS = ("actual_batch_size", "batch_sz_model", "batch_size_model")
"""The names of the actual batch in several releases. The first existing name applies."""
INGRESS = re.compile(r"images?|input|ifm[0-9]*")
"""Names that SiMa's reader accepts for inputs that no step writes."""
PLACEHOLDER = "kernel_name_tbd"
"""The value that replaces the program in steps on the EV74."""


@dataclass(frozen=True)
class Pipeline:
    """The checked steps of an archive.

    ``processors`` has the number of steps per processor. A batch is None if the archive does not
    contain the batch. ``remarks`` are deviations that SiMa's reader accepts.
    """

    processors: dict[str, int]
    desired_batch_size: int | None
    actual_batch_size: int | None
    mla_programs: tuple[str, ...]
    arm_programs: tuple[str, ...]
    remarks: tuple[str, ...]


def read_pipeline(name: str, content: Any, members: Sequence[str]) -> Pipeline:
    """Check the description against its schema and the archive's ``members``, and return the steps.

    The parts of the description must also agree with each other. Raises UserError that names the
    file and lists the errors.
    """
    wrong = [
        f"{format_pointer(finding.pointer)}: {finding.message}"
        for finding in islice(find_errors(content, load_schema()), MAX_LISTED)
    ]
    refuse(f"{name} does not fit its schema; compile again with SiMa's compiler", wrong)
    steps = sorted(content["plugins"], key=lambda step: step["sequence"])
    programs = [find_program(step) for step in steps]
    refuse(f"{name} has steps that contradict each other or the archive; compile again", [
        *find_repeated("step", [step["name"] for step in steps]),
        *find_repeated("output", [o["name"] for step in steps for o in step["output_nodes"]]),
        *find_unmade(steps, content),
        *find_missing([p for p in programs if p], members),
        *find_impossible_batches(steps),
    ])  # fmt: skip
    on_mla = [step for step in steps if step["processor"] == "MLA"]
    return Pipeline(
        dict(sorted(Counter(step["processor"] for step in steps).items())),
        find_batch(on_mla, DESIRED_KEYS),
        find_batch(on_mla, ACTUAL_KEYS),
        tuple(sorted(m for m in members if m.endswith((".elf", ".lm")))),
        tuple(sorted(m for m in members if m.endswith(".so"))),
        tuple(find_remarks(steps, content)),
    )


@cache
def load_schema() -> Mapping[str, Any]:
    text = package_files("firmwright.devices.mla").joinpath("mpk.schema.json").read_text("utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def refuse(head: str, wrong: Sequence[str]) -> None:
    if wrong:
        raise UserError("\n".join([f"{head}:", *(f"  {line}" for line in wrong)]))


def find_program(step: Mapping[str, Any]) -> str | None:
    name = step.get("resources", {}).get("executable")
    return None if name in (None, "", PLACEHOLDER) else str(name)


def find_repeated(what: str, names: Sequence[str]) -> list[str]:
    return [f"the {what} {n!r} appears {c} times" for n, c in Counter(names).items() if c > 1]


def is_ingress(node: Mapping[str, Any], content: Mapping[str, Any]) -> bool:
    """Return whether a tensor is an input of the network.

    If the description has no list of inputs, every tensor that no step writes is an input.
    """
    stated = content.get("input_nodes")
    return stated is None or any(node["name"] == given["name"] for given in stated)


def is_tolerated(node: Mapping[str, Any], step: Mapping[str, Any]) -> bool:
    nameless = step["processor"] == "A65" and not node["name"]
    return nameless or INGRESS.fullmatch(node["name"]) is not None


def find_unmade_inputs(
    steps: Sequence[Mapping[str, Any]], content: Mapping[str, Any]
) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Yield each input, with its step, that neither the user nor an earlier step provides."""
    made: set[str] = set()
    for step in steps:
        for node in step["input_nodes"]:
            if node["name"] not in made and not is_ingress(node, content):
                yield node, step
        made.update(node["name"] for node in step["output_nodes"])


def find_unmade(steps: Sequence[Mapping[str, Any]], content: Mapping[str, Any]) -> list[str]:
    return [
        f"the step {step['name']!r} reads {node['name']!r}, which no earlier step writes"
        for node, step in find_unmade_inputs(steps, content)
        if not is_tolerated(node, step)
    ]


def find_missing(programs: Sequence[str], members: Sequence[str]) -> list[str]:
    packed = [name for name in members if name.endswith(PROGRAM_SUFFIXES)]
    return [
        *(f"no file {name!r}, which a step runs" for name in programs if name not in members),
        *(f"no step runs the file {name!r}" for name in packed if name not in programs),
    ]


def find_number(step: Mapping[str, Any], keys: Sequence[str]) -> int | None:
    """Return a number from a step's parameters, which may be one level deeper."""
    outer = step["config_params"]
    for entry in (outer, outer.get("params", {})):
        for key in keys:
            if isinstance(entry.get(key), int):
                return int(entry[key])
    return None


def find_batch(steps: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> int | None:
    """Return the smallest batch of the MLA's steps, because it limits the whole network."""
    batches = [number for step in steps if (number := find_number(step, keys)) is not None]
    return min(batches, default=None)


def find_impossible_batches(steps: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for step in steps:
        asked, got = find_number(step, DESIRED_KEYS), find_number(step, ACTUAL_KEYS)
        if asked is not None and got is not None and got > asked:
            yield (
                f"the step {step['name']!r} has an actual batch of {got}, above the desired batch "
                f"of {asked}"
            )


def find_remarks(steps: Sequence[Mapping[str, Any]], content: Mapping[str, Any]) -> Iterator[str]:
    for node, step in find_unmade_inputs(steps, content):
        yield (
            f"the step {step['name']!r} reads {node['name']!r}, which no step writes; it counts "
            "as an input of the network"
        )
    for step in steps:
        if step["processor"] == "MLA" and str(find_program(step)).endswith(".so"):
            yield (
                f"the step {step['name']!r} of the MLA runs {find_program(step)}, which is a "
                "library"
            )
