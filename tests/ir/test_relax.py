"""Modules are traversed and rebuilt."""

from __future__ import annotations

import tvm
from tvm import relax

from firmwright.builder import Graph
from firmwright.ir.relax import copy_variables, main_bindings, operator_name, rewrite_calls


def test_module_whose_calls_are_left_alone_is_returned_itself() -> None:
    graph = Graph()
    module = graph.output(graph.flatten(graph.input("x", (1, 2, 3)), "flat")).module()
    assert rewrite_calls(module, lambda _, call: call) is module
    rewritten = rewrite_calls(module, lambda builder, call: builder.emit(call))
    names = [[operator_name(b.value) for b in main_bindings(m)] for m in (module, rewritten)]
    assert rewritten is not module and names[0] == names[1]


def test_copied_function_is_the_same_with_variables_of_its_own() -> None:
    image = relax.Var("image", relax.TensorType((1, 6, 6, 3), "float32"))
    kernel = relax.Var("kernel", relax.TensorType((4, 3, 3, 3), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [image, kernel]):
        with builder.dataflow():
            convolved = relax.op.nn.conv2d(
                image, kernel, data_layout="NHWC", kernel_layout="OHWI", out_layout="NHWC"
            )
            result = builder.emit_output(relax.op.nn.relu(builder.emit(convolved)))
        builder.emit_func_output(result)
    body = builder.get()["main"].body
    # As when a region is cut out, the type of this body is not yet inferred.
    cut = relax.SeqExpr(body.blocks, body.body)
    main = relax.Function([image, kernel], cut, body.body.ty)
    copied = copy_variables(main)
    tvm.ir.assert_structural_equal(copied, relax.utils.copy_with_new_vars(main))
    bound = [{b.var for b in block.bindings} for f in (main, copied) for block in f.body.blocks]
    assert not bound[0] & bound[1]
    assert not {*main.params} & {*copied.params}
