"""Makes C identifiers from the names of a model's tensors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from firmwright.errors import CONTROLS

KEYWORDS = frozenset(
    """
    auto break case char const continue default do double else enum extern float for goto if
    inline int long register restrict return short signed sizeof static struct switch typedef
    union unsigned void volatile while _Bool _Complex _Imaginary
    alignas alignof constexpr nullptr static_assert thread_local typeof
    bool true false class new delete this template private public protected virtual try catch
    throw namespace using operator friend typename explicit export mutable asm
    and and_eq bitand bitor compl not not_eq or or_eq xor xor_eq char8_t char16_t char32_t wchar_t
    const_cast dynamic_cast reinterpret_cast static_cast decltype noexcept typeid concept requires
    co_await co_return co_yield consteval constinit
    """.split()
)
"""The keywords of C99 and C23, and the C++ keywords that a shared header must avoid."""

RESERVED_MACROS = frozenset(
    """
    NULL EOF BUFSIZ RAND_MAX NDEBUG NAN INFINITY HUGE_VAL SIZE_MAX WCHAR_MAX WCHAR_MIN
    assert complex errno imaginary offsetof setjmp stderr stdin stdout linux unix
    va_arg va_copy va_end va_start isfinite isinf isnan isnormal signbit fpclassify
    """.split()
)
"""Names that a C library header or a compiler may define as macros."""

ARDUINO_MACROS = frozenset(
    """
    CHANGE DEFAULT DEG_TO_RAD DISPLAY EULER EXTERNAL FALLING HALF_PI HIGH INPUT INPUT_PULLDOWN
    INPUT_PULLUP INTERNAL LED_BUILTIN LOW LSBFIRST MSBFIRST NOT_AN_INTERRUPT NOT_A_PIN NOT_A_PORT
    NOT_ON_TIMER OUTPUT OUTPUT_OPENDRAIN PI RAD_TO_DEG RISING SERIAL TWO_PI
    """.split()
)
"""Macros without parameters that Arduino.h defines in some cores.

A macro with parameters, such as ``min``, does not change a member of a struct.
"""

AVR_MACROS = frozenset("ADC BIN DEC F_CPU HEX OCT SE SP SREG".split())
"""Macros of Arduino's AVR core, and common macros of avr-libc.

The headers of avr-libc define more than a thousand registers and bits, such as UDR0 and ADEN. Those
names are not reserved, because they differ between chips.
"""

REGISTER_MACRO = re.compile(r"B[01]{1,8}|(P|DD)[A-L][0-7]|(PIN|PORT|DDR)[A-L][0-7]?")
"""Macros in Arduino's AVR core: binary constants such as B00000001, and ports such as PORTB and
PB5."""

NUMBER_MACRO = re.compile(
    r"U?INT\w*_(C|MAX|MIN)|[SU]?CHAR_\w+|U?(SHRT|LONG|LLONG)_(MAX|MIN)"
    r"|(FLT|DBL|LDBL)_\w+|M_\w+|(PRI|SCN)[diouxX]\w+"
)
"""Macros for numbers and formats, such as INT32_MIN, CHAR_BIT, FLT_EPSILON and M_PI."""

MAX_LENGTH = 60
"""The maximum characters of a name. C99 guarantees 63 significant characters for internal names."""


def is_reserved(name: str) -> bool:
    """Return whether a name is a keyword, or a common macro of the C library or Arduino."""
    if name in KEYWORDS | RESERVED_MACROS | ARDUINO_MACROS | AVR_MACROS:
        return True
    return bool(NUMBER_MACRO.fullmatch(name) or REGISTER_MACRO.fullmatch(name))


def c_identifier(name: str) -> str:
    """Return ``name`` as a C identifier, with underscores instead of invalid characters."""
    text = re.sub(r"[^0-9A-Za-z_]+", "_", name).strip("_")[:MAX_LENGTH] or "tensor"
    if is_reserved(text):
        text = f"{text}_"
    if text[0].isdigit():
        text = f"_{text}"
    return text.lstrip("_") if text.startswith("__") else text


def make_unique_identifiers(
    names: Iterable[str], chosen: Mapping[str, str] | None = None
) -> list[str]:
    """Return one identifier per name, in order. Identifiers that collide have numbers.

    ``chosen`` has the identifiers of some names.
    """
    taken: set[str] = set()
    result = []
    for name in names:
        stem = candidate = (chosen or {}).get(name) or c_identifier(name)
        number = 1
        while candidate.lower() in taken:
            number += 1
            candidate = f"{stem}_{number}"
        taken.add(candidate.lower())
        result.append(candidate)
    return result


def escape_comment(text: str) -> str:
    """Return text on one line, without the marks that begin or end a comment."""
    printable = re.sub(r"[\n\t]", " ", CONTROLS.sub(" ", text))
    apart = printable.replace("*/", "* /").replace("/*", "/ *")
    return re.sub(r"\?(?=\?)", "? ", apart)  # "??/" is a backslash
