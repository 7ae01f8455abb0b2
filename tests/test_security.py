"""What SECURITY.md says of the package: no code from files, no network, permissive licences."""

from __future__ import annotations

import ast
import re
from importlib.metadata import PackageNotFoundError, metadata, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import outcode

ROOT = Path(outcode.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))
#: Modules that run code from data, start a shell, or open connections.
FORBIDDEN = {
    *("pickle", "cPickle", "dill", "cloudpickle", "shelve", "marshal", "subprocess", "pty", "code"),
    *("socket", "ssl", "ftplib", "smtplib", "telnetlib", "urllib", "urllib3", "http", "requests"),
    *("httpx", "aiohttp", "xmlrpc", "socketserver"),
}
CALLS = {"eval", "exec", "compile", "__import__", "system", "popen", "execv", "execvp", "spawnl"}
PICKLES = {("joblib", "load"), ("joblib", "dump"), ("pd", "read_pickle"), ("pandas", "read_pickle")}


#: Where they are allowed, and why.
ALLOWED = {
    # a study and the worker processes it started, over their own pipes; a list of arguments
    "app/study/pool.py": {"pickle", "subprocess"},
    "app/study/worker.py": {"pickle"},
    # a workbook is unpacked in a process of its own with a time limit; a list of arguments
    "datasets/readers/workbook.py": {"subprocess"},
    # the digest of parameters: written, never read
    "scale/checkpoints.py": {"pickle"},
}
READS_PICKLES = ("app/study/pool.py", "app/study/worker.py")


def faults(source):
    """Return what a module uses of what is forbidden."""
    found = []
    for node in ast.walk(ast.parse(source)):
        for name in used(node):
            found.append(name)
    return found


def used(node):
    """Return the forbidden names that a node of the syntax tree uses."""
    if isinstance(node, ast.Import):
        return [one.name for one in node.names if one.name.split(".")[0] in FORBIDDEN]
    if isinstance(node, ast.ImportFrom) and not node.level:
        return [node.module] if (node.module or "").split(".")[0] in FORBIDDEN else []
    if isinstance(node, ast.Call):
        return called(node)
    return []


def called(node):
    """Return the forbidden function a call is to, if it is one."""
    function = node.func
    wrong = []
    if isinstance(function, ast.Name) and function.id in CALLS:
        wrong.append(function.id)
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        owner = function.value.id
        shell = owner == "os" and function.attr in CALLS
        if shell or (owner, function.attr) in PICKLES:
            wrong.append(f"{owner}.{function.attr}")
    given = {k.arg: getattr(k.value, "value", None) for k in node.keywords}
    return wrong + [name for name in ("allow_pickle", "shell") if given.get(name)]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_code_from_data_no_shell_no_network(path):
    allowed = ALLOWED.get(path.relative_to(ROOT).as_posix(), set())
    assert set(faults(path.read_text(encoding="utf-8"))) == allowed


def test_pickles_are_read_from_worker_processes_only():
    reads = re.compile(r"pickle\.loads?\(|Unpickler")
    found = [p.relative_to(ROOT).as_posix() for p in MODULES if reads.search(p.read_text("utf-8"))]
    assert sorted(found) == sorted(READS_PICKLES)


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from urllib.request import urlopen",
        "import http.client",
        "eval(text)",
        "os.system(text)",
        "joblib.load(path)",
        "np.load(path, allow_pickle=True)",
        "run(text, shell=True)",
    ],
)
def test_the_search_finds_what_is_forbidden(source):
    assert len(faults(source)) == 1


# --- licences ---

PERMISSIVE = re.compile(
    r"\b(BSD|MIT|Apache|ISC|PSF|Python Software Foundation|0BSD|Zlib|Unlicense|HPND)\b", re.I
)
COPYLEFT = re.compile(r"\b(A?GPL|LGPL|GNU (Affero |Lesser )?General Public|EUPL|SSPL)", re.I)


def run_time_dependencies():
    """Return the names of all packages that a full installation brings, one through another."""
    found, left = set(), [("outcode", {"app"})]
    while left:
        name, extras = left.pop()
        for text in requires(name) or []:
            need = Requirement(text)
            wanted = need.marker is None or any(
                need.marker.evaluate({"extra": extra}) for extra in {"", *extras}
            )
            if wanted and need.name.lower() not in found:
                found.add(need.name.lower())
                left.append((need.name, need.extras))
    return sorted(found)


def licence(name):
    """Return what a package says of its licence in one line: expression, classifiers, or name."""
    about = metadata(name)
    expression = about.get("License-Expression")
    classified = [c for c in about.get_all("Classifier") or [] if c.startswith("License ::")]
    return expression or "; ".join(classified) or (about.get("License") or "").split("\n")[0]


def test_licences_of_all_run_time_dependencies_are_permissive():
    try:
        names = run_time_dependencies()
    except PackageNotFoundError as missing:
        pytest.skip(f"not installed here: {missing}")
    assert {"numpy", "scikit-learn", "safetensors"} <= set(names)
    told = {name: licence(name) for name in names}
    wrong = {n: t for n, t in told.items() if not PERMISSIVE.search(t) or COPYLEFT.search(t)}
    assert wrong == {}


# --- continuous integration ---


def test_steps_of_others_are_pinned_by_hash_and_jobs_may_only_read():
    """A tag can be moved to other code; a hash cannot."""
    workflows = sorted((Path(__file__).parents[1] / ".github" / "workflows").glob("*.yml"))
    assert workflows
    for path in workflows:
        text = path.read_text(encoding="utf-8")
        used = re.findall(r"uses: (\S+)", text)
        assert used
        assert [one for one in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", one)] == []
        assert "\npermissions: { contents: read }\n" in text
