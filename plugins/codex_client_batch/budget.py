"""What a batch may spend, and what its sessions have spent."""

from __future__ import annotations

from codex_framework.contract.roles.launchers import JobResult
from codex_framework.contract.roles.outcomes import Limits
from codex_framework.contract.value import Value

__all__ = ["Budget", "Spent"]


class Budget(Value, kw_only=True):
    """What a batch may spend. By default, there is no limit."""

    cost: float | None = None
    tokens: int | None = None


class Spent:
    """What sessions have spent, earlier runs of the batch included.

    Attributes:
        cost: By currency.
    """

    def __init__(self) -> None:
        self.cost: dict[str, float] = {}
        self.tokens = 0
        self._sessions: dict[str, JobResult] = {}

    def add(self, result: JobResult) -> None:
        """Add what a session has spent. Its usage includes what it had spent when it was added before."""
        before = self._sessions.get(result.thread_id)
        self._sessions[result.thread_id] = result
        for sign, each in ((1, result), (-1, before)):
            if each is not None:
                self.tokens += sign * each.usage.tokens.total_tokens
                for currency, amount in each.cost.items():
                    self.cost[currency] = self.cost.get(currency, 0.0) + sign * amount

    def left(self, budget: Budget, own: JobResult | None) -> Limits:
        """Return what is left of a budget, with what a session itself has spent: its limits count that as well."""
        limits = Limits()
        if budget.cost is not None:
            spent = sum(self.cost.values()) - (0 if own is None else sum(own.cost.values()))
            limits = limits.evolve(cost=max(0.0, budget.cost - spent))
        if budget.tokens is not None:
            spent = self.tokens - (0 if own is None else own.usage.tokens.total_tokens)
            limits = limits.evolve(tokens=max(0, budget.tokens - spent))
        return limits
