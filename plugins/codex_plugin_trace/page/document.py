"""The page as one document that loads nothing.

Everything in a trace may have been written by an attacker. So the data is JSON in an inert element, from which a script creates
text nodes only. The policy in the head of the page permits this script and this style sheet, by their hashes, and nothing else:
no other script, no request, no form and no frame.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

__all__ = ["document", "embedded"]

_UNSAFE = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}
_SURROGATE = re.compile("[\ud800-\udfff]")


def document(data: Mapping[str, Any]) -> str:
    """Return the page for the data of a timeline."""
    resources = files("codex_plugin_trace.page")
    script, style = (resources.joinpath(name).read_text("utf-8") for name in ("page.js", "page.css"))
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src '{_hash(script)}'",
            f"style-src '{_hash(style)}'",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )
    title = html.escape(_SURROGATE.sub("\ufffd", str(data["title"])))
    return (
        resources.joinpath("page.html")
        .read_text("utf-8")
        .format(policy=policy, title=title, style=style, script=script, data=embedded(data))
    )


def embedded(data: Any) -> str:
    """Return data as JSON for a script element: it contains no ``<``, and no character that ends a line of a script."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False).translate(_UNSAFE)
    return _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _hash(content: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}"
