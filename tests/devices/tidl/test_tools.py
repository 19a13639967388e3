"""TI's tools: the required files of the folder, and the call of the import. The tools are fakes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from firmwright.devices.tidl.artifact_records import RegionFiles
from firmwright.devices.tidl.tools import TOOL_FILES, find_tools, make_import_script, run_import
from firmwright.errors import UserError
from firmwright.toolchain import load_platform
from firmwright.toolchain.tool_folder import ToolFolder

from .fake_tools import FAILS, FORGETS, IMPORTS, calls, fake_tools

AM62A = load_platform("am62a")
REGION = RegionFiles(1)


@pytest.fixture
def region(tmp_path: Path) -> Path:
    """The folder of a region's files, with a space in its name."""
    folder = tmp_path / "the artifacts"
    folder.mkdir()
    (folder / REGION.model).write_bytes(b"onnx")
    (folder / REGION.calibration).write_bytes(b"12345678")
    found = {
        "inputNetFile": REGION.model,
        "inData": REGION.calibration,
        "outputNetFile": REGION.net,
        "outputParamsFile": REGION.params_stem,
    }
    lines = [f'{key} = "{value}"\n' for key, value in found.items()]
    (folder / REGION.config).write_text("".join(lines))
    return folder


def installed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> ToolFolder:
    monkeypatch.setenv("TIDL_TOOLS_PATH", str(folder))
    tools = find_tools(AM62A)
    assert tools is not None
    return tools


def test_the_import_is_called_as_ti_calls_it(
    region: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = installed(fake_tools(tmp_path / "tools"), monkeypatch)
    monkeypatch.setenv("LD_LIBRARY_PATH", "/usr/local/some")
    monkeypatch.setenv("TIDL_RELAY_IMPORT_DEBUG", "4")
    log = tmp_path / "logs" / "subgraph1.log"
    assert run_import(tools, region, REGION, log) == "11_00_06_00"
    (call,) = calls(tools.path)
    assert call["argv"] == [
        f"{tools.path}/tidl_model_import.out",
        "tidl_import_subgraph1.txt",
        "--tidlStatsTool",
        f"{tools.path}/PC_dsp_test_dl_algo.out",
        "--perfSimTool",
        f"{tools.path}/ti_cnnperfsim.out",
        "--graphVizTool",
        f"{tools.path}/tidl_graphVisualiser.out",
        "--perfSimConfig",
        f"{tools.path}/device_config.cfg",
    ]
    assert call["cwd"] == str(region)
    assert call["files"] == {"subgraph1.onnx": 4, "calib_raw_data1.bin": 8}
    environment = call["environment"]
    assert environment["TIDL_TOOLS_PATH"] == str(tools.path)
    assert environment["LD_LIBRARY_PATH"] == f"{tools.path}:/usr/local/some"
    assert environment["PATH"] == os.environ["PATH"]
    assert "TIDL_RELAY_IMPORT_DEBUG" not in environment
    assert (region / "subgraph1_net.bin").read_bytes() == b"net of subgraph1.onnx"
    assert (region / "subgraph1_params_1.bin").exists()
    assert "TIDL Tools Version" in log.read_text()


def test_the_script_calls_it_the_same_way(
    region: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = installed(fake_tools(tmp_path / "the tools"), monkeypatch)
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    run_import(tools, region, REGION, tmp_path / "log")
    script = region / "import.sh"
    script.write_text(make_import_script([REGION.config]))
    subprocess.run(["sh", script], cwd=tmp_path, check=True, stdout=subprocess.DEVNULL)
    built, by_hand = calls(tools.path)
    for part in ("argv", "cwd", "files"):
        assert by_hand[part] == built[part]
    assert by_hand["environment"]["LD_LIBRARY_PATH"] == str(tools.path)


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (FAILS, "exit code 3"),
        (FORGETS, "no subgraph1_params_1.bin"),
        ("", "no subgraph1_net.bin and no subgraph1_params_1.bin"),
    ],
    ids=["fails", "forgets", "writes nothing"],
)
def test_a_failed_import_shows_the_end_of_its_log(
    body: str, found: str, region: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = installed(fake_tools(tmp_path / "tools", body), monkeypatch)
    log = tmp_path / "logs" / "subgraph1.log"
    with pytest.raises(UserError) as caught:
        run_import(tools, region, REGION, log)
    message = str(caught.value)
    assert f"{found}; its log, {log}, ends with:" in message
    if body == FAILS:
        assert message.endswith("  line 29\n  [ERROR] the network is not understood")
        assert "line 10\n" not in message
        assert "line 10\n" in log.read_text()


def test_without_the_variable_there_are_no_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TIDL_TOOLS_PATH", raising=False)
    assert find_tools(AM62A) is None


@pytest.mark.parametrize("absent", TOOL_FILES)
def test_a_file_that_is_missing_is_named(
    absent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = fake_tools(tmp_path / "tools")
    (folder / absent).unlink()
    with pytest.raises(UserError, match=f"has no file {absent}; set TIDL_TOOLS_PATH"):
        installed(folder, monkeypatch)


def test_a_program_that_does_not_run_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = fake_tools(tmp_path / "tools")
    (folder / "ti_cnnperfsim.out").chmod(0o644)
    with pytest.raises(UserError, match=r"not executable: ti_cnnperfsim\.out; run `chmod \+x`"):
        installed(folder, monkeypatch)


@pytest.mark.parametrize(
    ("platform", "device", "fits"),
    [
        ("am62a", 4, True),
        ("am67a", 4, True),
        ("j721e", 0, True),
        ("j721s2", 2, True),
        ("host", 4, True),
        ("am62a", 0, False),
        ("j721e", 4, False),
        ("j784s4", 4, False),
    ],
)
def test_tools_for_another_chip_are_refused(
    platform: str, device: int, fits: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = fake_tools(tmp_path / "tools", IMPORTS, device)
    monkeypatch.setenv("TIDL_TOOLS_PATH", str(folder))
    if fits:
        assert find_tools(load_platform(platform)) is not None
        return
    with pytest.raises(UserError, match=rf"for another chip \(DEVICE_NAME {device}\)"):
        find_tools(load_platform(platform))


def test_a_configuration_without_a_device_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = fake_tools(tmp_path / "tools")
    (folder / "device_config.cfg").write_text("MSMCSIZE_KB = 1024\n")
    with pytest.raises(UserError, match="the line `DEVICE_NAME"):
        installed(folder, monkeypatch)
