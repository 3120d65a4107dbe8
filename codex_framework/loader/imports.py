"""Imports one plugin without trusting its code, and describes failures with a hint."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import sys
import time
import types
from collections import Counter
from collections.abc import Iterable
from typing import Any

from codex_framework.contract.errors import CodexError, ConfigError
from codex_framework.contract.value import Value
from codex_framework.loader.discovery import BUNDLED, PluginSource, discover, normalise_name
from codex_framework.loader.report import PluginProblem
from codex_framework.toolkit.faults import source_of as place_of
from codex_framework.toolkit.installing import install_command

__all__ = [
    "Imported",
    "config_problem",
    "import_plugin",
    "metadata_lines",
    "name_in",
    "place_of",
    "problem_of",
    "redirect_prints",
    "static_attribute",
]


_LONGEST_TEXT = 1000
"""Maximum number of characters of an exception's text to show."""


class Imported(Value):
    """The result of importing a plugin: the object or the problem. ``load_ms`` is in milliseconds."""

    plugin: Any = None
    problem: PluginProblem | None = None
    load_ms: float = 0.0


def import_plugin(source: PluginSource) -> Imported:
    """Import the target of an entry point. Catches every exception of the plugin except ``KeyboardInterrupt``."""
    begin = time.perf_counter()
    module_name, _, attribute = source.target.partition(":")
    try:
        with redirect_prints():
            if source.file:
                from codex_framework.loader.files import import_file

                return Imported(import_file(source), load_ms=_ms_since(begin))
            plugin: Any = importlib.import_module(module_name)
            for part in filter(None, attribute.split(".")):
                plugin = getattr(plugin, part)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a plugin that calls sys.exit() must not end the program
        return Imported(problem=problem_of(error, source, "be imported"), load_ms=_ms_since(begin))
    return Imported(plugin, load_ms=_ms_since(begin))


def static_attribute(plugin: object, name: str) -> Any:
    """Return an attribute of a plugin without running code of the plugin. None if there is no such attribute."""
    if type(plugin) is types.ModuleType:  # as most are, and inspect takes ten times as long
        return vars(plugin).get(name)
    return inspect.getattr_static(plugin, name, None)


def redirect_prints() -> contextlib.AbstractContextManager[Any]:
    """Redirect prints of a plugin to stderr while it is loaded, because stdout may be a JSON stream for another program."""
    return contextlib.redirect_stdout(sys.stderr)


def problem_of(error: BaseException, source: PluginSource, doing: str) -> PluginProblem:
    """Return the problem to report for an exception of a plugin.

    Args:
        doing: The failed action, as in "cannot <doing>".
    """
    found = getattr(error, "problem", None)
    if isinstance(found, PluginProblem):  # a file that cannot be read as a plugin
        return found
    if isinstance(error, ConfigError):
        return config_problem(error)
    if isinstance(error, CodexError):  # raised on purpose, so the plugin's own message is the best
        return PluginProblem(error.fact, error.hint, error.slug)
    if isinstance(error, ModuleNotFoundError) and error.name:
        return _missing_module(error.name, source)
    place = _place(error, source)
    if isinstance(error, SystemExit):
        return PluginProblem(
            f"it cannot {doing}: it called sys.exit({error.code!r})",
            f"Remove that call from the plugin, or {_how_to_disable(source)}.",
            "plugin-import",
            *place,
        )
    return PluginProblem(
        f"it cannot {doing}: {type(error).__name__}: {_error_text(error)}",
        f"Fix the plugin, {_another_version(source)}or {_how_to_disable(source)}.",
        "plugin-import",
        *place,
    )


def config_problem(error: ConfigError) -> PluginProblem:
    """Convert an error in the configuration to a problem of a plugin, with path and line as separate attributes."""
    path = error.path or ""
    fact = error.fact.removeprefix(f"{path}{'' if error.line is None else f':{error.line}'}: ")
    return PluginProblem(fact, error.hint, error.slug, path, error.line)


def _error_text(error: BaseException) -> str:
    """Return the text of an exception, even if its ``__str__`` fails."""
    try:
        text = error.msg if isinstance(error, SyntaxError) else str(error)
    except Exception:
        return "its text cannot be read"
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}…"


def _missing_module(missing: str, source: PluginSource) -> PluginProblem:
    own = source.target.partition(":")[0]
    dist = source.distribution
    if own == missing or own.startswith(f"{missing}."):
        hint = f"pip install --force-reinstall {dist}" if dist else ""
        return PluginProblem(
            f"its module {own!r} does not exist", f"Reinstall it: {hint}" if hint else "", "plugin-import"
        )
    package = missing.partition(".")[0]
    if package != missing and package in sys.modules:
        fact = f"it imports the module {missing!r}, which does not exist"
        return PluginProblem(fact, f"Check its spelling, and the installed version of {package!r}.", "plugin-import")
    fact = f"it needs the package {missing!r}, which is not installed"
    extra = _extra_for(missing, source)
    if extra:
        return PluginProblem(fact, install_command(f"{dist}[{extra}]"), "missing-extra")
    known = _requirement_for(missing, source) or _our_extra_for(missing)
    return PluginProblem(fact, install_command(known) if known else _unknown_package(package), "missing-package")


def _unknown_package(package: str) -> str:
    """Return a hint that names no distribution, because installing one by a misspelt import name could run malicious code."""
    import difflib

    names = {name.partition(".")[0] for name in sys.modules} | sys.stdlib_module_names
    near = difflib.get_close_matches(package, names - {package}, n=1, cutoff=0.8)
    spelling = f"Did you mean {near[0]!r}?" if near else "Check the spelling of the import."
    return f"{spelling} If it is right, add the distribution that provides it to the plugin's dependencies, and install it."


def _our_extra_for(missing: str) -> str:
    """Return the requirement of codex-framework with the extra that provides a module; empty if there is no such extra."""
    from codex_framework.contract.hookspecs.markers import GROUP  # commands are imported without hooks

    ours = next((source for source in discover(GROUP) if source.bundled), None)
    extra = "" if ours is None else _extra_for(missing, ours.evolve(name="", extras=()))
    return f"{BUNDLED}[{extra}]" if extra else ""


def _extra_for(missing: str, source: PluginSource) -> str:
    """Return the extra that provides a module: found by the distribution's requirements, else by the plugin's name."""
    if source.extras:
        return ",".join(source.extras)
    extras, sizes, bringing = [], Counter[str](), []
    for line in metadata_lines(source):
        if line.startswith("Requires-Dist:") and "extra ==" in line:
            extra = line.split("extra ==", 1)[1].strip(" '\"()")
            sizes[extra] += 1
            bringing += [extra] if _brings(name_in(line), missing) else []
        if line.startswith("Provides-Extra:"):
            extras.append(line.partition(":")[2].strip())
    if bringing:
        return min(bringing, key=sizes.__getitem__)  # not the one with everything
    return source.name if source.name in extras else ""


def _requirement_for(missing: str, source: PluginSource) -> str:
    names = (name_in(line) for line in metadata_lines(source) if line.startswith("Requires-Dist:"))
    return next((name for name in names if _brings(name, missing)), "")


def name_in(line: str) -> str:
    """Return the name of the distribution in a line ``Requires-Dist: ...``."""
    requirement = line.partition(":")[2].strip()
    end = next((at for at, sign in enumerate(requirement) if not (sign.isalnum() or sign in "-_.")), len(requirement))
    return requirement[:end]


def _brings(requirement: str, missing: str) -> bool:
    """Return whether a distribution of this name probably has the missing module (``opentelemetry-api``: ``opentelemetry``)."""
    name, module = normalise_name(requirement), normalise_name(missing.partition(".")[0])
    return name == module or name.startswith(f"{module}-") or normalise_name(missing).startswith(name)


def metadata_lines(source: PluginSource) -> Iterable[str]:
    """Return the header lines of the distribution's metadata."""
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
            continue  # a wheel has one of the two, an .egg-info the other; without either there is no hint


def _another_version(source: PluginSource) -> str:
    return "" if source.file else f"install another version of {source.distribution or 'it'}, "


def _how_to_disable(source: PluginSource) -> str:
    return f'disable it with `[framework] plugins.disabled = ["{source.name}"]`'


def _place(error: BaseException, source: PluginSource) -> tuple[str, int | None]:
    """Return file and line of an exception: in the plugin, if its code was involved."""
    if isinstance(error, SyntaxError):
        return error.filename or "", error.lineno
    own = source.target.partition(":")[0].partition(".")[0]
    place: tuple[str, int | None] = ("", None)
    ours = False
    trace = error.__traceback__
    while trace is not None:
        code, name = trace.tb_frame.f_code, str(trace.tb_frame.f_globals.get("__name__", ""))
        owned = name == own or name.startswith(f"{own}.")
        hidden = name.startswith("codex_framework.loader.") or code.co_filename.startswith("<frozen")
        if (owned or not ours) and not hidden:
            place, ours = (code.co_filename, trace.tb_lineno), ours or owned
        trace = trace.tb_next
    return place


def _ms_since(begin: float) -> float:
    return (time.perf_counter() - begin) * 1000
