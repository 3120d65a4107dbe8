"""Draw the pictures of the documentation, into ``docs/pictures``.

    python docs/render_pictures.py          # all; the terminal needs tmux, the viewer a Chromium
    python docs/render_pictures.py kernel   # those that are named

``kernel``, ``call`` and ``turn`` are made from the code, and a test checks that they are up to date. The others are screenshots.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path

FOLDER = Path(__file__).parent
ROOT = FOLDER.parent
PICTURES = FOLDER / "pictures"

_INK, _GREY, _LINE, _PAPER = "#1f2328", "#59636e", "#8c959f", "#ffffff"
_BLUE, _GREEN, _ORANGE, _PURPLE, _RED = "#ddf4ff", "#dafbe1", "#fff1e5", "#fbefff", "#ffebe9"


class Drawing:
    """Boxes, texts and arrows on a page."""

    def __init__(self, width: float, height: float, title: str) -> None:
        self._size, self._title = (width, height), title
        self._parts: list[str] = []

    def box(self, x: float, y: float, width: float, height: float, fill: str, text: str = "") -> None:
        """Draw a box. Its text is in the middle."""
        shape = f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" fill="{fill}" stroke="{_LINE}"/>'
        self._parts.append(shape)
        if text:
            self.text(x + width / 2, y + height / 2 + 5, text, anchor="middle", bold=True)

    def text(
        self, x: float, y: float, text: str, *, anchor: str = "start", bold: bool = False, small: bool = False
    ) -> None:
        """Draw a line of text. Small text is grey."""
        style = f'font-size="{12 if small else 14}" fill="{_GREY if small else _INK}" text-anchor="{anchor}"'
        weight = ' font-weight="600"' if bold else ""
        self._parts.append(f'<text x="{x}" y="{y}" {style}{weight}>{escape(text)}</text>')

    def arrow(self, *points: tuple[float, float], dashed: bool = False) -> None:
        """Draw an arrow along some points."""
        path = " ".join(f"{x},{y}" for x, y in points)
        dash = ' stroke-dasharray="4 3"' if dashed else ""
        self._parts.append(f'<polyline points="{path}" fill="none" stroke="{_GREY}"{dash} marker-end="url(#tip)"/>')

    def dot(self, x: float, y: float) -> None:
        """Draw a filled circle."""
        self._parts.append(f'<circle cx="{x}" cy="{y}" r="6" fill="{_GREY}"/>')

    def svg(self) -> str:
        """Return the picture."""
        width, height = self._size
        tip = '<marker id="tip" markerWidth="9" markerHeight="8" refX="8" refY="4" orient="auto">'
        tip += f'<path d="M0,0 L9,4 L0,8 z" fill="{_GREY}"/></marker>'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img"'
        font = 'font-family="system-ui, -apple-system, Segoe UI, Roboto, DejaVu Sans, sans-serif"'
        page = f'<rect width="{width}" height="{height}" fill="{_PAPER}"/>'
        lines = [f"{head} {font}>", f"<title>{escape(self._title)}</title>", f"<defs>{tip}</defs>", page, *self._parts]
        return "\n".join([*lines, "</svg>", ""])


def kernel() -> str:
    """Draw the rooms of the kernel in the order of the import rules, what each imports, and who outside may import it."""
    rules = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    (order,) = (rule["layers"] for rule in rules if rule["type"] == "layers")
    closed, for_clients = (set(rule["protected_modules"]) for rule in rules if rule["type"] == "protected")
    rows = [[room.strip() for room in layer.split(":")] for layer in order if layer not in ("__main__", "old_paths")]
    rooms = [room for row in rows for room in row]
    drawing = Drawing(900, 130 + 46 * len(rows), "The rooms of the kernel, and who may import them")
    drawing.text(20, 30, "The kernel: each room imports only rooms below it", bold=True)
    drawing.text(330, 58, "it imports", small=True)
    for x, text in ((720, "clients"), (820, "plugins, libraries")):
        drawing.text(x, 58, text, anchor="middle", small=True)
    drawing.text(775, 30, "who else may import it", anchor="middle", bold=True)
    for number, row in enumerate(rows):
        y = 70 + 46 * number
        width = (290 - 10 * (len(row) - 1)) / len(row)
        for place, room in enumerate(row):
            drawing.box(
                20 + place * (width + 10), y, width, 36, _GREEN if room in ("contract", "toolkit") else _BLUE, room
            )
        imported = {target for room in row for target in _imports(room)} & set(rooms)
        drawing.text(
            330,
            y + 23,
            ", ".join(room for room in rooms if room in imported and room not in row) or "nothing",
            small=True,
        )
        for x, allowed in (
            (720, not {f"codex_framework.{room}" for room in row} & closed),
            (820, not {f"codex_framework.{room}" for room in row} & (closed | for_clients)),
        ):
            if allowed:
                drawing.dot(x, y + 18)
    drawing.text(
        20,
        100 + 46 * len(rows),
        "Plugins, libraries and clients are packages of their own; the kernel imports none of them.",
        small=True,
    )
    return drawing.svg()


def _imports(room: str) -> set[str]:
    """Return the rooms of the kernel that a room imports, also inside functions and for type checkers."""
    place = ROOT / "codex_framework" / room
    files = sorted(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]
    names: set[str] = set()
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                names.add(node.module)
            elif isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
    return {name.split(".")[1] for name in names if name.startswith("codex_framework.")}


CALL: tuple[tuple[str, str, str, str], ...] = (
    (
        "The model's response",
        "a call is complete; the response goes on streaming",
        "threads/turn/sampling.py",
        "_take_item",
    ),
    ("The turn machine", "records the call, and decides when it starts", "threads/turn/machine.py", "receive"),
    (
        "The call runner",
        "waits for its place; interceptors may change or refuse the call",
        "threads/turn/call_runner.py",
        "run",
    ),
    ("Approval", "rules, reviewers and people answer", "threads/turn/call_runner.py", "_request_approval"),
    ("The tool", "runs; its context reads files and runs commands", "threads/turn/call_runner.py", "_invoke_tool"),
    ("Command policies", "give a verdict: allow, ask or forbid", "commands/runner.py", "_authorize"),
    ("The sandbox", "turns the permissions into a confined process", "commands/confinement.py", "make_plan"),
    ("The process", "runs; its output is streamed and capped", "commands/execution.py", "start"),
    ("The output", "is cleared of secrets and shortened", "threads/turn/call_runner.py", "_truncate"),
    ("The journal", "records it, in the order of the calls, for the next request", "threads/journal.py", "record"),
)
"""The stations of a call of a tool that runs a command: name, what happens, the file below ``codex_framework``, a function there."""


def call() -> str:
    """Draw the path of a call, from the model's response to the next request."""
    drawing = Drawing(900, 50 + 62 * len(CALL), "The path of a call")
    drawing.text(20, 30, "The path of a call that runs a command", bold=True)
    for number, (name, what, file, _) in enumerate(CALL):
        y = 48 + 62 * number
        fill = {"threads": _BLUE, "commands": _ORANGE}[file.partition("/")[0]] if name != "The tool" else _PURPLE
        drawing.box(20, y, 220, 40, fill, name)
        drawing.text(260, y + 17, what)
        drawing.text(260, y + 35, f"{file}", small=True)
        if number + 1 < len(CALL):
            drawing.arrow((130, y + 40), (130, y + 62))
    drawing.text(
        880, 30, "blue: the turn   purple: a plugin   orange: the one way of commands", anchor="end", small=True
    )
    return drawing.svg()


TURN: dict[str, tuple[float, float]] = {
    "new": (30, 150),
    "compacting": (170, 60),
    "admitting": (350, 60),
    "sampling": (350, 150),
    "draining": (620, 150),
    "waiting": (620, 260),
    "stopping": (870, 150),
    "done": (870, 340),
    "aborting": (350, 340),
}
"""The states of a turn, and where they are drawn."""


def turn() -> str:
    """Draw the states of a turn and the ways between them."""
    width, height = 130, 44
    drawing = Drawing(1030, 410, "The life of a turn")
    drawing.text(20, 30, "The life of a turn", bold=True)
    fills = {"done": _GREEN, "aborting": _RED, "sampling": _ORANGE, "draining": _ORANGE}
    for name, (x, y) in TURN.items():
        drawing.box(x, y, width, height, fills.get(name, _BLUE), name)

    def side(name: str, across: float, down: float) -> tuple[float, float]:
        x, y = TURN[name]
        return x + width * across, y + height * down

    drawing.arrow(side("new", 1, 0.5), side("sampling", 0, 0.5))
    drawing.text(255, 165, "input", anchor="middle", small=True)
    drawing.arrow(side("new", 0.5, 0), (95, 82), side("compacting", 0, 0.5))
    drawing.text(30, 76, "too long", small=True)
    drawing.arrow(side("compacting", 1, 0.5), side("admitting", 0, 0.5))
    drawing.arrow(side("admitting", 0.5, 1), side("sampling", 0.5, 0))
    drawing.text(490, 76, "interceptors check the input", small=True)
    drawing.arrow(side("sampling", 1, 0.35), side("draining", 0, 0.35))
    drawing.text(550, 158, "the response ends", anchor="middle", small=True)
    drawing.arrow(side("draining", 0, 0.75), side("sampling", 1, 0.75))
    drawing.text(550, 198, "calls ran, or input waits", anchor="middle", small=True)
    drawing.arrow(side("draining", 0.5, 1), side("waiting", 0.5, 0))
    drawing.text(695, 240, "the response broke off", small=True)
    drawing.arrow(side("waiting", 0, 0.5), (415, 282), side("sampling", 0.5, 1))
    drawing.text(425, 276, "ask again", small=True)
    drawing.arrow(side("draining", 1, 0.5), side("stopping", 0, 0.5))
    drawing.text(810, 165, "nothing left to do", anchor="middle", small=True)
    drawing.arrow(side("stopping", 0.5, 1), side("done", 0.5, 0))
    drawing.text(945, 270, "may stop", small=True)
    drawing.arrow(side("stopping", 0.5, 0), (935, 110), (454, 110), side("sampling", 0.8, 0), dashed=True)
    drawing.text(925, 104, "interceptors say: go on", anchor="end", small=True)
    drawing.arrow((185, 362), side("aborting", 0, 0.5), dashed=True)
    drawing.text(30, 366, "an interrupt, at any time", small=True)
    drawing.arrow(side("aborting", 1, 0.5), side("done", 0, 0.5))
    drawing.text(675, 356, "running calls have ended", anchor="middle", small=True)
    return drawing.svg()


_BASIC = ("#24292f", "#e5534b", "#57ab5a", "#c69026", "#539bf5", "#b083f0", "#39c5cf", "#adbac7")
_BRIGHT = ("#768390", "#ff938a", "#6bc46d", "#daaa3f", "#6cb6ff", "#dcbdfb", "#56d4dd", "#f0f6fc")
_TEXT = "#adbac7"
_SGR = re.compile(r"\x1b\[([\d;]*)m|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b.")


def screen_svg(ansi: str, title: str, columns: int) -> str:
    """Return a picture of a terminal that shows a text with colours (``tmux capture-pane -ep``)."""
    rows = [row for line in ansi.rstrip().split("\n") for row in _rows(line, columns)]
    across, down = 8.43, 19  # of a character, at 14 pixels
    width, height = round(columns * across + 40), len(rows) * down + 64
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    font = 'font-family="DejaVu Sans Mono, ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="14"'
    buttons = zip((22, 42, 62), ("#e5534b", "#c69026", "#57ab5a"), strict=True)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" {font}>',
        f"<title>{escape(title)}</title>",
        f'<rect width="{width}" height="{height}" rx="8" fill="#22272e"/>',
        *(f'<circle cx="{x}" cy="20" r="6" fill="{fill}"/>' for x, fill in buttons),
        f'<text x="{width / 2}" y="25" fill="#768390" text-anchor="middle">{escape(title)}</text>',
    ]
    for number, row in enumerate(rows):
        y = 56 + number * down
        for column, text, style in row:
            x, wide = f"{20 + column * across:.1f}", f"{len(text) * across:.1f}"
            if "background" in style:
                fill = style["background"]
                parts.append(f'<rect x="{x}" y="{y - 14}" width="{wide}" height="{down}" fill="{fill}"/>')
            look = "".join(f' {key}="{value}"' for key, value in style.items() if key != "background")
            if text.strip():
                place = f'x="{x}" y="{y}" textLength="{wide}" xml:space="preserve"'
                parts.append(f"<text {place}{look}>{escape(text)}</text>")
    return "\n".join([*parts, "</svg>", ""])


def _rows(line: str, columns: int) -> list[list[tuple[int, str, dict[str, str]]]]:
    """Return the rows of a line as pieces: column, text, style. Every line of a capture begins without a style."""
    rows: list[list[tuple[int, str, dict[str, str]]]] = [[]]
    column = 0
    for text, style in _runs(line):
        rest = text
        while rest:
            piece, rest = rest[: columns - column], rest[columns - column :]
            rows[-1].append((column, piece, style))
            column += len(piece)
            if rest:
                rows.append([])
                column = 0
    return rows


def _runs(line: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the pieces of a line with their styles."""
    style, end = {"fill": _TEXT}, 0
    for code in _SGR.finditer(line):
        yield line[end : code.start()], dict(style)
        end = code.end()
        if code[1] is not None:
            _apply([int(number or 0) for number in code[1].split(";")], style)
    yield line[end:], dict(style)


def _apply(numbers: list[int], style: dict[str, str]) -> None:
    """Change a style by the numbers of an escape."""
    while numbers:
        number = numbers.pop(0)
        if number == 0:
            style.clear()
            style["fill"] = _TEXT
        elif number in _SET:
            style |= _SET[number]
        elif number in _UNSET:
            for key in _UNSET[number]:
                style.pop(key, None)
        elif number in (38, 48):
            style["fill" if number == 38 else "background"] = _colour(numbers)
        elif number // 10 in (3, 9):
            style["fill"] = (_BRIGHT if number >= 90 else _BASIC)[number % 10]
        elif number // 10 == 4:
            style["background"] = _BASIC[number % 10]


_SET = {
    1: {"font-weight": "700"},
    2: {"opacity": "0.65"},
    3: {"font-style": "italic"},
    4: {"text-decoration": "underline"},
    39: {"fill": _TEXT},
}
_UNSET = {22: ("font-weight", "opacity"), 23: ("font-style",), 24: ("text-decoration",), 49: ("background",)}


def _colour(numbers: list[int]) -> str:
    """Take a colour of 24 bits or of the table of 256 from the front of some numbers."""
    if numbers.pop(0) == 2:
        red, green, blue, *numbers[:] = numbers
        return f"#{red:02x}{green:02x}{blue:02x}"
    number = numbers.pop(0)
    if number < 16:
        return (_BASIC + _BRIGHT)[number]
    if number >= 232:
        return "#" + f"{8 + 10 * (number - 232):02x}" * 3
    levels = (0, 95, 135, 175, 215, 255)
    number -= 16
    return f"#{levels[number // 36]:02x}{levels[number // 6 % 6]:02x}{levels[number % 6]:02x}"


def demo() -> str:
    """Run the demo, and draw what it prints."""
    env = {**os.environ, "FORCE_COLOR": "1", "COLUMNS": "100", "TERM": "xterm-256color"}
    program = [sys.executable, "-P", "-m", "codex_framework", "demo"]
    leader, follower = os.openpty()
    process = subprocess.Popen(program, stdout=follower, env=env)
    os.close(follower)
    read = bytearray()
    try:
        while piece := os.read(leader, 65536):
            read += piece
    except OSError:  # the program has closed the terminal
        pass
    process.wait()
    return screen_svg("$ codex-framework demo\n" + read.decode().replace("\r\n", "\n"), "codex-framework demo", 104)


def terminal() -> Iterator[tuple[str, str]]:
    """Draw sessions of a person in the terminal."""
    sys.path.insert(0, str(ROOT))
    from tests.plugins.terminal.pictures import capture_terminal

    with tempfile.TemporaryDirectory() as folder:
        for name, text in capture_terminal(Path(folder)):
            yield name, screen_svg(text, "codex-framework", 96)


def viewer() -> bytes:
    """Run a turn with a trace, and take a picture of the page that ``codex-framework trace view`` makes of it."""
    browser = os.environ.get("CHROMIUM") or shutil.which("chromium") or "google-chrome"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        script = folder / "script.toml"
        script.write_text(_SCRIPT, encoding="utf-8")
        (folder / "config.toml").write_text(
            'model = "gpt-5.5"\nmodel_provider = "script"\n[model_providers.script]\n'
            f'name = "script"\nwire_api = "replay"\nscript = "{script}"\n'
        )
        work = folder / "work"
        work.mkdir()
        (work / "slug.py").write_text('def slug(title):\n    return title.lower().replace(" ", "-")\n')
        env = {**os.environ, "CODEX_HOME": name}
        program = [sys.executable, "-P", "-m", "codex_framework"]
        said = "slug() keeps punctuation. Fix it"
        command = ["exec", "--skip-git-repo-check", "-s", "workspace-write", "--trace", folder / "trace.jsonl", said]
        subprocess.run([*program, *command], cwd=work, env=env, check=True, stdout=subprocess.DEVNULL)
        page, picture = folder / "trace.html", folder / "viewer.png"
        subprocess.run([*program, "trace", "view", folder / "trace.jsonl", "--output", page], env=env, check=True)
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1100,560"]
        subprocess.run(
            [browser, *flags, f"--user-data-dir={folder / 'browser'}", f"--screenshot={picture}", page.as_uri()],
            check=True,
        )
        return picture.read_bytes()


_SCRIPT = '''
[[responses]]
call = "exec_command"
arguments = { cmd = "sleep 0.2; cat slug.py" }

[[responses]]
custom_call = "apply_patch"
input = """*** Begin Patch
*** Update File: slug.py
@@
-def slug(title):
-    return title.lower().replace(" ", "-")
+import re
+
+
+def slug(title):
+    return "-".join(re.findall(r"[a-z0-9]+", title.lower()))
*** End Patch"""

[[responses]]
call = "exec_command"
arguments = { cmd = "python3 -c 'import slug; print(slug.slug(\\"Hello, world!\\"))'" }

[[responses]]
say = "`slug` now keeps letters and digits only, joined by dashes: `hello-world`."
'''

STRUCTURAL: dict[str, Callable[[], str]] = {"kernel": kernel, "call": call, "turn": turn}


def main() -> None:
    """Draw the named pictures, or all."""
    PICTURES.mkdir(exist_ok=True)
    for name in sys.argv[1:] or [*STRUCTURAL, "demo", "terminal", "viewer"]:
        if name == "terminal":
            for each, svg in terminal():
                (PICTURES / f"{each}.svg").write_text(svg, encoding="utf-8")
        elif name == "viewer":
            (PICTURES / "viewer.png").write_bytes(viewer())
        else:
            svg = demo() if name == "demo" else STRUCTURAL[name]()
            (PICTURES / f"{name}.svg").write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()
