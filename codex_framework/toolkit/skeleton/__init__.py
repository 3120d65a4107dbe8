"""The skeleton of a plugin: a small distribution with a tool, a model provider and tests.

The files are in ``files/``, each with the suffix ``.in``. Three placeholders are replaced in their names and contents:
``NAME`` (``word-count``), ``PACKAGE`` (``codex_contrib_word_count``) and ``DISTRIBUTION`` (``codex-contrib-word-count``).
``contrib/codex_contrib_template`` in the source tree is this skeleton with the name ``template``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from codex_framework.contract.errors import CodexError

__all__ = ["render", "write_skeleton"]

_NAME = re.compile(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*\Z")
_FILES = Path(__file__).parent / "files"


def render(name: str) -> Mapping[PurePosixPath, str]:
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
        "DISTRIBUTION": f"codex-contrib-{name.replace('_', '-')}",
        "PACKAGE": f"codex_contrib_{name.replace('-', '_')}",
        "NAME": name,
    }
    return {
        PurePosixPath(_fill_in(file.relative_to(_FILES).as_posix().removesuffix(".in"), words)): _fill_in(
            file.read_text(encoding="utf-8"), words
        )
        for file in sorted(_FILES.rglob("*.in"))
    }


def write_skeleton(name: str, parent: Path) -> Path:
    """Write the files to a new folder below ``parent``, named after the import package.

    Raises:
        CodexError: The name is invalid, the folder exists and is not empty, or it cannot be written.
    """
    files = render(name)
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
    return re.sub(r"@(DISTRIBUTION|PACKAGE|NAME)@", lambda match: words[match[1]], text)
