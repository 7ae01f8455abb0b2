"""What a module may touch: nothing private of another room, and elements only by capability."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import outcode

ROOT = Path(outcode.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))
#: Where elements are defined; there they may be asked what they are.
ELEMENT_ROOMS = {"codes", "machines", "decoders", "kernels"}
#: What elements, and the objects made of them, are called.
ELEMENTS = {
    *("machine", "machine_", "decoder", "decoder_", "code", "code_", "kernel", "kernel_"),
    *("clf", "classifier", "estimator", "element", "rule", "best_estimator_"),
}
#: Types that say how something was given by the user, not what an element is.
PLAIN = {"str", "int", "float", "bool", "dict", "list", "tuple", "type", "ndarray", "Integral"}
#: Private names of other libraries without a public way, each for one reason.
FOREIGN = {
    "_exit": "a worker process ends without the clean-up of its parent",
    "_getframe": "the line of the caller, which warnings point at",
    "_get_param_names": "the parameters of a scikit-learn class that has no instance yet",
}


def room(path):
    """Return the room of a module: the package or file below outcode, or below outcode/app."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:2]) if parts[0] == "app" and len(parts) > 1 else parts[0]


def tree(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def is_private(name):
    return name.startswith("_") and not name.endswith("__") and name != "_"


def defined(path):
    """Return the private names a module defines: functions, classes, variables, attributes."""
    names = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.add(node.attr)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return {name for name in names if is_private(name)}


OWN: dict[str, set[str]] = {}
for _path in MODULES:
    OWN.setdefault(room(_path), set()).update(defined(_path))


def private_touches(path):
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            inherited = isinstance(node.value, ast.Call) and ast.unparse(node.value) == "super()"
            if not own and not inherited and node.attr not in OWN[room(path)] | set(FOREIGN):
                yield f"{path.relative_to(ROOT)}:{node.lineno} {ast.unparse(node)}"
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("outcode"):
            other = (node.module or "").split(".")[1:]
            same = ".".join(other[:2] if other[:1] == ["app"] else other[:1]) == room(path)
            for alias in node.names:
                if is_private(alias.name) and not same:
                    yield f"{path.relative_to(ROOT)}:{node.lineno} {alias.name} of {node.module}"


def last_name(node):
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def types_of(node):
    if isinstance(node, ast.Tuple):
        return {name for item in node.elts for name in types_of(item)}
    if isinstance(node, ast.BinOp):
        return types_of(node.left) | types_of(node.right)
    return {last_name(node)}


def questions(path):
    """Yield every isinstance and hasattr on an element, outside the rooms where they live."""
    if room(path) in ELEMENT_ROOMS | {"capabilities"}:
        return
    for node in ast.walk(tree(path)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
            continue
        if node.func.id not in ("isinstance", "hasattr") or last_name(node.args[0]) not in ELEMENTS:
            continue
        if node.func.id == "hasattr" or types_of(node.args[1]) - PLAIN:
            yield f"{path.relative_to(ROOT)}:{node.lineno} {ast.unparse(node)}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_touches_what_is_private_to_another_room(path):
    assert list(private_touches(path)) == []


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_elements_are_asked_what_they_can_do_not_what_they_are(path):
    assert list(questions(path)) == []


def test_the_tests_see_what_they_forbid(tmp_path, monkeypatch):
    wrong = tmp_path / "loo.py"
    wrong.write_text("def f(machine):\n    return hasattr(machine, 'C'), machine._secret\n")
    monkeypatch.setattr("test_boundaries.ROOT", tmp_path)
    assert len(list(questions(wrong))) == 1
    assert len(list(private_touches(wrong))) == 1
