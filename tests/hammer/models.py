"""Invalid models are rejected with a message, or compiled to C.

``python -m tests.hammer.models [--count 2000] [--seconds S] [--seed 0] [--first 0]``
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import onnx
from ai_edge_litert import schema_py_generated as schema
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from firmwright.errors import UserError
from tests.hammer.campaign import FindingError, Watch, run_campaign
from tests.hammer.child import try_in_child
from tests.hammer.mutators import mutate_bytes
from tests.networks.firmware import format_of, lowered
from tests.networks.qdq_operators import random_graph
from tests.networks.tflite_models import ModelBuilder
from tests.networks.tflite_operators import COMPUTED, MOVES, add_case
from tests.networks.tflite_weighted import CASES, add_weighted

ROOT = Path(__file__).parents[2]
SECONDS = 60
MEMORY = 8 << 30
"""Address space of a child in bytes; TVM alone needs two thousand million."""

INTEGERS = (-1, 0, 1, 2, 3, 5, 7, 8, 127, 128, 255, 256, 2**15, 2**16, 2**31 - 1, -(2**31), 2**31,
            2**32, 2**63 - 1, -(2**63))  # fmt: skip
FLOATS = (0.0, -1.0, 1.0, 1e-45, 1e-30, 3e38, 1e10, float("inf"), float("-inf"), float("nan"))
TEXTS = ("", "x", "a" * 3000, "\n", "*/ #error", "../../x", "é\u202e", "int", "\x1b[2J")


@cache
def make_bases() -> tuple[bytes, ...]:
    """Return small valid models: a trained network, and operators of all kinds in both formats."""
    return (
        (ROOT / "examples/digits/digits.onnx").read_bytes(),
        *(random_graph(seed, each=1).build() for seed in range(3)),
        *(make_tflite(first) for first in range(8)),
    )


def make_tflite(first: int) -> bytes:
    """Return a TFLite model of every eighth operator that the tests know."""
    builder, numbers = ModelBuilder(), np.random.default_rng(first)
    for case in (*MOVES[first::8], *COMPUTED[first::8]):
        add_case(builder, case, "int8", numbers)
    for weighted in CASES[first::8]:
        add_weighted(builder, weighted, "int8", "int8", "int32", numbers)
    return builder.build()


def mutate_model(data: bytes, draw: random.Random) -> bytes:
    """Change some fields of a model, or some bytes of its file."""
    if draw.randrange(5) == 0:
        content = bytearray(data)
        for _ in range(draw.randint(1, 4)):
            content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        return bytes(content[: draw.randrange(len(content))] if draw.randrange(8) == 0 else content)
    changes = draw.choice((1, 1, 2, 4))
    if format_of(data) == "onnx":
        model = onnx.load_model_from_string(data)
        for _ in range(changes):
            mutate_message(draw.choice(list(list_messages(model))), draw)
        return bytes(model.SerializeToString())
    tree = schema.ModelT.InitFromObj(schema.Model.GetRootAs(data, 0))
    for _ in range(changes):
        mutate_object(draw.choice(list(list_objects(tree))), draw)
    builder = flatbuffers.Builder(1 << 16)
    builder.Finish(tree.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def list_messages(message: Message) -> Iterator[Message]:
    yield message
    for field, value in message.ListFields():
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            for inner in value if is_repeated(field) else [value]:
                yield from list_messages(inner)


def is_repeated(field: FieldDescriptor) -> bool:
    return bool(field.is_repeated)


def mutate_message(message: Message, draw: random.Random) -> None:
    """Change one field of a protobuf message: its value, presence, number of items, or order."""
    present = [field for field, _ in message.ListFields()]
    fields = present if present and draw.randrange(6) else list(message.DESCRIPTOR.fields)
    field = draw.choice(fields)
    if is_repeated(field):
        mutate_list(getattr(message, field.name), field, draw)
    elif field.type == FieldDescriptor.TYPE_MESSAGE or draw.randrange(4) == 0:
        message.ClearField(field.name)
    else:
        setattr(message, field.name, draw_scalar(field, getattr(message, field.name), draw))


def mutate_list(values: Any, field: FieldDescriptor, draw: random.Random) -> None:
    change = draw.randrange(4)
    if not values:
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            values.add()
        else:
            values.append(draw_scalar(field, field.default_value or 0, draw))
        return
    index = draw.randrange(len(values))
    if change == 0:
        del values[index]
    elif change == 1:
        values.append(values[index])
    elif field.type == FieldDescriptor.TYPE_MESSAGE:
        values[index].CopyFrom(values[draw.randrange(len(values))])
    elif change == 2:
        values[index] = values[draw.randrange(len(values))]
    else:
        values[index] = draw_scalar(field, values[index], draw)


def draw_scalar(field: FieldDescriptor, value: Any, draw: random.Random) -> Any:
    """Return a value of the field's type, near to its value or far from it."""
    kind = field.cpp_type
    if kind == FieldDescriptor.CPPTYPE_STRING:
        if field.type == FieldDescriptor.TYPE_BYTES:
            return mutate_bytes(value or b"", draw)
        return draw.choice((*TEXTS, *draw_words(draw)))
    if kind in (FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE):
        return draw.choice(FLOATS)
    if kind == FieldDescriptor.CPPTYPE_ENUM:
        return draw.choice([each.number for each in field.enum_type.values])
    bits = 32 if kind in (FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_UINT32) else 64
    fitting = [n for n in (*INTEGERS, value + 1, value - 1) if -(2 ** (bits - 1)) <= n]
    fitting = [n for n in fitting if n < 2 ** (bits - 1)]
    unsigned = kind in (FieldDescriptor.CPPTYPE_UINT32, FieldDescriptor.CPPTYPE_UINT64)
    return draw.choice([abs(n) % 2**31 for n in fitting] if unsigned else fitting)


@cache
def list_operator_names() -> list[str]:
    return sorted({each.name for each in onnx.defs.get_all_schemas() if not each.domain})


def draw_words(draw: random.Random) -> list[str]:
    return [draw.choice(list_operator_names()), draw.choice(("axis", "axes", "pads", "perm", "to"))]


def list_objects(tree: Any) -> Iterator[Any]:
    """Yield the tables of a flatbuffer as objects."""
    yield tree
    for value in vars(tree).values():
        for inner in value if isinstance(value, list) else [value]:
            if hasattr(inner, "Pack"):
                yield from list_objects(inner)


def mutate_object(table: Any, draw: random.Random) -> None:
    """Change one field of a flatbuffer's table, but not its type, because Pack would fail."""
    names = [name for name, value in vars(table).items() if value is not None]
    if not names:
        return
    name = draw.choice(names)
    value = getattr(table, name)
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list) and value:
        index = draw.randrange(len(value))
        change = draw.randrange(4)
        if change == 0:
            value = [*value[:index], *value[index + 1 :]]
        elif change == 1:
            value = [*value, value[index]]
        elif change == 2 or hasattr(value[index], "Pack"):
            value = [*value[:index], draw.choice(value), *value[index + 1 :]]
        else:
            value = [*value[:index], draw_number(value[index], name, draw), *value[index + 1 :]]
        setattr(table, name, value)
    elif isinstance(value, (bytes, str)):
        setattr(table, name, draw.choice(TEXTS))
    elif isinstance(value, (bool, int, float)):
        setattr(table, name, draw_number(value, name, draw))
    elif value is not None and draw.randrange(2):
        setattr(table, name, None)


def draw_number(value: Any, name: str, draw: random.Random) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, float):
        return draw.choice((*FLOATS, value * 0.5, -value))
    if name == "builtinOptionsType":
        return value  # Pack writes the options according to it
    if name == "data":
        return draw.randrange(256)
    if name == "zeroPoint":
        return draw.choice(INTEGERS[:16])
    if name in ("type", "builtinCode", "deprecatedBuiltinCode", "outputType"):
        return draw.randrange(127 if name == "deprecatedBuiltinCode" else 20)
    return draw.choice([n for n in (*INTEGERS, value + 1, value - 1) if 0 <= n < 2**7 or n == -1])


class ModelHammer:
    """Tries each model in a child, so a crash, a loop or a lack of memory ends only the child."""

    def __init__(self, folder: Path) -> None:
        make_bases()
        lowered(make_bases()[0])  # modules that are imported here need no import in the children
        self.watch = Watch(folder)

    def try_case(self, draw: random.Random) -> str:
        base = draw.randrange(len(make_bases()))
        try:
            data = mutate_model(make_bases()[base], draw)
        except Exception:  # the writers of both formats reject values in many ways
            return "cannot be written"
        try:
            return try_in_child(lambda: self.compile(data), SECONDS, MEMORY)
        except FindingError as finding:
            raise FindingError(f"model {base} of make_bases, changed: {finding}") from None

    def compile(self, data: bytes) -> str:
        with self.watch.during_case():
            try:
                lowered(data)
            except UserError as error:
                if not str(error).strip():
                    raise FindingError("refused without a word") from None
                return "refused"
        return "compiled"


def main(arguments: list[str]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        hammer = ModelHammer(Path(folder))
        return run_campaign("tests.hammer.models", hammer.try_case, arguments, 2_000)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
