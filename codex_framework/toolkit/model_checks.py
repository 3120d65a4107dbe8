"""Asks catalogues and providers for the properties of models, checks the results, and uses defaults if the model is unknown."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from codex_framework.contract.errors import CodexError, PluginError
from codex_framework.contract.roles.models import ModelInfo, ModelPrices
from codex_framework.toolkit.faults import Label, WrongValue, check_type, fact_of, kind_of

__all__ = ["asked_model", "asked_models", "fallback_model", "model_problem"]

_NONE = type(None)
_FIELDS: tuple[tuple[tuple[type, ...], str], ...] = (
    ((str,), "slug shell_type tool_mode display_name"),
    (
        (bool,),
        "known parallel_tool_calls reasoning supports_images image_detail_original tool_search namespaces lite hidden",
    ),
    ((int,), "context_window usable_percent"),
    (
        (str, _NONE),
        "apply_patch default_effort verbosity multi_agent default_summary base_instructions compaction_hash",
    ),
    ((int, _NONE), "max_context_window"),
    ((tuple,), "truncation efforts extra_tools"),
    ((ModelPrices, _NONE), "prices"),
)
_KINDS = tuple((name, kinds) for kinds, names in _FIELDS for name in names.split())
_UNITS = ("tokens", "bytes")


def model_problem(info: ModelInfo) -> str:
    """Return why the properties of a model cannot be used, as a clause. Empty means that they can. This is quick."""
    for name, kinds in _KINDS:
        value = getattr(info, name)
        if type(value) not in kinds:
            names = " or ".join("None" if kind is _NONE else kind.__name__ for kind in kinds)
            shown = repr(value) if isinstance(value, (str, int, float)) else kind_of(value)
            return f"its `{name}` is {shown[:60]}, not {names}"
    if info.context_window < 1:
        return f"its `context_window` is {info.context_window}, not a number of tokens from 1"
    if not 1 <= info.usable_percent <= 100:
        return f"its `usable_percent` is {info.usable_percent}, not a number from 1 to 100"
    cut: tuple[Any, ...] = info.truncation
    if len(cut) != 2 or cut[0] not in _UNITS or type(cut[1]) is not int or cut[1] < 0:
        return f"its `truncation` is {info.truncation!r}, not ('tokens', n) or ('bytes', n)"
    return ""


def asked_model(label: Label, call: Callable[..., ModelInfo | None], *arguments: object) -> ModelInfo | None:
    """Ask a catalogue or a provider for the properties of a model.

    Args:
        label: The name of the catalogue or provider, for errors.
        call: Its method ``model``.

    Raises:
        PluginError: It failed.
    """
    try:
        info = call(*arguments)
        return None if info is None else _usable(info, call)
    except CodexError:
        raise
    except (Exception, SystemExit) as error:  # a plugin may raise anything
        raise _plugin_error(label, "model", error, call) from error


def asked_models(label: Label, call: Callable[..., Iterable[ModelInfo]], *arguments: object) -> list[ModelInfo]:
    """Ask a catalogue for all its models. It has the arguments of :func:`asked_model`.

    Raises:
        PluginError: It failed.
    """
    try:
        models: Any = call(*arguments)
        if isinstance(models, (str, dict)) or not isinstance(models, Iterable):
            raise WrongValue(f"it returned {kind_of(models)}, not a list", call, hint="Return a list of ModelInfo.")
        return [_usable(info, call) for info in models]
    except CodexError:
        raise
    except (Exception, SystemExit) as error:  # a plugin may raise anything
        raise _plugin_error(label, "models", error, call) from error


def _usable(info: object, call: object) -> ModelInfo:
    found = check_type(info, ModelInfo, "it", call)
    if problem := model_problem(found):
        hint = "Set the field to a value that help(codex_framework.ModelInfo) allows."
        raise WrongValue(f"it returned a ModelInfo that is wrong: {problem}", call, hint=hint)
    return found


def _plugin_error(label: Label, method: str, error: BaseException, call: object) -> PluginError:
    return PluginError(label.plugin, f"{label}: {method}() failed: {fact_of(error, call)}", hint=label.advice(error))


@lru_cache(maxsize=64)
def fallback_model(slug: str) -> ModelInfo:
    """Return the assumptions about a model that no provider knows.

    Codex's defaults: a window of 272,000 tokens, 10,000 bytes of a tool's output, parallel calls, reasoning with summaries and
    the server's own effort. Unlike in Codex, ``apply_patch`` is offered, as a plain function. A server without freeform tools
    would refuse the whole request for one, but a function costs nothing and saves the model from quoting a patch in a shell.
    """
    return ModelInfo(
        slug=slug,
        known=False,
        context_window=272_000,
        truncation=("bytes", 10_000),
        apply_patch="function",
        parallel_tool_calls=True,
        reasoning=True,
        default_effort=None,
        default_summary="auto",
    )
