"""The files of a region, by the names that users of TI's compilers know."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RegionFiles:
    """File names of the ``number``-th region; ``net`` and ``params`` are TI's tool's results."""

    number: int

    @property
    def stem(self) -> str:
        return f"subgraph{self.number}"

    @property
    def model(self) -> str:
        return f"{self.stem}.onnx"

    @property
    def layers(self) -> str:
        return f"{self.stem}.layer_info.txt"

    @property
    def config(self) -> str:
        return f"tidl_import_{self.stem}.txt"

    @property
    def calibration(self) -> str:
        return f"calib_raw_data{self.number}.bin"

    @property
    def net(self) -> str:
        return f"{self.stem}_net.bin"

    @property
    def params_stem(self) -> str:
        """What the tool appends ``1.bin`` to."""
        return f"{self.stem}_params_"

    @property
    def params(self) -> str:
        return f"{self.params_stem}1.bin"

    @property
    def build_files(self) -> tuple[str, ...]:
        """What a build writes and hands on; calibration tensors, which are large, stay behind."""
        return self.model, self.layers, self.config

    @property
    def tool_files(self) -> tuple[str, ...]:
        return self.net, self.params
