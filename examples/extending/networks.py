"""The networks of the five examples: one or two operators each, in float32 and NCHW."""

from __future__ import annotations

from tvm import relax

from firmwright.device import Graph

IMAGE = (1, 8, 24, 40)


def scaled() -> Graph:
    """Divide by a constant, then ReLU."""
    graph = Graph()
    image = graph.input("image", IMAGE, "float32")
    quarter = graph.emit(relax.op.divide(image, relax.const(4.0, "float32")), "quarter")
    return graph.output(graph.emit(relax.op.nn.relu(quarter), "positive"))


def enlarged() -> Graph:
    """Repeat every row twice and every column three times."""
    graph = Graph()
    image = graph.input("image", IMAGE, "float32")
    size = relax.ShapeExpr((48, 120))
    larger = relax.op.image.resize2d(
        image, size, layout="NCHW", method="nearest_neighbor",
        coordinate_transformation_mode="asymmetric", rounding_method="floor",
    )  # fmt: skip
    return graph.output(graph.emit(larger, "larger"))


def summed() -> Graph:
    """Add two images, then ReLU, element by element."""
    graph = Graph()
    one = graph.input("one", IMAGE, "float32")
    other = graph.input("other", IMAGE, "float32")
    total = graph.emit(relax.op.add(one, other), "total")
    return graph.output(graph.emit(relax.op.nn.relu(total), "positive"))


def picked() -> Graph:
    """A 1x1 pooling with strides, which picks elements, and a pooling that compares elements."""
    graph = Graph()
    image = graph.input("image", IMAGE, "float32")
    every_second = relax.op.nn.max_pool2d(image, pool_size=[1, 1], strides=[1, 2])
    narrow = graph.emit(every_second, "every_second")
    largest = relax.op.nn.max_pool2d(narrow, pool_size=[2, 2], strides=[2, 2])
    return graph.output(graph.emit(largest, "largest"))


def widened() -> Graph:
    """Double the number of columns by linear interpolation."""
    graph = Graph()
    image = graph.input("image", IMAGE, "float32")
    size = relax.ShapeExpr((24, 80))
    wider = relax.op.image.resize2d(
        image, size, layout="NCHW", method="linear", coordinate_transformation_mode="half_pixel"
    )
    return graph.output(graph.emit(wider, "wider"))
