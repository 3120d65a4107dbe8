"""Error messages about plugins: the plugin, its file and line, and how to fix the problem."""

from __future__ import annotations

import functools
import inspect
import sys
import types
from typing import Any, TypeVar

from codex_framework.contract.errors import CodexError, described
from codex_framework.contract.value import Value

__all__ = [
    "Label",
    "WrongValue",
    "advice",
    "check_type",
    "error_message",
    "error_text",
    "fact_of",
    "is_foreign",
    "kind_of",
    "own_frame",
    "place_of",
    "source_of",
    "source_place",
]

T = TypeVar("T")

_KERNEL = "codex_framework"
_LIBRARIES = frozenset(
    {"", "codex_framework", "attr", "attrs", "cattr", "cattrs", "click", "httpcore", "httpx", "pluggy", "tomlkit"}
)
"""Packages that never count as code of a plugin: the kernel and its libraries."""


class WrongValue(TypeError):  # noqa: N818  # about a value, not an error of the framework
    """A plugin returned or passed something of the wrong class.

    Attributes:
        place: `` (file, line N)`` of the method that returned it. Empty if that is unknown.
        hint: How to fix it, in the imperative. Empty if the text already says so.
    """

    def __init__(self, text: str, source: Any = None, *, hint: str = "") -> None:
        super().__init__(text)
        self.place = "" if source is None else source_place(source)
        self.hint = hint


class Label(Value):
    """The name of a plugin's offer in messages.

    Attributes:
        noun: ``component``, ``interceptor``, ...
        plugin: The plugin that offers it. Empty if that is unknown.
    """

    noun: str
    name: str
    plugin: str

    def __str__(self) -> str:
        named = f"{self.noun} {self.name!r}"
        return f"{named} of plugin {self.plugin!r}" if self.plugin else named

    def describe_failure(self, method: str, error: BaseException, *, then: str = "", source: Any = None) -> str:
        """Return the sentences about a method that raised or returned a value of the wrong class.

        Args:
            then: The consequence, as a sentence.
            source: The method. Its place is used if no line of the plugin raised the error.
        """
        return _sentences(f"{self}: {method}() failed: {fact_of(error, source)}", then, self.advice(error))

    def late(self, method: str, seconds: float, source: Any, *, then: str = "") -> str:
        """Return the sentences about a method that did not end in time."""
        fact = f"{self}: {method}() did not end within {seconds:g} s{source_place(source)}"
        return _sentences(fact, then, self.advice())

    def advice(self, error: BaseException | None = None) -> str:
        """Return what to do about an error of this offer."""
        return advice(self.plugin, error)


def advice(plugin: str, error: BaseException | None = None) -> str:
    """Return what to do about an error of a plugin: the hint of the error, or to fix or disable the plugin."""
    hint = str(getattr(error, "hint", "") or "")
    if hint:
        return hint if hint.endswith((".", "!", "?")) else f"{hint}."
    if not plugin:
        return "Fix the plugin, or disable it."
    return f'Fix the plugin, or disable it with `[framework] plugins.disabled = ["{plugin}"]`.'


def check_type(value: object, kind: type[T], who: str, source: Any = None) -> T:
    """Return ``value`` if it is a ``kind``.

    Args:
        source: The method that returned it.

    Raises:
        WrongValue: It has another class. The text names ``who`` returned it.
    """
    if not isinstance(value, kind):
        hint = f"Return {'an' if kind.__name__[0] in 'AEIO' else 'a'} {kind.__name__}."
        raise WrongValue(f"{who} returned {kind_of(value)} instead of {kind.__name__}", source, hint=hint)
    return value


def kind_of(value: object) -> str:
    """Return the name of a value's class, or ``None``."""
    return "None" if value is None else type(value).__name__


def error_message(error: BaseException, source: Any = None) -> str:
    """Return the text of an exception: fact and hint of a CodexError; class, text and place of any other."""
    if isinstance(error, CodexError):
        return f"{error}. {error.hint}" if error.hint else str(error)
    return fact_of(error, source)


def fact_of(error: BaseException, source: Any = None) -> str:
    """Return what happened: the fact of a CodexError; class, text and place of any other exception."""
    return str(error) if isinstance(error, CodexError) else f"{error_text(error)}{place_of(error, source)}"


def error_text(error: BaseException) -> str:
    """Return the class and the text of an exception; the text alone if it was written for users."""
    if isinstance(error, WrongValue) or getattr(error, "plain", False):
        return str(error)
    return described(error)


def place_of(error: BaseException, source: Any = None) -> str:
    """Return the place of an exception, as `` (file, line N)``.

    This is the innermost line of the plugin, not of the kernel or of a library that the plugin called. If the kernel, called by a
    plugin, has called another plugin, it is a line of that one.

    Args:
        source: The method of the plugin that was called. Its place is used if the traceback has no line of a plugin.
    """
    if isinstance(error, WrongValue) and error.place:
        return error.place
    owner = ""
    own = last = None
    trace = error.__traceback__
    while trace is not None:
        frame = trace.tb_frame
        package = _package(frame)
        last = (frame.f_code.co_filename, trace.tb_lineno)
        owner = _owner(package, owner)
        if package == owner:
            own = last
        trace = trace.tb_next
    if own is None and source is not None and (place := source_place(source)):
        return place
    found = own or last
    return "" if found is None else f" ({found[0]}, line {found[1]})"


def own_frame(innermost: types.FrameType | None) -> types.FrameType | None:
    """Return the innermost frame of a plugin or program in the running callback of an event loop.

    None if only the kernel, its libraries and Python are running.
    """
    stack: list[types.FrameType] = []
    while innermost is not None and not _is_loop(innermost):
        stack.append(innermost)
        innermost = innermost.f_back
    owner = ""
    found = None
    for frame in reversed(stack):
        package = _package(frame)
        owner = _owner(package, owner)
        if package == owner:
            found = frame
    return found


def _owner(package: str, owner: str) -> str:
    """Return the package of the plugin that a frame belongs to, or works for.

    ``owner`` is the package of the calling frame. Code that the kernel calls does not necessarily belong to the plugin that
    called the kernel. Code that a plugin calls is its library.
    """
    if package == _KERNEL:
        return "-"
    return package if owner in ("", "-") and not is_foreign(package) else owner


def _is_loop(frame: types.FrameType) -> bool:
    """Return whether a frame is the one in which asyncio runs a callback."""
    return frame.f_globals.get("__name__") == "asyncio.events" and frame.f_code.co_name == "_run"


def _package(frame: types.FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def source_place(source: Any) -> str:
    """Return the place where a function, a method or a class is defined, as `` (file, line N)``."""
    owner = getattr(source, "__self__", None)
    if hasattr(owner, "__wrapped__"):  # `run` of a tool that a decorator has made from a function
        source = owner
    path, line = source_of(inspect.unwrap(source) if callable(source) else source)
    return f" ({path}, line {line})" if path else ""


def source_of(thing: Any) -> tuple[str, int | None]:
    """Return the file and line of a function, a class or an object's class. The file is empty if there is no source.

    A function that a decorator has wrapped (``@tool``) is found where it is defined.
    """
    while isinstance(thing, functools.partial):
        thing = thing.func
    if not isinstance(thing, type) and hasattr(thing, "__wrapped__"):
        thing = inspect.unwrap(thing)
    code = getattr(getattr(thing, "__func__", thing), "__code__", None)
    if isinstance(code, types.CodeType):
        return code.co_filename, code.co_firstlineno
    kind = thing if isinstance(thing, type) else type(thing)
    try:
        return inspect.getsourcefile(kind) or "", inspect.getsourcelines(kind)[1]
    except (OSError, TypeError, SyntaxError):
        return "", None


def is_foreign(module: str) -> bool:
    """Return whether code of this package belongs to Python, the kernel, or a library that the kernel uses."""
    package = module.partition(".")[0]
    return package in _LIBRARIES or package in sys.stdlib_module_names


def _sentences(fact: str, *more: str) -> str:
    return " ".join((f"{fact}.", *filter(None, more)))
