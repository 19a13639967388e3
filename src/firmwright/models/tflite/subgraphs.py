"""Inlines the subgraphs of IF and WHILE into the first subgraph of a TFLite model.

An IF with a constant condition becomes one branch. Every other IF becomes both branches and a
SELECT_V2 for each result. A WHILE with a constant number of steps becomes one copy of its body per
step.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from firmwright.errors import UserError, first_line
from firmwright.forked import run_in_copy
from firmwright.models.importing import label_errors
from firmwright.models.tflite.checks import RENEW, decode_text
from firmwright.models.tflite.interpreters import OPTIMIZED, make_interpreter
from firmwright.models.tflite.known_values import find_known_results, has_data
from firmwright.models.tflite.repairs import kind_of, pack, store_data, unpack
from firmwright.models.tflite.states_as_inputs import STATE_INPUTS, describe

INLINED = frozenset({"IF", "WHILE"})
MOST_STEPS = 1024
MOST_OPERATORS = 16384

EFFECTS = frozenset({"ASSIGN_VARIABLE", *STATE_INPUTS})
"""Operators that change a state.

Firmware must not run these operators if the branch is not selected.
"""

UNROLL = (
    "unroll the loop (Keras: `unroll=True`) or use a fused LSTM layer, then convert the model again"
)


def inline_subgraphs(data: bytes, name: str) -> bytes:
    """Return the model without IF and WHILE operators.

    Raises UserError if the number of steps depends on an input, or if a branch changes a state.
    Raises UserError if results of branches differ in shape.
    """
    model: Any = unpack(data)
    if not any(kind_of(model, o) in INLINED for o in model.subgraphs[0].operators):
        return data
    inliner = Inliner(model, len(data))
    with label_errors(name):
        while inliner.inline_next():
            inliner.check_count()
    return pack(model, len(data))


class Inliner:
    """Inlines the operators with subgraphs into the first subgraph, one by one."""

    def __init__(self, model: Any, size: int) -> None:
        self.model, self.graph, self.size = model, model.subgraphs[0], size
        self.copies = 0

    def inline_next(self) -> bool:
        """Inline the first IF or WHILE. Return whether the graph contained an IF or WHILE."""
        for position, operator in enumerate(self.graph.operators):
            kind = kind_of(self.model, operator)
            if kind not in INLINED:
                continue
            before, after = self.graph.operators[:position], self.graph.operators[position + 1 :]
            self.graph.operators = before
            results = [int(i) for i in operator.outputs]
            name = decode_text(self.graph.tensors[results[0]].name) if results else ""
            with label_errors(f"operator {kind} (tensor '{name}')"):
                inline = self.inline_if if kind == "IF" else self.inline_while
                values = inline(operator)
            self.graph.operators = [*self.graph.operators, *after]
            self.replace(dict(zip(results, values, strict=True)))
            return True
        return False

    def check_count(self) -> None:
        count = len(self.graph.operators)
        if max(count, self.copies) > MOST_OPERATORS:
            raise UserError(
                f"the loops and branches have {count:,} operators or more; expected at most "
                f"{MOST_OPERATORS:,}: use a fused LSTM layer or fewer steps, then convert the "
                "model again"
            )

    def inline_if(self, operator: Any) -> list[int]:
        """Add the operators of the branches. Return the tensors of the results."""
        keys = "thenSubgraphIndex", "elseSubgraphIndex"
        branches = self.list_subgraphs(operator, keys, len(operator.inputs) - 1)
        condition, *given = map(int, operator.inputs)
        tensor = self.graph.tensors[condition]
        if has_data(self.model, tensor) and not tensor.isVariable:
            chosen = bool(np.asarray(self.model.buffers[tensor.buffer].data, np.uint8).any())
            return self.add_copy(branches[0 if chosen else 1], given)
        for branch in branches:
            self.check_effects(branch, "branch")
        results = [self.add_copy(branch, given) for branch in branches]
        return [self.select(condition, *pair) for pair in zip(*results, strict=True)]

    def check_effects(self, graph: Any, what: str, seen: Sequence[Any] = ()) -> None:
        """Raise UserError if a subgraph or a called subgraph changes a state.

        ``seen`` contains the calling subgraphs, so that a cycle of subgraphs ends the recursion.
        """
        for operator in graph.operators if graph not in seen else ():
            kind = kind_of(self.model, operator)
            if kind in EFFECTS:
                raise UserError(
                    f"a {what} changes a state ({kind}), which is not supported; move the state "
                    f"out of the {what}"
                )
            if kind in INLINED:
                for key, index in vars(operator.builtinOptions).items():
                    if key.endswith("SubgraphIndex"):
                        self.check_effects(self.subgraph(index), what, (*seen, graph))

    def select(self, condition: int, chosen: int, other: int) -> int:
        """Add a SELECT_V2. Return the tensor of its result.

        Raises UserError if the operands differ in shape or type.
        """
        first, second = (self.graph.tensors[i] for i in (chosen, other))
        shapes = [[] if t.shape is None else list(map(int, t.shape)) for t in (first, second)]
        if shapes[0] != shapes[1] or first.type != second.type:
            raise UserError(
                f"the results of its branches have the shapes {shapes[0]} and {shapes[1]}; "
                "expected equal shapes and types: pad the smaller one"
            )
        result = self.add_tensor(first)
        self.add_operator("SELECT_V2", 1, [condition, chosen, other], [result])
        return result

    def inline_while(self, operator: Any) -> list[int]:
        """Add the operators of all steps. Return the tensors of the results."""
        given = [*map(int, operator.inputs)]
        keys = "condSubgraphIndex", "bodySubgraphIndex"
        condition, body = self.list_subgraphs(operator, keys, len(given))
        self.check_effects(body, "loop")
        self.check_fixed_steps(condition, body, given)
        values = given
        for _ in range(self.count_steps(operator)):
            values = self.add_copy(body, values)
        return values

    def check_fixed_steps(self, condition: Any, body: Any, given: Sequence[int]) -> None:
        deciding = find_read(condition, [int(i) for i in condition.outputs])
        while True:
            next_values = [int(body.outputs[n]) for n in sorted(deciding)]
            wider = deciding | find_read(body, next_values)
            if wider == deciding:
                break
            deciding = wider
        constants = find_known_results(self.model)
        for number in sorted(deciding):
            tensor = self.graph.tensors[given[number]]
            known = has_data(self.model, tensor) and not tensor.isVariable
            if not known and given[number] not in constants:
                raise UserError(
                    f"its number of steps depends on '{decode_text(tensor.name)}', which is "
                    f"known only at run time; firmware needs a constant number: {UNROLL}"
                )

    def count_steps(self, operator: Any) -> int:
        """Return the number of steps, which LiteRT counts in a run for zeros.

        Raises UserError if the loop has too many steps.
        """
        model = copy.deepcopy(self.model)
        counter = Inliner(model, self.size)
        loop = copy.deepcopy(operator)
        result = counter.add_counter(loop)
        model.subgraphs[0].operators.append(loop)
        model.subgraphs[0].outputs = [result]
        what = "LiteRT crashes when it counts the steps"
        steps = run_in_copy(what, run_counter, pack(model, self.size), result)
        if steps >= MOST_STEPS:
            raise UserError(
                f"the loop has {MOST_STEPS:,} steps or more; expected at most "
                f"{MOST_STEPS - 1:,}: use a fused LSTM layer, or run the network once for each step"
            )
        return steps

    def add_counter(self, loop: Any) -> int:
        """Add a counter to a loop, which ends the loop at the limit.

        Return the tensor of the count.
        """
        zero = self.add_constant(self.graph, 0)
        options = loop.builtinOptions
        condition, body = map(self.subgraph, (options.condSubgraphIndex, options.bodySubgraphIndex))
        limit, one = self.add_constant(condition, MOST_STEPS), self.add_constant(body, 1)
        counts = [add_empty(graph, schema.TensorType.INT32) for graph in (condition, body, body)]
        below, both = (add_empty(condition, schema.TensorType.BOOL) for _ in range(2))
        condition.inputs = [*map(int, condition.inputs), counts[0]]
        body.inputs = [*map(int, body.inputs), counts[1]]
        self.add_operator("LESS", 1, [counts[0], limit], [below], graph=condition)
        decided = [int(condition.outputs[0]), below]
        self.add_operator("LOGICAL_AND", 1, decided, [both], graph=condition)
        condition.outputs = [both]
        self.add_operator("ADD", 1, [counts[1], one], [counts[2]], "AddOptions", graph=body)
        body.outputs = [*map(int, body.outputs), counts[2]]
        result = add_empty(self.graph, schema.TensorType.INT32)
        loop.inputs = [*map(int, loop.inputs), zero]
        loop.outputs = [*map(int, loop.outputs), result]
        return result

    def list_subgraphs(self, operator: Any, keys: Sequence[str], inputs: int) -> list[Any]:
        """Return the subgraphs of an operator.

        Raises UserError if the subgraphs do not fit the operator's tensors.
        """
        options = operator.builtinOptions
        if not all(hasattr(options, key) for key in keys):
            raise UserError(f"a damaged TFLite model: the operator names no subgraphs; {RENEW}")
        graphs = [self.subgraph(getattr(options, key)) for key in keys]
        for key, graph in zip(keys, graphs, strict=True):
            results = 1 if key == "condSubgraphIndex" else len(operator.outputs)
            if (len(graph.inputs), len(graph.outputs)) != (inputs, results):
                raise UserError(
                    f"a damaged TFLite model: a subgraph has {len(graph.inputs)} inputs and "
                    f"{len(graph.outputs)} outputs, not {inputs} and {results}; {RENEW}"
                )
            outer = operator.inputs[len(operator.inputs) - inputs :]
            self.check_parameters(outer, graph, graph.inputs)
            if key != "condSubgraphIndex":
                self.check_parameters(operator.outputs, graph, graph.outputs)
        return graphs

    def check_parameters(self, outer: Sequence[int], graph: Any, inner: Sequence[int]) -> None:
        for one, two in zip(map(int, outer), map(int, inner), strict=True):
            first, second = self.graph.tensors[one], graph.tensors[two]
            a, b = (describe("", tensor) for tensor in (first, second))
            if (a.scale, a.zero_point) != (b.scale, b.zero_point):
                names = " and ".join(f"'{decode_text(t.name)}'" for t in (first, second))
                raise UserError(
                    f"{names} have different quantization parameters; expected equal "
                    "parameters: insert a QUANTIZE operator between the tensors"
                )

    def subgraph(self, index: int) -> Any:
        """Return a subgraph.

        Raises UserError if the subgraph or one of its tensors does not exist.
        """
        if not 0 < index < len(self.model.subgraphs):
            raise UserError(
                f"a damaged TFLite model: an operator runs subgraph {index}, which is missing; "
                f"{RENEW}"
            )
        graph = self.model.subgraphs[index]
        graph.inputs, graph.outputs, graph.operators = (
            [] if each is None else each for each in (graph.inputs, graph.outputs, graph.operators)
        )
        for each in graph.operators:
            each.inputs = [] if each.inputs is None else each.inputs
            each.outputs = [] if each.outputs is None else each.outputs
        tensors = [graph.inputs, graph.outputs]
        tensors += [part for o in graph.operators for part in (o.inputs, o.outputs)]
        if any(not -1 <= int(i) < len(graph.tensors) for each in tensors for i in each):
            problem = f"a damaged TFLite model: subgraph {index} reads a missing tensor"
            raise UserError(f"{problem}; {RENEW}")
        return graph

    def add_copy(self, graph: Any, given: Sequence[int]) -> list[int]:
        """Add the operators of a subgraph with other inputs. Return the tensors of its results."""
        self.copies += 1
        moved = {-1: -1, **dict(zip(map(int, graph.inputs), given, strict=True))}

        def move(indices: Any) -> list[int]:
            for index in () if indices is None else map(int, indices):
                if index not in moved:
                    moved[index] = self.add_tensor(graph.tensors[index])
            return [] if indices is None else [moved[int(i)] for i in indices]

        for operator in graph.operators:
            copied = copy.copy(operator)
            copied.inputs, copied.outputs = move(operator.inputs), move(operator.outputs)
            copied.intermediates = move(operator.intermediates) or None
            self.graph.operators.append(copied)
        return move(graph.outputs)

    def add_tensor(self, tensor: Any) -> int:
        copied = copy.copy(tensor)
        copied.name = f"{decode_text(tensor.name)}_{self.copies}".encode()
        self.graph.tensors.append(copied)
        return len(self.graph.tensors) - 1

    def add_constant(self, graph: Any, value: int) -> int:
        index = add_empty(graph, schema.TensorType.INT32)
        store_data(self.model, graph.tensors[index], np.int32(value).tobytes())
        return index

    def add_operator(
        self,
        kind: str,
        version: int,
        inputs: list[int],
        outputs: list[int],
        options: str = "",
        graph: Any = None,
    ) -> None:
        code = schema.OperatorCodeT()
        code.builtinCode = getattr(schema.BuiltinOperator, kind)
        code.deprecatedBuiltinCode, code.version = min(code.builtinCode, 127), version
        self.model.operatorCodes.append(code)
        operator = schema.OperatorT()
        operator.opcodeIndex = len(self.model.operatorCodes) - 1
        operator.inputs, operator.outputs = inputs, outputs
        if options:
            operator.builtinOptionsType = getattr(schema.BuiltinOptions, options)
            operator.builtinOptions = getattr(schema, f"{options}T")()
        (graph or self.graph).operators.append(operator)

    def replace(self, values: dict[int, int]) -> None:
        """Replace tensors that operators and the graph read.

        Results of the graph keep their names.
        """
        for operator in self.graph.operators:
            if operator.inputs is not None:
                operator.inputs = [values.get(int(i), int(i)) for i in operator.inputs]
        made = {int(i) for o in self.graph.operators for i in o.outputs}
        for old in map(int, self.graph.outputs):
            if old in values and values[old] in made:
                self.graph.tensors[values[old]].name = self.graph.tensors[old].name
                self.graph.tensors[old].name = b""
        self.graph.outputs = [values.get(int(i), int(i)) for i in self.graph.outputs]


def find_read(graph: Any, results: Sequence[int]) -> set[int]:
    """Return the numbers of the subgraph's inputs on which the results depend."""
    needed = set(results)
    for operator in reversed(graph.operators):
        if needed.intersection(map(int, operator.outputs)):
            needed.update(map(int, [] if operator.inputs is None else operator.inputs))
    return {n for n, index in enumerate(map(int, graph.inputs)) if index in needed}


def add_empty(graph: Any, dtype: int) -> int:
    tensor = schema.TensorT()
    tensor.name, tensor.shape, tensor.type = f"count_{len(graph.tensors)}".encode(), [], dtype
    graph.tensors.append(tensor)
    return len(graph.tensors) - 1


def run_counter(data: bytes, result: int) -> int:
    """Return an integer that a model computes for zeros.

    Raises UserError if LiteRT cannot run the model.
    """
    interpreter = make_interpreter(data, OPTIMIZED)
    try:
        interpreter.allocate_tensors()
        for detail in interpreter.get_input_details():
            zeros = np.zeros(detail["shape"], detail["dtype"])
            interpreter.set_tensor(detail["index"], zeros)
        interpreter.invoke()
        return int(interpreter.get_tensor(result))
    except (RuntimeError, ValueError) as error:
        raise UserError(f"LiteRT cannot count its steps: {first_line(error)}; {UNROLL}") from None
