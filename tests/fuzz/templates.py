"""Statements written by hand: views, writes through them, copies, contractions and what mixes the pool.

Each template is a line of source with places for values:

    {a}, {b}   any values of floats          {w}  one whose memory may be written
    {a~}       one that broadcasts to the last named value     {a=}  one of its shape
    {s}  a value of no dimensions            {c}  a Python number    {m}  a mask of the shape of the last named value
    {i}  an index of the last named value    {d}, {e}  dimensions of it    {n}  a valid position along {d}
"""

VIEWS = """
{a}[{i}]
{a}[{i}]
{a}.transpose({d}, {e})
{a}.mT
{a}.reshape(-1)
{a}.reshape({shape})
{a}.view({shape})
{a}.unsqueeze({d})
{a}.squeeze()
{a}.squeeze({d})
{a}.flatten()
{a}.movedim({d}, {e})
{a}.narrow({d}, {n}, 1)
{a}.select({d}, {n})
{a}.diagonal()
{a}.expand({wider})
{a}.unfold({d}, 1, 1)
{a}.unbind({d})[{n}]
{a}.chunk(2, {d})[0]
{a}.split(1, {d})[{n}]
{a}.swapaxes({d}, {e})
{a}.ravel()
{a}[..., None]
{a}.view_as({a})
{a}.expand_as({b})
{a}.real
lucid.view_as_real({a})
lucid.atleast_2d({a})
lucid.broadcast_to({a}, {wider})
"""

COPIES = """
{a}.clone()
{a}.clone()
{a}.clone()
{a}.contiguous()
{a}.expand({wider}).contiguous()
{a}.flip({d})
{a}.flip(())
{a}.flip(({d},))
lucid.fliplr({a})
lucid.flipud({a})
lucid.rot90({a})
lucid.rot90({a}, 2)
lucid.rot90({a}, {k}, ({d}, {e}))
lucid.roll({a}, {k}, {d})
{a}.repeat({ones})
{a}.repeat(2, {ones})
lucid.tile({a}, ({ones},))
lucid.tile({a}, (1,))
lucid.tile({a}, (2, 1))
{a}.repeat_interleave(1, {d})
{a}.repeat_interleave(2, {d})
lucid.cat([{a}, {a=}], {d})
lucid.stack([{a}, {a=}], {d})
lucid.cat([{a}], {d})
lucid.hstack([{a}, {a=}])
{a}.max({d}).values
{a}.min({d})[0]
{a}.sort({d}).values
lucid.nn.functional.pixel_shuffle({a}[None, None, None].reshape(1, 1, 1, -1), 1)
lucid.nn.functional.pixel_unshuffle({a}.reshape(1, 1, 1, -1), 1)
lucid.nn.functional.channel_shuffle({a}.reshape(1, 1, 1, -1), 1)
lucid.nn.functional.pad({a}, (0, 0))
lucid.nn.functional.pad({a}, (1, 0))
{a}.tril()
{a} * 1
{a} + 0
{a}.sum(())
{a}.sum_to_size({a}.shape)
{a}.conj()
{a}.to(lucid.float64)
{a}.to(lucid.complex128)
{a}.double()
"""

WRITES = """
{w} += {a~}
{w} -= {a~}
{w} *= {a~}
{w} *= {c}
{w} /= {c}
{w}[{i}] = {c}
{w}[{i}] = {c}
{w}[{i}] = {s}
{w}[{i}] += {s}
{w}[{i}] *= {c}
{w}[{i}] -= {c}
{w}[{m}] = {c}
{w}.add_({a~}, alpha={c})
{w}.mul_({a~})
{w}.sub_({c})
{w}.copy_({a~})
{w}.copy_({s})
{w}.fill_({c})
{w}.fill_({s})
{w}.zero_()
{w}.sin_()
{w}.tanh_()
{w}.sigmoid_()
{w}.square_()
{w}.neg_()
{w}.clamp_(-0.7, 0.8)
{w}.addcmul_({a~}, {a~})
{w}.addcdiv_({a~}, {a~} * {a~} + 1, value={c})
{w}.lerp_({a=}, {c})
{w}.lerp_({a=}, {a=})
{w}.masked_fill_({m}, {c})
{w}.masked_fill_({m}, {s})
{w}.masked_scatter_({m}, {a=}.clone())
{w}.index_fill_({d}, lucid.tensor([{n}]), {c})
{w}.index_add_({d}, lucid.tensor([{n}]), {w}.narrow({d}, 0, 1) * {c})
{w}.index_copy_({d}, lucid.tensor([{n}]), {a=}.narrow({d}, 0, 1))
{w}.index_put_((lucid.tensor([{n0}]),), {s})
{w}.scatter_({d}, {w}.argmax({d}, keepdim=True), {c})
{w}.scatter_add_({d}, {w}.argmin({d}, keepdim=True), {a=}.clone())
{w}.scatter_reduce_({d}, {w}.argmin({d}, keepdim=True), {a=}.clone(), 'prod')
{w}.fill_diagonal_({c})
{w}.cumsum_({d})
{w}.tril_()
{w}.t_()
{w}.transpose_({d}, {e})
{w}.squeeze_()
{w}.unsqueeze_({d})
{w}.reshape(-1)[0] = {s}
{w}.view(-1).mul_({c})
{w}.flatten()[0] += {c}
{w}.diagonal().add_({c})
{w}.mT[0] = {c}
{w}.select({d}, {n}).add_({s})
{w}.narrow({d}, {n}, 1).mul_({s})
{w}.unbind({d})[{n}].sum()
{w}[{w}.argmax()].mul_({c})
{w}[{w}.argmin()] += {s}
{w}[{w}.argmax()] = {c}
{w}[{w}.argmax({d})] *= {c}
{w}[{n0}, {w}.argmax()] = {s}
{w}[..., {w}[0].argmax()].mul_({s})
{w}[[{n0}]] = {c}
{w}[{i}].mul_({s})
{w}[{i}].sin_()
{w}.squeeze().mul_({c})
{w}.unsqueeze(0)[0] *= {s}
{w}.swapaxes({d}, {e}).add_({s})
{w}.contiguous().mul_({c})
{w}.flip(0).mul_({c})
{w}.reshape({shape}).mul_({s})
{w}.real.mul_({c})
{w}[:], {w}[{i}] = {a=}, {c}
{w}.scatter_(0, {w}.argmax(0, keepdim=True), {a=}.clone())
"""

# Values that are written behind the back of derivatives: all modes must agree, whatever the values' slopes.
DETACHED = """
{w}.detach_()
{w}.detach().mul_({c})
{w}.detach()[{i}] = {c}
{w}.detach()[...] = {w}
{w}.detach()[{i}] += {c}
{w}[{i}].detach().fill_({c})
{w}.detach().copy_({a=}.detach())
{w}.detach().reshape(-1)[0] = {c}
{w}.reshape(-1).detach()[0] *= {c}
"""
DETACHED_VALUES = """
{a}.detach()
{a}.detach() * {a}
{a}.detach().clone()
{a} * {a}.detach().exp()
"""

MIXES = """
{a} + {a~}
{a} * {a~}
{a} - {c} * {a~}
{a} / ({a~} * {a~} + 1)
{a} * {c}
{c} - {a}
{a} * {s}
{a}.sin()
{a}.tanh()
{a}.sigmoid()
{a}.exp()
{a}.abs()
{a} ** 2
({a} * {a} + 0.5) ** {a~}
({a} * {a} + 0.5).sqrt()
({a} * {a} + 0.1).log()
lucid.maximum({a}, {a~})
lucid.minimum({a}, {c} * {a~})
lucid.atan2({a}, {a~} + {c})
{a}.where({m}, {a~})
lucid.where({a} > {c}, {a}, {a~})
lucid.where({m}, {c}, {a})
lucid.where({a} > {c}, {a}.sqrt(), {a~})
lucid.where({a} > 0, {a}.sqrt(), {c} * {a})
lucid.where({a} > 0, {a}.log(), {a~})
lucid.where({a} == 0, {a~}, 1 / {a})
lucid.where({a} <= {c}, {a~}, {a} ** 0.5)
lucid.where({a}.abs() < 1, {a}.asin(), {a})
lucid.where({a} != 0, {a}.rsqrt(), {a~})
{a}.masked_fill({m}, {c})
{a}.index_fill({d}, lucid.tensor([{n}]), {c})
{a}.scatter({d}, {a}.argmax({d}, keepdim=True), {c})
{a}.diagonal_scatter({a}.diagonal() * {c})
{a}.slice_scatter({a}.narrow({d}, 0, 1), {d}, 0, 1)
{a}.select_scatter({a}.select({d}, 0), {d}, {n})
{a}.lerp({a=}, {c})
{a}.addcmul({a~}, {a~}, value={c})
{a}.clamp(-0.9, {c})
{a}.sum({d})
{a}.sum({d}, keepdim=True)
{a}.mean()
{a}.mean({d}, keepdim=True)
{a}.prod({d})
{a}.amax({d})
{a}.amin()
{a}.logsumexp({d})
{a}.softmax({d})
{a}.log_softmax({d})
{a}.var({d}, correction=0)
{a}.std(correction=0)
{a}.norm()
{a}.norm(3, {d})
lucid.linalg.norm({a})
lucid.linalg.vector_norm({a}, {k})
lucid.linalg.vector_norm({a} * 0)
({a} * 0).norm(2, {d})
{a}.cumsum({d})
{a}.cumprod({d})
{a}.logcumsumexp({d})
{a}.cummax({d}).values
{a}.diff(dim={d})
{a}.median({d}).values
{a}.topk(1, {d}).values
{a}.gather({d}, {a}.argsort({d}))
{a}.take_along_dim({a}.argmax({d}, keepdim=True), {d})
{a}.index_select({d}, lucid.tensor([{n}, 0]))
{a}[lucid.tensor([{n0}, 0])]
{a}[{a}.argmax()]
{a}[{a}.argmax(0)]
{a}[{a}.argmin({d})]
{a}[{n0}, {a}.argmax(1)]
{a}[..., {a}.argmax(-1)]
{a}[lucid.tensor({n0})]
lucid.searchsorted({a}.flatten().sort().values, {c})
lucid.bucketize({c}, {a}.flatten().sort().values)
lucid.bucketize({a}, {a=}.flatten().sort().values)
lucid.bincount({a}.argsort().flatten(), minlength=7)
lucid.bincount({a}.argmax({d}).reshape(-1), minlength=4)
lucid.nn.functional.one_hot({a}.argmax({d}), {a}.shape[{d}])
lucid.linspace({s}, {s}, 4)
lucid.linspace({s}, {c}, 3)
lucid.logspace({s}, {s}, 3)
lucid.full((2,), {c})
lucid.full_like({a}, {c})
lucid.zeros_like({a})
lucid.ones({a}.shape, dtype={a}.dtype)
lucid.einsum('...i,...i->...', {a}, {a=})
lucid.outer({a}.flatten(), {b}.flatten())
lucid.tensordot({a}, {a=}, 1)
{a} @ {a=}.mT
{a}.mT @ {a=}
{a}.flatten() @ {a=}.flatten()
lucid.kron({a}, {s}.reshape(1))
lucid.linalg.inv({a} @ {a}.mH + lucid.eye({a}.shape[-2], dtype={a}.dtype))
lucid.linalg.det({a} @ {a=}.mT)
lucid.linalg.cholesky({a} @ {a}.mH + lucid.eye({a}.shape[-2], dtype={a}.dtype))
lucid.linalg.eigvalsh({a} @ {a}.mH + lucid.diag(lucid.arange({a}.shape[-2], dtype={a}.dtype)))
lucid.linalg.svdvals({a} * 0.3 + lucid.eye(*{a}.shape[-2:], dtype={a}.dtype) * lucid.arange(1, {a}.shape[-1] + 1))
lucid.linalg.solve({a} @ {a}.mH + lucid.eye({a}.shape[-2], dtype={a}.dtype), {a=})
lucid.linalg.matrix_exp({a} @ {a=}.mT * 0.1)
lucid.fft.fft({a}).abs()
lucid.fft.fft({a}).real
lucid.fft.rfft({a}, dim={d}).imag
lucid.fft.ifft({a}.to(lucid.complex128)).real
lucid.complex({a}, {a=}).abs()
lucid.view_as_complex(lucid.stack([{a}, {a=}], -1)).angle()
lucid.special.expit({a})
lucid.special.i0({a})
lucid.erf({a})
lucid.lgamma({a} * {a} + 0.5)
lucid.nn.functional.layer_norm({a}, {a}.shape[-1:], {a}.reshape(-1, {a}.shape[-1])[0], {a=}.reshape(-1, {a}.shape[-1])[0])
lucid.nn.functional.mse_loss({a}, {a=})
lucid.nn.functional.smooth_l1_loss({a}, {a=})
lucid.nn.functional.binary_cross_entropy_with_logits({a}, {a=}.sigmoid())
lucid.nn.functional.gelu({a})
lucid.nn.functional.softplus({a})
lucid.nn.functional.leaky_relu({a})
lucid.nn.functional.conv1d({a}.reshape(1, 1, -1), {b}.reshape(1, 1, -1), padding=2)
lucid.nn.functional.conv1d({a}.reshape(1, 1, -1), {s}.reshape(1, 1, 1), {s}.reshape(1), stride={k})
lucid.nn.functional.linear({a}, {a=}.reshape(-1, {a}.shape[-1]), {s}.reshape(1))
lucid.nn.functional.scaled_dot_product_attention({a}[None], {a=}[None], {a=}[None])
lucid.nn.functional.max_pool1d({a}.reshape(1, -1), 2, 1, 1)
lucid.nn.functional.avg_pool1d({a}.reshape(1, -1), 2, 1, 1)
lucid.nn.functional.normalize({a}, dim={d})
lucid.nn.functional.cosine_similarity({a}, {a=}, dim={d})
"""

DYNAMIC = """
{a}[{m}]
{a}[{a} > {c}]
{a}.masked_select({m})
lucid.unique({a}.round())
{a}.nonzero().sum()
"""

# Rows of the table are half of all statements; the others are divided by these weights.
WEIGHTS = {
    "views": (VIEWS, 5), "copies": (COPIES, 5), "writes": (WRITES, 7), "detached": (DETACHED, 1),
    "detached values": (DETACHED_VALUES, 0.5), "mixes": (MIXES, 8), "dynamic": (DYNAMIC, 0.15),
}  # fmt: skip
