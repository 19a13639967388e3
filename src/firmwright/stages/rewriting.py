"""Applies the network's rewrites, and notes their effects."""

from __future__ import annotations

from contextlib import suppress

from tvm_ffi import structural_equal

from firmwright.compile import prepare_module
from firmwright.errors import UserError
from firmwright.ir.nodes import IRModule
from firmwright.ir.relax import main_bindings, operator_name
from firmwright.ir.tensors import ModelInterface
from firmwright.partition.outline import count_operator_macs
from firmwright.pipeline import artifacts
from firmwright.pipeline.custom_rewrites import list_custom_rewrites
from firmwright.pipeline.job import Job
from firmwright.pipeline.stage_options import select_rewrites, transform_options
from firmwright.targets import find_rewrites
from firmwright.transforms.integers.remarks import explain_floats
from firmwright.transforms.transposed_convolutions import explain_whole


def rewrite_network(job: Job, network: IRModule) -> tuple[IRModule, ModelInterface]:
    module = prepare_module(network, select_rewrites(job), list_custom_rewrites(job))
    return module, artifacts.NETWORK_INTERFACE.read(job)


def note_saved_macs(job: Job, network: IRModule, module: IRModule) -> None:
    """Note the number of multiply-accumulates if the rewrites reduce this number.

    The number may be unknown before the rewrites, because shapes may be computed.
    """
    left = sum(count_operator_macs(module).values())
    with suppress(UserError):
        macs = sum(count_operator_macs(network).values())
        if left < macs:
            job.note(f"rewritten from {macs:,} to {left:,} multiply-accumulates")


def note_idle_keys(job: Job, network: IRModule, module: IRModule) -> None:
    """Note the rewrites and the rounding that the recipe states and that have no effect.

    ``module`` is the rewritten ``network``.
    """
    options, asked = transform_options(job), find_rewrites(job.mix)
    for name in options.switched_off:
        if name not in asked:
            job.note(f"transforms.without: no effect: no device requests {name}")
    selected, custom = select_rewrites(job), list_custom_rewrites(job)
    for name in options.switched_on:
        if structural_equal(prepare_module(network, selected - {name}, custom), module):
            job.note(
                f"transforms.with: no effect: this network has no operators that {name} replaces"
            )
    if job.recipe.states(("rounding",)) and not has_quantized_layers(module):
        job.note("rounding: no effect: the network has no quantized layers")


def has_quantized_layers(module: IRModule) -> bool:
    names = {operator_name(binding.value) for binding in main_bindings(module)}
    return not names.isdisjoint(("relax.quantize", "relax.dequantize"))


EXPLANATIONS = (
    ("UseIntegers", explain_floats, "has whole numbers, but stays in float32"),
    (
        "SplitTransposedConvolutions",
        explain_whole,
        "stays a transposed convolution, whose loops also multiply zeros",
    ),
)
"""The rewrites that explain the layers that they do not replace, and a phrase for the note."""


def note_kept_layers(job: Job, module: IRModule) -> None:
    """Note the first layer that each rewrite does not replace, with the reason."""
    selected = select_rewrites(job)
    for rewrite, explain, phrase in EXPLANATIONS:
        if rewrite in selected and (layers := explain(module)):
            (name, reason), others = layers[0], len(layers) - 1
            more = f" (and {others} more)" if others else ""
            job.note(f"'{name}' {phrase}: {reason}{more}")
