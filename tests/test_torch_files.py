"""Files of PyTorch, read and written by `lucid.torch` without running code."""

import argparse
import contextlib
import importlib
import io
import os
import pickle
import zipfile
from collections import Counter, OrderedDict, defaultdict
from types import SimpleNamespace

import lucid.torch.nn as nn
import numpy as np
import pytest

import lucid
import lucid.torch as torch
from lucid.checkpoints import CheckpointError
from lucid.torch.tensors import Tensor


def leaf(*values):
    return torch.tensor(list(values), requires_grad=True)


def saved(value):
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return file


def test_files_hold_what_was_saved(tmp_path):
    base = torch.arange(12.0).view(3, 4)
    nest = {
        "base": base,
        "t": base.t(),
        "part": base[1:, ::2],
        "flipped": torch.from_numpy(np.arange(3.0)[::-1]),
        "parameter": nn.Parameter(torch.ones(2)),
        "leaf": leaf(1.0),
        "half": torch.ones(2, dtype=torch.bfloat16),
        "complex": torch.tensor([1 + 2j]),
        "bool": torch.tensor([True]),
        "number": torch.tensor(3),
        "empty": torch.zeros(0, 3),
        "plain": [1, 2.5, "x", None, True, (1, 2), b"ab", 1j, {1, 2}, np.float64(2.5)],
        "size": base.shape,
        "dtype": torch.float16,
        "device": torch.device("cpu"),
        "ordered": OrderedDict(b=1, a=2),
    }
    path = tmp_path / "state.pt"
    torch.save(nest, path)
    for found in (torch.load(path), torch.load(saved(nest), map_location=torch.device("cpu"), weights_only=False)):
        assert found.keys() == nest.keys()
        for name, value in nest.items():
            if isinstance(value, torch.Tensor):
                assert type(found[name]) is Tensor and found[name].dtype is value.dtype
                assert found[name].tolist() == value.tolist() and found[name].requires_grad == value.requires_grad
                assert isinstance(found[name], nn.Parameter) == isinstance(value, nn.Parameter)
            else:
                assert found[name] == value
        assert type(found["ordered"]) is OrderedDict and type(found["size"]) is torch.Size
        found["base"][0, 0] = 99
        assert found["t"][0, 0] == 99  # tensors that shared memory share it again


@pytest.mark.parametrize(
    "value", [len, np.array([object()]), nn.Linear(1, 1), object()], ids=lambda v: type(v).__name__
)
def test_other_objects_are_refused_by_name(value):
    with pytest.raises(TypeError, match=f"cannot hold a .*{type(value).__qualname__}"):
        torch.save({"x": value}, io.BytesIO())


class Evil:
    def __reduce__(self):
        return os.system, ("exit 1",)


def archive(pickled, **others):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as z:
        z.writestr("archive/data.pkl", pickled)
        for name, content in others.items():
            z.writestr(f"archive/{name}", content)
    file.seek(0)
    return file


def storage(size, stride, offset=0, count=4):
    """A pickle with one tensor, by hand."""
    return (
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n("
        b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK"
        + bytes([count]) + b"tQK" + bytes([offset]) + b"(" + b"".join(b"K" + bytes([n]) for n in size) + b"t("
        + b"".join(b"K" + bytes([n]) for n in stride) + b"t\x89}tR."
    )  # fmt: skip


class Settings:
    """A class of a program."""


def test_attributes_and_numbers_of_numpy_are_kept():
    tagged, parameter = torch.ones(2), nn.Parameter(torch.zeros(1))
    tagged.tag, parameter.no_decay = "x", torch.tensor(1.0)
    nest = {
        "tagged": tagged,
        "parameter": parameter,
        "arguments": argparse.Namespace(lr=0.1, more=SimpleNamespace(w=torch.ones(1))),
        "counts": Counter("aab"),
        "array": np.asfortranarray(np.arange(6, dtype=">i4").reshape(2, 3)),
        "number": np.float32(2.5),
    }
    found = torch.load(saved(nest))
    assert found["tagged"].tag == "x" and found["parameter"].no_decay.item() == 1
    assert isinstance(found["parameter"], nn.Parameter) and not hasattr(torch.load(saved(torch.ones(1))), "tag")
    assert type(found["arguments"]) is argparse.Namespace and found["arguments"].lr == 0.1
    assert type(found["arguments"].more.w) is Tensor
    assert found["counts"] == nest["counts"] and type(found["counts"]) is Counter
    np.testing.assert_array_equal(found["array"], nest["array"])
    assert found["array"].dtype == ">i4" and found["number"] == 2.5


def test_classes_that_a_program_names_may_be_in_files():
    settings = Settings()
    settings.w, settings.name = torch.ones(2), "a"
    with pytest.raises(TypeError, match="Settings"):
        torch.save(settings, io.BytesIO())
    with torch.serialization.safe_globals([Settings]):
        file = saved([settings, settings])
        first, second = torch.load(file)
        assert first is second and type(first) is Settings and type(first.w) is Tensor
        assert torch.serialization.get_safe_globals() == [Settings]
    file.seek(0)
    with pytest.raises(CheckpointError, match=r"Settings.*add_safe_globals"):
        torch.load(file)
    torch.serialization.add_safe_globals([(Settings, f"{Settings.__module__}.Settings")])
    torch.serialization.clear_safe_globals()
    assert torch.serialization.get_safe_globals() == []


def test_a_file_cannot_change_a_class():
    # The class itself is given an attribute, by a state of slots.
    pickled = b"\x80\x02cargparse\nNamespace\nN}X\x04\x00\x00\x00evilK\x01s\x86b."
    with contextlib.suppress(CheckpointError):
        torch.load(archive(pickled))
    assert not hasattr(argparse.Namespace, "evil")


def test_nothing_in_a_file_is_run():
    for pickled in (pickle.dumps(Evil()), b"cbuiltins\neval\n(X\x01\x00\x00\x001tR.", b"cos\nsystem\n."):
        with pytest.raises(CheckpointError, match="without running code"):
            torch.load(archive(pickled))
    for pickled, message in [
        (b"ctorch._utils\n_rebuild_tensor_v2\nN}X\x08\x00\x00\x00__call__K\x01s\x86b.", "damaged"),
        (b"ctorch\nFloatStorage\n.", "no data"),
        (b"ctorch\nFloatStorage\n)R.", "gives no data"),
        (b"garbage", "damaged"),
        (storage((2,), (1,)), "lacks the storage"),
    ]:
        with pytest.raises(CheckpointError, match=message):
            torch.load(archive(pickled))


def test_tensors_outside_of_their_storage_are_refused():
    four = {"data/0": np.arange(4, dtype=np.float32).tobytes()}
    assert torch.load(archive(storage((2, 2), (1, 2)), **four)).tolist() == [[0, 2], [1, 3]]
    for size, stride, offset in [((5,), (1,), 0), ((4,), (1,), 1), ((2, 2), (1, 3), 0), ((3,), (2,), 0)]:
        with pytest.raises(CheckpointError, match="reaches element"):
            torch.load(archive(storage(size, stride, offset), **four))
    with pytest.raises(CheckpointError, match="whole number"):
        torch.load(archive(storage((1,), (1,)), **{"data/0": b"abc"}))
    with pytest.raises(CheckpointError, match="sizes"):
        torch.load(archive(storage((1, 2), (1,)), **four))


def test_other_files_say_what_they_are(tmp_path):
    with pytest.raises(CheckpointError, match="Convert it once"):
        torch.load(io.BytesIO(pickle.dumps({"a": 1}, protocol=2)))
    with pytest.raises(CheckpointError, match="neither"):
        torch.load(io.BytesIO(b"hello, world"))
    with pytest.raises(CheckpointError, match=r"torch\.jit\.save"):
        torch.load(archive(b"N.", **{"constants.pkl": b"N."}))
    with pytest.raises(ValueError, match="no backend"):
        torch.load(saved(1), map_location="cuda")
    with pytest.raises(FileNotFoundError):
        torch.load(tmp_path / "nowhere.pt")


def test_safetensors_are_read_too(tmp_path):
    pytest.importorskip("safetensors")
    path = tmp_path / "state.safetensors"
    lucid.save({"w": lucid.ones(2)}, path)
    found = torch.load(path)["w"]
    assert type(found) is Tensor and found.tolist() == [1, 1]


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
@pytest.mark.filterwarnings("ignore:Sparse CSR", "ignore:.*quantiz", "ignore:.*TypedStorage")
def test_files_are_those_of_pytorch():
    import torch as original

    net = original.nn.Sequential(original.nn.Linear(3, 2), original.nn.BatchNorm1d(2))
    optimizer = original.optim.Adam(net.parameters())
    net(original.ones(4, 3)).sum().backward()
    optimizer.step()
    file = io.BytesIO()
    original.save({"net": net.state_dict(), "optimizer": optimizer.state_dict(), "t": original.ones(2, 3).t()}, file)
    file.seek(0)
    state = torch.load(file)
    ours = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    ours.load_state_dict(state["net"])
    torch.optim.Adam(ours.parameters()).load_state_dict(state["optimizer"])
    assert np.array_equal(ours[0].weight.detach().numpy(), net[0].weight.detach().numpy())
    odd = original.full((2,), 1 + 2j)
    named = original.ones(2)
    named.tag = 3
    others = {
        "conj": odd.conj(),
        "neg": odd.clone().conj().imag,
        "coo": original.eye(2).to_sparse(),
        "csr": original.eye(2).to_sparse_csr(),
        "meta": original.ones(2, device="meta"),
        "many": defaultdict(int, a=1),
        "named": named,
        "number": np.float64(0.5),
    }
    file = io.BytesIO()
    original.save(others, file)
    file.seek(0)
    found = torch.load(file)
    assert found["conj"].tolist() == [1 - 2j] * 2 and found["neg"].tolist() == [-2, -2]
    assert found["coo"].to_dense().tolist() == found["csr"].to_dense().tolist() == [[1, 0], [0, 1]]
    assert found["meta"].device.type == "meta" and found["many"]["b"] == 0 and found["named"].tag == 3
    assert found["number"] == 0.5
    assert original.load(saved({"t": found["named"]}), weights_only=True)["t"].tag == 3
    for refused, why in (
        (original.quantize_per_tensor(original.ones(1), 0.1, 0, original.qint8), "quantized"),
        (original.ones(1).to(original.float8_e4m3fn), "8 for floats"),
    ):
        file = io.BytesIO()
        original.save(refused, file)
        file.seek(0)
        with pytest.raises(CheckpointError, match=why):
            torch.load(file)
    back = original.load(saved(ours.state_dict()), weights_only=True)
    net.load_state_dict(back)
    file = io.BytesIO()
    original.save(net, file)
    file.seek(0)
    with pytest.raises(CheckpointError, match=r"torch\.nn\.modules\.container\.Sequential"):
        torch.load(file)
