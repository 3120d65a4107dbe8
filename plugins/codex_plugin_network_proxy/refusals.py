"""What is said to those who are not let through, or cannot be carried."""

from __future__ import annotations

from codex_plugin_network_proxy.hosts import written

__all__ = [
    "ALLOWLIST",
    "DENYLIST",
    "METHOD",
    "POLICY",
    "RefusedError",
    "UnreachableError",
    "address_denied",
    "denied",
    "not_allowed",
    "not_asked",
    "not_local",
    "not_the_proxy",
    "socket_refused",
    "wrong_method",
]

ALLOWLIST = "blocked-by-allowlist"
DENYLIST = "blocked-by-denylist"
METHOD = "blocked-by-method-policy"
POLICY = "blocked-by-policy"

_TABLE = "permissions.NAME.network"


class RefusedError(Exception):
    """The rules do not let it through.

    Attributes:
        reason: One of the words of ``x-proxy-error``.
        text: A paragraph: what, why, and which setting would change it.
    """

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason
        self.text = text


class UnreachableError(Exception):
    """It is let through, and cannot be reached.

    Attributes:
        status: The HTTP status that says so: 502 or 504.
        socks: The reply code of SOCKS5 (RFC 1928) that says so.
    """

    def __init__(self, text: str, *, status: int = 502, socks: int = 1) -> None:
        super().__init__(text)
        self.text = text
        self.status = status
        self.socks = socks


def not_allowed(host: str, port: int) -> RefusedError:
    """No rule speaks of it, and nobody can be asked."""
    return RefusedError(
        ALLOWLIST,
        f"{written(host, port)} is not among the hosts that this command may reach."
        f' To allow it, add "{written(host)}" = "allow" to {_TABLE}.domains.',
    )


def not_asked(host: str, port: int) -> RefusedError:
    """No rule speaks of it, and the answer was no."""
    return RefusedError(
        ALLOWLIST,
        f"{written(host, port)} is not among the hosts that this command may reach, and reaching it was refused when asked."
        f' To allow it for good, add "{written(host)}" = "allow" to {_TABLE}.domains.',
    )


def denied(host: str, port: int, pattern: str) -> RefusedError:
    """A rule denies it."""
    return RefusedError(
        DENYLIST,
        f'{written(host, port)} is denied by the rule "{pattern}" = "deny" of {_TABLE}.domains, which counts over what is'
        " allowed. To allow it, remove that rule.",
    )


def address_denied(host: str, port: int, address: str, pattern: str) -> RefusedError:
    """A rule denies the address that a name leads to."""
    return RefusedError(
        DENYLIST,
        f'{written(host, port)} leads to {address}, which is denied by the rule "{pattern}" = "deny" of {_TABLE}.domains.'
        " To allow it, remove that rule.",
    )


def not_local(host: str, port: int, address: str, kind: str, *, by_setting: bool) -> RefusedError:
    """It lies on this machine or in a network that is not public."""
    what = f"is a {kind} address" if address == host else f"leads to {address}, a {kind} address"
    what = "is a name of this machine" if kind == "local" else what
    cures = [f'add "{written(address)}" = "allow" to {_TABLE}.domains']
    if by_setting:
        cures.append(f"set {_TABLE}.allow_local_binding = true, with which wildcards count as well")
    return RefusedError(
        ALLOWLIST,  # Codex's word for it
        f"{written(host, port)} {what}, and such addresses are not reached by wildcards or by way of other names."
        f" To allow it, {', or '.join(cures)}.",
    )


def not_the_proxy(host: str, port: int) -> RefusedError:
    """It is a gate."""
    return RefusedError(
        POLICY, f"{written(host, port)} is the network proxy itself, which is not reached by way of itself."
    )


def wrong_method(method: str, where: str) -> RefusedError:
    """The mode does not let it pass."""
    return RefusedError(
        METHOD,
        f"{method} to {where} does not pass: {_TABLE}.mode is limited, where only GET, HEAD and OPTIONS of plain HTTP do, and"
        f' nothing that goes through a tunnel (https, SOCKS). To allow it, set {_TABLE}.mode = "full".',
    )


def socket_refused(path: str) -> RefusedError:
    """The unix socket is not allowed."""
    return RefusedError(
        ALLOWLIST,
        f"The socket {path} is not among those that this command may reach."
        f' To allow it, add "{path}" = "allow" to {_TABLE}.unix_sockets.',
    )
