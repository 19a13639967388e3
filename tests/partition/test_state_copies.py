"""Next values of states are copied, but not if they can be computed in the state's memory."""

from __future__ import annotations

from firmwright.ir.regions import COPY, Partition
from firmwright.partition.state_copies import copy_next_values
from tests.partition.graphs import build_main, make_partition, make_region

EMPTY, _ = build_main(lambda x: x, ((1,), "int8"))


def copy(partition: Partition) -> Partition:
    module, copied = copy_next_values(EMPTY, partition, "c")
    names = {r.name for r in copied.regions if r.anchor == COPY}
    assert names <= {v.name_hint for v in module.functions}
    assert {r.device for r in copied.regions if r.anchor == COPY} <= {"c"}
    return copied


def list_names(partition: Partition) -> list[str]:
    return [region.name for region in partition.regions]


def test_a_state_that_becomes_another_one_is_copied_at_the_end() -> None:
    """A delay line: the second state's next value is the first state."""
    new, read = make_region("new", "c", "x"), make_region("read", "c", "s0", "s1")
    given = make_partition(
        ("x", "s0", "s1"), ("read_result", "new_result", "s0"), new, read, states=2
    )
    copied = copy(given)
    assert list_names(copied) == ["new", "read", "state_1_copy"]
    assert copied.outputs == ("read_result", "new_result", "state_1_copy_result")
    assert copied.regions[-1].inputs == ("s0",)


def test_states_that_swap_are_both_copied() -> None:
    copied = copy(make_partition(("s0", "s1"), ("s1", "s0"), states=2))
    assert copied.outputs == ("state_0_copy_result", "state_1_copy_result")


def test_a_state_that_keeps_its_value_is_not_copied() -> None:
    read = make_region("read", "c", "x", "s0")
    given = make_partition(("x", "s0"), ("read_result", "s0"), read, states=1)
    assert copy(given) is given


def test_a_value_made_while_the_state_is_read_is_copied_at_once() -> None:
    """A convolution reads the state until its end; the readers of the value read the copy."""
    step = make_region("step", "c", "x", "s0")
    later = make_region("later", "c", "step_result")
    given = make_partition(("x", "s0"), ("later_result", "step_result"), step, later, states=1)
    copied = copy(given)
    assert list_names(copied) == ["step", "state_0_copy", "later"]
    assert copied.regions[-1].inputs == ("state_0_copy_result",)
    assert copied.outputs == ("later_result", "state_0_copy_result")


def test_an_elementwise_operator_may_work_in_the_state_s_place() -> None:
    step = make_region("step", "c", "x", "s0", operator="add")
    given = make_partition(("x", "s0"), ("step_result",), step, states=1)
    assert copy(given) is given


def test_a_value_made_after_the_last_read_is_not_copied() -> None:
    first = make_region("first", "c", "x", "s0")
    step = make_region("step", "c", "first_result")
    given = make_partition(("x", "s0"), ("step_result",), first, step, states=1)
    assert copy(given) is given


def test_a_state_that_is_read_again_later_is_not_copied_early() -> None:
    """The value stays in a buffer until the end in any case."""
    step, later = make_region("step", "c", "s0"), make_region("later", "c", "s0", "step_result")
    given = make_partition(("s0",), ("later_result", "step_result"), step, later, states=1)
    assert copy(given) is given


def test_a_value_that_is_an_output_too_is_not_copied() -> None:
    step = make_region("step", "c", "x", "s0")
    given = make_partition(("x", "s0"), ("step_result", "step_result"), step, states=1)
    assert copy(given) is given


def test_a_view_of_the_state_reads_it() -> None:
    """A region that reads another shape of the state reads the state."""
    view = make_region("view", "c", "s0", view=True)
    step = make_region("step", "c", "view_result")
    copied = copy(make_partition(("s0",), ("step_result",), view, step, states=1))
    assert list_names(copied) == ["view", "step", "state_0_copy"]
