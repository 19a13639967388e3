"""Loads the Python functions of a recipe's custom operators: ``model: {custom_operators: …}``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from firmwright.custom.code import load_custom_functions, locate_definition
from firmwright.custom.reads import list_unknown, record_reads
from firmwright.errors import DiagnosticError, UserError, did_you_mean
from firmwright.recipe.recipe import Recipe, error_at_key

if TYPE_CHECKING:
    from firmwright.models.tflite.custom_operators import Array, CustomOperator, Kinds, Options

Load = Callable[[str], Callable[..., Any]]


@contextmanager
def load_custom_operators(recipe: Recipe) -> Iterator[None]:
    """Register the recipe's custom operators with TFLite's importer and reference in the block.

    An error in a user's function raises a DiagnosticError at the recipe's key.
    """
    stated = recipe.model.custom_operators
    if not stated:
        yield
        return
    if recipe.model.format != "tflite":
        location = ("model", "custom_operators")
        text = f"the model is {recipe.model.format}; only TFLite models have this key: remove it"
        raise DiagnosticError([recipe.make_diagnostic(location, text)])
    from firmwright.models.tflite.custom_calls import use_custom_operators

    with load_custom_functions(recipe.path.parent) as load:
        operators = {name: make_operator(recipe, name, load) for name in stated}
        with use_custom_operators(operators):
            yield


def refuse_unused(recipe: Recipe, kinds: Collection[str]) -> None:
    """Raise DiagnosticError if the model does not have a custom operator of the recipe."""
    unused = [name for name in recipe.model.custom_operators if name not in kinds]
    if unused:
        raise DiagnosticError(
            recipe.make_diagnostic(
                ("model", "custom_operators", name),
                f"the model has no operator '{name}'{did_you_mean(name, kinds)}",
            )
            for name in unused
        )


def make_operator(recipe: Recipe, name: str, load: Load) -> CustomOperator:
    from firmwright.models.tflite.custom_operators import CustomOperator, list_option_constants

    source = recipe.model.custom_operators[name]
    compute = UserFunction(recipe, name, "reference", source.reference, load)
    infer = source.shapes and UserFunction(recipe, name, "shapes", source.shapes, load)
    return CustomOperator(
        source.function,
        lambda inputs, options, results: compute_results(compute, inputs, options, results),
        list_option_constants,
        shapes=(lambda inputs, options: infer_results(infer, inputs, options)) if infer else None,
    )


class UserFunction:
    """A Python function of the recipe. Errors name the recipe's key and the function's line."""

    def __init__(self, recipe: Recipe, name: str, key: str, reference: str, load: Load) -> None:
        self.recipe, self.reference = recipe, reference
        self.pointer = ("model", "custom_operators", name, key)
        with error_at_key(recipe, self.pointer):
            self.function = load(reference)

    def __call__(self, *given: Any) -> Any:
        with error_at_key(self.recipe, self.pointer), record_reads() as opened:
            result = self.function(*given)
            self.check_reads(opened)
            return result

    def check_reads(self, opened: set[str]) -> None:
        """Raise UserError if the function read files whose changes the build does not detect."""
        known = self.recipe.list_files("model.custom_operators")
        if names := list_unknown(opened, self.recipe.path.parent, known):
            listed = ", ".join(names)
            raise UserError(
                f"{self.reference} reads {listed}, which the recipe does not list; add "
                f"`files: [{listed}]`, so that the build detects changes"
            )

    def refuse(self, problem: str) -> DiagnosticError:
        """Return the error for a wrong result, at the line of the function's definition."""
        location = locate_definition(self.reference, self.recipe.path.parent)
        text = f"{location}: {problem} ({self.reference})"
        return DiagnosticError([self.recipe.make_diagnostic(self.pointer, text)])


def compute_results(
    function: UserFunction, inputs: Sequence[Array], options: Options, results: Kinds
) -> list[Array]:
    """Return the results of a ``reference`` function.

    Raises DiagnosticError if their number, shapes or types differ from ``results``.
    """
    import numpy as np

    from firmwright.models.tflite.custom_operators import TensorKind

    result = function([array.copy() for array in inputs], dict(options))
    listed = list(result) if isinstance(result, list | tuple) else [result]
    arrays = [np.asarray(each) for each in listed]
    if len(arrays) != len(results):
        raise function.refuse(f"returned {len(arrays)} arrays; expected {len(results)}")
    for number, (array, kind) in enumerate(zip(arrays, results, strict=True)):
        if (returned := TensorKind(array.shape, str(array.dtype))) != kind:
            raise function.refuse(f"result {number} is {returned}; expected {kind}")
    return arrays


def infer_results(function: UserFunction, inputs: Kinds, options: Options) -> Kinds:
    """Return the shapes and types that a ``shapes`` function returns.

    Raises DiagnosticError if the function's result is not valid.
    """
    import numpy as np

    from firmwright.models.tflite.custom_operators import DTYPES, TensorKind

    result = function([tuple(kind) for kind in inputs], dict(options))
    try:
        kinds = [TensorKind(tuple(int(n) for n in s), np.dtype(d).name) for s, d in result]
    except (TypeError, ValueError):
        shown = repr(result)[:80]
        raise function.refuse(
            f"returned {shown}; expected a list of (shape, dtype), such as [((1, 4), 'int8')]"
        ) from None
    for kind in kinds:
        if min(kind.shape, default=1) < 1 or kind.dtype not in DTYPES.values():
            raise function.refuse(f"returned {kind}; expected lengths from 1 on and a TFLite type")
    return kinds
