"""Checkpoints: everything comes back as it was, a file is never half written, and a bad one does no harm."""

import collections
import io
import json
import math
import os
import random
import stat
import struct
import subprocess
import sys
import textwrap
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lucid
from lucid.checkpoints import CheckpointError, load, save, shards, structure

safetensors = pytest.importorskip("safetensors")
from safetensors import numpy as safetensors_numpy  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
FLOATS = [lucid.float16, lucid.bfloat16, lucid.float32, lucid.float64]
ALL_TYPES = [*FLOATS, lucid.bool, lucid.uint8, lucid.uint16, lucid.uint32, lucid.uint64]
ALL_TYPES += [lucid.int8, lucid.int16, lucid.int32, lucid.int64, lucid.complex64]
ALL_TYPES.append(lucid.complex128)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state.safetensors"


def roundtrip(obj, path, **settings):
    save(obj, path)
    return load(path, **settings)


def bits(value):
    return struct.pack(">d", value)


def same(a, b):
    """Equal in type, order and every bit."""
    if type(a) is not type(b):
        return False
    if isinstance(a, lucid.Tensor):
        return a.requires_grad == b.requires_grad and same(a.detach().numpy(), b.detach().numpy())
    if isinstance(a, np.ndarray | np.generic):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, float):
        return bits(a) == bits(b)
    if isinstance(a, complex):
        return bits(a.real) + bits(a.imag) == bits(b.real) + bits(b.imag)
    if isinstance(a, dict):
        pairs = zip(a.items(), b.items(), strict=True) if len(a) == len(b) else ()
        return len(a) == len(b) and all(same(x, y) and same(v, w) for (x, v), (y, w) in pairs)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


# Values


@pytest.mark.parametrize("dtype", ALL_TYPES, ids=repr)
@pytest.mark.parametrize("shape", [(), (3,), (2, 0, 3), (4, 1, 2)])
def test_tensors_of_every_type_and_shape(dtype, shape, path):
    x = (lucid.rand(*shape) * 100).to(dtype) if dtype is not lucid.bool else lucid.rand(*shape) > 0.5
    found = roundtrip({"x": x}, path)["x"]
    assert same(found, x)
    assert found.dtype is dtype


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        0,
        -1,
        2**63 - 1,
        -(2**63),
        2**63,
        -(2**70),
        3**20_000,
        0.1,
        -0.0,
        5e-324,
        math.inf,
        -math.inf,
        math.nan,
        struct.unpack(">d", bytes.fromhex("7ff8000000001234"))[0],
        1.5 - 2j,
        complex(math.nan, -0.0),
        "",
        "text with \u2028, \0, 'quotes\" and \\",
        "\ud800",
        b"",
        b"\0\xff",
        lucid.bfloat16,
        lucid.bool,
        lucid.device("cpu"),
        [],
        (),
        {},
        ((),),
        [1, [2, (3, [])]],
        {"a": {"b": {1: None}}},
        {0: "zero", "0": "text", -5: 1, 2.5: 2, None: 3, (1, "x"): 4, b"k": 5, True: 6},
        collections.OrderedDict(b=1, a=2),
        collections.Counter({3: 2, 7: 1}),
        np.float32(1.5),
        np.int8(-3),
        np.bool_(True),
        np.complex128(1 - 2j),
        np.uint64(2**64 - 1),
        ml_dtypes.bfloat16(2.5),
        np.arange(6, dtype=np.uint16).reshape(2, 3),
        np.array(3.5),
        np.zeros((0, 2), np.complex128),
        np.array([1, 2], dtype=ml_dtypes.bfloat16),
    ],
    ids=lambda v: "large int" if isinstance(v, int) and v > 2**64 else repr(v)[:40],
)
def test_values_come_back_exactly(value, path):
    for obj in (value, [value, value], {"deep": ({"x": value},)}):
        assert same(roundtrip(obj, path), obj)


def test_order_of_keys_is_kept(path):
    names = [str(i) for i in range(20)]
    random.Random(0).shuffle(names)
    assert list(roundtrip({n: lucid.zeros(1) for n in names}, path)) == names


plain = st.none() | st.booleans() | st.integers() | st.floats() | st.complex_numbers() | st.text() | st.binary()
keys = st.text() | st.integers() | st.none() | st.floats(allow_nan=False) | st.tuples(st.integers(), st.text())
arrays = st.builds(
    lambda shape, dtype: lucid.zeros(*shape, dtype=dtype),
    st.lists(st.integers(0, 3), max_size=3),
    st.sampled_from(ALL_TYPES),
)
nests = st.recursive(
    plain | arrays,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(keys, inner, max_size=4)
        | st.dictionaries(keys, inner, max_size=4).map(collections.OrderedDict)
    ),
    max_leaves=12,
)


@given(nests)
def test_any_nest_comes_back(tmp_path_factory, nest):
    path = tmp_path_factory.mktemp("nest") / "x"
    assert same(roundtrip(nest, path), nest)
    save(nest, path, shard_size=100)
    assert same(load(path), nest)


def test_random_states(path):
    lucid.manual_seed(5)
    generator = lucid.Generator().manual_seed(2**64 - 3)
    lucid.rand(7, generator=generator)
    saved = {
        "lucid": lucid.get_rng_state(),
        "generator": generator,
        "python": random.getstate(),
        "numpy": np.random.default_rng(3).bit_generator.state,
        "old": np.random.RandomState(3).get_state(),
    }
    found = roundtrip(saved, path)
    expected, theirs = lucid.rand(3), lucid.rand(3, generator=generator)
    lucid.set_rng_state(found["lucid"])
    assert lucid.equal(lucid.rand(3), expected)
    assert lucid.equal(lucid.rand(3, generator=found["generator"]), theirs)
    random.Random().setstate(found["python"])
    restored = np.random.default_rng()
    restored.bit_generator.state = found["numpy"]
    assert restored.random() == np.random.default_rng(3).random()
    old = np.random.RandomState()
    old.set_state(found["old"])
    assert old.random_sample() == np.random.RandomState(3).random_sample()


def test_states_of_modules_and_optimizers(path):
    state = collections.OrderedDict(weight=lucid.rand(3, 2), bias=lucid.zeros(3))
    state._metadata = collections.OrderedDict({"": {"version": 1}, "norm": {"version": 2}})
    optimizer = {
        "state": {i: {"step": lucid.tensor(3.0), "exp_avg": lucid.rand(2)} for i in range(2)},
        "param_groups": [{"lr": 1e-3, "betas": (0.9, 0.999), "foreach": None, "params": [0, 1]}],
    }
    found = roundtrip({"model": state, "optimizer": optimizer}, path)
    assert same(found["model"], state)
    assert same(found["model"]._metadata, state._metadata)
    assert same(found["optimizer"], optimizer)
    names = safetensors_numpy.load_file(path).keys()
    assert {"model.weight", "model.bias", "optimizer.state.0.exp_avg"} <= set(names)


# Memory


def test_tied_tensors_come_back_tied(path):
    weight = lucid.rand(40, 50)
    obj = {"embedding": weight, "output": weight, "alias": weight.detach(), "other": weight.clone()}
    found = roundtrip(obj, path)
    assert found["embedding"] is found["output"]
    found["embedding"][0, 0] = 77.0
    assert found["alias"][0, 0].item() == 77.0
    assert found["other"][0, 0].item() != 77.0
    assert path.stat().st_size < 2.5 * weight.nbytes
    parameter = lucid.rand(3, requires_grad=True)
    found = roundtrip([parameter, parameter.detach(), parameter], path)
    assert [t.requires_grad for t in found] == [True, False, True]
    assert found[0] is found[2]
    found[1][0] = 5.0
    assert found[0][0].item() == 5.0
    found = roundtrip([parameter.detach(), parameter], path)
    assert [t.requires_grad for t in found] == [False, True]
    found[0][0] = 6.0
    assert found[1][0].item() == 6.0


def test_views_are_saved_by_value(path):
    x = lucid.arange(12).reshape(3, 4)
    views = [x, x[1], x.t(), x[:, ::2], x.flip(0), lucid.ones(1).expand(3, 2), x.reshape(4, 3)]
    found = roundtrip(views, path)
    for a, b in zip(found, views, strict=True):
        assert lucid.equal(a, b)
        assert a.is_contiguous()
    found[0][1] = -1
    assert found[1].tolist() == [4, 5, 6, 7]


def test_requires_grad_is_kept_for_leaves(path):
    leaf = lucid.rand(2, requires_grad=True)
    result = leaf * 2
    (leaf * 3).sum().backward()
    found = roundtrip({"leaf": leaf, "result": result, "plain": lucid.zeros(1)}, path)
    assert [t.requires_grad for t in found.values()] == [True, False, False]
    assert all(t.is_leaf and t.grad is None for t in found.values())
    assert lucid.equal(found["result"], result.detach())
    (found["leaf"] ** 2).sum().backward()
    assert lucid.allclose(found["leaf"].grad, 2 * leaf.detach())


@pytest.mark.parametrize("mmap", [False, True])
def test_what_is_loaded_can_be_written_and_the_file_stays(path, mmap):
    obj = {"x": lucid.rand(1000), "n": np.arange(1000), "b": lucid.zeros(5, dtype=lucid.bool)}
    save(obj, path)
    before = path.read_bytes()
    found = load(path, mmap=mmap)
    assert same(found, obj)
    found["x"] += 1.0
    found["n"][0] = 5
    found["b"][0] = True
    assert path.read_bytes() == before
    path.unlink()
    assert lucid.allclose(found["x"], obj["x"] + 1.0)


def test_mapped_tensors_are_read_when_they_are_used(path):
    save({"x": lucid.zeros(8_000_000), "small": lucid.ones(3)}, path)
    found = load(path, mmap=True)
    start = found["x"].numpy()
    assert not start.flags.owndata
    assert found["small"].tolist() == [1, 1, 1]
    owned = load(path)["x"].numpy()
    while owned.base is not None:
        owned = owned.base
    assert isinstance(owned, np.ndarray)
    assert owned.flags.owndata


def test_arrays_in_the_other_byte_order_and_mapped_arrays(path, tmp_path):
    mapped = np.memmap(tmp_path / "m", np.float32, "w+", shape=(3,))
    mapped[:] = 2
    found = roundtrip([np.arange(3, dtype=">i4"), np.float64(2.5).astype(">f8"), mapped], path)
    assert [f.tolist() for f in found] == [[0, 1, 2], 2.5, [2, 2, 2]]
    assert found[0].dtype == np.int32


def test_device(path):
    save({"x": lucid.zeros(2)}, path)
    assert load(path, device="cpu")["x"].device == lucid.device("cpu")
    with pytest.raises(ValueError, match="unknown device 'tpu'"):
        load(path, device="tpu")


# Other libraries


def test_flat_dicts_are_plain_safetensors_files(path):
    state = {"layer.weight": lucid.rand(3, 2), "step": lucid.tensor(4), "c": lucid.ones(2, dtype=lucid.complex64)}
    save(state, path)
    theirs = safetensors_numpy.load_file(path)
    assert set(theirs) == set(state)
    for name, array in theirs.items():
        assert np.array_equal(array, state[name].numpy())
    save({"x": lucid.tensor([1 + 2j], dtype=lucid.complex128)}, path)
    assert safetensors_numpy.load_file(path)["x"].tolist() == [[1.0, 2.0]]


def test_files_of_other_makers(path):
    arrays = {"b": np.arange(6.0).reshape(2, 3), "a": np.array([1, 2], np.uint16), "e": np.zeros((0, 3), np.float32)}
    safetensors_numpy.save_file(arrays, path, metadata={"format": "pt"})
    found = load(path)
    assert list(found) == ["a", "b", "e"]
    assert same(found["b"].numpy(), arrays["b"])
    assert found["a"].dtype is lucid.uint16
    assert found["e"].shape == (0, 3)
    safetensors_numpy.save_file({"big": np.array([2**63 + 1], np.uint64)}, path)
    assert load(path)["big"].item() == 2**63 + 1


def test_files_of_pytorch(path):
    torch = pytest.importorskip("torch")
    from safetensors.torch import load_file, save_file

    state = {"w": torch.rand(3, 4), "h": torch.rand(5).bfloat16(), "i": torch.arange(4), "b": torch.tensor([True])}
    save_file(state, path)
    found = load(path)
    assert set(found) == set(state)
    for name, tensor in state.items():
        assert found[name].tolist() == tensor.tolist()
        assert str(found[name].dtype).split(".")[1] == str(tensor.dtype).split(".")[1]
    save(found, path)
    for name, tensor in load_file(path).items():
        assert torch.equal(tensor, state[name])


# What cannot be saved


class Odd:
    pass


class Module:
    def state_dict(self):
        return {}


Point = collections.namedtuple("Point", "x y")


@pytest.mark.parametrize(
    ("obj", "words"),
    [
        ({"model": {"fn": len}}, r'obj\["model"\]\["fn"\] is the function len'),
        ([1, (2, Odd)], r"obj\[1\]\[1\] is the class Odd"),
        ({3: {"x": Odd()}}, r'obj\[3\]\["x"\] is an Odd'),
        (Odd(), r"obj is an Odd"),
        ({"net": Module()}, r"save its state_dict\(\)"),
        ({"p": Point(1, 2)}, r'obj\["p"\] is a Point.*tuple\(\)'),
        ({"d": collections.defaultdict(list)}, r"convert it with dict\(\)"),
        ({"s": {1, 2}}, r"is a set.*list\(\)"),
        ({"a": np.array(["x"])}, r'obj\["a"\] is a ndarray of type <U1'),
        ({"a": np.array([object()])}, r"of type object"),
        ({"a": np.datetime64("2020")}, "datetime64"),
        ({"d": {Odd: 1}}, r'obj\["d"\] has the class Odd as a key'),
        ({("a", lucid.zeros(1)): 1}, "obj has a Tensor as a key"),
        ({"r": range(3)}, "is a range"),
    ],
    ids=lambda v: repr(v)[:30],
)
@pytest.mark.parametrize("settings", [{}, {"shard_size": "1MB"}], ids=repr)
def test_other_things_are_refused_and_the_old_file_stays(obj, words, settings, path):
    save({"old": lucid.ones(2)}, path)
    before = sorted(os.listdir(path.parent)), path.read_bytes()
    with pytest.raises(TypeError, match=words):
        save(obj, path, **settings)
    assert (sorted(os.listdir(path.parent)), path.read_bytes()) == before


def test_nests_that_contain_themselves_are_refused(path):
    loop = {}
    loop["again"] = [loop]
    with pytest.raises(ValueError, match="does it contain itself"):
        save(loop, path)
    deep = []
    for _ in range(structure.MAX_DEPTH):
        deep = [deep]
    assert same(roundtrip(deep, path), deep)
    with pytest.raises(ValueError, match="levels deep"):
        save([deep], path)


def test_structures_that_are_too_long_are_refused(path, monkeypatch):
    monkeypatch.setattr(structure, "MAX_LENGTH", 1000)
    with pytest.raises(ValueError, match="put long lists of numbers into tensors"):
        save(list(range(1000)), path)
    assert not path.exists()


def test_values_inside_transforms_are_refused(path):
    def leak(x):
        save({"x": x}, path)
        return x

    with pytest.raises(RuntimeError):
        lucid.func.vmap(leak)(lucid.zeros(2))
    assert os.listdir(path.parent) == []


@pytest.mark.parametrize(
    ("where", "error", "words"),
    [
        ("missing/x", FileNotFoundError, "there is no directory"),
        (".", IsADirectoryError, "is a directory"),
        ("x.index.json", ValueError, "name of an index"),
    ],
)
def test_wrong_places_are_refused(where, error, words, tmp_path):
    with pytest.raises(error, match=words):
        save({}, tmp_path / where)
    assert os.listdir(tmp_path) == []


def test_paths_must_be_paths(tmp_path):
    with pytest.raises(TypeError, match="path must be a string or a path, not list"):
        save({}, [])
    with pytest.raises(TypeError, match="path must be a string or a path, not int"):
        load(3)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nothing")
    with pytest.raises(FileNotFoundError, match="no checkpoint in"):
        load(tmp_path)


def test_the_package_is_asked_for_only_when_needed(path):
    code = f"""
        import sys
        sys.modules["safetensors"] = None
        import lucid
        from lucid.checkpoints import save
        try:
            save({{}}, {str(path)!r})
        except ImportError as error:
            assert "pip install safetensors" in str(error), error
        else:
            raise AssertionError
    """
    run(code)
    assert not path.exists()
    run("import sys, lucid.checkpoints; assert 'safetensors' not in sys.modules")


def run(code, arguments=()):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-c", textwrap.dedent(code), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


# Replacing files


def test_permissions(path):
    old = os.umask(0o027)
    try:
        save({"x": 1}, path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        path.chmod(0o604)
        save({"x": 2}, path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o604
        assert os.listdir(path.parent) == [path.name]
    finally:
        os.umask(old)


def test_a_link_stays_a_link(path, tmp_path):
    real = tmp_path / "elsewhere"
    real.mkdir()
    path.symlink_to(real / "real.safetensors")
    save({"x": 1}, path)
    assert path.is_symlink()
    assert load(real / "real.safetensors") == {"x": 1}


@pytest.mark.parametrize("stage", ["serialize", "fsync", "replace"])
@pytest.mark.parametrize("settings", [{}, {"shard_size": 4000}], ids=repr)
def test_a_failure_leaves_the_old_files(stage, settings, path, monkeypatch):
    old = {"x": lucid.rand(2000)}
    save(old, path, **settings)
    before = {name: (path.parent / name).read_bytes() for name in os.listdir(path.parent)}

    def fail(*_, **__):
        raise OSError(28, "no space left on device")

    if stage == "serialize":
        monkeypatch.setattr(safetensors, "serialize_file", fail)
    else:
        monkeypatch.setattr(os, stage, fail)
    with pytest.raises(OSError, match="no space left"):
        save({"x": lucid.rand(3000)}, path, **settings)
    monkeypatch.undo()
    assert {name: (path.parent / name).read_bytes() for name in os.listdir(path.parent)} == before
    assert same(load(path), old)


def test_a_failure_among_the_shards_leaves_the_old_ones(path, monkeypatch):
    old, new = ({name: lucid.rand(50) for name in "abc"} for _ in range(2))
    save(old, path, shard_size=200)
    replace = os.replace
    for allowed in range(4):
        calls = iter(range(10))

        def fail(source, target, calls=calls, allowed=allowed):
            if next(calls) == allowed:
                raise OSError(5, "input/output error")
            replace(source, target)

        monkeypatch.setattr(os, "replace", fail)
        with pytest.raises(OSError, match="input/output"):
            save(new, path, shard_size=200)
        monkeypatch.undo()
        assert same(load(path), old)
    save(new, path, shard_size=200)
    assert same(load(path), new)
    assert len(os.listdir(path.parent)) == 4


# Forks, lets the copy save states in which all parts say the same, kills it at some moment, and looks at what is there.
KILLER = """
import os, random, signal, sys, time
import lucid
from lucid.checkpoints import load, save
path, shard_size = sys.argv[1], int(sys.argv[2]) or None
chance = random.Random(7)
seen = set()
def write(i):
    part = lucid.zeros(20_000) + i
    save({"i": i, "a": part, "b": [part + 0]}, path, shard_size=shard_size)
write(0)
start = time.perf_counter()
write(1)
duration = time.perf_counter() - start
for trial in range(1, 101):
    child = os.fork()
    if child == 0:
        for i in range(trial * 1000, 10**9):
            write(i)
    time.sleep(chance.uniform(0, 3 * duration))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    found = load(path)
    assert found["a"].numel() == found["b"][0].numel() == 20_000
    assert bool((found["a"] == found["i"]).all()) and bool((found["b"][0] == found["i"]).all()), found
    seen.add(found["i"])
print(len(seen))
"""


@pytest.mark.skipif(os.name != "posix", reason="kills with SIGKILL")
@pytest.mark.parametrize("shard_size", [0, 60_000])
def test_a_killed_writer_leaves_the_old_files_or_the_new(shard_size, path):
    seen = run(KILLER, arguments=[str(path), str(shard_size)])
    assert int(seen) > 0  # saves were completed between the kills
    save({"x": lucid.zeros(1)}, path)
    assert os.listdir(path.parent) == [path.name]  # what the killed writers left is gone


def test_the_remains_of_others_are_left_alone_while_they_work(path):
    from lucid.checkpoints.staging import staging

    with staging(str(path.parent)) as directory:
        mine = Path(directory)
        (mine / "half").write_text("written")
        save({"x": 1}, path)
        assert (mine / "half").read_text() == "written"
    assert os.listdir(path.parent) == [path.name]


READER = """
import sys
import lucid
from lucid.checkpoints import load
print("ready", flush=True)
number = 0
while number < 50:
    found = load(sys.argv[1])
    assert found["i"] >= number
    number = found["i"]
    assert bool((found["a"] == number).all()) and bool((found["b"] == number).all()), number
"""


@pytest.mark.parametrize("settings", [{}, {"shard_size": 50_000}], ids=repr)
def test_readers_see_whole_checkpoints_while_others_write(settings, path):
    def write(i):
        part = lucid.zeros(10_000) + i
        save({"i": i, "a": part, "b": part + 0}, path, **settings)

    write(0)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-c", READER, str(path)]
    reader = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert reader.stdout.readline() == "ready\n"
    number = 0
    while reader.poll() is None:
        number += 1
        write(number)
    _, errors = reader.communicate()
    assert reader.returncode == 0, errors


# Several files


def test_shards(path):
    state = {f"layer{i}": lucid.rand(100) for i in range(5)} | {"big": lucid.rand(1000), "step": 3}
    save(state, path, shard_size=900)
    shard_names = [f"state-{i:05d}-of-00004.safetensors" for i in range(1, 5)]
    index = path.parent / "state.safetensors.index.json"
    assert sorted(os.listdir(path.parent)) == [*shard_names, index.name]
    content = json.loads(index.read_text())
    assert content["metadata"]["total_size"] == 6000
    assert content["weight_map"] == {
        name: shard_names[i] for name, i in zip([n for n in state if n != "step"], [0, 0, 1, 1, 2, 3], strict=True)
    }
    for place in (path, index, path.parent):
        assert same(load(place), state)
        assert same(load(place, mmap=True), state)
    for name in shard_names:
        assert set(safetensors_numpy.load_file(path.parent / name)) <= set(state)


def test_shards_replace_shards(path):
    for i in range(4):
        state = {"a": lucid.rand(50), "b": lucid.rand(50), "c": lucid.rand(10 * i)}
        save(state, path, shard_size=200)
        assert same(load(path), state)
        assert len(os.listdir(path.parent)) == 4 if i else 3
    names = {name for name in os.listdir(path.parent) if "index" not in name}
    assert names in (
        {f"state-{i:05d}-of-00003.safetensors" for i in (1, 2, 3)},
        {f"state.1-{i:05d}-of-00003.safetensors" for i in (1, 2, 3)},
    )


def test_one_file_replaces_several_and_the_reverse(path):
    several, one = {"a": lucid.rand(50), "b": lucid.rand(50)}, {"c": lucid.rand(3)}
    save(several, path, shard_size=200)
    save(one, path)
    assert os.listdir(path.parent) == [path.name]
    assert same(load(path), one)
    save(several, path, shard_size=200)
    assert not path.exists()
    assert same(load(path), several)
    save({}, str(path) + ".index.json", shard_size=200)
    assert os.listdir(path.parent) == ["state.safetensors.index.json"]
    assert load(path) == {}


def test_tied_tensors_and_bytes_across_shards(path):
    weight = lucid.rand(100)
    save([weight, b"x" * 500, lucid.zeros(200), weight], path, shard_size=500)
    found = load(path)
    assert found[0] is found[3]
    assert found[1] == b"x" * 500


def test_files_that_are_not_ours_are_left_alone(path):
    foreign = {"w": np.arange(3.0)}
    names = ["state-00001-of-00002.safetensors", "state-00002-of-00002.safetensors"]
    for name in names:
        safetensors_numpy.save_file(foreign, path.parent / name)
    index = path.parent / "state.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 24}, "weight_map": {"w": names[0]}}))
    assert same(load(path)["w"].numpy(), foreign["w"])
    save({"x": lucid.zeros(1)}, path)
    assert index.exists()
    path.unlink()
    state = {"a": lucid.rand(50), "b": lucid.rand(50)}
    save(state, path, shard_size=200)
    assert same(load(path), state)
    for name in names:
        assert np.array_equal(safetensors_numpy.load_file(path.parent / name)["w"], foreign["w"])


@pytest.mark.parametrize(
    ("text", "size"), [(5, 5), ("7", 7), ("2GB", 2 * 10**9), ("1.5 kb", 1500), ("1MiB", 1 << 20), ("3T", 3 * 10**12)]
)
def test_sizes(text, size):
    assert shards.parsed_size(text) == size


@pytest.mark.parametrize(
    ("wrong", "error"), [(0, ValueError), (-1, ValueError), ("big", ValueError), ("0MB", ValueError), (2.5, TypeError)]
)
def test_wrong_sizes(wrong, error, path):
    with pytest.raises(error, match="shard_size"):
        save({}, path, shard_size=wrong)
    with pytest.raises(TypeError, match="shard_size"):
        save({}, path, shard_size=True)


def test_a_directory_with_several_checkpoints(tmp_path):
    save({}, tmp_path / "a.safetensors")
    save({}, tmp_path / "b.safetensors")
    with pytest.raises(CheckpointError, match=r"several checkpoints \(a.safetensors, b.safetensors\)"):
        load(tmp_path)


# Bad files


def written(path, header, data=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)


def entry(dtype="F32", shape=(2,), offsets=(0, 8)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


@pytest.mark.parametrize(
    ("header", "data", "length"),
    [
        (b"", b"", None),
        (b"{", b"", None),
        (b"[]", b"", None),
        (b"{}", b"more", None),
        (b"{}", b"", 1 << 63),
        (b"{}", b"", 10**9),
        (b"[" * 100_000, b"", None),
        (b'{"a":' * 100_000, b"", None),
        ({"x": entry()}, b"1234567", None),
        ({"x": entry()}, b"123456789", None),
        ({"x": entry(shape=(3,))}, b"12345678", None),
        ({"x": entry(offsets=(8, 16))}, b"1234567812345678", None),
        ({"x": entry(offsets=(8, 0))}, b"12345678", None),
        ({"x": entry(), "y": entry()}, b"12345678", None),
        ({"x": entry(), "y": entry(offsets=(4, 12))}, b"123456789012", None),
        ({"x": entry(shape=(1 << 62, 1 << 62))}, b"12345678", None),
        ({"x": entry(shape=(10**12,), offsets=(0, 4 * 10**12))}, b"12345678", None),
        ({"x": entry(shape=(-2,))}, b"12345678", None),
        ({"x": entry("X9")}, b"12345678", None),
        ({"x": entry("F8_E4M3", (8,))}, b"12345678", None),
        ({"x": entry(shape=(0, 1 << 62), offsets=(0, 0))}, b"", None),
        ({"x": entry(shape=(1,) * 100, offsets=(0, 4))}, b"1234", None),
        ({"__metadata__": {"lucid.structure": 5}}, b"", None),
        ({"__metadata__": {"lucid.structure": "[]"}}, b"", None),
        ({"__metadata__": {"lucid.structure": "[]", "lucid.version": "2"}}, b"", None),
    ],
    ids=lambda v: str(v)[:40],
)
@pytest.mark.parametrize("mmap", [False, True])
def test_files_that_are_no_checkpoints(header, data, length, mmap, path):
    written(path, header, data, length)
    with pytest.raises(CheckpointError, match=str(path)):
        load(path, mmap=mmap)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[1, 2",
        "nan",
        "[NaN]",
        "[Infinity]",
        "{}",
        '{"unknown": 1}',
        '{"__import__": "os"}',
        '{"tensor": "y"}',
        '{"tensor": 5}',
        '{"tensor": ["x"]}',
        '{"tensor": {}}',
        '{"array": "y"}',
        '{"bytes": "x"}',
        '{"bytes": 3}',
        '{"tensor": "x", "complex128": true}',
        '{"tensor": "i", "requires_grad": true}',
        '{"dict": 5}',
        '{"dict": [5]}',
        '{"dict": [[1]]}',
        '{"dict": [[1, 2, 3]]}',
        '{"dict": [[[], 1]]}',
        '{"dict": [[{"dict": []}, 1]]}',
        '{"dict": [], "_metadata": 1}',
        '{"tuple": 5}',
        '{"tuple": {"a": 1}}',
        '{"int": 5}',
        '{"int": "zz"}',
        '{"float": "00"}',
        '{"float": 1}',
        '{"complex": "0000"}',
        '{"dtype": "object"}',
        '{"dtype": 3}',
        '{"dtype": ",f4"}',
        '{"dtype": []}',
        '{"device": "nowhere"}',
        '{"device": 1}',
        '{"scalar": 1}',
        '{"scalar": ["object", "00"]}',
        '{"scalar": ["float32", "00"]}',
        '{"scalar": ["float32", "0000000000000000"]}',
        '{"generator": 1}',
        '{"generator": [1, -1]}',
        "1" * 5000,
        "[" * 200 + "]" * 200,
        "[" * 1_000_000,
        '{"tuple":[' * 102 + "]}" * 102,
    ],
    ids=lambda v: v[:30],
)
def test_wrong_structures(text, path):
    header = {
        "__metadata__": {"lucid.version": "1", "lucid.structure": text},
        "i": entry("I64", (1,), (8, 16)),
        "x": entry(),
    }
    written(path, header, b"1234567812345678")
    with pytest.raises(CheckpointError, match=str(path)):
        load(path)


def example(path):
    state = {"x": lucid.rand(5), "b": lucid.tensor([True, False]), "n": {"lr": 0.1, 3: (1, None)}, "t": b"text"}
    save(state, path)
    return path.read_bytes()


def load_or_refuse(path):
    try:
        load(path)
    except CheckpointError:
        return "refused"
    return "loaded"


def test_truncated_files(path):
    whole = example(path)
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert load_or_refuse(path) == "refused", length


def test_changed_bits(path):
    whole = example(path)
    chance = random.Random(0)
    results = collections.Counter()
    for _ in range(1500):
        changed = bytearray(whole)
        for _ in range(chance.choice([1, 1, 1, 8])):
            changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
        path.write_bytes(changed)
        results[load_or_refuse(path)] += 1
    assert results["refused"] > 500
    assert results["loaded"] > 10  # in the numbers themselves no error can be seen


def test_noise(path):
    chance = random.Random(1)
    for size in [0, 1, 7, 8, 9, 100, 10_000]:
        for _ in range(20):
            path.write_bytes(chance.randbytes(size))
            assert load_or_refuse(path) == "refused"


def test_booleans_are_0_or_1(path):
    written(path, {"x": entry("BOOL", (3,), (0, 3))}, b"\x00\x01\x07")
    assert load(path)["x"].numpy().view(np.uint8).tolist() == [0, 1, 1]


def test_numbers_that_are_not_aligned(path):
    # Of odd length, the first array puts the second at an odd address.
    written(path, {"a": entry("U8", (3,), (0, 3)), "x": entry("F32", (2,), (3, 11))}, b"abc" + struct.pack("<2f", 1, 2))
    for mmap in (False, True):
        assert load(path, mmap=mmap)["x"].tolist() == [1.0, 2.0]


def test_a_small_file_takes_little_memory(path):
    text = '[{"bytes":"x"}' + ',{"bytes":"x"}' * 100_000 + "]"
    metadata = {"lucid.version": "1", "lucid.structure": text}
    written(path, {"__metadata__": metadata, "x": entry("U8", (1_000_000,), (0, 1_000_000))}, b"a" * 1_000_000)
    found = load(path)
    assert len(found) == 100_001
    assert found[0] is found[-1]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        b'{"weight_map": 5, "metadata": {}}',
        b'{"weight_map": {"x": 5}}',
        b'{"weight_map": {"x": "../secret"}}',
        b'{"weight_map": {"x": "/etc/passwd"}}',
        b'{"weight_map": {"x": "..\\\\secret"}}',
        b'{"weight_map": {"x": ".."}}',
        b'{"weight_map": {"x": ""}}',
        b'{"weight_map": {"x": "a\\u0000b"}}',
        b'{"weight_map": {"x": "state.safetensors"}, "metadata": 3}',
        b'{"weight_map": {"y": "state.safetensors"}}',
        b'{"weight_map": {}, "metadata": {"lucid.structure": 5, "lucid.version": "1"}}',
        b'{"weight_map": {}, "metadata": {"lucid.structure": "5", "lucid.version": "0"}}',
        b'{"weight_map": {"x": "state.safetensors"}, "metadata": {"lucid.save": "another"}}',
        b"[" * 100_000,
        b"\xff\xfe",
    ],
)
def test_wrong_indices(content, path):
    save({"x": lucid.zeros(1)}, path)
    index = path.parent / "bad.index.json"
    index.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"bad\.index\.json"):
        load(index)


def test_a_shard_of_another_save_is_noticed(path):
    save({"a": lucid.rand(50), "b": lucid.rand(50)}, path, shard_size=200)
    shard = path.parent / "state-00001-of-00002.safetensors"
    old = shard.read_bytes()
    shard.unlink()
    with pytest.raises(FileNotFoundError):
        load(path)
    for name in os.listdir(path.parent):
        (path.parent / name).unlink()
    save({"a": lucid.rand(50), "b": lucid.rand(50)}, path, shard_size=200)
    shard.write_bytes(old)
    with pytest.raises(CheckpointError, match="belongs to another save"):
        load(path)


# --- damage, full disks and paths that are no files --------------------------


def outcome(path):
    """What is read, as text; None if the damage is noticed."""
    try:
        return repr(load(path))
    except (CheckpointError, OSError):
        return None


@pytest.mark.parametrize("shard_size", [None, 16])
def test_no_flipped_bit_changes_what_is_read(path, shard_size):
    nest = {"w": lucid.tensor([1.0, 2.0], requires_grad=True), "b": lucid.tensor([True, False]), "z": [1j, 3, "s"]}
    save(nest, path, shard_size=shard_size)
    expected = outcome(path)
    assert expected is not None
    for file in sorted(path.parent.iterdir()):
        good = file.read_bytes()
        for position in range(8 * len(good)):
            bad = bytearray(good)
            bad[position // 8] ^= 1 << position % 8
            file.write_bytes(bad)
            assert outcome(path) in (None, expected), (file.name, position)
        file.write_bytes(good)
    assert outcome(path) == expected


def test_damage_is_found_in_the_array_that_has_it(path):
    save({"first": lucid.ones(4), "second": lucid.full((4,), 7.0)}, path)
    whole = bytearray(path.read_bytes())
    where = bytes(whole).index(struct.pack("<f", 7.0))
    whole[where] ^= 1
    path.write_bytes(whole)
    with pytest.raises(CheckpointError, match="'second' is damaged"):
        load(path)
    with pytest.raises(CheckpointError, match="'second' is damaged"):
        load(path, mmap=True, verify=True)
    for settings in ({"verify": False}, {"mmap": True}):
        found = load(path, **settings)
        assert found["first"].tolist() == [1, 1, 1, 1]
        assert found["second"].tolist() != [7, 7, 7, 7]


def test_checksums_of_all_types(path):
    for shape in ((), (0,), (3,), (2, 0, 3)):
        nest = {t.name: lucid.ones(shape, dtype=t) for t in ALL_TYPES}
        assert same(roundtrip(nest, path), nest)
    assert "lucid.crc32" in safetensors.safe_open(path, framework="np").metadata()
    assert safetensors_numpy.load_file(path)["float32"].shape == (2, 0, 3)


FULL = """
import resource, signal, sys
import lucid
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
try:
    lucid.save({"w": lucid.zeros(100_000)}, sys.argv[1], shard_size=eval(sys.argv[2]))
except OSError as error:
    print(type(error).__name__, error)
"""


@pytest.mark.skipif(os.name != "posix", reason="limits of POSIX")
@pytest.mark.parametrize("shard_size", [None, 1000])
def test_a_full_disk(path, shard_size):
    save({"w": lucid.ones(3)}, path, shard_size=shard_size)
    before = sorted(p.name for p in path.parent.iterdir())
    command = [sys.executable, "-c", FULL, str(path), repr(shard_size)]
    out = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120).stdout
    assert str(path) in out
    assert "Make room on the disk" in out
    assert load(path)["w"].tolist() == [1, 1, 1]
    assert sorted(p.name for p in path.parent.iterdir()) == before


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_pipes_and_devices(tmp_path):
    pipe = tmp_path / "pipe.safetensors"
    os.mkfifo(pipe)
    for use in (load, lambda p: save([1], p)):
        with pytest.raises(OSError, match="is a pipe; a checkpoint is an ordinary file"):
            use(pipe)
    (tmp_path / "pipe.index.json").symlink_to(pipe)
    with pytest.raises(OSError, match="is a pipe"):
        load(tmp_path / "pipe.index.json")
    with pytest.raises(OSError, match="is a device"):
        load(os.devnull)
    with pytest.raises(OSError, match="is a device"):
        save([1], os.devnull)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_open_files(tmp_path):
    """What is written to an open file is what a path holds, from where the file stands."""
    nest = {"w": lucid.arange(3.0), "epoch": 2, "many": [lucid.ones(1), "x"]}
    memory = io.BytesIO()
    memory.write(b"before")
    save(nest, memory)
    memory.seek(6)
    found = load(memory)
    assert found["epoch"] == 2 and found["w"].tolist() == [0, 1, 2] and found["many"][1] == "x"
    with open(tmp_path / "state", "wb") as file:
        save(nest, file)
    assert load(tmp_path / "state")["w"].tolist() == [0, 1, 2]
    with open(tmp_path / "state", "rb") as file:
        assert load(file)["many"][0].tolist() == [1]
    with pytest.raises(ValueError, match="shard_size"):
        save(nest, io.BytesIO(), shard_size=10)
    with pytest.raises(ValueError, match="mmap"):
        load(memory, mmap=True)
    with pytest.raises(CheckpointError):
        load(io.BytesIO(b"nothing of the kind"))
