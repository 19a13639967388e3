"""Simulates one job of a program on this machine.

The job's file contains 32-bit integers (bytes of the payload, number of regions, bytes of each
region), the payload, and the regions. The results overwrite the regions. Region 0 is read-only.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from firmwright.device import UserError
from firmwright_ethos_u.simulator import simulate

REJECTED = 2
"""The exit code for a job that the simulator rejects. Other codes are failures of Python."""


def run(path: Path) -> None:
    data = np.fromfile(path, np.uint8)
    payload, count = (int(value) for value in data[:8].view("<u4"))
    sizes = data[8 : 8 + 4 * count].view("<u4")
    start = 8 + 4 * count + payload
    ends = start + np.cumsum(sizes, dtype=np.int64)
    regions = {
        number: data[end - size : end]
        for number, (end, size) in enumerate(zip(ends.tolist(), sizes.tolist(), strict=True))
    }
    simulate(data[start - payload : start].tobytes(), regions, {0})
    data.tofile(path)


def main() -> None:
    """Run the job of the file in the only argument. Print the error if the job is rejected."""
    try:
        run(Path(sys.argv[1]))
    except UserError as error:
        print(error, file=sys.stderr)
        sys.exit(REJECTED)


if __name__ == "__main__":
    main()
