"""The files of a region, by the names that users of TI's compilers know."""

from __future__ import annotations


class RegionFiles:
    """File names of the ``number``-th region; ``net`` and ``params`` are TI's tool's results.

    ``params_stem`` is what the tool appends ``1.bin`` to. ``build_files`` are what a build writes
    and hands on; calibration tensors, which are large, stay behind.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.stem = f"subgraph{number}"
        self.model = f"{self.stem}.onnx"
        self.layers = f"{self.stem}.layer_info.txt"
        self.config = f"tidl_import_{self.stem}.txt"
        self.calibration = f"calib_raw_data{number}.bin"
        self.net = f"{self.stem}_net.bin"
        self.params_stem = f"{self.stem}_params_"
        self.params = f"{self.params_stem}1.bin"
        self.build_files = (self.model, self.layers, self.config)
        self.tool_files = (self.net, self.params)
