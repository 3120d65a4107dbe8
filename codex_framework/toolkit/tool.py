"""The ``tool`` decorator, which makes a function a tool. The schema comes from its signature and docstring."""

from __future__ import annotations

import functools
import inspect
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, ParamSpec, TypeAlias, TypeVar, overload

from codex_framework.contract.errors import ToolError
from codex_framework.contract.protocol.events.requests import Approval
from codex_framework.contract.roles.calls import CallView, ToolCall, ToolOutput
from codex_framework.contract.roles.facts import TurnFacts
from codex_framework.contract.roles.tool_specs import FreeformFormat, FreeformSpec, FunctionSpec, is_tool_name
from codex_framework.contract.roles.tools import Tool, ToolContext
from codex_framework.toolkit.arguments import PREFIX, read_json
from codex_framework.toolkit.signature import call_form
from codex_framework.toolkit.strict_json import strict_json

__all__ = ["FreeformTool", "FunctionTool", "freeform_tool", "tool"]

P = ParamSpec("P")
R = TypeVar("R")

_NOTHING_RETURNED = "Done."
"""The output for a tool that returns None, because an empty output makes models call the tool again."""


NeedsApproval: TypeAlias = bool | Callable[[ToolCall, TurnFacts], Approval | None]
"""Whether each call needs an approval, or what says so."""


class ToolOptions(NamedTuple):
    """The common options of the decorators; see :func:`tool`."""

    parallel_safe: bool
    timeout_s: float | None
    aliases: Sequence[str]
    needs_approval: NeedsApproval


class _Decorated(Tool, Generic[P, R]):
    """A function that is also a tool. Calling it directly calls the plain function."""

    def __init__(self, function: Callable[P, R], options: ToolOptions) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._needs_approval = options.needs_approval
        self.parallel_safe = options.parallel_safe
        self.timeout_s = options.timeout_s
        self.aliases = tuple(options.aliases)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name}>"

    @property
    def _name(self) -> str:
        return self.spec.name

    def needs_approval(self, call: ToolCall, turn: TurnFacts) -> Approval | None:
        """Return the permissions that a call requests.

        Raises:
            ToolError: The arguments are invalid.
        """
        if self._needs_approval is False:
            return None
        self._check(call)
        if self._needs_approval is True:
            return Approval(question=f"Allow the tool {self._name} to run?", key=self._name)
        return self._needs_approval(call, turn)

    def _check(self, call: ToolCall) -> None:
        """Raise a ToolError if the arguments of a call are invalid."""

    async def _output(self, keywords: Mapping[str, Any]) -> ToolOutput:
        import asyncio

        limit = asyncio.timeout(self.timeout_s)
        try:
            async with limit:
                return _as_output(self._name, await self._result(keywords))
        except TimeoutError:
            if not limit.expired():
                raise
            raise ToolError(f"{self._name} did not finish within {self.timeout_s:g} seconds") from None

    async def _result(self, keywords: Mapping[str, Any]) -> Any:
        function: Callable[..., Any] = self._function
        if inspect.iscoroutinefunction(function):
            return await function(**keywords)
        import asyncio

        result = await asyncio.to_thread(function, **keywords)
        return await result if inspect.isawaitable(result) else result


class FunctionTool(_Decorated[P, R]):
    """A ``Tool`` made by :func:`tool`. It can still be called as a function.

    Attributes:
        spec: Name, description and schema.
        parallel_safe: Whether calls may overlap.
        timeout_s: Time limit for a call in seconds. By default, there is no limit.
        aliases: Other names of the tool.
    """

    spec: FunctionSpec

    def __init__(
        self,
        function: Callable[P, R],
        namespace: Mapping[str, Any],
        options: ToolOptions,
        *,
        name: str | None,
        description: str | None,
        strict: bool,
    ) -> None:
        super().__init__(function, options)
        self._form = call_form(function, namespace)
        self.spec = FunctionSpec(  # pyright: ignore[reportIncompatibleVariableOverride]  # never set again
            name=_checked_name(name or function.__name__),
            description=self._form.description if description is None else description,
            parameters=self._form.arguments.schema(strict=strict),
            strict=strict,
        )

    def view(self, call: ToolCall) -> CallView | None:
        """Return the name of the tool and the arguments of a call, or None if they are not a JSON object."""
        try:
            arguments = strict_json(_text(call))
        except (ValueError, RecursionError):
            return None
        return CallView(name=self._name, arguments=arguments) if isinstance(arguments, dict) else None

    def with_arguments(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolCall:
        """Return the call with other arguments.

        Raises:
            ToolError: They are invalid.
        """
        try:
            changed = call.evolve(arguments=json.dumps(dict(arguments), ensure_ascii=False))
        except (TypeError, ValueError) as error:
            raise ToolError(f"the arguments of {call.name} cannot be changed: {error}") from error
        self._check(changed)
        return changed

    def _check(self, call: ToolCall) -> None:
        self._read(call)

    def _read(self, call: ToolCall) -> dict[str, Any]:
        """Return the arguments of a call as keyword arguments."""
        try:
            keywords: dict[str, Any] = read_json(_text(call), self._form.arguments.row)
        except ValueError as error:
            raise ToolError(f"{PREFIX}{error}") from None
        return keywords

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """Run one call.

        Raises:
            ToolError: The arguments are invalid, the function took too long, or it raised this error.
        """
        keywords = self._read(call)
        if self._form.context is not None:
            keywords[self._form.context] = context
        return await self._output(keywords)


class FreeformTool(_Decorated[P, R]):
    """A ``Tool`` made by :func:`freeform_tool`, with the attributes of :class:`FunctionTool`."""

    spec: FreeformSpec

    def __init__(self, function: Callable[P, R], spec: FreeformSpec, options: ToolOptions) -> None:
        super().__init__(function, options)
        self.spec = spec  # pyright: ignore[reportIncompatibleVariableOverride]  # as above
        self._input, self._context = _freeform_parameters(function)

    def view(self, call: ToolCall) -> CallView:
        """Return the name of the tool and its text, under the name of the function's parameter."""
        return CallView(name=self._name, arguments={self._input: call.arguments})

    def with_arguments(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolCall:
        """Return the call with another text.

        Raises:
            ToolError: The arguments are something else than one text.
        """
        text = arguments.get(self._input)
        if len(arguments) != 1 or not isinstance(text, str):
            raise ToolError(f"{call.name} takes one text as its argument, {self._input!r}")
        return call.evolve(arguments=text)

    async def run(self, call: ToolCall, context: ToolContext) -> ToolOutput:
        """Run one call.

        Raises:
            ToolError: The function took too long, or raised this error.
        """
        keywords: dict[str, Any] = {self._input: call.arguments}
        if self._context is not None:
            keywords[self._context] = context
        return await self._output(keywords)


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    strict: bool = False,
    parallel_safe: bool = False,
    timeout_s: float | None = None,
    aliases: Sequence[str] = (),
    needs_approval: NeedsApproval = False,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...
def tool(
    function: Callable[P, R] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    strict: bool = False,
    parallel_safe: bool = False,
    timeout_s: float | None = None,
    aliases: Sequence[str] = (),
    needs_approval: NeedsApproval = False,
) -> FunctionTool[P, R] | Callable[[Callable[P, R]], FunctionTool[P, R]]:
    """Make a function a tool.

    The function provides the tool's name, description and JSON schema. The description is the docstring up to its first
    section. The entries of ``Args:`` (or ``Annotated[..., "text"]``) describe the parameters. A parameter annotated
    ``ToolContext`` gets the context, at any position, and is hidden from the model. A function that is not ``async`` runs in a
    thread. It may only use the plain properties of the context. ``timeout_s`` and interrupts do not end such a function; its
    result is dropped.

    Parameters may have any type with a JSON form: simple types, lists and dicts, unions, enums, dates, times, durations,
    ``Decimal``, ``UUID``, ``Path``, classes made with attrs, dataclasses, ``TypedDict`` and models of pydantic, including
    recursive ones. ``Annotated`` may add bounds: from annotated-types (``Annotated[int, Ge(1)]``), pydantic's ``Field`` and
    msgspec's ``Meta``, and compiled regular expressions. The schema tells the model about them, and a call is checked.

    If the arguments of a call do not match the schema, the model gets the first problem and its position, in Codex's words:
    ``missing field `text` at line 1 column 2``. If they match but values cannot be converted (a date, a bound, a validator of a
    class), all problems are listed, each with its path.

    The return value goes to the model: a string unchanged, ``None`` as "Done.", a ``ToolOutput`` as specified, and anything else
    (dict, list, number, date, attrs class, dataclass, model of pydantic) as JSON. Raise ``ToolError`` to report a failure to the
    model.

    Args:
        function: The function, if the decorator is used without arguments.
        name: The tool's name. By default, the function's name.
        description: The tool's description. By default, the docstring.
        strict: Whether the model must follow the schema exactly. Optional parameters then become nullable.
        parallel_safe: Whether calls may overlap with other such calls.
        timeout_s: Time limit for a call in seconds. By default, there is no limit.
        aliases: Other names of the tool, which are never offered to the model.
        needs_approval: Whether each call needs an approval. An answer "for this session" then covers the tool. A function decides
            for each call: it gets the call, whose arguments are valid, and the facts of the turn, and returns an ``Approval``, or
            None if the call may run.

    Raises:
        TypeError: A parameter's type is unsupported; the message names the parameter and the supported types.
        ValueError: The name is invalid.
    """
    # Annotations may also name classes that are defined next to the function, in the body of another function.
    namespace = sys._getframe(1).f_locals  # noqa: SLF001
    options = ToolOptions(parallel_safe, timeout_s, aliases, needs_approval)

    def decorate(inner: Callable[P, R]) -> FunctionTool[P, R]:
        return FunctionTool(inner, namespace, options, name=name, description=description, strict=strict)

    return decorate if function is None else decorate(function)


def freeform_tool(
    *,
    grammar: str,
    syntax: str = "lark",
    name: str | None = None,
    description: str | None = None,
    parallel_safe: bool = False,
    timeout_s: float | None = None,
    aliases: Sequence[str] = (),
    needs_approval: NeedsApproval = False,
) -> Callable[[Callable[P, R]], FreeformTool[P, R]]:
    """Make a function a tool that the model calls with plain text in a given grammar.

    The function takes the text as its first parameter, and the context in a parameter that is annotated ``ToolContext`` or
    named ``context``. Everything else is as for :func:`tool`.

    Args:
        grammar: The text of the grammar.
        syntax: ``lark`` or ``regex``.
        name, description, parallel_safe, timeout_s, aliases, needs_approval: As for :func:`tool`.

    Raises:
        TypeError: The function has other parameters.
        ValueError: The name, the syntax or the grammar is invalid.
    """
    if syntax not in ("lark", "regex"):
        raise ValueError(f"the syntax of a grammar is 'lark' or 'regex', not {syntax!r}")
    if not grammar.strip():
        raise ValueError("the grammar is empty")
    options = ToolOptions(parallel_safe, timeout_s, aliases, needs_approval)

    def decorate(inner: Callable[P, R]) -> FreeformTool[P, R]:
        from codex_framework.toolkit.signature import documentation

        text = documentation(inspect.getdoc(inner) or "", ())[0] if description is None else description
        spec = FreeformSpec(_checked_name(name or inner.__name__), text, FreeformFormat(syntax, grammar))
        return FreeformTool(inner, spec, options)

    return decorate


def _freeform_parameters(function: Callable[..., Any]) -> tuple[str, str | None]:
    context: str | None = None
    text: list[str] = []
    for parameter in inspect.signature(function).parameters.values():
        if "ToolContext" in str(parameter.annotation) or parameter.name == "context":
            context = parameter.name
        else:
            text.append(parameter.name)
    if len(text) != 1:
        raise TypeError(
            f"{function.__name__} takes {', '.join(text) or 'no text'}; a freeform tool takes one string, and optionally a ToolContext"
        )
    return text[0], context


def _checked_name(name: str) -> str:
    if not is_tool_name(name):
        raise ValueError(f"the tool name {name!r} is not allowed: use 1 to 64 of a-z, A-Z, 0-9, '_', '.' and '-'")
    return name


def _as_output(name: str, result: Any) -> ToolOutput:
    if isinstance(result, ToolOutput):
        return result
    if result is None:
        return ToolOutput(_NOTHING_RETURNED)
    return ToolOutput(result if isinstance(result, str) else _as_json(name, result))


def _as_json(name: str, result: Any) -> str:
    from codex_framework.toolkit.results import plain

    try:
        return json.dumps(result, ensure_ascii=False, default=plain)
    except (TypeError, ValueError) as error:
        raise _no_json(name, result, error) from error


def _no_json(name: str, result: Any, error: Exception) -> TypeError:
    from codex_framework.toolkit.faults import WrongValue

    if inspect.iscoroutine(result):
        result.close()
        return WrongValue(f"the tool {name} returned a coroutine", hint="Write `await` before the call.")
    hint = "Return text, a ToolOutput, or strings, numbers, lists, dicts, attrs classes and dataclasses of these."
    kind = type(result).__name__
    return WrongValue(f"the tool {name} returned {kind}, which cannot be written as JSON: {error}", hint=hint)


def _text(call: ToolCall) -> str:
    """Return the JSON text of a call. Some models send an empty text for a call without arguments."""
    return call.arguments if call.arguments.strip() else "{}"
