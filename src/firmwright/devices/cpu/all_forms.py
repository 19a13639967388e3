"""Lists all forms of the device ``c``. A layer uses the first form that fits its kind and its
core.

If a core has all instructions of another core and more, its forms are listed first.
"""

from __future__ import annotations

from firmwright.devices.cpu.forms import dot, dsp, mve, neon, packed, portable, rv32, x64, xcv
from firmwright.devices.cpu.forms.form import Form

FORMS: tuple[Form, ...] = (
    *x64.FORMS,
    *dot.FORMS,
    *neon.FORMS,
    *mve.FORMS,
    *packed.DSP_FORMS,
    *dsp.FORMS,
    *packed.FORMS,
    *xcv.FORMS,
    *rv32.FORMS,
    *portable.FORMS,
)
