"""Outlines each group as a function, and ``main`` as a list of regions over tensors."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

import tvm
from tvm import relax

from firmwright.ir.element_runs import keeps_order
from firmwright.ir.operators import (
    ELEMENTWISE,
    LAYOUT,
    FusionKind,
    count_macs,
    make_kind_lookup,
    relax_names,
    short_name,
)
from firmwright.ir.regions import Partition, Region
from firmwright.ir.relax import (
    copy_variables,
    dtype_of,
    find_outputs,
    main_bindings,
    operator_name,
    read_all_variables,
    read_variables,
    rename_variables,
    set_functions,
    static_shape,
)
from firmwright.ir.tensors import ModelInterface, Tensor, is_source_name
from firmwright.partition.grouping import Group, group_operators
from firmwright.partition.layouts import insert_transforms
from firmwright.partition.memory_choice import assign_memories
from firmwright.partition.repeats import count_repeats
from firmwright.partition.uncompilable import refuse_uncompilable
from firmwright.partition.views import find_joints, find_picks
from firmwright.targets import Device
from firmwright.targets.device_assignment import DeviceAssignment, ask_devices

EPILOGUE_OPERATORS = relax_names("quantize dequantize right_shift clip astype")
"""Operators that do not name a region that contains other operators."""


def partition_module(
    module: tvm.IRModule, interface: ModelInterface, mix: Sequence[Device]
) -> tuple[tvm.IRModule, Partition]:
    """Assign every operator of ``main`` to a region on the first device that accepts it.

    The last device of the mix is the fallback. Returns a module with one Relax function per region
    (and the called TIR functions), and the graph over the functions.
    """
    module, macs = prepare_network(module, interface, mix)
    choices = ask_devices(module, mix)
    module, partition, _ = build_regions(module, interface, choices, macs)
    return insert_moves(module, partition, mix)


def prepare_network(
    module: tvm.IRModule, interface: ModelInterface, mix: Sequence[Device]
) -> tuple[tvm.IRModule, Mapping[relax.Var, int]]:
    """Return the module after the devices' rewrites, and the MACs of each operator of the model."""
    module = name_outputs(module, interface)
    # A rewrite may add multiplications by zero. Only the multiplications of the model count.
    macs_before = count_operator_macs(module).values()
    for device in mix:
        module = device.target.prepare(module, device.context)
    return module, dict(zip(count_operator_macs(module), macs_before, strict=True))


def insert_moves(
    module: tvm.IRModule, partition: Partition, mix: Sequence[Device]
) -> tuple[tvm.IRModule, Partition]:
    """Insert the layout transforms and copies that the devices of the regions need."""
    for device in mix:
        layout = device.target.layout(device.context)
        if layout is not None:
            module, partition = insert_transforms(
                module, partition, device.name, layout, fallback=mix[-1].name
            )
    return assign_memories(module, partition, mix)


def build_regions(
    module: tvm.IRModule,
    interface: ModelInterface,
    choices: DeviceAssignment,
    macs: Mapping[relax.Var, int],
) -> tuple[tvm.IRModule, Partition, list[Group]]:
    """Return one function per region, the regions, and the group of operators of each region.

    ``macs`` are the multiply-accumulates of the model's operators.
    """
    parameters = list(module["main"].params)
    bindings, outputs = read_graph(module)
    refuse_uncompilable(bindings, interface)
    dequantized = find_dequantized(bindings)
    kind = make_binding_kind(module, dequantized, choices.mix[-1].context.fuse_layers)
    picks, joints = find_views(bindings, outputs, dequantized, choices)
    apart = picks.keys() | joints
    groups = group_operators(
        bindings,
        outputs,
        lambda b: FusionKind.ALONE if b.var in apart else kind(b),
        choices.taken,
    )
    names = name_tensors(parameters, len(interface.states), groups)
    named_outputs = dict(zip(outputs, output_names(interface), strict=True))

    def names_of(variables: Iterable[relax.Var]) -> tuple[str, ...]:
        return tuple(names[v] for v in variables)

    functions, regions = {}, []
    for index, group in enumerate(groups):
        name = region_name(index, group)
        functions[name], inputs = outline(group)
        device = choices.device_of(group.device)
        regions.append(
            Region(
                name=name,
                device=device.name,
                reason=(group.composite and group.composite.reason) or device.target.reason,
                anchor=name_anchor(group),
                sources=source_names(group, named_outputs),
                operators=tuple(short_name(b.value) for b in group.bindings),
                inputs=names_of(inputs),
                outputs=names_of(group.results),
                macs=sum(macs.get(b.var, 0) for b in group.bindings),
                view=group.root in apart or is_view(group, outputs),
                offset=picks.get(group.root, 0),
                dequantized=names_of(v for v in inputs if v in dequantized),
                refusals=choices.find_refusals(group.bindings, find_anchor(group), device),
            )
        )
    partition = Partition(
        inputs=names_of(parameters),
        outputs=names_of(outputs),
        tensors=tuple(make_tensor(name, v) for v, name in names.items()),
        regions=count_repeats(regions, functions),
        states=len(interface.states),
    )
    return set_functions(keep_tir(module), functions), partition, groups


def cut_region(
    region: Region, module: tvm.IRModule, device: Device
) -> tuple[tvm.IRModule, Partition]:
    """Cut a region into the regions of one device that runs all operators."""
    main = module[region.name].without_attr("global_symbol")
    whole = set_functions(keep_tir(module), {"main": main})
    return partition_module(whole, make_interface(main), (device,))


def make_interface(main: relax.Function) -> ModelInterface:
    """Return a region's inputs and outputs, with the variables' names, as an interface."""
    inputs, outputs = (
        tuple(make_tensor(str(v.name), v) for v in vs)
        for vs in (main.params, main.body.body.fields)
    )
    return ModelInterface("relax", "", inputs, outputs, ())


def find_views(
    bindings: list[relax.VarBinding],
    outputs: list[relax.Var],
    dequantized: set[relax.Var],
    choices: DeviceAssignment,
) -> tuple[dict[relax.Var, int], set[relax.Var]]:
    """Return the byte offsets of the parts of tensors, and the tensors that consist of parts.

    The results are empty if a device of the mix has a special layout, because parts would have
    other offsets. The results are also empty if the last device is a separate core, because loads
    may need more alignment.
    """
    *_, last = choices.mix
    if last.target.core or any(device.target.layout(device.context) for device in choices.mix):
        return {}, set()
    taken = {
        v for generated in choices.taken.values() for each in generated for v in each.variables
    }
    fixed = taken | dequantized
    picks = find_picks(bindings, fixed.union(outputs))
    return picks, find_joints(bindings, fixed | picks.keys())


def keep_tir(module: tvm.IRModule) -> tvm.IRModule:
    """Return the module with only its TIR functions."""
    functions = module.functions.items()
    return tvm.IRModule({v: f for v, f in functions if isinstance(f, tvm.tirx.PrimFunc)})


def name_tensors(
    parameters: Sequence[relax.Var], states: int, groups: Sequence[Group]
) -> dict[relax.Var, str]:
    """Return the names of the network's inputs and of the groups' results, in execution order.

    The last ``states`` parameters are kept between runs.
    """
    first = len(parameters) - states
    names = {p: f"input_{i}" for i, p in enumerate(parameters[:first])}
    names |= {p: f"state_{i}" for i, p in enumerate(parameters[first:])}
    for index, group in enumerate(groups):
        stem, results = f"{region_name(index, group)}_result", group.results
        numbers = [""] if len(results) == 1 else [f"_{i}" for i in range(len(results))]
        names.update((v, f"{stem}{number}") for v, number in zip(results, numbers, strict=True))
    return names


def output_names(interface: ModelInterface) -> list[str]:
    """Return for each output the name of the source operator that computes it, or else its name."""
    makers = {tensor: o.name for o in interface.operators for tensor in o.results}
    tensors = [interface.output_tensors.get(t.name, t.name) for t in interface.outputs]
    states = [state.tensor.name for state in interface.states]
    return [*(makers.get(name, name) for name in tensors), *states]


def name_outputs(module: tvm.IRModule, interface: ModelInterface) -> tvm.IRModule:
    """Name the results of ``main`` as in the source model. Importers do not name results."""
    _, outputs = read_graph(module)
    named = zip(outputs, output_names(interface), strict=True)
    generated = {str(v.name): name for v, name in named if not is_source_name(str(v.name))}
    return rename_variables(module, generated) if generated else module


def count_operator_macs(module: tvm.IRModule) -> dict[relax.Var, int]:
    """Return the multiply-accumulates of the operators that have any, in order of execution."""
    counts = {b.var: count_macs(b.value) for b in main_bindings(module)}
    return {variable: count for variable, count in counts.items() if count}


def read_graph(module: tvm.IRModule) -> tuple[list[relax.VarBinding], list[relax.Var]]:
    """Return the operators of ``main``, in order, and its results: one variable per output.

    A variable after the operators is bound to each output that is a constant.
    """
    bindings = main_bindings(module)
    outputs, constants = find_outputs(module["main"], bindings)
    return [*(b for b in bindings if is_computed(b.value)), *constants], outputs


def is_computed(value: relax.Expr) -> bool:
    return bool(operator_name(value)) or isinstance(value, relax.TupleGetItem)


def make_binding_kind(
    module: tvm.IRModule, dequantized: set[relax.Var], fuse_layers: bool
) -> Callable[[relax.VarBinding], FusionKind]:
    """Return a function that maps a binding to its fusion kind.

    Every operator is a separate group if ``fuse_layers`` is False. Operators between a dequantize
    and a quantize are an exception, because all of them are one operator of the quantized model,
    with one rounding.
    """
    kind = make_kind_lookup(module)

    def of_binding(binding: relax.VarBinding) -> FusionKind:
        name = operator_name(binding.value)
        quantized = binding.var in dequantized or name in ("relax.quantize", "relax.dequantize")
        return kind(binding.value) if fuse_layers or quantized else FusionKind.ALONE

    return of_binding


def find_dequantized(bindings: list[relax.VarBinding]) -> set[relax.Var]:
    """Return the variables that are computed from quantized variables and not quantized again."""
    dequantized: set[relax.Var] = set()
    for binding in bindings:
        name = operator_name(binding.value)
        read = read_variables(binding.value)
        starts = name == "relax.dequantize" and bool(read)
        if starts or (name != "relax.quantize" and any(v in dequantized for v in read)):
            dequantized.add(binding.var)
    return dequantized


def outline(group: Group) -> tuple[relax.Function, list[relax.Var]]:
    """Return the group as a function, and the variables that it reads from outside.

    The variables are in reading order. The function returns the tuple of the group's results.
    """
    bindings = [*group.bindings, *group.items]
    read = dict.fromkeys(read_all_variables(bindings))
    computed = {b.var for b in bindings}
    outside = [v for v in read if v not in computed]
    # The results of a dataflow block must be plain variables.
    plain = {v: relax.Var(v.name, v.ty) for v in group.results}
    renames = {v: new for v, new in plain.items() if v not in read}
    block = relax.DataflowBlock(
        [
            *(relax.VarBinding(renames.get(b.var, b.var), b.value) for b in bindings),
            *(relax.VarBinding(new, v) for v, new in plain.items() if v in read),
        ]
    )
    returned = relax.Tuple(list(plain.values()))
    function = relax.Function(outside, relax.SeqExpr([block], returned), returned.ty)
    return copy_variables(function), outside


def make_tensor(name: str, variable: relax.Var) -> Tensor:
    return Tensor(name, static_shape(variable), dtype_of(variable))


def name_anchor(group: Group) -> str:
    if group.composite is not None:
        return group.composite.kind
    return short_name(find_anchor(group).value)


def find_anchor(group: Group) -> relax.VarBinding:
    """Return the operator that describes the group best.

    The best operator has the most multiply-accumulates. If no operator has any, the last operator
    that sums or compares many elements is returned, or else the last operator that computes.
    """
    by_cost = max(group.bindings, key=lambda b: count_macs(b.value))
    if count_macs(by_cost.value):
        return by_cost
    for passed_over in (ELEMENTWISE | LAYOUT, EPILOGUE_OPERATORS):
        telling = [b for b in group.bindings if operator_name(b.value) not in passed_over]
        if telling:
            return telling[-1]
    return group.bindings[-1]


def region_name(index: int, group: Group) -> str:
    return f"region_{index:03d}_{re.sub(r'[^0-9a-zA-Z]+', '_', name_anchor(group))}"


def source_names(group: Group, outputs: dict[relax.Var, str]) -> tuple[str, ...]:
    """Return the names in the group that come from the source model, not from importers.

    Multiplications are first, because users recognize a region by its first name. For example, a
    dense layer with a Flatten before it is a dense layer.
    """
    anchor = find_anchor(group)
    about = group.bindings.index(anchor) if count_macs(anchor.value) else 0
    ordered = (*group.bindings[about:], *group.bindings[:about], *group.items)
    names = [
        outputs.get(b.var, "lv") if not is_source_name(b.var.name) else str(b.var.name)
        for b in ordered
    ]
    return tuple(n for n in dict.fromkeys(names) if is_source_name(n))


def is_view(group: Group, outputs: list[relax.Var]) -> bool:
    """Return whether the group needs no code: it only reshapes, and its result is not an output."""
    return group.root not in outputs and all(keeps_order(b.value) for b in group.bindings)
