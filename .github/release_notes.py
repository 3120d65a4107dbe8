"""Print the changelog's section of a tag. Fails unless the tag is the version in pyproject.toml and the section exists.

python .github/release_notes.py v0.1.0
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def release_notes(tag: str, version: str, changelog: str) -> str:
    """Return the text below the heading of a version."""
    if tag != f"v{version}":
        sys.exit(f"the tag is {tag}, and the version in pyproject.toml is {version}")
    found = re.search(rf"^## \[{re.escape(version)}\][^\n]*\n(.*?)(?=^## |\Z)", changelog, re.S | re.M)
    if not found or not found[1].strip():
        sys.exit(f"CHANGELOG.md has no section [{version}]")
    return found[1].strip()


if __name__ == "__main__":
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    print(release_notes(sys.argv[1], project["version"], (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")))
