"""Many cases in one test, where a test for each would cost more than what it checks."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["for_each"]


def for_each(name: str, cases: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test for each case, as ``pytest.mark.parametrize`` does, but with the same fixtures for all and as one test.

    All cases are run. The error has the errors of those that failed, each with its case as a note.
    """
    all_cases = list(cases)
    assert all_cases, "no cases"

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            errors = []
            for case in all_cases:
                try:
                    test(**fixtures, **{name: case})
                except Exception as error:  # of whatever kind: the other cases are run all the same
                    error.add_note(f"{name} = {case!r}")
                    errors.append(error)
            if errors:
                raise ExceptionGroup(f"{len(errors)} of {len(all_cases)} cases failed", errors)

        signature = inspect.signature(test)
        parameters = [each for each in signature.parameters.values() if each.name != name]
        run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        del run.__wrapped__  # type: ignore[attr-defined]  # pytest would ask for the fixtures of the test itself
        return run

    return decorate
