"""Ids of threads, turns and submissions."""

from __future__ import annotations

import os
import time

__all__ = ["new_id"]


def new_id() -> str:
    """Return a new id: a time-ordered UUID (version 7, RFC 9562), that is 48 bits of unix milliseconds, then random bits."""
    value = (int(time.time() * 1000) & (1 << 48) - 1) << 80 | int.from_bytes(os.urandom(10))
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    digits = f"{value:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
