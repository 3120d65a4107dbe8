"""Errors for refused and unreachable targets, and their messages."""

from __future__ import annotations

from codex_plugin_network_proxy.hosts import host_text

__all__ = [
    "ALLOWLIST",
    "DENYLIST",
    "METHOD",
    "POLICY",
    "RefusedError",
    "UnreachableError",
    "address_denied",
    "declined",
    "denied",
    "not_allowed",
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
    """The rules refuse a request.

    Attributes:
        reason: The value of the ``x-proxy-error`` header.
        text: A paragraph that states what was refused, why, and which setting would allow it.
    """

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason
        self.text = text


class UnreachableError(Exception):
    """An allowed target cannot be reached.

    Attributes:
        status: The matching HTTP status, 502 or 504.
        socks: The matching reply code of SOCKS5 (RFC 1928).
    """

    def __init__(self, text: str, *, status: int = 502, socks: int = 1) -> None:
        super().__init__(text)
        self.text = text
        self.status = status
        self.socks = socks


def not_allowed(host: str, port: int) -> RefusedError:
    """Return the error for a target that no rule matches, if no user can be asked."""
    return RefusedError(
        ALLOWLIST,
        f"{host_text(host, port)} is not among the hosts that this command may reach."
        f' To allow it, add "{host_text(host)}" = "allow" to {_TABLE}.domains.',
    )


def declined(host: str, port: int) -> RefusedError:
    """Return the error for a target that no rule matches, when the answer was no."""
    return RefusedError(
        ALLOWLIST,
        f"{host_text(host, port)} is not among the hosts that this command may reach, and the request to reach it was refused."
        f' To allow it permanently, add "{host_text(host)}" = "allow" to {_TABLE}.domains.',
    )


def denied(host: str, port: int, pattern: str) -> RefusedError:
    """Return the error for a host that a rule denies."""
    return RefusedError(
        DENYLIST,
        f'{host_text(host, port)} is denied by the rule "{pattern}" = "deny" of {_TABLE}.domains, which overrides every rule'
        " that allows it. To allow it, remove that rule.",
    )


def address_denied(host: str, port: int, address: str, pattern: str) -> RefusedError:
    """Return the error for a name that resolves to a denied address."""
    return RefusedError(
        DENYLIST,
        f'{host_text(host, port)} resolves to {address}, which is denied by the rule "{pattern}" = "deny" of {_TABLE}.domains.'
        " To allow it, remove that rule.",
    )


def not_local(host: str, port: int, address: str, kind: str, *, by_setting: bool) -> RefusedError:
    """Return the error for a host on this machine or in a network that is not public."""
    what = f"is a {kind} address" if address == host else f"resolves to {address}, a {kind} address"
    what = "is a name of this machine" if kind == "local" else what
    hints = [f'add "{host_text(address)}" = "allow" to {_TABLE}.domains']
    if by_setting:
        hints.append(f"set {_TABLE}.allow_local_binding = true, so that wildcards apply to such addresses too")
    return RefusedError(
        ALLOWLIST,  # the reason that Codex gives in this case
        f"{host_text(host, port)} {what}. Wildcards and other names do not allow such addresses."
        f" To allow it, {', or '.join(hints)}.",
    )


def not_the_proxy(host: str, port: int) -> RefusedError:
    """Return the error for a target that is a port of a gate."""
    return RefusedError(
        POLICY, f"{host_text(host, port)} is the network proxy itself, which cannot be reached through itself."
    )


def wrong_method(method: str, where: str) -> RefusedError:
    """Return the error for a method that the mode does not allow."""
    return RefusedError(
        METHOD,
        f"{method} to {where} is refused: {_TABLE}.mode is limited, which allows only GET, HEAD and OPTIONS over plain HTTP"
        f' and no tunnels (https, SOCKS). To allow it, set {_TABLE}.mode = "full".',
    )


def socket_refused(path: str) -> RefusedError:
    """Return the error for a unix socket that the rules do not allow."""
    return RefusedError(
        ALLOWLIST,
        f"The socket {path} is not allowed for this command."
        f' To allow it, add "{path}" = "allow" to {_TABLE}.unix_sockets.',
    )
