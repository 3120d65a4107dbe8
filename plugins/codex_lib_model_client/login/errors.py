"""The error of logins."""

from __future__ import annotations

from codex_framework.contract.errors import ModelError

__all__ = ["LoginError"]


class LoginError(ModelError):
    """There is no usable login, or logging in failed. The fact is Codex's sentence, if any, without its full stop.

    Attributes:
        reason: ``missing``, ``unreadable``, ``unwritable``, ``keyring``, ``forbidden`` (the configuration does not permit this
            login), ``expired``, ``reused``, ``revoked`` (of refresh tokens), ``changed`` (another account), ``refused``,
            ``denied``, ``unreachable``, ``protocol`` (the issuer's reply makes no sense), ``timeout``, ``port`` or
            ``unsupported``.
    """

    slug = "login"
    reason: str

    def __init__(self, fact: str, *, reason: str, hint: str = "", retryable: bool = False) -> None:
        super().__init__(fact.removesuffix("."), info="unauthorized", hint=hint, retryable=retryable)
        self.reason = reason
