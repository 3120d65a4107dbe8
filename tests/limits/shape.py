"""Measures the shape of the kernel: what ``kernel.py`` reaches, and how long functions and classes are.

``python tests/limits/shape.py`` prints it for the checkout, with the modules that only one other imports.
"""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parents[2]
KERNEL = "codex_framework"


class Module:
    """A module of the package, a library or a plugin."""

    def __init__(self, path: Path, folder: Path) -> None:
        parts = path.relative_to(folder).with_suffix("").parts
        self.is_package = parts[-1] == "__init__"
        self.name = ".".join(parts[:-1] if self.is_package else parts)
        self.text = path.read_text(encoding="utf-8")
        self.lines = len(self.text.splitlines())

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @property
    def room(self) -> str:
        """The part of the package in which it is: ``contract``, ``threads``, ..."""
        return self.name.partition(".")[2].partition(".")[0]

    def blocks(self, *kinds: type[ast.AST]) -> Iterator[tuple[str, int]]:
        """Yield the name and the number of lines of each function or class."""
        for node in ast.walk(self.tree):
            if isinstance(node, kinds):
                yield f"{self.name}.{node.name}", node.end_lineno - node.lineno + 1  # type: ignore[attr-defined]

    def imports(self, known: set[str]) -> set[str]:
        """Return what it imports of the known modules: also inside functions and by a constant name, not for type checkers."""
        found: set[str] = set()
        todo: list[ast.AST] = [self.tree]
        while todo:
            node = todo.pop()
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
                todo += node.orelse
                continue
            found.update(self._targets(node, known))
            todo += ast.iter_child_nodes(node)
        return found & known

    def _targets(self, node: ast.AST, known: set[str]) -> Iterator[str]:
        match node:
            case ast.Import(names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module, names, level):
                above = self.name.split(".")[: None if self.is_package and level == 1 else (self.is_package - level)]
                base = ".".join([*(above if level else []), *([module] if module else [])])
                for alias in names:
                    yield f"{base}.{alias.name}" if f"{base}.{alias.name}" in known else base
            case ast.Call(
                ast.Attribute(attr="import_module") | ast.Name("import_module"), [ast.Constant(str() as name)]
            ):
                yield name


class Shape:
    """The modules of a checkout, and who imports whom."""

    def __init__(self, root: Path = ROOT) -> None:
        folders = ((root, KERNEL), *((root / "plugins", path.name) for path in (root / "plugins").glob("codex_*")))
        paths = ((folder, path) for folder, package in folders for path in sorted((folder / package).rglob("*.py")))
        self.modules = {module.name: module for module in (Module(path, folder) for folder, path in paths)}
        self.imports = {name: module.imports(set(self.modules)) for name, module in self.modules.items()}

    @property
    def kernel(self) -> dict[str, Module]:
        """The modules of the package."""
        return {name: module for name, module in self.modules.items() if name.split(".")[0] == KERNEL}

    @cached_property
    def reached(self) -> dict[str, Module]:
        """The modules that ``kernel.py`` imports, directly or not, with the packages in which they are."""
        found: set[str] = set()
        todo = [f"{KERNEL}.kernel"]
        while todo:
            name = todo.pop()
            if name not in found and name != KERNEL:
                found.add(name)
                todo += [*self.imports[name], name.rpartition(".")[0]]
        return {name: self.modules[name] for name in sorted(found)}

    def sizes(self) -> dict[str, int]:
        """Return the lines that are reached in the contract and in everything else, which is the engine."""
        sizes = Counter({"contract": 0, "engine": 0})
        for module in self.reached.values():
            sizes["contract" if module.room == "contract" else "engine"] += module.lines
        return dict(sizes)

    def only_importers(self) -> dict[str, str]:
        """Return the reached modules that one other module imports, with that one."""
        importers = defaultdict(set)
        for name, targets in self.imports.items():
            for target in targets:
                importers[target].add(name)
        found = {name: importers[name] for name, module in self.reached.items() if not module.is_package}
        return {name: next(iter(others)) for name, others in found.items() if len(others) == 1}

    def unexplained(self, small: int = 80) -> dict[str, str]:
        """Return the small modules with one importer whose docstring does not say why: "Apart from ``importer``: ...".

        The reason names the importer, so it has to be looked at again when somebody else becomes the importer.
        """

        def is_explained(name: str, importer: str) -> bool:
            text = " ".join((ast.get_docstring(self.modules[name].tree) or "").split())
            return f"Apart from ``{importer.rpartition('.')[2]}``: " in text

        pairs = self.only_importers().items()
        return {name: by for name, by in pairs if self.modules[name].lines < small and not is_explained(name, by)}

    def functions(self) -> dict[str, int]:
        """Return the lines of each function that is reached."""
        return dict(
            block for module in self.reached.values() for block in module.blocks(ast.FunctionDef, ast.AsyncFunctionDef)
        )

    def classes(self) -> dict[str, int]:
        """Return the lines of each class of the package."""
        return dict(block for module in self.kernel.values() for block in module.blocks(ast.ClassDef))


def main() -> None:
    shape = Shape()
    rooms: Counter[str] = Counter()
    for module in shape.reached.values():
        rooms[module.room] += module.lines
    print(*(f"{what:12}{lines:7}" for what, lines in shape.sizes().items()), "", sep="\n")
    print(*(f"{room:12}{lines:7}" for room, lines in rooms.most_common()), "", sep="\n")
    lengths = sorted(shape.functions().values())
    print(f"95 % of functions have at most {lengths[int(0.95 * len(lengths))]} lines")
    for title, blocks in (("functions", shape.functions()), ("classes", shape.classes())):
        print(
            f"\nlongest {title}:", *(f"{lines:6}  {name}" for name, lines in Counter(blocks).most_common(8)), sep="\n"
        )
    print("\nimported by one other:")
    for name, importer in shape.only_importers().items():
        mark = "  without a reason" if name in shape.unexplained() else ""
        print(f"{shape.modules[name].lines:6}  {name}  by {importer}{mark}")


if __name__ == "__main__":
    main()
