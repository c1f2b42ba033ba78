"""DLPack with NumPy, and with JAX where it is installed: memory is shared, in every type."""

import gc

import ml_dtypes
import numpy as np
import pytest

import lucid

SHARED = [
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
    "bool",
]
UNSIGNED = ["uint16", "uint32", "uint64"]


def sample(dtype):
    return lucid.arange(6).reshape(2, 3).to(dtype)


@pytest.mark.parametrize("dtype", SHARED + UNSIGNED)
def test_numpy_shares_memory_both_ways(dtype):
    x = sample(dtype)
    array = np.from_dlpack(x)
    assert array.dtype == dtype and array.ctypes.data == x.data_ptr()
    back = lucid.from_dlpack(array)
    assert back.dtype is x.dtype and back.data_ptr() == x.data_ptr()
    back[0, 0] = 1
    assert x[0, 0].item() == 1


def test_views_and_strides_survive():
    x = sample("float64").T[1:]
    np.testing.assert_array_equal(np.from_dlpack(x), np.asarray(x))
    assert np.from_dlpack(x).strides == np.asarray(x).strides
    np.testing.assert_array_equal(lucid.from_dlpack(np.arange(6.0)[::-2]), [5, 3, 1])


def test_bfloat16_goes_through_under_its_own_name():
    """NumPy has no such type, but the protocol has."""
    x = sample("bfloat16")
    back = lucid.from_dlpack(x)
    assert back.dtype is lucid.bfloat16 and back.tolist() == x.tolist() and back.data_ptr() == x.data_ptr()
    for settings in ({}, {"max_version": (1, 0)}):
        capsule = x.__dlpack__(**settings)
        assert "versioned" in repr(capsule) if settings else "versioned" not in repr(capsule)
    with pytest.raises((BufferError, RuntimeError)):
        np.from_dlpack(x)


def test_copy_and_lifetime():
    array = np.zeros(3)
    copied, shared = lucid.from_dlpack(array, copy=True), lucid.from_dlpack(array, copy=False)
    array[0] = 5.0
    assert copied[0] == 0.0 and shared[0] == 5.0
    export = np.from_dlpack(lucid.ones(1000))
    gc.collect()
    assert export.sum() == 1000
    kept = lucid.from_dlpack(np.ones(1000))
    gc.collect()
    assert kept.sum() == 1000


def test_exports_can_be_asked_for_copies_and_devices():
    x = sample("float32")

    class Asking:
        def __dlpack__(self, **settings):
            return x.__dlpack__(copy=True, dl_device=(1, 0), max_version=(1, 0))

        def __dlpack_device__(self):
            return x.__dlpack_device__()

    array = np.from_dlpack(Asking())
    assert array.ctypes.data != x.data_ptr()
    assert x.__dlpack_device__() == (1, 0)


def test_errors():
    with pytest.raises(BufferError, match="detach"):
        np.from_dlpack(sample("float32").requires_grad_())
    with pytest.raises(TypeError, match="__dlpack__"):
        lucid.from_dlpack([1.0])
    with pytest.raises(ValueError, match="device"):
        lucid.from_dlpack(np.zeros(2), device="moon")
    with pytest.raises(BufferError, match="cannot take"):
        lucid.from_dlpack(np.zeros(2, ml_dtypes.int4))

    class OnGPU:
        def __dlpack__(self, **settings):
            raise AssertionError("must not be asked")

        def __dlpack_device__(self):
            return 2, 0

    with pytest.raises(BufferError, match="device 2"):
        lucid.from_dlpack(OnGPU())


def test_a_write_from_outside_is_noticed_by_the_tape():
    x = sample("float32")
    x.requires_grad_()
    y = x.detach()
    loss = (x * x).sum()
    lucid.from_dlpack(y)[0, 0] = 9.0
    with pytest.raises(RuntimeError, match="shares its memory"):
        loss.backward()


# --- JAX ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["int32", "float32", "bfloat16"])
def test_jax_reads_and_is_read(dtype):
    jax = pytest.importorskip("jax")
    x = sample(dtype)
    there = jax.dlpack.from_dlpack(x)
    np.testing.assert_array_equal(np.asarray(there, np.float32), x.float())
    np.testing.assert_array_equal(lucid.from_dlpack(there).float(), x.float())
