"""The project file against the code: what is imported is declared, what is declared is there and is used."""

from __future__ import annotations

import importlib.metadata
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile

import pytest
from packaging.requirements import Requirement

from tests.rooms import ROOMS, ROOT, imported_names

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
RUNTIME = [Requirement(text) for text in PROJECT["dependencies"]]
DEV = [Requirement(text) for text in PROJECT["optional-dependencies"]["dev"]]
IN_THE_SAME_VERSION = {"shiboken6": "pyside6-essentials"}  # parts of what is declared
WITH_PYTEST = {"packaging"}
OUR_TEST_MODULES = {path.stem for path in (ROOT / "tests").rglob("*.py")} | {"tools", "installer"}
COMPARED_WITH = {"llama_cpp"}  # by the benchmark alone, which says how to install it: the extra "peer"
NOT_SHIPPED = ("resources/screenshots/", "resources/speed/")
WITHOUT_IMPORT = {"onnxruntime"}  # what rapidocr computes with, though it doesn't ask for it itself


def canonical(name: str) -> str:
    """A distribution's name in the one spelling."""
    return re.sub(r"[-_.]+", "-", name).lower()


def distributions(imported: set[str]) -> dict[str, set[str]]:
    """Which installed distributions have each of the imported names that are neither ours nor Python's."""
    ours = {*ROOMS, "resources", "tests", *sys.stdlib_module_names}
    known = importlib.metadata.packages_distributions()
    found = {name: {canonical(d) for d in known.get(name, [])} for name in imported - ours}
    return {name: {IN_THE_SAME_VERSION.get(d, d) for d in names} for name, names in found.items()}


def test_every_library_that_the_rooms_import_is_declared():
    declared = {canonical(r.name) for r in RUNTIME}
    imported = set().union(*(imported_names(ROOT / room) for room in ROOMS))
    assert imported & COMPARED_WITH == imported_names(ROOT / "engine" / "bench") & COMPARED_WITH
    imported -= COMPARED_WITH
    undeclared = {name for name, found in distributions(imported).items() if not found & declared}
    assert not undeclared, f"imported but not in pyproject.toml: {sorted(undeclared)}"


def test_every_library_that_the_tests_import_is_declared():
    extras = [Requirement(text) for texts in PROJECT["optional-dependencies"].values() for text in texts]
    declared = {canonical(r.name) for r in [*RUNTIME, *extras]}
    found = distributions(imported_names(ROOT / "tests") - OUR_TEST_MODULES)
    undeclared = {name for name, names in found.items() if names and not names & (declared | WITH_PYTEST)}
    unknown = {name for name, names in found.items() if not names and name != "llama_cpp"}
    assert not undeclared | unknown, f"not in pyproject.toml: {sorted(undeclared | unknown)}"


def test_every_declared_library_is_imported():
    imported = set().union(*(imported_names(ROOT / room) for room in ROOMS))
    used = set().union(*distributions(imported).values())
    unused = {canonical(r.name) for r in RUNTIME} - used - WITHOUT_IMPORT
    assert not unused, f"in pyproject.toml but imported nowhere: {sorted(unused)}"


@pytest.mark.parametrize("requirement", [*RUNTIME, *DEV], ids=str)
def test_what_is_installed_is_in_the_declared_range(requirement: Requirement):
    assert importlib.metadata.version(requirement.name) in requirement.specifier


@pytest.mark.parametrize("requirement", RUNTIME, ids=str)
def test_a_range_has_a_lower_bound(requirement: Requirement):
    assert any(specifier.operator in (">=", "==") for specifier in requirement.specifier)


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """What is in a wheel, built from a copy so that nothing stays behind here."""
    copy = tmp_path_factory.mktemp("wheel")
    for folder in (*ROOMS, "resources", "installer", "tests"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "resources" / "screenshots").mkdir(exist_ok=True)
    (copy / "resources" / "screenshots" / "one.png").write_bytes(b"not shipped")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "."]
    subprocess.run(command, cwd=copy, check=True)
    (wheel,) = copy.glob("*.whl")
    return set(zipfile.ZipFile(wheel).namelist())


def test_a_built_package_has_every_module_and_resource(packed: set[str]):
    paths = [path for room in (*ROOMS, "resources") for path in (ROOT / room).rglob("*")]
    names = {path.relative_to(ROOT).as_posix() for path in paths if path.is_file()}
    wanted = {name for name in names if "__pycache__" not in name and not name.startswith(NOT_SHIPPED)}
    assert not wanted - packed


def test_a_built_package_has_nothing_else(packed: set[str]):
    others = ("tests/", "installer/", "resources/screenshots/")
    assert not [name for name in packed if name.startswith(others)]
