"""The entry point of the installed commands. From here on, ^C ends them with 130 and without a traceback, also while they import.

``signal`` would import other modules first, so its C module is used.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # pyright: ignore[reportMissingImports]
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sys import UnraisableHookArgs

__all__ = ["run"]


def run() -> int:
    """Run the command line of this process, and return its exit status."""
    interrupt = _signal.getsignal(_signal.SIGINT)
    if interrupt is not _signal.default_int_handler:  # ignored, as by nohup
        from codex_framework.cli.main import main

        return main()
    _signal.signal(_signal.SIGINT, lambda *_: os._exit(130))
    sys.unraisablehook = _report_unraisable
    from codex_framework.cli.main import main

    try:
        _signal.signal(_signal.SIGINT, interrupt)
        status = main()
    except KeyboardInterrupt:
        status = 130
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)  # the interpreter only ends
    return status


def _report_unraisable(found: UnraisableHookArgs) -> None:
    """Report an exception of a callback of the interpreter. If it is ^C, which would be lost, end the process."""
    if isinstance(found.exc_value, KeyboardInterrupt):
        os._exit(130)
    sys.__unraisablehook__(found)
