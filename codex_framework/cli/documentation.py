"""Where the documentation is: the wheel brings it, and errors name its pages (``docs/errors.md``)."""

from __future__ import annotations

import os
import sys

__all__ = ["documentation"]

_INSTALLED = "share/doc/codex-framework"


def documentation() -> str | None:
    """Return the folder that the paths ``docs/...`` stand for. None means that it is not installed."""
    root = os.path.abspath(f"{__file__}/../../..")  # noqa: PTH100
    places = [f"{root}/docs"] if os.path.isfile(f"{root}/pyproject.toml") else []  # noqa: PTH113  # a checkout
    places.append(f"{sys.prefix}/{_INSTALLED}")
    if root.startswith(f"{_user_base()}/"):
        places.insert(0, f"{_user_base()}/{_INSTALLED}")
    return next((place for place in places if os.path.isfile(f"{place}/errors.md")), None)  # noqa: PTH113


def _user_base() -> str:
    """Return where ``pip install --user`` puts distributions."""
    import site

    return site.getuserbase()
