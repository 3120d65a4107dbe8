"""The texts for the model about ``exec``."""

from __future__ import annotations

__all__ = ["EXEC", "GRAMMAR", "MORE_TOOLS"]

GRAMMAR = r"""
start: pragma_source | plain_source
pragma_source: PRAGMA_LINE NEWLINE SOURCE
plain_source: SOURCE

PRAGMA_LINE: /[ \t]*\/\/ @exec:[^\r\n]*/
NEWLINE: /\r?\n/
SOURCE: /[\s\S]+/
"""
"""The grammar of the wire: an optional first line with settings, and a script."""

EXEC = """\
Runs a script in JavaScript that calls your other tools. Use it for every tool call, and combine calls in one script where you can.
- Write the script itself: no JSON around it, no quotes, no Markdown fence. It is a module, so `await` works at the top level.
- The tools are methods of `tools`: `await tools.exec_command({cmd: "ls"})`. Names are made valid identifiers. A tool takes an object \
or one string, and returns an object or a string, as declared below. A call that fails rejects with a string.
- Independent calls can run at once: `await Promise.all([...])`. The script ends when its last statement has run: await every \
call, because others may not be made, and their results are lost.
- There is nothing but JavaScript: no Node.js, no files, no network, no `console`, no imports. Use the tools for all that.
- You see only what the script outputs:
  - `text(value)` outputs a text. Other values than strings are written as JSON.
  - `image(value)` outputs an image: a `data:` URL, an object with `image_url`, or an image block of an MCP result.
  - `audio(value)` does the same for audio.
  - `generatedImage(result)` outputs the result of image generation, with its hint.
- `store(key, value)` keeps a value that can be written as JSON for later scripts, and `load(key)` returns it, or `undefined`.
- `notify(value)` sends you a text at once, while the script goes on.
- `yield_control()` hands you the output so far, and the script goes on. Continue with `wait`.
- `exit()` ends the script successfully.
- `setTimeout(callback, ms)` and `clearTimeout(id)` work, but a pending timeout does not keep the script alive.
- `ALL_TOOLS` lists the tools as `{name, description}`. They can change from one script to the next.
- A first line `// @exec: {"yield_time_ms": 10000, "max_output_tokens": 1000}` changes how long you wait for the script (30000 ms by \
default; if it is still running then, continue with `wait`) and how long its output can be (10000 tokens by default)."""

MORE_TOOLS = "There are more tools than those below. Find them with `ALL_TOOLS.filter(...)` by name and description."
