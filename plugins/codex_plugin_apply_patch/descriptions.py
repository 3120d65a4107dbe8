"""The texts about the tool for models."""

from __future__ import annotations

from codex_framework import Argument
from codex_framework.toolkit.environments import ENVIRONMENT_ID

__all__ = ["ARGUMENTS", "FREEFORM", "FUNCTION", "LARK", "LARK_WITH_ENVIRONMENT"]

FREEFORM = (
    "Edits files: adds, changes, moves and deletes any number of them in one patch. The input is the patch itself as plain text, "
    "without JSON or a code fence."
)

FUNCTION = """Edits files: adds, changes, moves and deletes any number of them in one patch.

`input` is the patch as text. It starts with the line `*** Begin Patch` and ends with the line `*** End Patch`; between them \
is one section for each file:

*** Add File: PATH
    Creates a file. Each of its lines follows, with `+` before it.
*** Delete File: PATH
    Nothing follows.
*** Update File: PATH
    Changes to an existing file. A line `*** Move to: NEW PATH` may follow to rename it as well.

Changes are given in pieces. Each piece starts with a line `@@` and shows the lines as they are now and as they shall be: a \
space before lines that stay, `-` before lines that go, `+` before lines that come. Show about three lines that stay above and \
below a change. Where these do not make the place unique, write a line that stands above it, such as the head of its function \
or class, after the `@@`:

*** Begin Patch
*** Update File: src/greeting.py
@@ def greet(name):
     if not name:
-        return "Hello"
+        return "Hello, whoever you are"
     return f"Hello, {name}"
*** Add File: docs/greeting.md
+# Greeting
*** Delete File: docs/old.md
*** End Patch

Pieces of one file stand in the order of the file. After a piece that ends with the file's last line, `*** End of File` may \
say so. Paths are relative to the working folder."""

LARK = r"""start: begin_patch hunk+ end_patch
begin_patch: "*** Begin Patch" LF
end_patch: "*** End Patch" LF?

hunk: add_hunk | delete_hunk | update_hunk
add_hunk: "*** Add File: " filename LF add_line*
delete_hunk: "*** Delete File: " filename LF
update_hunk: "*** Update File: " filename LF move_to? first_chunk chunk*
move_to: "*** Move to: " filename LF

first_chunk: place? change_line+ end_of_file?
chunk: place change_line+ end_of_file?
place: ("@@" | "@@ " text) LF
add_line: "+" text? LF
change_line: ("+" | "-" | " ") text? LF
end_of_file: "*** End of File" LF

filename: /[^\n]+/
text: /[^\n]+/

%import common.LF
"""
"""The grammar of a freeform call, for the model's server (Lark syntax)."""

LARK_WITH_ENVIRONMENT = LARK.replace(
    "start: begin_patch hunk+",
    "start: begin_patch environment_id? hunk+",
).replace("end_patch: ", 'environment_id: "*** Environment ID: " filename LF\nend_patch: ', 1)
"""The same for a turn with several environments."""

ARGUMENTS = {
    "input": Argument("string", "The whole patch, from '*** Begin Patch' on.", required=True),
    # Added by the interceptor.
    "workdir": Argument("string", hidden=True),
    "prefix": Argument("string", hidden=True),
    "environment_id": ENVIRONMENT_ID,
    "of_shell": Argument("boolean", hidden=True),
}
"""The arguments of a function call."""
