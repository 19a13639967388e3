"""Modules are walked and built anew."""

from __future__ import annotations

from firmwright.builder import Graph
from firmwright.ir.relax import main_bindings, operator_name, rewrite_calls


def test_module_whose_calls_are_left_alone_is_returned_itself() -> None:
    graph = Graph()
    module = graph.output(graph.flatten(graph.input("x", (1, 2, 3)), "flat")).module()
    assert rewrite_calls(module, lambda _, call: call) is module
    rewritten = rewrite_calls(module, lambda builder, call: builder.emit(call))
    names = [[operator_name(b.value) for b in main_bindings(m)] for m in (module, rewritten)]
    assert rewritten is not module and names[0] == names[1]
