"""Lists all forms of the device ``c``. A layer uses the first form for its kind and core.

The forms of a core precede the forms of cores that have fewer instructions.
"""

from __future__ import annotations

from firmwright.devices.cpu.forms import (
    binary,
    dot,
    dsp,
    dsp_packed,
    mve,
    neon,
    packed,
    portable,
    rv32,
    tables,
    x64,
    xcv,
)
from firmwright.devices.cpu.forms.form import Form

FORMS: tuple[Form, ...] = (
    *tables.FORMS,
    *x64.FORMS,
    *dot.FORMS,
    *neon.FORMS,
    *mve.FORMS,
    *dsp_packed.FORMS,
    *dsp.FORMS,
    *packed.FORMS,
    *xcv.FORMS,
    *rv32.FORMS,
    *portable.FORMS,
    *binary.FORMS,
)
