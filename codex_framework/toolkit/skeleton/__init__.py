"""The skeletons of plugins: small distributions with an example of one role, and tests.

The files are in ``files/common`` and ``files/KIND``, each with the suffix ``.in``. Placeholders are replaced in their names and
contents, among them ``NAME`` (``word-count``), ``PACKAGE`` (``codex_contrib_word_count``) and ``DISTRIBUTION``
(``codex-contrib-word-count``). ``contrib/codex_contrib_template`` in the source tree is the skeleton of a tool.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from codex_framework.contract.errors import CodexError

__all__ = ["KINDS", "render", "write_skeleton"]

_NAME = re.compile(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*\Z")
_FILES = Path(__file__).parent / "files"


class Kind(NamedTuple):
    """A kind of plugin.

    Attributes:
        offers: A description of the skeleton's offers.
        module: The module with the skeleton.
        contributes: The same in the form of ``PluginReport.contributes``.
    """

    offers: str
    module: str
    contributes: Mapping[str, tuple[str, ...]]


KINDS: Mapping[str, Kind] = {
    "tool": Kind("a tool that counts words", "words", {"tools": ("count_words",)}),
    "provider": Kind("a model provider that repeats messages", "echo", {"providers": ("@NAME@-echo",)}),
    "store": Kind("a thread store in a SQLite database", "store", {"thread_stores": ("@NAME@",)}),
    "agent": Kind("an agent that answers questions about files", "agent", {"agents": ("@NAME@",)}),
    "policy": Kind("a command policy that forbids forced pushes", "policy", {"command_policies": ("@NAME@",)}),
    "widget": Kind(
        "a tool and the widget that shows its calls in the terminal",
        "dice",
        {"tools": ("roll_die",), "components": ("@NAME@",)},
    ),
}


def render(name: str, kind: str = "tool") -> Mapping[PurePosixPath, str]:
    """Return the files of the skeleton for a plugin of this name, by path.

    Raises:
        CodexError: The name is invalid.
    """
    if not _NAME.match(name) or len(name) > 40:
        raise CodexError(
            f"{name!r} is not a valid name for a plugin",
            slug="plugin-name",
            hint="Use lower-case letters, digits and single hyphens, beginning with a letter, 40 at most: word-count.",
        )
    words = {
        "OFFERS": KINDS[kind].offers,
        "MODULE": KINDS[kind].module,
        "CONTRIBUTES": json.dumps(KINDS[kind].contributes).replace("[", "(").replace("]", ",)").replace("@NAME@", name),
        "DISTRIBUTION": f"codex-contrib-{name.replace('_', '-')}",
        "PACKAGE": f"codex_contrib_{name.replace('-', '_')}",
        "NAME": name,
    }
    return {
        PurePosixPath(_fill_in(file.relative_to(folder).as_posix().removesuffix(".in"), words)): _fill_in(
            file.read_text(encoding="utf-8"), words
        )
        for folder in (_FILES / "common", _FILES / kind)
        for file in sorted(folder.rglob("*.in"))
    }


def write_skeleton(name: str, parent: Path, kind: str = "tool") -> Path:
    """Write the files to a new folder below ``parent``, named after the import package.

    Raises:
        CodexError: The name is invalid, the folder exists and is not empty, or it cannot be written.
    """
    files = render(name, kind)
    folder = parent / f"codex_contrib_{name.replace('-', '_')}"
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise CodexError(f"{folder} already exists", slug="exists", hint="Choose another name or another --path.")
        for path, text in files.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CodexError(
            f"{folder} cannot be written: {error.strerror or error}", slug="not-writable", hint="Choose another --path."
        ) from error
    return folder


def _fill_in(text: str, words: Mapping[str, str]) -> str:
    return re.sub(r"@([A-Z]+)@", lambda match: words[match[1]], text)
