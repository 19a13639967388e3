"""Applies the custom rewrites of a recipe: ``transforms: {extra: ["module:function"]}``."""

from __future__ import annotations

from functools import partial

from firmwright.compile import Rewrite
from firmwright.ir.nodes import IRModule
from firmwright.recipe.recipe import error_at_key
from firmwright.targets.custom_transforms import apply_user_transform

from .job import Job
from .stage_options import transform_options


def list_custom_rewrites(job: Job) -> list[Rewrite]:
    """Return the user's rewrites.

    Errors in a rewrite raise a DiagnosticError at the recipe's key.
    """

    def apply(index: int, reference: str, module: IRModule) -> IRModule:
        with error_at_key(job.recipe, ("transforms", "extra", index)):
            return apply_user_transform(reference, job.recipe.path.parent, module)

    extra = transform_options(job).extra
    return [partial(apply, index, reference) for index, reference in enumerate(extra)]
