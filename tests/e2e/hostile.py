"""Makes a network whose names are hostile, and parses its page."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from firmwright.report.report import Report

NAMES = (
    "<img src=x onerror=alert(1)>",
    "</script><script>alert('x')</script>\"&amp;",
    "*/ int evil; /* ??/ \\",
    "=1+1 $(shell touch evil) `touch evil` %n",
    "\N{FIRE} \u202eevil\u202c שלום: {a: b} # ---",
)


def write_network(path: Path) -> None:
    """Write a chain of convolutions; the last one also reads the result of the first one."""
    nodes, weights, read = [], [], "image"
    for number, name in enumerate(NAMES):
        weight = np.full((2, 2, 3, 3), 0.01 * (number + 1), np.float32)
        weights.append(numpy_helper.from_array(weight, f"w{number}"))
        node = helper.make_node("Conv", [read, f"w{number}"], [f"t {name}"], name=name)
        node.attribute.append(helper.make_attribute("pads", [1, 1, 1, 1]))
        nodes.append(node)
        read = f"t {name}"
    nodes.append(helper.make_node("Add", [read, f"t {NAMES[0]}"], ["sum"], name="sum"))
    ends = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 2, 6, 6]) for n in ("image", "sum")
    ]
    graph = helper.make_graph(nodes, "graph", ends[:1], ends[1:], weights)
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=10), path)


class Page(HTMLParser):
    """The tags, attributes and texts of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.texts: list[str] = []
        self.inside: list[str] = []
        self.scripts = 0
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.scripts += tag == "script"
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def repeat_layers(report: Report, times: int) -> Report:
    """Return a report with this number of copies of a network, one after the other."""
    count = len(report.layers)
    layers = tuple(
        replace(
            layer,
            number=layer.number + copy * count,
            follows=tuple(n + copy * count for n in layer.follows),
        )
        for copy in range(times)
        for layer in report.layers
    )
    return replace(report, layers=layers)
