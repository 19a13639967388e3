"""What trains a network, ai.onnx.preview.training and BatchNormalization: plain arithmetic.

The equations are those of ONNX's documents of the operators. TVM has no converters.
"""

from __future__ import annotations

import onnx
from onnx import helper

from firmwright.models.onnx.graph.body import (
    NodeBuilder,
    along_axis,
    get_attribute,
    parse_rewrite,
)
from firmwright.models.onnx.graph.specialize import Nodes, Rewrite, Specializer

ADAGRAD = """
    Adagrad <decay_factor, epsilon, norm_coefficient> (r, t, x, g, h) => (x_new, h_new) {
        REGULARIZE
        one_number = Constant <value_float = 1.0> ()
        one = CastLike (one_number, x)
        decay_number = Constant <value_float: float = @decay_factor> ()
        decay = CastLike (decay_number, x)
        time = CastLike (t, x)
        late = Mul (time, decay)
        slower = Add (one, late)
        rate = Div (r, slower)
        square = Mul (slope, slope)
        h_new = Add (h, square)
        root = Sqrt (h_new)
        epsilon_number = Constant <value_float: float = @epsilon> ()
        least = CastLike (epsilon_number, x)
        size = Add (root, least)
        wide = Mul (rate, slope)
        step = Div (wide, size)
        x_new = Sub (x, step)
    }
"""

ADAM = """
    Adam <alpha, beta, epsilon, norm_coefficient, norm_coefficient_post>
    (r, t, x, g, v, h) => (x_new, v_new, h_new) {
        REGULARIZE
        one_number = Constant <value_float = 1.0> ()
        one = CastLike (one_number, x)
        alpha_number = Constant <value_float: float = @alpha> ()
        a = CastLike (alpha_number, x)
        beta_number = Constant <value_float: float = @beta> ()
        b = CastLike (beta_number, x)
        a_rest = Sub (one, a)
        b_rest = Sub (one, b)
        v_kept = Mul (a, v)
        v_added = Mul (a_rest, slope)
        v_new = Add (v_kept, v_added)
        square = Mul (slope, slope)
        h_kept = Mul (b, h)
        h_added = Mul (b_rest, square)
        h_new = Add (h_kept, h_added)
        root = Sqrt (h_new)
        epsilon_number = Constant <value_float: float = @epsilon> ()
        least = CastLike (epsilon_number, x)
        size = Add (root, least)
        time = CastLike (t, x)
        a_power = Pow (a, time)
        b_power = Pow (b, time)
        a_sum = Sub (one, a_power)
        b_sum = Sub (one, b_power)
        b_root = Sqrt (b_sum)
        zero = Sub (one, one)
        later = Greater (time, zero)
        divisor = Where (later, a_sum, one)
        factor = Where (later, b_root, one)
        larger = Mul (r, factor)
        rate = Div (larger, divisor)
        way = Div (v_new, size)
        step = Mul (rate, way)
        x_moved = Sub (x, step)
        post_number = Constant <value_float: float = @norm_coefficient_post> ()
        post = CastLike (post_number, x)
        left = Sub (one, post)
        x_new = Mul (left, x_moved)
    }
"""

MOMENTUM = """
    Momentum <alpha, beta, norm_coefficient> (r, t, x, g, v) => (x_new, v_new) {
        REGULARIZE
        one_number = Constant <value_float = 1.0> ()
        one = CastLike (one_number, x)
        alpha_number = Constant <value_float: float = @alpha> ()
        a = CastLike (alpha_number, x)
        beta_number = Constant <value_float: float = @beta> ()
        b = CastLike (beta_number, x)
        time = CastLike (t, x)
        zero = Sub (one, one)
        later = Greater (time, zero)
        factor = Where (later, b, one)
        kept = Mul (a, v)
        added = Mul (factor, slope)
        v_new = Add (kept, added)
        WAY
        step = Mul (r, way)
        x_new = Sub (x, step)
    }
"""

REGULARIZE = """norm_number = Constant <value_float: float = @norm_coefficient> ()
        norm = CastLike (norm_number, x)
        penalty = Mul (norm, x)
        slope = Add (penalty, g)"""

WAYS = {
    "standard": "way = Identity (v_new)",
    "nesterov": """ahead = Mul (a, v_new)
        way = Add (slope, ahead)""",
}
"""Where Momentum goes, by its mode."""


def rewrite_by_tensor(text: str, states: int) -> Rewrite:
    """Rewrite an optimizer of several tensors, each with its gradient and so many states."""

    def rewrite(node: onnx.NodeProto, walk: Specializer) -> Nodes | None:
        count = (len(node.input) - 2) // (2 + states)
        way = WAYS.get(get_attribute(node, "mode", ""), "")
        equations = text.replace("REGULARIZE", REGULARIZE).replace("WAY", way)
        step = parse_rewrite(equations)
        nodes: Nodes = []
        for i in range(count):
            one = onnx.NodeProto()
            one.CopyFrom(node)
            del one.input[2:], one.output[:]
            one.input.extend(node.input[2 + i :: count])
            one.output.extend(node.output[i::count])
            nodes += step(one, walk) or []
        return nodes

    return rewrite


def rewrite_batch_normalization(node: onnx.NodeProto, walk: Specializer) -> Nodes | None:
    """Rewrite what normalizes by its batch's own mean and variance, and averages them over time."""
    shape = walk.shape(node.input[0])
    if not get_attribute(node, "training_mode", 0) or shape is None:
        return None
    x, scale, bias, *running = node.input
    body, dtype = NodeBuilder(node, walk), walk.dtype(x)

    def average(name: str) -> str:
        for axis in range(len(shape)):
            name = name if axis == 1 else body.reduce("ReduceMean", name, axis)
        return name

    def along(name: str) -> str:
        return body.add("Reshape", name, body.constant(along_axis(1, len(shape)), "int64"))

    mean = average(x)
    apart = body.add("Sub", x, mean)
    variance = average(body.add("Mul", apart, apart))
    epsilon = body.constant(get_attribute(node, "epsilon", 1e-5), dtype)
    deviation = body.add("Sqrt", body.add("Add", variance, epsilon))
    result = body.add("Mul", body.add("Div", apart, deviation), along(scale))
    results = [body.add("Add", result, along(bias))]
    momentum = get_attribute(node, "momentum", 0.9)
    for old, new in zip(running, (mean, variance), strict=True):
        kind = walk.dtype(old)
        flat = body.add("Reshape", new, body.constant([-1], "int64"))
        flat = body.add("Cast", flat, to=helper.np_dtype_to_tensor_dtype(kind))
        kept = body.add("Mul", old, body.constant(momentum, kind))
        results.append(
            body.add("Add", kept, body.add("Mul", flat, body.constant(1 - momentum, kind)))
        )
    return body.finish(*results)


TRAINING: dict[str, Rewrite] = {
    "BatchNormalization": rewrite_batch_normalization,
    **{
        f"ai.onnx.preview.training.{name}": rewrite_by_tensor(text, states)
        for name, text, states in (("Adagrad", ADAGRAD, 1), ("Adam", ADAM, 2),
                                   ("Momentum", MOMENTUM, 1))
    },
}  # fmt: skip
