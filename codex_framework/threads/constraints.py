"""The constraints on settings and permissions, with checked calls: what fails is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from codex_framework.contract.errors import CodexError, PluginError
from codex_framework.contract.permissions.file_access import FileAccess
from codex_framework.contract.permissions.profile import Permissions
from codex_framework.contract.roles.constraints import Constraint
from codex_framework.contract.roles.settings import Settings
from codex_framework.contract.roles.threads import ThreadContext
from codex_framework.loader.offers import Offer
from codex_framework.loader.registry import Registry
from codex_framework.threads.faults import Label, WrongValue, check_type, fact_of

if TYPE_CHECKING:
    from codex_framework.threads.conversation import Conversation

__all__ = ["check_settings", "narrow_permissions", "settle_settings"]


def check_settings(
    registry: Registry, settings: Settings, context: Callable[[str], ThreadContext] | None = None
) -> None:
    """Ask the constraints about settings.

    Args:
        context: The context of the thread for a plugin, by the plugin's name. None if the thread does not exist yet.

    Raises:
        CodexError: One of them refuses the settings, or has failed.
    """
    for offer in registry.constraints:
        try:
            offer.item.check(settings, None if context is None else context(offer.plugin))
        except CodexError:
            raise
        except (Exception, SystemExit) as error:  # a broken constraint must not let anything through
            raise _error(offer, "check", error, offer.item.check) from error


def settle_settings(registry: Registry, settings: Settings) -> tuple[Settings, Sequence[str]]:
    """Return the settings that the constraints give a thread at its start, with sentences for the user.

    Raises:
        CodexError: A constraint refuses a setting without a replacement, or has failed.
    """
    warnings: list[str] = []
    for offer in registry.constraints:
        try:
            settings = check_type(offer.item.settle(settings, warnings.append), Settings, "it", offer.item.settle)
        except CodexError:
            raise
        except (Exception, SystemExit) as error:  # as below
            raise _error(offer, "settle", error, offer.item.settle) from error
    return settings, warnings


def narrow_permissions(
    conversation: Conversation, permissions: Permissions, resolve: Callable[[Permissions], FileAccess]
) -> Permissions:
    """Return the permissions that all constraints leave to a turn.

    Args:
        resolve: Resolves permissions in the turn's folder.

    Raises:
        PluginError: A constraint has failed, or returned permissions that permit more.
    """
    for offer in conversation.host.registry.constraints:
        at: Conversation | None = conversation
        while at is not None:
            permissions = _narrow(offer, permissions, at.context(offer.plugin), resolve)
            at = at.parent
    return permissions


def _narrow(
    offer: Offer[Constraint],
    permissions: Permissions,
    thread: ThreadContext,
    resolve: Callable[[Permissions], FileAccess],
) -> Permissions:
    narrow = offer.item.narrow
    try:
        narrower = check_type(narrow(permissions, thread), Permissions, "it", narrow)
        if narrower is not permissions and not resolve(narrower).within(resolve(permissions)):
            raise WrongValue("it returned permissions that permit more than those it was given", narrow)
    except (Exception, SystemExit) as error:  # as above
        raise _error(offer, "narrow", error, narrow) from error
    return narrower


def _error(offer: Offer[Constraint], method: str, error: BaseException, source: object) -> PluginError:
    label = Label("constraint", offer.item.name, offer.plugin)
    fact = error.fact if isinstance(error, CodexError) else fact_of(error, source)
    hint = label.advice(error if isinstance(error, Exception) else None)
    return PluginError(offer.plugin, f"{label}: {method}() failed: {fact}", hint=hint)
