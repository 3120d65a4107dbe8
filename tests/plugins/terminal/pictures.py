"""Sessions of the terminal as they are shown in the documentation."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

from codex_framework.testing.replies import call, custom_call, say

from .conftest import Person

__all__ = ["capture_terminal"]

_READY = r"gpt-5\.5.*~/work"
_FILE = '''"""Prices of orders."""


def total(prices: list[float], discount: float = 0.0) -> float:
    """Return the sum of the prices after a discount."""
    return sum(prices) - discount
'''
_PATCH = """*** Begin Patch
*** Update File: orders.py
@@
 def total(prices: list[float], discount: float = 0.0) -> float:
     \"\"\"Return the sum of the prices after a discount.\"\"\"
-    return sum(prices) - discount
+    if not 0.0 <= discount <= 1.0:
+        raise ValueError(f"a discount is a share, not {discount}")
+    return sum(prices) * (1.0 - discount)
*** End Patch"""
_ANSWER = """The discount was **subtracted as an amount**, although `total` takes a share:

- `orders.py` now multiplies, and refuses shares outside of 0 to 1
- callers in this repository already pass shares

```python
total([20.0, 5.0], discount=0.2)  # 20.0
```"""


def capture_terminal(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the name and the screen, with its escapes, of each picture."""
    person = Person(folder, "codex-framework-pictures")
    person.env["COLORTERM"] = "truecolor"
    (person.work / "orders.py").write_text(_FILE)
    subprocess.run(["git", "init", "-q", str(person.work)], check=True)
    asked = {"sandbox_permissions": "require_escalated", "justification": "May I install the package for its tests?"}
    person.serve(
        call("exec_command", cmd="grep -rn discount --include=*.py ."),
        custom_call("apply_patch", _PATCH),
        say(_ANSWER),
        call("exec_command", cmd="python -m pip install -e '.[test]' && python -m pytest -q", **asked),
        say("The tests have not been run."),
    )
    try:
        person.start(columns=96, rows=38)
        person.sees(_READY)
        person.type("total() is wrong if there is a discount. Fix it")
        person.press("Enter")
        person.sees("Edited orders.py", "20.0$", "s$")
        yield "terminal-conversation", person.screen(colours=True)
        person.type("run the tests")
        person.press("Enter")
        person.sees("enter chooses")
        yield "terminal-approval", person.screen(colours=True)
        person.press("d")
        person.sees("have not been run")
        person.type("/mo")
        person.sees("/model")
        person.press("Enter")
        person.sees("Select Model")
        yield "terminal-picker", person.screen(colours=True)
    finally:
        person.close()
