"""Defines the names of a region's files, as users of TI's compilers know them."""

from __future__ import annotations


class RegionFiles:
    """The file names of the ``number``-th region; TI's tool writes ``net`` and ``params``.

    The tool appends ``1.bin`` to ``params_stem``. ``build_files`` are the files that a build writes
    for the bundle. They do not include calibration tensors, which are large.
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
