"""Imports one plugin, whatever it does, and says what went wrong in terms of a cure."""

from __future__ import annotations

import contextlib
import importlib
import sys
import time
from collections.abc import Iterable
from types import TracebackType
from typing import Any, NamedTuple

from codex_framework.errors import CodexError
from codex_framework.plugins.discovery import PluginSource, normalised
from codex_framework.plugins.report import PluginProblem

__all__ = ["Imported", "import_plugin", "problem_of", "quiet"]


class Imported(NamedTuple):
    """An attempt to import a plugin: the object, or what went wrong. ``load_ms`` is milliseconds."""

    plugin: Any = None
    problem: PluginProblem | None = None
    load_ms: float = 0.0


def import_plugin(source: PluginSource) -> Imported:
    """Import what an entry point names. Nothing that the plugin raises comes through, but for ``KeyboardInterrupt``."""
    begin = time.perf_counter()
    module_name, _, attribute = source.target.partition(":")
    try:
        with quiet():
            plugin: Any = importlib.import_module(module_name)
            for part in filter(None, attribute.split(".")):
                plugin = getattr(plugin, part)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a plugin that calls sys.exit() must not end the program
        return Imported(problem=problem_of(error, source, "be imported"), load_ms=_ms_since(begin))
    return Imported(plugin, load_ms=_ms_since(begin))


def quiet() -> contextlib.AbstractContextManager[Any]:
    """While a plugin is loaded, what it prints goes to stderr: stdout may be a stream of JSON that somebody parses."""
    return contextlib.redirect_stdout(sys.stderr)


def problem_of(error: BaseException, source: PluginSource, doing: str) -> PluginProblem:
    """What an exception of a plugin means for the person who installed it.

    Args:
        doing: What failed, as in "cannot <doing>".
    """
    if isinstance(error, CodexError):  # it was raised on purpose: the plugin's words are the best there are
        return PluginProblem(error.fact, error.hint, error.slug)
    if isinstance(error, ModuleNotFoundError) and error.name:
        return _missing_module(error.name, source)
    place = _place(error)
    if isinstance(error, SystemExit):
        return PluginProblem(
            f"it cannot {doing}: it called sys.exit({error.code!r}){place}",
            f"Take that call out of the plugin, or disable it{_how_to_disable(source)}.",
            "plugin-import",
        )
    return PluginProblem(
        f"it cannot {doing}: {type(error).__name__}: {error}{place}",
        f"Mend the plugin, install another version of {source.distribution or 'it'}, or disable it{_how_to_disable(source)}.",
        "plugin-import",
    )


def _missing_module(missing: str, source: PluginSource) -> PluginProblem:
    own = source.target.partition(":")[0]
    dist = source.distribution
    if own == missing or own.startswith(f"{missing}."):
        cure = f"pip install --force-reinstall {dist}" if dist else ""
        return PluginProblem(
            f"its module {own!r} does not exist", f"Install it anew: {cure}" if cure else "", "plugin-import"
        )
    extra = _extra_for(missing, source)
    if extra:
        return PluginProblem(
            f"it needs the package {missing!r}, which is not installed",
            f"pip install '{dist}[{extra}]'",
            "missing-extra",
        )
    return PluginProblem(
        f"it needs the package {missing!r}, which is not installed",
        f"pip install {_requirement_for(missing, source) or missing}",
        "missing-package",
    )


def _extra_for(missing: str, source: PluginSource) -> str:
    """The extra of the plugin's distribution that brings a module: by the requirements, else by the plugin's own name."""
    if source.extras:
        return ",".join(source.extras)
    extras = []
    for line in _metadata(source):
        if line.startswith("Requires-Dist:") and "extra ==" in line and _brings(_name_in(line), missing):
            return line.split("extra ==", 1)[1].strip(" '\"()")
        if line.startswith("Provides-Extra:"):
            extras.append(line.partition(":")[2].strip())
    return source.name if source.name in extras else ""


def _requirement_for(missing: str, source: PluginSource) -> str:
    names = (_name_in(line) for line in _metadata(source) if line.startswith("Requires-Dist:"))
    return next((name for name in names if _brings(name, missing)), "")


def _name_in(line: str) -> str:
    requirement = line.partition(":")[2].strip()
    end = next((at for at, sign in enumerate(requirement) if not (sign.isalnum() or sign in "-_.")), len(requirement))
    return requirement[:end]


def _brings(requirement: str, missing: str) -> bool:
    """Whether a distribution of this name most likely has the missing module (``opentelemetry-api``: ``opentelemetry``)."""
    name, module = normalised(requirement), normalised(missing.partition(".")[0])
    return name == module or name.startswith(f"{module}-") or normalised(missing).startswith(name)


def _metadata(source: PluginSource) -> Iterable[str]:
    """The header lines of the distribution's metadata."""
    if not source.location:
        return
    for name in ("METADATA", "PKG-INFO"):
        try:
            with open(f"{source.location}/{name}", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
                for line in file:
                    if not line.strip():
                        return
                    yield line.strip()
        except OSError:
            continue  # a wheel has one of the two, an .egg-info the other; with neither there is just no advice


def _how_to_disable(source: PluginSource) -> str:
    return f' with `[framework] plugins.disabled = ["{source.name}"]`'


def _place(error: BaseException) -> str:
    """Where in the plugin it happened: `` (file, line N)``."""
    if isinstance(error, SyntaxError) or error.__traceback__ is None:
        return ""  # a syntax error's text names the place itself
    last: TracebackType = error.__traceback__
    while last.tb_next is not None:
        last = last.tb_next
    file = last.tb_frame.f_code.co_filename
    if file.startswith("<frozen") or file == __file__:
        return ""
    return f" ({file}, line {last.tb_lineno})"


def _ms_since(begin: float) -> float:
    return (time.perf_counter() - begin) * 1000
