"""`lucid.kernels`: what it shows of generated code, and the code on disk: pack, cache, and the command line."""

import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import lucid
from lucid.backends.cpu.generated import support
from lucid.codegen import cache, images, pack, processor
from lucid.core.primitive import P
from lucid.kernels import made, source
from lucid.kernels.outline import outline
from lucid.nn import functional

pytestmark = pytest.mark.skipif(not support.in_use, reason="no code is generated here")
ROOT = Path(__file__).resolve().parent.parent
X = lucid.linspace(-3, 3, 10_000)


# --- what is shown ---------------------------------------------------------------------------------


def test_all_parts_of_an_elementwise_kernel():
    text = source(functional.silu, X)
    assert re.search(r"^=== silu: elementwise, from (the pack|the cache|LLVM)$", text, re.M)
    assert "sigmoid(x0)" in text and "define void @elementwise" in text
    assert [part for part in ("expression", "loops", "ir", "assembly") if f"--- {part}\n" not in text] == []
    assert text.count("===") == 1


def test_gradients_show_the_backward_pass_alone():
    text = source(functional.silu, X, gradient=True, parts="expression")
    assert "=== pull of silu" in text and "=== silu:" not in text
    assert X.grad is None and not X.requires_grad


def test_code_that_several_operations_share_is_shown_as_that_of_whoever_ran():
    def back(x):
        return P.silu_back(x, x)

    for _ in range(2):  # whichever was made first
        assert "=== silu_back" in source(back, X, parts="expression")
        assert "=== pull of silu" in source(functional.silu, X, gradient=True, parts="expression")


def test_reductions_show_their_states():
    text = source(lucid.sum, X, parts=["expression", "loops"])
    assert "=== sum: reduction" in text and "the state of none: 0" in text
    assert "merge_columns(out, states, rows, width, count)" in text
    assert "ir" not in re.findall(r"^--- (\w+)", text, re.M)


def test_functions_of_rows_are_shown():
    assert "=== softmax: rows" in source(lucid.softmax, X.reshape(100, 100), dim=-1, parts="expression")


def test_several_kernels_in_the_order_in_which_they_run():
    text = source(lambda x: lucid.tanh(lucid.exp(x)).sum(), X, parts="expression")
    assert re.findall(r"^=== (\w+)", text, re.M) == ["exp", "tanh", "sum"]


def test_kernels_that_ran_before_are_shown_again():
    lucid.exp(X)
    assert source(lucid.exp, X) == source(lucid.exp, X)


def test_what_is_not_generated_is_named():
    text = source(lucid.linalg.det, lucid.eye(3))
    assert text.startswith("no generated kernel ran\n\ncomputed by other code:\n  ")
    assert "lucid.backends" in text


def test_small_products_are_named_as_what_they_are():
    text = source(lambda x: x * x, lucid.ones(3))
    assert "mul: " in text and "arithmetic" in text


def test_other_kernels_are_as_they_were_afterwards():
    from lucid.core.primitive import registry

    before = {name: p.kernel for name, p in registry.items()}
    with pytest.raises(ZeroDivisionError):
        source(lambda x: 1 // 0, X)
    assert {name: p.kernel for name, p in registry.items()} == before


def test_unknown_parts_are_refused():
    with pytest.raises(ValueError, match="parts expression, loops, ir, assembly, not machine"):
        source(lucid.exp, X, parts="machine")


def test_no_gradient_is_refused():
    with pytest.raises(ValueError, match="no gradient"):
        source(lambda x: x + 1, lucid.arange(4), gradient=True)


def test_made_lists_the_kernels_of_the_process():
    lucid.exp(X)
    found = next(k for k in made() if k.name == "exp" and "float32" in k.expression)
    assert found.kind == "elementwise" and repr(found).startswith("<exp: elementwise, from ")


def test_names_of_entries_change_with_every_file_of_the_code_generator(monkeypatch, tmp_path):
    read, opened, folder = pack.sources(), [], Path(pack.__file__).parent

    def noted(path, *mode):
        opened.append(Path(path))
        return open(path, *mode)

    monkeypatch.setattr(pack, "_sources", {})
    monkeypatch.setattr(pack, "_READ_BEFORE", str(tmp_path / "sources.txt"))
    monkeypatch.setattr(pack, "open", noted, raising=False)
    assert pack.sources() == read
    assert {folder / "folds.py", folder / "functions" / "exponentials.py"} <= set(opened)


def test_files_of_the_code_generator_are_read_again_when_they_change(monkeypatch, tmp_path):
    file = tmp_path / "code" / "folds.py"
    file.parent.mkdir()
    monkeypatch.setattr(pack, "_READ_BEFORE", str(tmp_path / "sources.txt"))

    def digest(text=None):
        if text is not None:
            file.write_text(text)
        monkeypatch.setattr(pack, "_sources", {})
        return pack.sources(str(file.parent))

    one = digest("one")
    assert digest() == one  # noted, and found again
    assert one in (tmp_path / "sources.txt").read_text()
    assert digest("other") != one
    (tmp_path / "sources.txt").write_bytes(b"damaged \xff\n one two three")
    assert digest("one") == one


def test_outline_of_nested_loops():
    from lucid.codegen.vectors import COUNT, Function

    f = Function("twice", [("x", "ptr"), ("count", "i64")])

    def outer(i):
        f.loop(f.constant(8, COUNT), 2, lambda j: [])
        return []

    f.loop(f.argument("count"), 1, outer)
    f.effect("ret void")
    lines = [re.sub(r"\bi\d+", "i", line) for line in outline(str(f)).splitlines()]
    assert lines == ["twice(x, count)", "    for i from 0 below count by 1", "        for i from 0 below 8 by 2"]


# --- code on disk ----------------------------------------------------------------------------------


def run(code, folder, **variables):
    environment = {**os.environ, "LUCID_CACHE": str(folder), **variables}
    command = [sys.executable, *(["-c", code] if isinstance(code, str) else code)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)


# A function that no pack has.
USES = """
import sys, lucid
from lucid import nn
found = nn.functional.softplus(lucid.tensor([0.25, 1.5], dtype=lucid.{0}), beta=1.25).tolist()
print(found, "lucid.codegen.machine" in sys.modules)
print(lucid.kernels.made()[-1].origin)
"""


def test_processors_are_told_apart_by_what_the_system_lists(tmp_path, monkeypatch):
    def identity(text):
        (tmp_path / "cpuinfo").write_text(text)
        return processor.identity()

    monkeypatch.setattr(processor, "_DESCRIPTIONS", ())
    monkeypatch.setattr(processor, "_LIST", str(tmp_path / "cpuinfo"))
    first = identity("model\t: 85\ncpu MHz\t: 2500\nflags\t: fma avx2\n\nmodel\t: 85\n")
    assert first is not None
    assert identity("model\t: 85\ncpu MHz\t: 1200\nflags\t: fma avx2\n") == first
    assert identity("model\t: 85\ncpu MHz\t: 2500\nflags\t: fma\n") != first
    assert identity("") is None


def test_the_second_process_needs_no_llvm(tmp_path):
    first, second = (run(USES.format("float16"), tmp_path).stdout.splitlines() for _ in range(2))
    assert first[1] == "LLVM" and second[1] == "the cache", (first, second)
    assert first[0].endswith("True") and first[0].replace("True", "") == second[0].replace("False", "")
    if images.can_load:
        assert second[0].endswith("False")


def test_damaged_entries_are_made_again(tmp_path):
    wanted = run(USES.format("float16"), tmp_path).stdout
    for path in tmp_path.iterdir():
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    assert run(USES.format("float16"), tmp_path).stdout == wanted
    assert run(USES.format("float16"), tmp_path).stdout.endswith("the cache\n")


def test_command_line(tmp_path):
    run(USES.format("float16"), tmp_path)
    shown = run(["-m", "lucid.kernels", "list"], tmp_path).stdout
    assert "float16" in shown and re.search(r"^\d+ kernels, [\d.]+ KiB, in ", shown, re.M)
    cleared = run(["-m", "lucid.kernels", "clear"], tmp_path).stdout
    assert re.match(r"[1-9]\d* kernels deleted from ", cleared)
    assert run(["-m", "lucid.kernels", "list"], tmp_path).stdout.startswith("0 kernels")


def test_help_and_mistakes():
    assert "LUCID_CACHE" in run(["-m", "lucid.kernels", "--help"], "0").stdout
    assert "invalid choice" in run(["-m", "lucid.kernels", "heat"], "0").stderr
    done = run(["-m", "lucid.kernels", "warm"], "0")
    assert done.returncode == 1 and done.stderr == "there is no cache: LUCID_CACHE=0 turns it off\n"


def test_warming_without_the_compiled_modules_says_so(tmp_path):
    done = run(["-m", "lucid.kernels", "warm"], tmp_path, LUCID_PURE="1")
    assert done.returncode == 1 and "no code is generated here: the package is not compiled" in done.stderr


def test_folders_of_others_are_not_used(tmp_path):
    (tmp_path / "file").write_text("")
    assert cache._usable(str(tmp_path / "file" / "below")) is None
    open_to_all = tmp_path / "open"
    open_to_all.mkdir(mode=0o777)
    assert cache._usable(str(open_to_all)) == str(open_to_all)
    assert open_to_all.stat().st_mode & 0o777 == 0o700


def test_the_cache_forgets_what_was_used_least(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "_folder", str(tmp_path))
    for k in range(4):
        cache.write(f"{k}{k}", bytes(100))
        os.utime(tmp_path / f"{k}{k}.kernel", (1000 + k, 1000 + k))
    cache.shrink(300)
    assert sorted(p.stem for p in tmp_path.iterdir()) == ["22", "33"]
    assert cache.read("22") == bytes(100) and cache.read("00") is None
    assert cache.clear() == 2 and cache.entries() == []


def test_packs_are_read_as_they_were_written(tmp_path):
    path = str(tmp_path / "level" / "kernels.pack")
    entries = {"b": b"of b", "a": b"\n of a \n", "c": b""}
    pack.write(path, entries)
    index = pack.read_index(path)
    assert {key: pack.entry_of(path, *index[key]) for key in index} == entries
    data = bytearray(Path(path).read_bytes())
    data[data.index(b"of b")] ^= 1
    Path(path).write_bytes(data)
    assert pack.entry_of(path, *index["b"]) is None and pack.entry_of(path, *index["a"]) == entries["a"]
    Path(path).write_bytes(b"other " + data)
    assert pack.read_index(path) == {} == pack.read_index(str(tmp_path / "nothing"))


def test_common_kernels_have_recipes():
    code = """
from lucid.kernels import common
found = common.recipes()
named = [(r, "var_back" if "with the numbers factor" in r.text else r.name) for r in found.values()]
print(*sorted({f"{r.kind}:{name}:{t}" for r, name in named for t in ("float32", "float64") if t in r.text}))
"""
    names = run(code, "0").stdout.split()
    wanted = ["elementwise:exp", "elementwise:add", "elementwise:tanh", "reduction:sum", "elementwise:gelu"]
    wanted += ["reduction:var", "elementwise:var_back"]
    assert [f"{w}:{t}" for w in wanted for t in ("float32", "float64") if f"{w}:{t}" not in names] == []


# --- linked code -----------------------------------------------------------------------------------

TEXT = """
declare double @cbrt(double)
@numbers = private unnamed_addr constant [4 x double] [double 1.5, double 2.5, double 3.5, double 4.5]
define double @pick(i64 %k) nounwind {
  %place = getelementptr [4 x double], ptr @numbers, i64 0, i64 %k
  %x = load double, ptr %place
  ret double %x
}
define double @root(double %x) nounwind {
  %y = call double @cbrt(double %x)
  %z = fadd double %y, 1.25
  ret double %z
}
"""


@pytest.mark.skipif(not images.can_load, reason="code is loaded by LLVM here")
def test_images_read_their_data_and_call_c():
    import ctypes

    from lucid.codegen.machine import Compiler

    image = Compiler().image(TEXT)
    assert images.Image.from_bytes(image.to_bytes()) == image
    assert set(image.functions) == {"pick", "root"} and set(image.calls) == {"cbrt"}
    loaded = images.Loaded(image)
    pick = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int64)(loaded.address("pick"))
    root = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(loaded.address("root"))
    assert [pick(k) for k in range(4)] == [1.5, 2.5, 3.5, 4.5]
    assert root(27.0) == np.cbrt(27.0) + 1.25


def test_images_for_arm_refer_to_what_they_should():
    """The distance that an instruction pair of ARM states leads to the numbers."""
    from lucid.codegen.machine import Compiler

    image = Compiler("aarch64-unknown-linux-gnu", "generic", "").image(TEXT)
    words = struct.unpack_from(f"<{len(image.code) // 4}I", image.code)
    at = image.functions["pick"] // 4
    page = next(k for k in range(at, at + 8) if words[k] & 0x9F000000 == 0x90000000)
    low = next(k for k in range(page, page + 8) if words[k] & 0xFFC00000 == 0x91000000)
    pages = (words[page] >> 29 & 3) | (words[page] >> 5 & 0x7FFFF) << 2
    assert (pages << 12) + (words[low] >> 10 & 0xFFF) == image.code.index(struct.pack("<d", 1.5))
    call = next(k for k in range(image.functions["root"] // 4, len(words)) if words[k] >> 26 == 0b100101)
    target = call + (words[call] & 0x3FFFFFF)
    assert words[target : target + 2] == (0x58000050, 0xD61F0200) and image.calls["cbrt"] == 4 * target + 8


def test_what_cannot_be_linked_is_refused():
    from lucid.codegen.machine import Compiler

    with pytest.raises(images.NotLinkedError, match="written to"):
        Compiler().image("@x = global i64 7\ndefine ptr @f() { ret ptr @x }")
    with pytest.raises(images.NotLinkedError, match="for Linux"):
        images.linked(b"\0" * 100)
    if images.can_load:
        with pytest.raises(images.NotLinkedError, match="no function no_such_function"):
            images.Loaded(Compiler().image("declare void @no_such_function()\ndefine void @f() nounwind {\n call void @no_such_function()\n ret void\n}"))  # fmt: skip


WITHOUT_MODULES = """
import sys
from lucid.codegen import llvm
from lucid.codegen.machine import Compiler
own = Compiler()
if own._library is None:
    print("not known")
    sys.exit()
text = sys.stdin.read()
found = own.object_code(text), own.image(text), own.assembly(text), own.identity
try:
    own.assembly("no text of LLVM")
except RuntimeError as error:
    assert "expected top-level entity" in str(error), error
try:
    own.assembly("define i32 @f() { ret i32 %x }")
except RuntimeError as error:
    assert "undefined value" in str(error), error
assert "llvmlite.binding" not in sys.modules
import llvmlite.binding
other = Compiler()
assert other._library is None
assert found == (other.object_code(text), other.image(text), other.assembly(text), other.identity)
print("the same")
"""


def test_the_library_of_llvmlite_compiles_the_same_without_its_modules():
    done = subprocess.run([sys.executable, "-c", WITHOUT_MODULES], input=TEXT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    version = processor.llvm_version()
    assert done.stdout.strip() == ("the same" if sys.platform == "linux" and "'0.50." in version else "not known")
