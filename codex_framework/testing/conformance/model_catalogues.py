"""The check of catalogues, which know the properties of models."""

from __future__ import annotations

from typing import Any

from codex_framework.contract.errors import described
from codex_framework.contract.roles.models import ModelCatalogue, ModelInfo, ProviderInfo
from codex_framework.testing.conformance.findings import Findings, Unmet
from codex_framework.toolkit.model_checks import model_problem
from codex_framework.toolkit.roles import add_defaults

__all__ = ["check_model_catalogue"]

_ANSWER_S = 1.0
"""Time limit in seconds for one call: enough to read a file, too short for most servers."""

_STRANGE = ("no-such-model-4711", "", "x" * 1000, "a/b:c", "\N{GREEK SMALL LETTER ALPHA}\x00")
_WORDS = {
    "shell_type": ("unified_exec", "shell_command", "shell", "local", "disabled"),
    "apply_patch": ("freeform", "function", None),
    "tool_mode": ("direct", "code_mode_only", "code_mode"),
    "verbosity": ("low", "medium", "high", None),
}


def check_model_catalogue(catalogue: ModelCatalogue, provider: ProviderInfo | None = None) -> None:
    """Check that a catalogue fulfils its role: with its own models, with unusual names, and with another provider.

    Args:
        catalogue: The catalogue.
        provider: The table of a provider whose models it knows. By default, the table has only a name.

    Raises:
        ContractViolation: It does not; every violation is listed.
    """
    findings = Findings("model catalogue", catalogue)
    if findings.check_members(catalogue, ModelCatalogue):
        catalogue = add_defaults(catalogue, ModelCatalogue)
        findings.require_name(catalogue)
        for table in (provider or ProviderInfo(id="check"), ProviderInfo(id="other", wire_api="no-such-api-4711")):
            _check_names(findings, catalogue, table)
            _check_list(findings, catalogue, table)
    findings.raise_any()


def _check_names(findings: Findings, catalogue: ModelCatalogue, table: ProviderInfo) -> None:
    for slug in _STRANGE:
        _model(findings, catalogue, slug, table)


def _check_list(findings: Findings, catalogue: ModelCatalogue, table: ProviderInfo) -> None:
    try:
        models: Any = findings.call("models()", lambda: catalogue.models(table), within_s=_ANSWER_S)
    except Unmet:
        return
    try:
        models = list(models)
    except Exception as error:  # a generator may raise anything
        findings.note(f"models() returns {type(models).__name__}, which is no list of ModelInfo: {described(error)}")
        return
    slugs: set[object] = set()
    for info in models:
        if not _is_right(findings, "models()", info):
            continue
        findings.require(info.slug not in slugs, f"models() returns {info.slug!r} twice")
        slugs.add(info.slug)
        same = _model(findings, catalogue, info.slug, table)
        text = f"model({info.slug!r}) and models() do not return the same properties, so requests differ from lists"
        findings.require(same == info, text)


def _model(findings: Findings, catalogue: ModelCatalogue, slug: str, table: ProviderInfo) -> ModelInfo | None:
    what = f"model({slug[:40]!r})"
    try:
        info: Any = findings.call(what, lambda: catalogue.model(slug, table), within_s=_ANSWER_S)
    except Unmet:
        return None
    if info is None or not _is_right(findings, what, info):
        return None
    found: ModelInfo = info
    findings.require(found.slug == slug, f"{what} returns the slug {found.slug!r}, which is then sent to the server")
    return found


def _is_right(findings: Findings, what: str, info: object) -> bool:
    if not isinstance(info, ModelInfo):
        findings.note(f"{what} returns {type(info).__name__}, not a ModelInfo")
        return False
    if problem := model_problem(info):
        findings.note(f"{what} returns a ModelInfo that is wrong: {problem}")
        return False
    for name, words in _WORDS.items():
        value = getattr(info, name)
        choice = ", ".join(str(word) for word in words)
        findings.require(
            value in words, f"{what} returns a ModelInfo whose `{name}` is {value!r}. Use one of: {choice}"
        )
    if info.efforts:
        text = f"{what} returns a ModelInfo whose `default_effort` {info.default_effort!r} is not among its `efforts`"
        findings.require(info.default_effort in (None, *info.efforts), text)
    largest = info.max_context_window
    text = f"{what} returns a ModelInfo whose `max_context_window` {largest} is less than its `context_window`"
    findings.require(largest is None or largest >= info.context_window, text)
    return True
