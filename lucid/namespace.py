"""The names of the public namespace, by the modules that have them.

`lucid/__init__.py` fills the namespace from these tables, and `tools/stubs.py` tells type checkers about it.
"""

# Loaded with the package.
AT_ONCE = {
    "lucid.autograd": "enable_grad inference_mode is_grad_enabled is_inference_mode_enabled no_grad set_grad_enabled",
    "lucid.core.device": "device",
    "lucid.core.dtypes": (
        "bfloat16 can_cast complex128 complex64 dtype finfo float16 float32 float64 get_default_dtype iinfo int16 "
        "int32 int64 int8 promote_types set_default_dtype uint16 uint32 uint64 uint8"
    ),
    "lucid.core.printing": "set_printoptions",
    "lucid.api.rng": "Generator",
    "lucid.core.tensor": "Tensor",
    "lucid.ops.binary": (
        "add addcdiv addcmul allclose atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor "
        "copysign div eq equal float_power floor_divide fmax fmin fmod ge gt heaviside hypot isclose le lerp "
        "logaddexp logaddexp2 logical_and logical_or logical_xor lt maximum minimum mul ne pow remainder rsub sub "
        "true_divide where xlogy"
    ),
    "lucid.ops.complex_parts": (
        "angle complex conj imag is_conj is_neg is_nonzero isreal polar real resolve_conj resolve_neg sgn "
        "view_as_complex view_as_real"
    ),
    "lucid.api.contractions": "addmm baddbmm bmm cross dot einsum inner kron mm mv outer tensordot trace",
    "lucid.ops.contraction": "matmul",
    "lucid.api.conversion": "is_complex is_floating_point is_tensor result_type",
    "lucid.api.creation": (
        "arange as_tensor asarray empty empty_like eye from_numpy full full_like linspace logspace ones ones_like "
        "tensor zeros zeros_like"
    ),
    "lucid.api.dlpack": "from_dlpack",
    "lucid.ops.floating": "frexp isneginf isposinf ldexp nextafter signbit",
    "lucid.api.indexing": "take_along_dim",
    "lucid.ops.integers": "gcd lcm",
    "lucid.api.joining": "cat concat concatenate dstack hstack stack vstack",
    "lucid.api.splitting": "chunk diag diag_embed diagonal narrow select split tensor_split tril triu unbind",
    "lucid.api.random": (
        "bernoulli fork_rng get_rng_state initial_seed manual_seed multinomial normal poisson rand rand_like randint "
        "randint_like randn randn_like randperm seed set_rng_state"
    ),
    "lucid.api.reductions": (
        "all amax amin any argmax argmin count_nonzero cummax cummin cumprod cumsum logcumsumexp logsumexp max mean "
        "min nanmean nansum norm prod std sum var"
    ),
    "lucid.api.scatter": (
        "argwhere gather index_add index_copy index_fill index_put index_select masked_fill masked_scatter "
        "masked_select nonzero scatter scatter_add scatter_reduce take"
    ),
    "lucid.api.shaping": (
        "broadcast_tensors broadcast_to clone contiguous detach expand_dims flatten flip fliplr flipud meshgrid "
        "moveaxis movedim permute ravel repeat_interleave reshape roll rot90 squeeze swapaxes swapdims t tile "
        "transpose unflatten unsqueeze"
    ),
    "lucid.ops.nn.softmax": "log_softmax softmax",
    "lucid.api.sorting": (
        "argsort bucketize kthvalue median msort nanmedian nanquantile quantile searchsorted sort topk unique "
        "unique_consecutive"
    ),
    "lucid.ops.unary": (
        "abs acos acosh asin asinh atan atanh bitwise_not ceil clamp clamp_max clamp_min cos cosh deg2rad digamma erf "
        "erfc erfinv exp exp2 expm1 floor frac isfinite isinf isnan lgamma log log10 log1p log2 log_sigmoid "
        "logical_not logit nan_to_num neg polygamma positive rad2deg reciprocal relu round rsqrt sigmoid sign sin "
        "sinc sinh softplus sqrt square tan tanh trunc"
    ),
}

# Loaded on first use.
ON_DEMAND = {
    "lucid.amp": "autocast GradScaler",
    "lucid.array_api": (
        "__array_api_version__ __array_namespace_info__ astype bitwise_invert broadcast_arrays cumulative_prod "
        "cumulative_sum isdtype matrix_transpose permute_dims repeat take_along_axis unique_all unique_counts "
        "unique_inverse unique_values unstack vecdot"
    ),
    "lucid.checkpoints": "load save",
    "lucid.func": "vmap",
    "lucid.func.control": "cond scan while_loop",
    "lucid.linalg": "cholesky_inverse cholesky_solve det lu_unpack matrix_exp matrix_power slogdet",
    "lucid.linalg.classic": "cholesky geqrf lu lu_solve orgqr ormqr qr svd triangular_solve",
    "lucid.linalg.determinants": "logdet",
    "lucid.linalg.least_squares": "pinverse",
    "lucid.linalg.products": "chain_matmul vander",
    "lucid.linalg.solvers": "inverse",
    "lucid.nn.functional": (
        "adaptive_avg_pool1d alpha_dropout avg_pool1d bilinear binary_cross_entropy_with_logits celu celu_ "
        "channel_shuffle conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d "
        "cosine_embedding_loss cosine_similarity ctc_loss dropout feature_alpha_dropout group_norm hardshrink "
        "hinge_embedding_loss kl_div layer_norm margin_ranking_loss max_pool1d max_pool2d max_pool3d "
        "pairwise_distance pixel_shuffle pixel_unshuffle poisson_nll_loss prelu rms_norm rrelu rrelu_ selu selu_ "
        "threshold threshold_ triplet_margin_loss"
    ),
    "lucid.nn.functional.padding": "constant_pad_nd",
    "lucid.api.joining": (
        "atleast_1d atleast_2d atleast_3d block_diag broadcast_shapes cartesian_prod column_stack combinations "
        "diagflat dsplit hsplit row_stack split_with_sizes vsplit"
    ),
    "lucid.api.copies": (
        "alias_copy as_strided_copy detach_copy diagonal_copy expand_copy permute_copy select_copy slice_copy "
        "split_copy split_with_sizes_copy squeeze_copy t_copy transpose_copy unbind_copy unfold_copy unsqueeze_copy "
        "view_copy"
    ),
    "lucid.api.counting": (
        "bincount histc histogram histogramdd isin nonzero_static tril_indices triu_indices unravel_index"
    ),
    "lucid.api.creation": "from_file frombuffer scalar_tensor",
    "lucid.api.differences": "cumulative_trapezoid diff gradient trapezoid trapz",
    "lucid.api.distances": "cdist dist pdist renorm",
    "lucid.api.inplace": (
        "abs_ acos_ acosh_ arccos_ arccosh_ arcsin_ arcsinh_ arctan_ arctanh_ asin_ asinh_ atan_ atanh_ ceil_ clamp_ "
        "clamp_max_ clamp_min_ clip_ conj_physical_ cos_ cosh_ deg2rad_ detach_ erf_ erfc_ exp2_ exp_ expm1_ fill "
        "fill_ fix_ floor_ frac_ gcd_ lcm_ ldexp_ log10_ log1p_ log2_ log_ logit_ nan_to_num_ neg_ negative_ rad2deg_ "
        "reciprocal_ relu_ round_ rsqrt_ sigmoid_ sin_ sinc_ sinh_ sqrt_ square_ tan_ tanh_ trunc_ xlogy_ zero_"
    ),
    "lucid.api.contractions": "addbmm addmv addmv_ addr vdot",
    "lucid.api.put": "index_reduce put",
    "lucid.api.conversion": "get_device is_same_size is_signed numel",
    "lucid.api.scatter": "index_put_",
    "lucid.api.shape_writes": "as_strided_ resize_as_",
    "lucid.api.shaping": "adjoint",
    "lucid.api.statistics": "aminmax corrcoef cov mode std_mean var_mean",
    "lucid.api.strides": (
        "as_strided as_strided_scatter diagonal_scatter empty_permuted empty_strided narrow_copy select_scatter "
        "slice_scatter"
    ),
    "lucid.backends.cpu.threads": "get_num_threads set_num_threads",
    "lucid.api.random": "binomial",
    "lucid.signal.spectra": "istft stft",
    "lucid.signal.windows": "bartlett_window blackman_window hamming_window hann_window kaiser_window",
    "lucid.special.bessel": "i0 i0_",
    "lucid.special.gamma_functions": "igamma igammac mvlgamma",
}

# Packages that load on first use.
PACKAGES = "amp array_api data fft linalg masked nn optim signal special utils"

# Folders and modules of the package that are no part of its namespace.
FOLDERS = frozenset("api backends core interop ir namespace native ops".split())

# Other names that users know these by.
ALIASES = dict(
    pair.split("=")
    for pair in """
absolute=abs arccos=acos arccosh=acosh arcsin=asin arcsinh=asinh arctan=atan arctan2=atan2 arctanh=atanh
cdouble=complex128 cfloat=complex64 clip=clamp conj_physical=conj divide=div double=float64 fix=trunc float=float32
ger=outer greater=gt greater_equal=ge half=float16 int=int32 less=lt less_equal=le long=int64 multiply=mul
negative=neg not_equal=ne short=int16 subtract=sub unsafe_chunk=chunk unsafe_split=split
""".split()
)

# The functions that PyTorch gives an `out=`, beside the elementwise ones, which have it themselves.
WITH_OUT = frozenset(
    """
add addcdiv addcmul addmm all amax amin any argmax argmin argsort baddbmm bernoulli bmm bucketize cat clamp
clamp_max clamp_min complex concat concatenate cross cummax cummin cumprod cumsum diag div dot dstack float_power
frexp gather hardshrink histogram hstack index_add index_copy index_select inner kron kthvalue ldexp lerp
log_softmax logcumsumexp logit logsumexp masked_select matmul max mean median min mm msort multinomial mv nan_to_num
nanmean nanmedian nanquantile nansum nonzero norm normal outer polar polygamma pow prod quantile round scatter
scatter_add scatter_reduce searchsorted softmax sort stack std sub sum take take_along_dim tensordot threshold topk
tril triu var vstack where
""".split()
)

# Those that make a tensor: with `out=`, one of its type.
MADE_IN_OUT = frozenset("arange empty eye full linspace logspace ones rand randint randn randperm zeros".split())
