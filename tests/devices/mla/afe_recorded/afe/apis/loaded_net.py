"""api: ``load_model`` and ``LoadedNet``, release 2.1."""

from __future__ import annotations

import logging
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from ..ir.defines import RequantizationMode
from ..load.importers.general_importer import ImporterParams
from .defines import Platform, QuantizationParams, default_quantization
from .model import Model
from .statistic import Statistic

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

    def quantize_with_accuracy_feedback(
        self,
        calibration_data: Iterable[Sample],
        evaluation_data: Iterable[tuple[Sample, int]],
        quantization_config: QuantizationParams,
        *,
        accuracy_score: Statistic,
        target_accuracy: float,
        automatic_layout_conversion: bool = False,
        max_optimization_steps: int | None = None,
        model_name: str | None = None,
        any_shape_on_mla: bool = False,
        log_level: int = logging.NOTSET,
    ) -> Model:
        pairs = list(evaluation_data)
        self.check_samples([sample for sample, _ in pairs])
        right = [np.eye(10)[label] for _, label in pairs]
        score = accuracy_score.compute(([o], t) for o, (_, t) in zip(right, pairs, strict=True))
        if score != 1 or not 0 <= target_accuracy <= 1:
            raise ValueError("the score of the right classes is 1")
        model = self.quantize(calibration_data, quantization_config, model_name=model_name)
        model.remarks = {"target": target_accuracy, "steps": max_optimization_steps}
        return model

    def convert_to_sima_quantization(
        self,
        *,
        requantization_mode: RequantizationMode = RequantizationMode.sima,
        model_name: str | None = None,
        any_shape_on_mla: bool = False,
        log_level: int = logging.NOTSET,
    ) -> Model:
        if model_name is None:
            raise TypeError("model_name names the archive")
        model = Model(self.params, model_name, default_quantization, 0, False)
        model.remarks = {"converted": requantization_mode.name}
        return model

    def check_samples(self, samples: list[Sample]) -> None:
        """The channels of calibration data are last, in any layout of the model."""
        if not samples:
            raise ValueError("there is no calibration data")
        for name, shape in self.params.shapes.items():
            last = (shape[0], *shape[2:], shape[1]) if len(shape) == 4 else shape
            for sample in samples:
                if sample[name].shape != last or sample[name].dtype != np.float32:
                    raise ValueError(f"{name}: {sample[name].shape} {sample[name].dtype}")
