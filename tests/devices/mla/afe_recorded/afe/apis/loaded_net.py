"""api: ``load_model`` and ``LoadedNet``, release 2.1."""

from __future__ import annotations

import logging
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from ..load.importers.general_importer import ImporterParams
from .defines import Platform, QuantizationParams
from .model import Model

Sample = dict[str, npt.NDArray[np.float32]]


def load_model(
    params: ImporterParams,
    *,
    target: Platform,  # the real function has a default, which releases change: always state it
    custom_param_data: None = None,
    log_level: int = logging.NOTSET,
) -> LoadedNet:
    return LoadedNet(params, target)


class LoadedNet:
    def __init__(self, params: ImporterParams, target: Platform) -> None:
        self.params = params
        self.target = target

    def quantize(
        self,
        calibration_data: Iterable[Sample],
        quantization_config: QuantizationParams,
        *,
        automatic_layout_conversion: bool = False,
        arm_only: bool = False,
        simulated_arm: bool = False,
        model_name: str | None = None,
        any_shape_on_mla: bool = False,
        log_level: int = logging.NOTSET,
    ) -> Model:
        samples = list(calibration_data)
        if simulated_arm or model_name is None:
            raise TypeError("simulated_arm is to be left alone; model_name names the archive")
        if quantization_config.activation_quantization_scheme.bf16 and self.target != Platform.GEN2:
            raise ValueError("bfloat16 is for gen2 alone")
        if not arm_only:
            self.check_samples(samples)
        return Model(self.params, model_name, quantization_config, len(samples), arm_only)

    def check_samples(self, samples: list[Sample]) -> None:
        """The channels of calibration data are last, in any layout of the model."""
        if not samples:
            raise ValueError("there is no calibration data")
        for name, shape in self.params.shapes.items():
            last = (shape[0], *shape[2:], shape[1]) if len(shape) == 4 else shape
            for sample in samples:
                if sample[name].shape != last or sample[name].dtype != np.float32:
                    raise ValueError(f"{name}: {sample[name].shape} {sample[name].dtype}")
