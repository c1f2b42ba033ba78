"""What the package promises about its names: all of them documented, with examples that run."""

import doctest
import inspect
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import lucid
from lucid.api import names
from lucid.api.methods import method_table
from lucid.core.tensor import Tensor

MODULES = {"autograd", *names.PACKAGES.split()}
OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
NAMESPACES = {
    "lucid": lucid,
    **{
        f"lucid.{name}": import_module(f"lucid.{name}")
        for name in "autograd autograd.forward_ad func nn nn.functional nn.init nn.utils optim data amp checkpoints array_api array_api.linalg array_api.fft array_api.special linalg fft special signal masked distributions distributions.constraint_registry".split()
    },
}


def public_callables() -> dict[str, object]:
    found = {}
    for prefix, module in NAMESPACES.items():
        for name in getattr(module, "__all__", None) or [n for n in vars(module) if not n.startswith("_")]:
            value = getattr(module, name)
            if callable(value) or isinstance(value, type):
                found[f"{prefix}.{name}"] = value
    return found


CALLABLES = public_callables()


@pytest.mark.parametrize("name", sorted(CALLABLES))
def test_public_name_is_documented_with_an_example_that_runs(name: str) -> None:
    doc = inspect.getdoc(CALLABLES[name])
    assert doc, f"{name} has no docstring"
    test = doctest.DocTestParser().get_doctest(doc, {}, name, None, 0)
    assert test.examples, f"{name} has no example"
    runner = doctest.DocTestRunner(optionflags=OPTIONS, verbose=False)
    output: list[str] = []
    runner.run(test, out=output.append)
    assert runner.failures == 0, "".join(output)


@pytest.mark.parametrize("name", sorted(method_table()))
def test_method_is_documented(name: str) -> None:
    assert inspect.getdoc(getattr(Tensor, name))


def test_all_lists_what_is_public() -> None:
    assert len(set(lucid.__all__)) == len(lucid.__all__), "a name stands twice in __all__"
    strangers = [n for n in lucid.__all__ if inspect.ismodule(getattr(lucid, n)) and n not in MODULES]
    assert strangers == []


@pytest.mark.parametrize("name", sorted(set(lucid.__all__) - {"newaxis"}))
def test_public_names_are_there(name: str) -> None:
    assert getattr(lucid, name) is not None


@pytest.mark.parametrize("module", [lucid, lucid.autograd])
def test_dir_shows_what_loads_on_first_use(module: ModuleType) -> None:
    program = f"import {module.__name__} as module; print(*(set(module.__all__) - set(dir(module))))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


def test_methods_that_load_on_first_use_are_there() -> None:
    rows = [row for row in names.having("method") if "lazy" in row.columns]
    assert rows and all(callable(row.function()) for row in rows)


def test_stubs_are_up_to_date() -> None:
    script = Path(__file__).parent.parent / "tools" / "stubs.py"
    done = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
