"""Provides the public interface for plug-ins: custom devices, strategies and networks.

Semantic versioning covers only these names. A name's module is imported at the first use of the
name. Every build reads the description of a device and must not load TVM.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from firmwright.builder import Graph as Graph
    from firmwright.builder import random_array as random_array
    from firmwright.data.fetch import find_in_mirror as find_in_mirror
    from firmwright.errors import DiagnosticError as DiagnosticError
    from firmwright.errors import UserError as UserError
    from firmwright.forked import run_in_copy as run_in_copy
    from firmwright.ir.kernels import Cycles as Cycles
    from firmwright.ir.kernels import Kernel as Kernel
    from firmwright.ir.kernels import LoweredRegion as LoweredRegion
    from firmwright.ir.kernels import Parameter as Parameter
    from firmwright.ir.library_call import library_call as library_call
    from firmwright.ir.operators import short_name as short_name
    from firmwright.ir.regions import Change as Change
    from firmwright.ir.regions import Region as Region
    from firmwright.ir.regions import Remedy as Remedy
    from firmwright.ir.regions import RuleViolation as RuleViolation
    from firmwright.ir.regions import Suggestion as Suggestion
    from firmwright.ir.relax import Constant as Constant
    from firmwright.ir.relax import constant_array as constant_array
    from firmwright.ir.relax import count_readers as count_readers
    from firmwright.ir.relax import dtype_of as dtype_of
    from firmwright.ir.relax import main_bindings as main_bindings
    from firmwright.ir.relax import operator_name as operator_name
    from firmwright.ir.relax import read_variables as read_variables
    from firmwright.ir.relax import rewrite_calls as rewrite_calls
    from firmwright.ir.relax import static_shape as static_shape
    from firmwright.ir.tensors import ModelInterface as ModelInterface
    from firmwright.ir.tensors import Operator as Operator
    from firmwright.ir.tensors import Tensor as Tensor
    from firmwright.lowering.loop_structure import apply_default_loops as apply_default_loops
    from firmwright.lowering.loop_structure import blocks as blocks
    from firmwright.lowering.region import lower_region as lower_region
    from firmwright.models.formats import ReferenceOutputs as ReferenceOutputs
    from firmwright.partition.grouping import Group as Group
    from firmwright.partition.grouping import group_operators as group_operators
    from firmwright.partition.merging import merge_acyclic as merge_acyclic
    from firmwright.partition.outline import find_dequantized as find_dequantized
    from firmwright.partition.outline import make_binding_kind as make_binding_kind
    from firmwright.partition.outline import read_graph as read_graph
    from firmwright.partition.quantized_chains import QuantizedChain as QuantizedChain
    from firmwright.partition.quantized_chains import QuantizedStep as QuantizedStep
    from firmwright.partition.quantized_chains import StoredTensor as StoredTensor
    from firmwright.partition.quantized_chains import describe_stored as describe_stored
    from firmwright.partition.quantized_chains import find_quantized_chains as find_quantized_chains
    from firmwright.planning.nested import lower_in_layers as lower_in_layers
    from firmwright.targets import Context as Context
    from firmwright.targets import Target as Target
    from firmwright.targets.custom_strategies import Extension as Extension
    from firmwright.targets.memory_layout import Layout as Layout
    from firmwright.targets.placement import Composite as Composite
    from firmwright.targets.placement import Placement as Placement
    from firmwright.targets.rules import Rule as Rule
    from firmwright.targets.rules import find_violations as find_violations
    from firmwright.targets.rules import read_rules as read_rules

HOMES = {
    "builder": "Graph random_array",
    "data.fetch": "find_in_mirror",
    "errors": "DiagnosticError UserError",
    "forked": "run_in_copy",
    "ir.kernels": "Cycles Kernel LoweredRegion Parameter",
    "ir.operators": "short_name",
    "ir.regions": "Change Region Remedy RuleViolation Suggestion",
    "ir.tensors": "ModelInterface Operator Tensor",
    "ir.relax": "Constant constant_array count_readers dtype_of main_bindings operator_name "
    "read_variables rewrite_calls static_shape",
    "ir.library_call": "library_call",
    "lowering.region": "lower_region",
    "lowering.loop_structure": "apply_default_loops blocks",
    "models.formats": "ReferenceOutputs",
    "partition.grouping": "Group group_operators",
    "partition.merging": "merge_acyclic",
    "partition.outline": "find_dequantized make_binding_kind read_graph",
    "partition.quantized_chains": "QuantizedChain QuantizedStep StoredTensor describe_stored "
    "find_quantized_chains",
    "planning.nested": "lower_in_layers",
    "targets": "Context Target",
    "targets.custom_strategies": "Extension",
    "targets.memory_layout": "Layout",
    "targets.placement": "Composite Placement",
    "targets.rules": "Rule find_violations read_rules",
}
"""The modules of ``firmwright`` and the names that each module defines."""

MODULE_OF = {
    name: f"firmwright.{module}" for module, names in HOMES.items() for name in names.split()
}

__all__ = sorted(MODULE_OF)


def __getattr__(name: str) -> Any:
    if name not in MODULE_OF:
        raise AttributeError(f"module 'firmwright.device' has no name '{name}'")
    return getattr(import_module(MODULE_OF[name]), name)
