"""DLPack with PyTorch: memory is shared both ways, in every type."""

import numpy as np
import pytest
from test_interop_dlpack import SHARED, UNSIGNED, sample

import lucid

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("dtype", [*SHARED, *UNSIGNED, "bfloat16"])
def test_torch_shares_memory_both_ways(dtype):
    x = sample(dtype)
    there = torch.from_dlpack(x)
    assert there.dtype is getattr(torch, dtype) and there.data_ptr() == x.data_ptr()
    back = lucid.from_dlpack(there)
    assert back.dtype is x.dtype and back.data_ptr() == x.data_ptr()
    assert back.tolist() == x.tolist()
    there[1, 2] = 1
    assert x[1, 2].item() == 1


def test_torch_gradients_meet():
    """A gradient from one library as a seed in the other, without a copy."""
    x = lucid.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x**2
    there = torch.from_dlpack(y.detach()).requires_grad_()
    torch.sin(there).sum().backward()
    y.backward(lucid.from_dlpack(there.grad))
    np.testing.assert_allclose(x.grad, 2 * x.detach() * lucid.cos(x.detach() ** 2), rtol=1e-6)
    with pytest.raises(BufferError, match="gradient"):
        lucid.from_dlpack(there)
