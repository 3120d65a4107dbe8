"""Values: attrs classes that are defined when they are first needed."""

from __future__ import annotations

import copy
import inspect
import pickle
import pydoc
import subprocess
import sys
import threading
from typing import ClassVar, Generic, TypeVar

import attrs
import pytest

from codex_framework.contract.value import Value


class Point(Value):
    """Two numbers and a note that does not count."""

    kind: ClassVar[str] = "point"
    x: int
    y: int = 0
    note: str = attrs.field(default="", eq=False, repr=False)


class Named(Value, kw_only=True):
    """Fields by name only."""

    name: str
    tags: tuple[str, ...] = ()


class Empty(Value):
    """No field at all."""


def test_a_value_is_made_compared_hashed_and_shown_by_its_fields() -> None:
    assert Point(1, 2) == Point(1, y=2, note="other")
    assert Point(1, 2) != Point(2, 1)
    assert Point(1) != Named(name="x")
    assert hash(Point(1, 2, "a")) == hash(Point(1, 2, "b"))
    assert repr(Point(1)) == "Point(x=1, y=0)"
    assert Empty() == Empty()
    assert {Point(1): "a"}[Point(1)] == "a"


def test_a_value_cannot_be_changed_but_copied_with_changes() -> None:
    point = Point(1, 2)
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        point.x = 3  # type: ignore[misc]
    assert point.evolve(y=5) == Point(1, 5)
    assert attrs.evolve(point, y=5) == Point(1, 5)  # type: ignore[misc]
    assert copy.deepcopy(point) == pickle.loads(pickle.dumps(point)) == point


def test_fields_can_be_asked_for_before_there_is_an_instance() -> None:
    class Fresh(Value):
        a: int
        b: str = "b"

    assert attrs.has(Fresh)
    assert [field.name for field in attrs.fields(Fresh)] == ["a", "b"]
    assert Fresh(1).b == "b"


def test_wrong_arguments_are_type_errors() -> None:
    with pytest.raises(TypeError, match="x"):
        Point()  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Named("positional")  # type: ignore[misc]


def test_matching_takes_fields_in_order() -> None:
    match Point(3, 4):
        case Point(x, y):
            assert (x, y) == (3, 4)
        case _:
            raise AssertionError


def test_a_class_is_defined_once_however_many_threads_need_it_first() -> None:
    for _ in range(20):

        class Raced(Value):
            a: int = 1
            b: int = 2

        made: list[Value] = []
        barrier = threading.Barrier(4)

        def make(kind: type[Value] = Raced, at: threading.Barrier = barrier, into: list[Value] = made) -> None:
            at.wait()
            into.append(kind())

        threads = [threading.Thread(target=make) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert made == [Raced()] * 4


T = TypeVar("T")


def test_a_value_may_be_generic() -> None:
    class Box(Value, Generic[T]):
        content: T

    class IntBox(Box[int]):
        label: str = ""

    assert Box[int](3) == Box(3)
    assert IntBox(3, "three").label == "three"
    assert Box[str].__args__ == (str,)


def test_a_value_derived_from_one_in_use_has_its_own_fields() -> None:
    class Parent(Value):
        a: int

    class Child(Parent):
        b: int = 0

    assert Parent(1).a == 1

    class Grandchild(Child):
        c: int = 0

    assert Child(1, 2).b == 2
    assert Grandchild(1, 2, 3) == Grandchild(a=1, b=2, c=3)
    assert [field.name for field in attrs.fields(Grandchild)] == ["a", "b", "c"]
    assert Grandchild(1) != Child(1)


def test_signature_and_help_show_the_fields_before_the_first_use() -> None:
    class Parent(Value):
        a: int

    class Child(Parent, kw_only=True):
        b: str = "b"

    assert str(inspect.signature(Child)) == "(a: 'int', *, b: 'str' = 'b')"
    assert str(inspect.signature(Parent)) == "(a: 'int')"

    class Fresh(Value):
        number: int

    assert "Fresh(number: 'int')" in pydoc.plain(pydoc.render_doc(Fresh))


def test_a_class_whose_fields_cannot_be_is_told_each_time() -> None:
    class Wrong(Value):
        a: int = 1
        b: int  # type: ignore[misc]

    for _ in range(2):
        with pytest.raises(ValueError, match="No mandatory attributes"):
            Wrong(1, 2)


def test_an_initialiser_of_its_own_is_kept() -> None:
    class Own(Value):
        a: int

        def __init__(self, text: str) -> None:
            object.__setattr__(self, "a", int(text))

    assert Own("3").a == 3
    assert list(inspect.signature(Own).parameters) == ["text"]


_EVERY_VALUE = """
import importlib, inspect, pkgutil, pydoc
import codex_framework
from codex_framework.contract.value import Value


def values(kind):
    for value in kind.__subclasses__():
        yield value
        yield from values(value)


for module in pkgutil.walk_packages(codex_framework.__path__, "codex_framework."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
count = 0
for value in dict.fromkeys(values(Value)):
    signature = str(inspect.signature(value))
    assert "*args" not in signature and signature[1:5] != "self", (value, signature)
    assert f"{value.__name__}(" in pydoc.plain(pydoc.render_doc(value)), value
    count += 1
print(count)
"""


def test_signature_and_help_work_on_every_value_of_the_framework_before_its_first_use() -> None:
    done = subprocess.run([sys.executable, "-c", _EVERY_VALUE], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert int(done.stdout) > 200
