"""The texts for the model about ``image_gen.imagegen``, and its arguments."""

from __future__ import annotations

import json

from codex_framework import Argument, FunctionSpec, ToolError, Value, arguments_schema, parse_arguments
from codex_framework.contract.roles.tool_specs import ToolNamespace

__all__ = ["PLAIN", "WITH_GIF", "Wanted", "wanted"]

MOST_IMAGES = 5
"""How many images a call can edit (Codex's limit)."""

_WHAT = """\
Generates an image from a description, or edits images. Use it when
- the user asks for something to look at: a diagram, a portrait, a comic, a meme, a scene;
- the user wants an attached or generated image changed: parts added or removed, other colours, better quality, another style.

Rules:
- It takes up to a few minutes. In a script, start with `// @exec: {"yield_time_ms": 120000}`, wait for it with the same time, and \
output the image with `generatedImage(result)`. Do not output the result or its base64 as text.
- Set `transparent_background` if the request calls for a transparent background, such as a cutout. Keep the transparency of an \
image that you edit, unless the user wants it changed.
- For a new image, give neither `referenced_image_paths` nor `num_last_images_to_include`. Never give both.
- To edit images that are files, give all of their paths in `referenced_image_paths`. Look at a file first (`view_image`) if you \
have not seen it.
- To edit images of which at least one is only in the conversation, give `num_last_images_to_include`: the smallest number of the \
latest images, at most 5, that includes all of them. If that is not possible, ask the user to attach the images again.
- Generate at once, without asking back, unless images have to be attached again.
- Edit images with this tool and not with programs, unless the user wants that.
"""
_GIF = """\
- Set `gif` for a simple animation of 2 to 16 frames, which repeats; `{}` means 9 frames of 200 ms. Use other tools for more.
- To change a generated GIF, look at its frames, draw them into one image as a regular grid of equal cells, and give that image in \
`referenced_image_paths` together with `gif`. Do not give the GIF itself.
"""

_PROMPT = {"prompt": Argument("string", required=True)}
_ANIMATION = {
    "gif": Argument(
        "object",
        "Makes a simple animated GIF, which repeats.",
        fields={
            "frame_count": Argument("i64", "Number of frames, 2 to 16. Defaults to 9.", schema={"type": "integer"}),
            "frame_duration_ms": Argument(
                "i64", "Duration of a frame in milliseconds, 20 to 2000. Defaults to 200.", schema={"type": "integer"}
            ),
        },
    )
}
_REST = {
    "transparent_background": Argument("boolean", "Whether the background is transparent. Defaults to false."),
    "referenced_image_paths": Argument("strings", "Absolute paths of the images to edit."),
    "num_last_images_to_include": Argument("i64", schema={"type": "integer"}),
}
_PLAIN = {**_PROMPT, **_REST}
_ALL = {**_PROMPT, **_ANIMATION, **_REST}

PLAIN = FunctionSpec(
    "image_gen__imagegen",
    _WHAT,
    arguments_schema(_PLAIN),
    namespace=ToolNamespace("image_gen", "Tools that make images."),
    local_name="imagegen",
    result={
        "type": "object",
        "properties": {"image_url": {"type": "string"}, "output_hint": {"type": "string"}},
        "required": ["image_url"],
    },
)
WITH_GIF = PLAIN.evolve(description=_WHAT + _GIF, parameters=arguments_schema(_ALL))


class Wanted(Value):
    """The arguments of a call.

    Attributes:
        paths: Files to edit.
        last: How many of the latest images of the conversation to edit.
        gif: The fields of the request that make it an animation.
    """

    prompt: str
    transparent: bool = False
    paths: tuple[str, ...] = ()
    last: int = 0
    gif: dict[str, str | int] | None = None


def wanted(text: str, *, animates: bool) -> Wanted:
    """Return the arguments of a call.

    Args:
        animates: Whether GIFs are available.

    Raises:
        ToolError: They make no sense. The sentences are Codex's where it has them.
    """
    found = parse_arguments(text, _ALL)
    if unknown := [name for name in json.loads(text) if name not in _ALL]:
        known = ", ".join(f"`{name}`" for name in (_ALL if animates else _PLAIN))
        raise ToolError(f"unknown field `{unknown[0][:100]}`, expected one of {known}")
    paths, last = found.get("referenced_image_paths") or [], found.get("num_last_images_to_include")
    if "gif" in found and not animates:
        raise ToolError("GIF output is unavailable in this session.")
    if paths and last is not None:
        raise ToolError("provide only one of `referenced_image_paths` or `num_last_images_to_include`")
    if len(paths) > MOST_IMAGES:
        raise ToolError(f"`referenced_image_paths` must contain at most {MOST_IMAGES} paths")
    if last is not None and not 1 <= last <= MOST_IMAGES:
        raise ToolError(f"`num_last_images_to_include` must be between 1 and {MOST_IMAGES}")
    gif = _animation(found["gif"]) if "gif" in found else None
    transparent = found.get("transparent_background", False)
    return Wanted(found["prompt"], transparent, tuple(paths), last or 0, gif)


def _animation(given: dict[str, int | None]) -> dict[str, str | int]:
    limits = {"frame_count": (2, 16), "frame_duration_ms": (20, 2000)}
    found: dict[str, str | int] = {"output_format": "gif"}
    for name, (least, most) in limits.items():
        value = given.get(name)
        if value is None:
            continue
        if not least <= value <= most:
            raise ToolError(f"`gif.{name}` must be between {least} and {most}")
        found[name] = value
    return found
