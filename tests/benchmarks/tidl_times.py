"""Tabulate the modelled times of TI's chips next to the times that TI publishes.

    python tests/benchmarks/tidl_times.py

TI's times, in milliseconds, are from the reference results of its tools (edgeai-tidl-tools,
golden_ref_<soc>.csv): one inference, called by the Arm cores. ResNet-18's time is the source of a
platform's `macs_per_cycle`; MobileNetV1's time is not used.
"""

from __future__ import annotations

from dataclasses import dataclass

from firmwright.toolchain import load_platform

PUBLISHED = {
    "am62a": (9.6, 3.9),
    "am67a": (9.34, 3.9),
    "j721e": (2.65, 1.8),
    "j721s2": (2.58, 1.72),
    "j784s4": (2.6, 1.65),
}


@dataclass(frozen=True)
class Work:
    """Multiply-accumulates of one inference, and weights of one byte each."""

    macs: int = 0
    weights: int = 0

    def convolution(self, side: int, inputs: int, outputs: int, kernel: int) -> Work:
        """Add a convolution with ``side`` x ``side`` results, or of single channels (inputs 1)."""
        weights = inputs * outputs * kernel**2
        return Work(self.macs + weights * side**2, self.weights + weights)


def resnet18() -> Work:
    """ResNet-18 for 224 x 224 pixels: four stages of two blocks, the first of a stage strided."""
    work = Work().convolution(112, 3, 64, 7)
    inputs = 64
    for side, outputs in ((56, 64), (28, 128), (14, 256), (7, 512)):
        work = work.convolution(side, inputs, outputs, 3)
        for _ in range(3):
            work = work.convolution(side, outputs, outputs, 3)
        if inputs != outputs:
            work = work.convolution(side, inputs, outputs, 1)
        inputs = outputs
    return work.convolution(1, 512, 1000, 1)


def mobilenet_v1() -> Work:
    """MobileNetV1 of full width for 224 x 224 pixels: thirteen pairs of convolutions."""
    work = Work().convolution(112, 3, 32, 3)
    inputs = 32
    pairs = ((112, 64), (56, 128), (56, 128), (28, 256), (28, 256), (14, 512), *((14, 512),) * 5,
             (7, 1024), (7, 1024))  # fmt: skip
    for side, outputs in pairs:
        work = work.convolution(side, 1, inputs, 3).convolution(side, inputs, outputs, 1)
        inputs = outputs
    return work.convolution(1, 1024, 1000, 1)


def milliseconds(work: Work, chip: str) -> float:
    """Return the result of the mappings' cost model for a network that is one region."""
    timing = load_platform(chip).timing
    assert timing is not None
    engine = timing.find_throughput("tidl")
    cycles = max(work.macs / engine.macs_per_cycle, work.weights / engine.bytes_per_cycle)
    return cycles / engine.clock_mhz / 1000 + timing.call_us / 1000


def main() -> None:
    networks = {"ResNet-18": resnet18(), "MobileNetV1": mobilenet_v1()}
    print("| network | MACs | chip | TI, ms | modelled, ms | difference, % |")
    print("|---|---|---|---|---|---|")
    for number, (name, work) in enumerate(networks.items()):
        for chip, times in PUBLISHED.items():
            ours, published = milliseconds(work, chip), times[number]
            print(f"| {name} | {work.macs:,} | {chip} | {published} | {ours:.2f} "
                  f"| {100 * (ours / published - 1):+.0f} |")  # fmt: skip


if __name__ == "__main__":
    main()
