"""The findings of a check, and its time limits. Every violation is listed; none ends the check."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from codex_framework.contract.errors import CodexError, described
from codex_framework.loader.role_checks import role_problems
from codex_framework.testing.conformance.author_mistakes import member_mistakes
from codex_framework.threads.stalls import Stall, StallWatch

__all__ = ["ContractViolation", "Findings", "Unmet"]

T = TypeVar("T")


class ContractViolation(AssertionError):  # noqa: N818  # it is what has been found, in the words of a test
    """An object does not fulfil its role.

    Attributes:
        role: ``tool``, ``provider``, ...
        violations: All violations, as sentences.
    """

    def __init__(self, role: str, subject: str, violations: list[str]) -> None:
        count = "1 violation" if len(violations) == 1 else f"{len(violations)} violations"
        article = "an" if role[:1] in "aeiou" else "a"
        lines = [f"{subject} does not fulfil the role of {article} {role} ({count}):"]
        lines += [f"  {number}. {text}" for number, text in enumerate(violations, 1)]
        super().__init__("\n".join(lines))
        self.role = role
        self.violations = tuple(violations)


class Unmet(Exception):  # noqa: N818  # a step, not an error: it ends a part of a check whose finding is noted already
    """Later steps cannot run, because a step that they need has failed."""


class Findings:
    """Violations of one role by one object.

    Args:
        role: The name of the role, for messages.
        subject: The object.
    """

    def __init__(self, role: str, subject: object) -> None:
        self.role = role
        self.violations: list[str] = []
        self._subject = _describe(subject)

    def note(self, text: str) -> None:
        """Add a violation, unless it was added before."""
        if text not in self.violations:
            self.violations.append(text)

    def require(self, condition: object, text: str) -> None:
        """Add a violation unless ``condition`` is true."""
        if not condition:
            self.note(text)

    def check_members(self, item: object, role: Any) -> bool:
        """Return whether it has all members of the role, and each can be called as the kernel does."""
        problems = role_problems(item, role)
        for problem in problems or member_mistakes(item, role):
            self.note(problem)
        return not problems

    def require_name(self, item: Any) -> None:
        """Add a violation unless the object's name is a non-empty string."""
        name: object = item.name
        self.require(isinstance(name, str) and name, f"its name is {name!r}, not a non-empty string")

    def raise_any(self) -> None:
        """End the check.

        Raises:
            ContractViolation: There are violations.
        """
        if self.violations:
            raise ContractViolation(self.role, self._subject, self.violations)

    def call(
        self, what: str, function: Callable[[], T], *, within_s: float, allowed: tuple[type[Exception], ...] = ()
    ) -> T:
        """Call a plain function that must return soon and may raise only ``allowed``, which is passed on.

        Raises:
            Unmet: It raised something else, or returned an awaitable, which is noted.
        """
        began = time.monotonic()
        try:
            result = function()
        except allowed:
            raise
        except (Exception, SystemExit) as error:
            self.note(f"{what} raises {_describe_error(error)}{_otherwise(allowed)}")
            raise Unmet from error
        finally:
            took = time.monotonic() - began
            self.require(took <= within_s, f"{what} takes {took:.1f} s; it may take {within_s:g} s")
        if inspect.iscoroutine(result):
            result.close()
            self.note(f"{what} is async, but it is called without await")
            raise Unmet
        return result

    def call_on_thread(self, what: str, function: Callable[[], object], *, within_s: float) -> bool:
        """Call a function on a separate thread, as the kernel does. Return whether it returned in time without an exception."""
        before = len(self.violations)
        thread = threading.Thread(target=lambda: self._call_and_note(what, function, within_s), daemon=True)
        thread.start()
        thread.join(within_s + 1)
        self.require(not thread.is_alive(), f"{what} does not come back within {within_s:g} s")
        return len(self.violations) == before

    def _call_and_note(self, what: str, function: Callable[[], object], within_s: float) -> None:
        try:
            self.call(what, function, within_s=within_s)
        except Unmet:
            return

    async def wait_for(
        self, what: str, work: Awaitable[T], *, within_s: float, allowed: tuple[type[BaseException], ...] = ()
    ) -> T:
        """Await something that must end soon and may raise only ``allowed``, which is passed on.

        Raises:
            Unmet: It raised something else or did not end, which is noted.
        """
        limit = asyncio.timeout(within_s)
        try:
            async with limit:
                return await work
        except allowed:
            raise
        except TimeoutError as error:
            self.note(
                f"{what} does not end within {within_s:g} s"
                if limit.expired()
                else f"{what} raises {_describe_error(error)}"
            )
            raise Unmet from error
        except (Exception, SystemExit) as error:
            self.note(f"{what} raises {_describe_error(error)}{_otherwise(allowed)}")
            raise Unmet from error

    async def close_twice(self, aclose: Callable[[], Awaitable[None]], *, within_s: float, of: str = "") -> None:
        """Call ``aclose`` twice, which must be allowed.

        Raises:
            Unmet: It raised something or did not end, which is noted.
        """
        for which in ("aclose()", "a second aclose()"):
            await self.wait_for(f"{which}{of}", aclose(), within_s=within_s)

    async def cancel(self, what: str, task: asyncio.Task[Any], *, within_s: float = 1.0) -> None:
        """Cancel a task, which must raise the cancellation immediately."""
        if not task.cancel():
            return  # it had already ended
        done, _ = await asyncio.wait([task], timeout=within_s)
        if not done:
            self.note(f"{what} does not end within {within_s:g} s of being cancelled")
            await asyncio.wait([task], timeout=10)  # so that it is not reported as a leftover task as well
        elif not task.cancelled():
            error = task.exception()
            how = "goes on and returns" if error is None else f"raises {_describe_error(error)}"
            self.note(f"{what}, when cancelled, {how}; asyncio.CancelledError must be raised again")


def run_check(findings: Findings, check: Callable[[], Awaitable[None]]) -> None:
    """Run the asynchronous part of a check in its own event loop.

    Raises:
        RuntimeError: A loop is running. Checks must be called from plain functions.
    """

    def block(stall: Stall) -> None:
        findings.note(f"it blocks the event loop in {stall}; await the work, or move it to asyncio.to_thread(...)")

    async def whole() -> None:
        watch = StallWatch(lambda _: None, block)
        watch.enter()
        try:
            await check()
            await asyncio.sleep(0)
        except Unmet:
            return
        except CodexError as error:
            findings.note(f"it raises {_describe_error(error)}, but the check requires it to succeed")
        finally:
            watch.close()

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(whole())
        return
    raise RuntimeError(f"check a {findings.role} from a plain test function, not within a running event loop")


def _describe(subject: Any) -> str:
    readers: tuple[Callable[[], object], ...] = (lambda: subject.name, lambda: subject.spec.name)
    for read in readers:
        try:
            name = read()
        except Exception:  # noqa: S112  # a property may raise anything; that is told by the check itself
            continue
        if isinstance(name, str) and name:
            return f"{type(subject).__name__} {name!r}"
    return repr(subject)


def _describe_error(error: BaseException) -> str:
    return described(error)


def _otherwise(allowed: tuple[type[BaseException], ...]) -> str:
    names = [kind.__name__ for kind in allowed]
    return f", not {' or '.join(names)}" if names else ""
