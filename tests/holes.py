"""What the table of operations does not test, and why: the reasons that a row cannot state for itself.

A column holds for a row if its checks are planned and have samples to run on. All else is a hole, and has a reason: the
one under `without` in the row, one that follows from the row, or one of `REASONS`.
"""

from collections.abc import Iterator
from importlib import import_module
from typing import NamedTuple

from checks import Case, cases, planned
from samples import Row
from table import FAMILIES

# The checks behind each column, and the types of the operands they are looked for in.
COLUMNS = {
    "values": ("values",),
    "generated": ("generated",),
    "reverse": ("reverse",),
    "forward": ("forward",),
    "second": ("second",),
    "vmap": ("vmap",),
    "complex": ("values", "generated", "reverse", "forward", "second", "vmap"),
}
DERIVATIVES = ("reverse", "forward", "second")
WHOLE = ("bool", "int", "int64", "int32", "uint8")


class Cell(NamedTuple):
    """Whether a column holds for a row, and what is to be said about it."""

    holds: bool
    note: str = ""


def has_samples(row: Row, check: str, dtype: str) -> bool:
    """Whether a check has something to run on: `checks` goes over samples and over their operands in loops."""
    smooth = check in ("reverse", "second")
    return any((case.sample.smooth or not smooth) and _operands(row, case, check) for case in cases(row, dtype))


def _operands(row: Row, case: Case, check: str) -> bool:
    if check in ("values", "generated"):
        return True
    if check == "vmap":
        return any(a.dtype.kind not in row.unbatched for a in case.arrays)
    return any(case.arrays[k].size for k in case.floats)


def runs(row: Row) -> set[tuple[str, str]]:
    """The checks of a row, with types, that are planned and have samples."""
    found = {(name, dtype) for name, _, dtype in planned(row) if name in COLUMNS["complex"]}
    return {(name, dtype) for name, dtype in found if has_samples(row, name, dtype)}


def cells(row: Row) -> dict[str, Cell]:
    """Every column of a row."""
    done = runs(row)
    names = {name for name, _ in done}
    found = {column: _cell(row, column, column in names) for column in COLUMNS if column != "complex"}
    as_complex = {name for name, dtype in done if dtype == "complex128"}
    found["complex"] = _cell(row, "complex", "values" in names and as_complex == names)
    return found


def _cell(row: Row, column: str, holds: bool) -> Cell:
    if holds:
        return Cell(True, PARTIAL[row.unbatched] if column == "vmap" and row.unbatched else "")
    return Cell(False, reason(row, column))


def reason(row: Row, column: str) -> str:
    """Why a column does not hold; empty if nobody has said."""
    for name in (column, "values"):
        if name in row.without:
            return row.without[name]
    if not row.floats and not row.complex:
        return NOT_NUMBERS
    results = (row.result,) if isinstance(row.result, str) else row.result
    if column in DERIVATIVES and all(r.split()[-1] in WHOLE for r in results):
        return NOT_SMOOTH
    return EXPLAINED.get((column if column == "complex" else "derivatives", plain_name(row)), "")


def plain_name(row: Row) -> str:
    """One word, the same for a function and its form in place."""
    return row.name.removesuffix("_").replace(" ", "_")


NOT_NUMBERS = "it takes whole numbers and truth values only"
NOT_SMOOTH = "the result is whole numbers or truth values"
PARTIAL = {
    "b": "not over masks: the shape of the result depends on them",
    "i": "not over counts and positions: the shape of the result depends on them",
}

# Rows with a derivative that is that of no function.
NOT_A_GRADIENT = ("scale_gradient", "straight_through", "vector_quantize")

# Reasons that no row can state for itself: column -> reason -> rows. Forms in place share those of their function.
REASONS: dict[str, dict[str, str]] = {
    "derivatives": {
        "it cuts what is behind it off the tape, which is what it is for": "detach detach_copy",
        "the result does not depend on the elements": "new_empty_strided resize resize_as set",
        "a function of Python numbers is called on each element": "apply map map2",
        "the result is steps of the operand, with a derivative of 0 wherever it has one": (
            "histc poisson_quantile binomial_quantile accuracy"
        ),
        "the gradient is meant to be another than that of the values; the row pins it": " ".join(NOT_A_GRADIENT),
    },
    "complex": {
        "it needs an order of numbers": """
            relu sign floor ceil trunc fix frac clamp clip clamp_min clamp_max floor_divide truncated_divide remainder
            fmod maximum minimum fmax fmin gate lt le gt ge less less_equal greater greater_equal amax amin max min
            aminmax argmax argmin cummax cummin scatter_extreme index_reduce_extreme sort argsort msort topk kthvalue
            median nanmedian mode quantile nanquantile searchsorted bucketize isin histc histogram histogramdd signbit
            masked_amax masked_amin masked_argmax masked_argmin masked_median isposinf isneginf fractional_max_pool2d fractional_max_pool3d heaviside nextafter max_pool1d max_pool2d max_pool3d max_pool1d_indices max_pool2d_indices
            max_pool3d_indices adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d adaptive_max_pool1d_indices
            adaptive_max_pool2d_indices adaptive_max_pool3d_indices max_pool_take relu6 hardtanh threshold leaky_relu
            prelu rrelu elu selu celu hardsigmoid hardswish hard_sigmoid hard_swish softshrink hardshrink within step elu_slope hardswish_slope
            huber_loss smooth_l1_loss hinge_embedding_loss margin_ranking_loss multi_margin_loss multilabel_margin_loss
            scale_gradient symlog symexp two_hot straight_through nearest_codebook vector_quantize scaled_noise noisy_linear
            fused_linear_relu fused_linear_gelu correct_count accuracy
        """,
        "it is about signs, angles and digits of real numbers": """
            atan2 arctan2 hypot copysign deg2rad rad2deg frexp affine_grid grid_sample
        """,
        "it makes complex numbers of real ones": """
            complex complex_parts polar view_as_complex rfft rfft2 rfftn ihfft ihfft2 ihfftn fft_r2c
        """,
        "it is about probabilities, or logarithms of them, which are real": """
            masked_logsumexp masked_softmax masked_log_softmax masked_softmin masked_logaddexp
            log_sigmoid logsigmoid softplus logaddexp2 softmax log_softmax softmin softmax_back log_softmax_back
            binary_cross_entropy binary_cross_entropy_with_logits kl_div poisson_nll_loss gaussian_nll_loss
            soft_margin_loss multilabel_soft_margin_loss logit_error cross_entropy linear_cross_entropy nll_loss ctc_loss cross_entropy_back
            lattice ctc_scan xlogy xlog1py entr ndtr log_ndtr ndtri erfcx erfcinv erfinv poisson_quantile binomial_quantile
            weighted_pick
            scaled_dot_product_attention multi_head_attention_forward
        """,
        "it is defined and computed on the real line, here as in PyTorch": """
            lgamma digamma polygamma gamma multigammaln mvlgamma gammainc gammaincc igamma igammac beta betaln betainc
            gammaincinv betaincinv
            zeta bessel_j0 bessel_j1 bessel_y0 bessel_y1 i0 i1 i0e i1e jv yv iv kv ive kve modified_bessel_i0
            modified_bessel_i1 modified_bessel_k0 modified_bessel_k1 scaled_modified_bessel_k0
            scaled_modified_bessel_k1 spherical_bessel_j0 airy_ai chebyshev_polynomial_t chebyshev_polynomial_u
            chebyshev_polynomial_v chebyshev_polynomial_w shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u
            shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_w hermite_polynomial_h hermite_polynomial_he
            laguerre_polynomial_l legendre_polynomial_p gelu mish silu_back gelu_back gelu_tanh_back mish_slope
        """,
        "it is defined for real data, here as in PyTorch": """
            layer_norm batch_norm batch_norm_by_running_statistics instance_norm group_norm local_response_norm rnn lstm
            gru lp_pool1d lp_pool2d lp_pool3d mse_loss sum_of_squares cosine_embedding_loss cosine_similarity
            embedding_bag cdist pdist pdist_rows bincount
        """,
    },
}
EXPLAINED = {
    (column, name): why
    for column, reasons in REASONS.items()
    for why, names in reasons.items()
    for name in names.split()
}


def other_name(row: Row) -> str:
    """The sentence that says so, if a row is one of an operation by another name."""
    return next((why for why in row.without.values() if why.endswith("by another name")), "")


def families() -> Iterator[tuple[str, list[Row]]]:
    """The rows under the names of the lists that hold them, each once."""
    seen: set[str] = set()
    for module in map(import_module, FAMILIES):
        lists = {k: v for k, v in vars(module).items() if k.isupper() and isinstance(v, list) and k != "ROWS"}
        lists["ROWS"] = module.ROWS
        for title, rows in lists.items():
            new = [r for r in rows if isinstance(r, Row) and r.name not in seen and r in module.ROWS]
            seen |= {r.name for r in new}
            if new:
                yield (
                    f"{module.__name__.removeprefix('samples').strip('_')} {title.lower()}".strip().replace("_", " "),
                    new,
                )
