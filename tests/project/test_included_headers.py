"""An object is compiled again only if its source, or a header that it includes, has changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from firmwright.stages.objects import digest_sources

FILES = {
    "network/kws.h": "#include <stdint.h>\n",
    "network/kws_regions.h": "/* regions */\n",
    "network/kws.c": '#include "kws.h"\n  #  include "kws_regions.h"\n',
    "board/fw_hal.h": "/* HAL */\n",
    "board/fw_hal.c": '#include "fw_hal.h"\n/* #include of nothing */\n',
    "demo/main.c": '#include "fw_hal.h"\n#include "kws.h"\n',
    "board/driver.c": "#include DRIVER_HEADER\n",
    "freestanding/stdint.h": "/* integers */\n",
}
NETWORK, HAL, DEMO, DRIVER = "network/kws.c", "board/fw_hal.c", "demo/main.c", "board/driver.c"


@pytest.mark.parametrize(
    ("changed", "again"),
    [
        ("network/kws_regions.h", {NETWORK, DRIVER}),
        ("network/kws.h", {NETWORK, DEMO, DRIVER}),
        ("board/fw_hal.h", {HAL, DEMO, DRIVER}),
        ("freestanding/stdint.h", {NETWORK, DEMO, DRIVER}),  # through kws.h
        ("network/kws.c", {NETWORK}),
    ],
)
def test_only_what_includes_it_changes(tmp_path: Path, changed: str, again: set[str]) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    before = digest_sources(tmp_path, "flags")
    (tmp_path / changed).write_text(FILES[changed] + "/* new */\n")
    after = digest_sources(tmp_path, "flags")
    assert {name for name in before if before[name] != after[name]} == again
