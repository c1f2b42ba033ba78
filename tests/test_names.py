"""Every list of public names is read from one table, and a new name is one row of it."""

import ast
import doctest
import inspect
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import scipy.special

import lucid
from lucid import array_api
from lucid.api import inplace, methods, names
from lucid.array_api import elementwise
from lucid.array_api import special as array_api_special
from lucid.interop import numpy_protocol, scipy_ufuncs

PACKAGE = Path(lucid.__file__).parent


def plain(value):
    return inspect.unwrap(value) if callable(value) else value


# --- what is derived is what the table says --------------------------------------------------------


def test_a_name_has_one_row_in_each_place():
    for place in ([r for r in names.ROWS if "unlisted" not in r.columns], names.having("method")):
        known = [name for row in place for name in (row.name, *row.aliases)]
        assert len(known) == len(set(known))


def test_columns_are_known():
    """Those that the docstring of the table explains."""
    described = (line.split() for line in names.__doc__.splitlines() if line[:4].isspace() and line[4:5].strip())
    known = {words[0].partition("=")[0] for words in described}
    assert {column for row in names.ROWS for column in row.columns} == known


@pytest.mark.parametrize("name", sorted(names.listed()))
def test_the_namespace(name):
    row = names.listed()[name]
    assert plain(getattr(lucid, name)) is plain(row.function())


def test_the_lists_of_public_names():
    assert set(lucid.__all__) == {*names.listed(), *names.PACKAGES.split(), "autograd", "func", "__version__"}
    assert set(lucid.special.__all__) == set(names.special())
    assert set(array_api.__all__) == {*elementwise.standard(), "fft", "linalg"}
    assert {"fdtr", "fdtrc", *array_api_special.derived()} == set(array_api_special.__all__)


def test_dir_shows_what_is_public_loaded_or_not():
    assert set(lucid.__all__) <= set(dir(lucid))
    assert {n for n in dir(lucid) if not n.startswith("__")} == {n for n in lucid.__all__ if not n.startswith("__")}


def test_methods():
    for row in names.having("method"):
        adapter = row.columns["method"]
        wanted = getattr(methods, adapter) if adapter else row.function()
        for name in row.names:
            found = inspect.getattr_static(lucid.Tensor, name)
            assert found is wanted or found.home == row.home, name
    for row in names.having("inplace"):
        assert {getattr(lucid.Tensor, f"{name}_") for name in row.names} == {inplace.FORMS[f"{row.name}_"]}


@pytest.mark.parametrize("name", sorted(inplace.FORMS))
def test_in_place_forms_show_a_call_that_works(name):
    test = doctest.DocTestParser().get_doctest(inspect.getdoc(inplace.FORMS[name]), {}, name, None, 0)
    assert doctest.DocTestRunner(verbose=False).run(test).failed == 0


def test_counterparts_of_other_libraries():
    known = set(numpy_protocol.ufuncs())
    assert known <= set(numpy_protocol.UFUNCS)
    own = {ufunc.__name__ for ufunc in numpy_protocol.UFUNCS.keys() - known}
    assert own == {"cbrt", "divmod", "heaviside", "modf", "positive"}
    assert set(scipy_ufuncs.ufuncs()) <= set(scipy_ufuncs.UFUNCS)
    assert set(elementwise.derived()) <= set(array_api.__all__)


@pytest.mark.parametrize("row", names.having("scipy"), ids=lambda row: row.name)
def test_scipy_has_the_functions_that_rows_stand_for(row):
    for name in row.named("scipy") or row.named("special", row.name):
        assert hasattr(scipy.special, name)


# --- a new name is one row -------------------------------------------------------------------------

NEW = """
lucid.ops.invented: method inplace=listed numpy standard special scipy
    cbrt/cube_root
"""


def test_one_row_is_enough(monkeypatch):
    home = ModuleType("lucid.ops.invented")
    home.cbrt = lucid.ops.unary.exp
    monkeypatch.setitem(sys.modules, home.__name__, home)
    rows = names.rows(names.TABLE + NEW)
    assert names.listed(rows).keys() - names.listed().keys() == {"cbrt", "cube_root", "cbrt_", "cube_root_"}
    table = methods.method_table(rows)
    assert table.keys() - methods.method_table().keys() == {"cbrt", "cube_root", "cbrt_", "cube_root_"}
    assert table["cube_root"] is home.cbrt
    x = lucid.tensor([0.0])
    assert table["cube_root_"](x) is x and x.item() == 1
    assert names.special(rows).keys() - names.special().keys() == {"cbrt"}
    assert numpy_protocol.ufuncs(rows)[np.cbrt] is home.cbrt
    assert scipy_ufuncs.ufuncs(rows)[scipy.special.cbrt] is home.cbrt
    assert elementwise.standard(rows)["cbrt"].home == "lucid.array_api.elementwise"
    assert elementwise.derived(rows)["cbrt"](lucid.tensor([0.0])).item() == 1
    assert array_api_special.derived(rows)["cbrt"](lucid.tensor([0.0])).item() == 1


# --- and it stands nowhere else --------------------------------------------------------------------

ELEMENTWISE = {
    name
    for row in names.ROWS
    if row.home.startswith(("lucid.ops.", "lucid.special.")) and hasattr(row.function(), "primitive")
    for name in (*row.names, *row.named("special"), *row.named("standard"), *row.named("scipy"))
}
# Lists of such names that mean something else, and what.
EXCEPTIONS = {
    "api/methods.py": "the operators of Python",
    "arguments/promotion.py": "methods by which the right operand of an operator is asked",
    "autograd/explaining.py": "why derivatives of these operations vanish",
    "jax/lax/__init__.py": "names that JAX has for functions that are called otherwise here",
    "jax/random.py": "distributions",
    "nn/functional/activations.py": "functions with arguments of their own",
    "nn/init.py": "the names by which its functions are asked for a gain",
    "nn/layers/recurrent.py": "choices of a nonlinearity",
    "torch/namespaces.py": "paths of modules that are called like the distributions in them",
}


def written_lists(path):
    """The words of each string of words, and of each list, tuple, set or table of strings in a file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            words = node.value.split()
            if all(w.isidentifier() for w in words):
                yield node.lineno, words
        elif isinstance(node, ast.List | ast.Tuple | ast.Set | ast.Dict):
            items = node.keys if isinstance(node, ast.Dict) else node.elts
            yield node.lineno, [i.value for i in items if isinstance(i, ast.Constant)]


def found_in(path):
    return [
        f"{path}:{line} {sorted(known)}"
        for line, words in written_lists(path)
        if len(known := ELEMENTWISE.intersection(w for w in words if isinstance(w, str))) > 1
    ]


# Declarations, kernels and machine code are written by name.
BY_NAME = ("ops", "backends", "codegen")
FILES = [p for p in sorted(PACKAGE.rglob("*.py")) if p.relative_to(PACKAGE).parts[0] not in BY_NAME]


def test_no_other_list_has_elementwise_names():
    assert "expm1" in ELEMENTWISE and "gammainc" in ELEMENTWISE and "absolute" in ELEMENTWISE
    found = {str(p.relative_to(PACKAGE)): found_in(p) for p in FILES if p != Path(names.__file__)}
    assert {p: lists for p, lists in found.items() if lists and p not in EXCEPTIONS} == {}
    assert [p for p in EXCEPTIONS if not found[p]] == []
