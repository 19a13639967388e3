"""Tabulate the cycles of networks on the RTL of a core, next to the prediction of its table.

    FIRMWRIGHT_MIRROR=… python -m tests.benchmarks.cycles [RECIPE …] [--wait-states 2]
    FIRMWRIGHT_MIRROR=… python -m tests.benchmarks.cycles [RECIPE …] --platform cv32e40p-bare
    FIRMWRIGHT_MIRROR=… python -m tests.benchmarks.cycles [RECIPE …] --emulator ibex

Each firmware runs one sample in unicorn and one on the RTL. Only CV32E40P without CORE-V
instructions has a table. For other cores, the columns by the table are empty. With wait states,
the flash provides lines of 16 bytes. The rows are CSV.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import yaml

import firmwright

ROOT = Path(__file__).parents[2]
RECIPES = ("resnet8", "kws", "vww", "ad")
COLUMNS = ("network", "instructions", "cycles by the table", "cycles in the RTL", "table / RTL",
           "cycles per instruction")  # fmt: skip


def write_platform(name: str, folder: Path, wait_states: int) -> Path:
    """Write a copy of a platform whose flash has wait states."""
    description = yaml.safe_load((ROOT / f"toolchains/platforms/{name}.yaml").read_text("utf-8"))
    description["memories"]["flash"]["wait_states"] = wait_states
    path = folder / "slow.yaml"
    path.write_text(yaml.safe_dump({**description, "name": path.stem}), "utf-8")
    return path


def run(recipe: str, emulator: str, platform: Path, folder: Path) -> dict[str, Any]:
    """Build and run one sample; return the record of the run."""
    variables = {"platform": platform, "emulator": emulator, "samples": 1, "outdir": folder}
    firmwright.build(ROOT / f"recipes/{recipe}.yaml", **variables)
    record: dict[str, Any] = json.loads((folder / "slow/run/run.json").read_text("utf-8"))
    assert record["differences"] == 0, record
    return record


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipes", nargs="*", default=RECIPES)
    parser.add_argument("--wait-states", type=int, default=0)
    parser.add_argument("--platform", default="rv32-bare")
    parser.add_argument("--emulator", default="cv32e40p")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        platform = write_platform(given.platform, Path(work), given.wait_states)
        for index, name in enumerate(given.recipes):
            predicted = ["", ""]
            rtl = run(name, given.emulator, platform, Path(work, name))
            cycles, instructions = rtl["cycles_total"], rtl["instructions_total"]
            if (given.platform, given.emulator) == ("rv32-bare", "cv32e40p"):
                table = run(name, "unicorn", platform, Path(work, name))["cycles_total"]
                predicted = [table, f"{table / cycles:.4f}"]
            cells = [name, instructions, predicted[0], cycles, predicted[1]]
            cells += [f"{cycles / instructions:.3f}", *rtl["stalls"].values()]
            if index == 0:
                print(",".join((*COLUMNS, *(f"stalls: {kind}" for kind in rtl["stalls"]))))
            print(",".join(map(str, cells)), flush=True)


if __name__ == "__main__":
    main()
