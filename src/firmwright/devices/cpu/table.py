"""All forms of the device ``c``: of those for a layer's kind and core the first that fits is taken.

A family whose cores have another's instructions as well stands before it.
"""

from __future__ import annotations

from firmwright.devices.cpu.families import (
    armv7e_m_dsp,
    armv8_1m_mve,
    dotprod,
    neon,
    portable,
    rv32m,
    x86_64,
)
from firmwright.devices.cpu.forms.form import Form

FORMS: tuple[Form, ...] = (
    *x86_64.FORMS,
    *dotprod.FORMS,
    *neon.FORMS,
    *armv8_1m_mve.FORMS,
    *armv7e_m_dsp.FORMS,
    *rv32m.FORMS,
    *portable.FORMS,
)
