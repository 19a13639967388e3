"""Reads and writes at computed positions, cumulative operators, and samples between pixels."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firmwright.errors import UserError
from firmwright.models import FORMATS
from firmwright.models.formats import OpenShapesError
from tests.networks.firmware import run_generated

pytestmark = pytest.mark.slow

torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch")
nn = torch.nn

from tests.networks.torch_programs import Call, exported, samples  # noqa: E402 (needs torch)

ROWS, COLUMNS = torch.tensor([0, -1, 2]), torch.tensor([[4, 1, -2], [0, 0, 3]])


def read_by_indices(x: Any) -> Any:
    found = (x * 4).round().clamp(-3, 3).long()[0, :, 0, 0]
    return (
        x[:, ROWS, COLUMNS], x[:, ROWS, :, COLUMNS], x[0, :, ROWS, COLUMNS], x[:, :, COLUMNS],
        x[..., ROWS, :], x[:, found, ROWS[:1]], x[:, ROWS[:, None], ROWS],
    )  # fmt: skip


def write_by_indices(x: Any) -> Any:
    y, z = x.clone(), x.clone()
    y[:, ROWS, COLUMNS] = 7.0
    z[:, ROWS, :, COLUMNS] = x[0, 0, :, 0]
    added = x.index_put((torch.tensor([0]), ROWS, ROWS), x[0, :3, 0], accumulate=True)
    masked = x.clone()
    masked[x > 0.5] = -1.0
    return (y, z, added, masked, x.index_add(1, ROWS[::2], x[:, :2]),
            x.index_fill(2, ROWS, 2.0), x.index_copy(1, ROWS[::2] + 1, x[:, :2]))  # fmt: skip


def scatter(x: Any) -> Any:
    places = torch.tensor([[[[0, 2, 1, 0, 2], [2, 2, 0, 1, 1]]] * 3])
    forms = [
        x.scatter_reduce(2, places, x, kind, include_self=own)
        for kind, own in product(("sum", "prod", "amax", "amin", "mean"), (True, False))
    ]
    pooled = [x.index_reduce(1, ROWS[::2], x[:, :2], kind) for kind in ("prod", "amax")]
    forms += [*pooled, x.diagonal_scatter(x[0, 0, :, 0].expand(1, 4, 5), 1, 2, 3)]
    return (x.scatter(2, places, x), x.scatter(-2, places, 3.0), x.scatter_add(2, places, x),
            x.gather(2, places), *forms)  # fmt: skip


def accumulate(x: Any) -> Any:
    rounded = (x * 2).round()
    return (
        x.cumsum(1), x.cumprod(2), *rounded.cummax(2), *rounded.cummin(-1),
        x.prod(1), x.prod(-1, True), x.unfold(3, 3, 2), x.unfold(1, 2, 1), (x * 40).logcumsumexp(1),
    )  # fmt: skip


def sample(x: Any) -> Any:
    grid = x[:, :2].permute(0, 2, 3, 1) * 0.8
    modes, paddings = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")
    return tuple(
        nn.functional.grid_sample(x, grid, mode, padding, align_corners=number % 2 == 1)
        for number, (mode, padding) in enumerate(product(modes, paddings))
    )


@pytest.mark.needs("gcc")
@pytest.mark.parametrize(
    "function", [read_by_indices, write_by_indices, scatter, accumulate, sample]
)
def test_outputs_are_those_of_torch(function: Any, tmp_path: Path) -> None:
    data = exported(Call(function), torch.zeros(1, 4, 5, 6))
    given = samples(data, 2)
    found = run_generated(data, given, tmp_path, ("-O0",), "pt2")
    wanted = FORMATS["pt2"].load().run_reference(data, given).outputs
    for ours, theirs in zip(found, wanted, strict=True):
        for number, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            assert (a.dtype, a.shape) == (b.dtype, b.shape), number
            np.testing.assert_allclose(a, b, 1e-5, 1e-5, err_msg=str(number))


def test_a_mask_selects_a_number_of_elements_known_at_run_time() -> None:
    data = exported(Call(lambda x: x[x > 0].sum()), torch.zeros(1, 4))
    with pytest.raises(UserError, match=r"aten\.index\.Tensor .*: a mask selects a number"):
        FORMATS["pt2"].load().import_model(data, "m.pt2", {})


def test_the_reference_rejects_an_index_beyond_the_axis() -> None:
    data = exported(Call(lambda x: x[:, x[0].long()]), torch.zeros(1, 4))
    with pytest.raises(UserError, match="cannot run the model: index 9 is out of bounds"):
        FORMATS["pt2"].load().run_reference(data, [{"x": np.full((1, 4), 9, "float32")}])


def last_and_sum(x: Any) -> Any:
    return x[..., -1] + x.flatten(1).sum(1, True) * x.shape[-1]


def test_shapes_are_bound_before_the_import() -> None:
    time = torch.export.Dim("time", min=3, max=50)
    data = exported(
        Call(last_and_sum), torch.zeros(2, 4, 9), dynamic_shapes={"x": {2: time}}, strict=False
    )
    importer = FORMATS["pt2"].load()
    _, interface = importer.import_model(data, "m.pt2", {"x": (2, 4, 7)})
    assert (interface.inputs[0].shape, interface.outputs[0].shape) == ((2, 4, 7), (2, 4))
    with pytest.raises(OpenShapesError, match=r"x: \[2, 4, 's\d+'\]"):
        importer.import_model(data, "m.pt2", {})
    with pytest.raises(UserError, match=r"does not fit the model's \[2, 4, s\d+\]: .* is 3 to 50"):
        importer.import_model(data, "m.pt2", {"x": (2, 4, 2)})
    with pytest.raises(UserError, match=r"shape \[1, 4, 7\] does not fit the model's"):
        importer.import_model(data, "m.pt2", {"x": (1, 4, 7)})
    with pytest.raises(UserError, match="has no input 'y'"):
        importer.import_model(data, "m.pt2", {"y": (1, 4, 7)})


def test_an_automatic_range_begins_at_two() -> None:
    data = exported(nn.ReLU(), torch.zeros(3, 4),
                    dynamic_shapes={"input": {0: torch.export.Dim.AUTO}})  # fmt: skip
    _, interface = FORMATS["pt2"].load().import_model(data, "m.pt2", {"input": (1, 4)})
    assert interface.outputs[0].shape == (1, 4)
    assert "begins at 2" in interface.remarks[0]


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_a_linear_layer_rounds_once(kind: Any, tmp_path: Path) -> None:
    def compute(x: Any, used: Any) -> Any:
        narrow = x.to(kind)
        scaled = torch.addmm(narrow[0], narrow, used.weight, beta=0.5, alpha=2.0)
        product = torch.addmm(narrow[0], narrow, used.weight, beta=0)
        return torch.cat([used(narrow), scaled, product]).float()

    data = exported(Call(compute, nn.Linear(8, 8).to(kind)), torch.zeros(4, 8))
    given = samples(data, 4)
    found = run_generated(data, given, tmp_path, ("-O0",), "pt2")
    wanted = FORMATS["pt2"].load().run_reference(data, given).outputs
    np.testing.assert_array_equal(found, wanted)
