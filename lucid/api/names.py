"""The table of public names, from which every list of them is derived.

The names of `lucid`, `lucid.special` and `lucid.array_api`, methods and in-place forms of `Tensor`, the counterparts
of NumPy's and SciPy's functions, and the stubs are read from it. A new name is one row.

Rows stand below their module and the columns that they share: a name, `/` before each other name that users know it by,
and `:` before each column in which the row differs (`-column` is one that it lacks). The columns:

    lazy              loads on first use
    unlisted          is no name of `lucid`
    of=NAME           what the module itself calls it
    method            is a method; =NAME: by that function of `lucid.api.methods`, which reads the arguments otherwise
    methods=NAME,...  further names of the method
    inplace           has an in-place form, a method; =listed: one that is a name of `lucid`, too
    out               is given `out=` (declared elementwise functions have it); =made: a tensor of its type is made
    numpy             stands for NumPy's ufunc of one of its names, if there is one, or for =NAME,...; what takes fewer
                      types than NumPy's function lacks it
    standard          is in `lucid.array_api`, under this name or =NAME
    special           is in `lucid.special`, under this name or =NAME,...
    scipy             stands for the function of `scipy.special` that has its name in `lucid.special`, or =NAME
    func              is in `lucid.func`
    adapter=NAME      the function of `lucid.interop.scipy_ufuncs` that reads the arguments of SciPy's
"""

import sys
from collections.abc import Iterable
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

from lucid.arguments.out import fills_out, takes_out

TABLE = """
lucid.ops.unary: method inplace=listed numpy standard
    abs/absolute:numpy=absolute,fabs acos/arccos acosh/arccosh asin/arcsin asinh/arcsinh atan/arctan atanh/arctanh ceil
    cos cosh exp expm1:special:scipy floor log log10 log1p:special:scipy log2 neg/negative:standard=negative reciprocal
    sin sinh sqrt square tan tanh trunc/fix logical_not:inplace bitwise_not:inplace:standard=bitwise_invert
lucid.ops.unary: method numpy standard
    isfinite isinf isnan
lucid.ops.unary: method inplace=listed numpy
    clamp/clip:out clamp_max:out clamp_min:out deg2rad:numpy=deg2rad,radians frac nan_to_num:out
    rad2deg:numpy=rad2deg,degrees relu round:out:special:numpy=rint rsqrt sign:inplace:-numpy
lucid.ops.unary: method
    positive softplus
lucid.ops.unary: method inplace=listed numpy special scipy
    digamma:special=digamma,psi:inplace erf erfc erfinv:inplace exp2 lgamma:special=gammaln:inplace logit:out
    sigmoid:special=expit sinc
lucid.ops.unary:
    log_sigmoid:scipy=log_expit polygamma:out:special:method=polygamma_method
lucid.ops.binary: method inplace numpy standard
    atan2/arctan2 bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift copysign floor_divide hypot
    logical_and logical_or logical_xor remainder pow:out sub/subtract:out:standard=subtract
    mul/multiply:standard=multiply true_divide:standard=divide
    eq:standard=equal:numpy=equal ne/not_equal:standard=not_equal lt/less:standard=less
    le/less_equal:standard=less_equal gt/greater:standard=greater ge/greater_equal:standard=greater_equal
lucid.ops.binary: method numpy standard
    logaddexp maximum:inplace minimum:inplace
lucid.ops.binary: method inplace numpy
    add:out addcdiv:out addcmul:out div/divide:out:-numpy float_power:out fmod
    heaviside:-numpy lerp:out xlogy:special:scipy:inplace=listed
lucid.ops.binary: method numpy
    fmax fmin logaddexp2
lucid.ops.binary:
    allclose:method equal:method isclose:method rsub where:method=where_method:out
lucid.ops.complex_parts: method
    angle conj/conj_physical:methods=conjugate:standard:numpy is_conj is_neg is_nonzero isreal resolve_conj resolve_neg
    sgn:inplace:numpy=sign:standard=sign
lucid.ops.complex_parts:
    complex:out imag:standard polar:out real:standard view_as_complex view_as_real
lucid.ops.floating: method
    frexp:out isneginf isposinf ldexp:out:inplace=listed:numpy nextafter:inplace:standard signbit:standard:numpy
lucid.ops.binary: method inplace=listed numpy
    gcd lcm
lucid.ops.contraction: method out
    bmm dot matmul:numpy mm mv
lucid.ops.nn.softmax: method out special
    log_softmax softmax

lucid.api.reductions: method out
    all amax amin any argmax argmin count_nonzero:-out cummax cummin cumprod:inplace cumsum:inplace logcumsumexp
    logsumexp:special max mean min nanmean nansum norm prod std sum var
lucid.api.sorting: lazy method out
    argsort bucketize:-method kthvalue median mode msort nanmedian nanquantile quantile searchsorted:-method sort topk
    unique:-out unique_consecutive:-out
lucid.api.statistics: lazy method
    aminmax corrcoef cov std_mean:-method var_mean:-method
lucid.api.counting: lazy method
    argwhere bincount histc histogram:out histogram2d:-method histogramdd:-method isin:-method nonzero:out nonzero_static
    tril_indices:-method triu_indices:-method unravel_index:-method
lucid.api.differences: lazy
    cumulative_trapezoid diff:method gradient trapezoid trapz
lucid.api.distances: lazy method
    cdist:-method dist pdist:-method renorm renorm_:unlisted
lucid.api.contractions: method out
    addmm:inplace baddbmm:inplace cross einsum:-method:-out inner kron outer/ger tensordot trace:-out
lucid.api.contractions: lazy method
    addbmm addbmm_:unlisted addmv addmv_ addr addr_:unlisted vdot

lucid.api.shaping: method
    adjoint:lazy broadcast_tensors:-method broadcast_to clone contiguous detach expand expand_as:unlisted
    expand_dims flatten flip fliplr flipud meshgrid:-method moveaxis movedim permute ravel repeat:unlisted
    repeat_interleave reshape reshape_as:unlisted roll rot90 squeeze:methods=squeeze_all swapaxes swapdims:-method t
    tile transpose:methods=swapdims unflatten unsqueeze view view_as:unlisted
lucid.api.shape_writes: lazy method
    as_strided_ resize_:unlisted resize_as_ set_:unlisted squeeze_:unlisted t_:unlisted
    transpose_:unlisted:methods=swapaxes_,swapdims_ unsqueeze_:unlisted
lucid.api.splitting: method
    chunk/unsafe_chunk diag:out diag_embed diagonal narrow select split/unsafe_split:method=split_method tensor_split
    tril:out:inplace triu:out:inplace unbind unfold:unlisted
lucid.api.joining: out
    cat concat concatenate dstack hstack stack vstack
lucid.api.joining: lazy
    atleast_1d atleast_2d atleast_3d block_diag broadcast_shapes cartesian_prod column_stack combinations
    diagflat:method dsplit:method hsplit:method row_stack split_with_sizes:method sum_to_size:unlisted:method
    vsplit:method
lucid.api.strides: lazy method
    as_strided as_strided_scatter diagonal_scatter empty_permuted:-method empty_strided:-method narrow_copy
    new_empty_strided:unlisted select_scatter slice_scatter storage_offset:unlisted stride:unlisted
lucid.api.strides: lazy
    alias_copy as_strided_copy detach_copy diagonal_copy expand_copy permute_copy select_copy slice_copy split_copy
    split_with_sizes_copy squeeze_copy t_copy transpose_copy unbind_copy unfold_copy unsqueeze_copy view_copy

lucid.api.indexing: method out
    take_along_dim
lucid.api.scatter: lazy method out
    gather index_add index_add_:unlisted:-out index_copy index_copy_:unlisted:-out index_fill:-out
    index_fill_:unlisted:-out index_put:-out index_put_:-out index_select masked_fill:-out
    masked_fill_:unlisted:-out masked_scatter:-out masked_scatter_:unlisted:-out masked_select scatter
    scatter_:unlisted:-out scatter_add scatter_add_:unlisted:-out scatter_reduce scatter_reduce_:unlisted:-out take
lucid.api.scatter: lazy method
    index_reduce index_reduce_:unlisted put put_:unlisted
lucid.api.inplace: method
    apply_:unlisted conj_physical_ copy_:unlisted cube_:unlisted detach_ fill:-method fill_ fill_diagonal_:unlisted map2_:unlisted
    map_:unlisted polygamma_:unlisted zero_

lucid.api.creation: out=made
    arange empty eye full linspace logspace ones zeros
lucid.api.creation:
    as_tensor asarray empty_like from_numpy full_like ones_like tensor zeros_like from_file:lazy frombuffer:lazy
    scalar_tensor:lazy
lucid.api.creation: unlisted method
    new_empty new_full new_ones new_tensor new_zeros
lucid.api.dlpack:
    from_dlpack to_dlpack
lucid.api.conversion:
    is_complex:method is_floating_point:method is_tensor result_type numel:method
    nelement:of=numel:method:unlisted
lucid.api.conversion: lazy method
    get_device is_same_size is_signed is_pinned:unlisted is_shared:unlisted ndimension:unlisted new:unlisted
    type:unlisted cpu:unlisted numpy:unlisted:methods=to_numpy to:unlisted type_as:unlisted
lucid.api.random:
    bernoulli:method:out binomial:lazy fork_rng get_rng_state initial_seed manual_seed multinomial:method:out normal:out
    poisson rand:out=made rand_like randint:out=made randint_like randn:out=made randn_like randperm:out=made seed
    set_rng_state
lucid.api.random_fills: lazy unlisted method
    bernoulli_ cauchy_ exponential_ geometric_ log_normal_ normal_ random_ uniform_
lucid.api.rng:
    Generator

lucid.core.tensor:
    Tensor
lucid.core.device:
    device
lucid.core.dtypes: standard
    bool/bool_:of=bool_ complex128/cdouble complex64/cfloat float32/float float64/double int16/short int32/int int64/long int8
    uint16 uint32 uint64 uint8
lucid.core.dtypes:
    bfloat16 can_cast dtype float16/half get_default_dtype set_default_dtype
lucid.arguments.promotion:
    finfo iinfo promote_types
lucid.ops.sparse.layout:
    layout sparse_coo sparse_csc sparse_csr strided
lucid.api.printing:
    set_printoptions
math: standard
    e inf nan pi
numpy: standard
    newaxis
lucid.backends.cpu.threads: lazy
    get_num_threads set_num_threads
lucid.autograd:
    enable_grad inference_mode is_grad_enabled is_inference_mode_enabled no_grad set_grad_enabled
lucid.func: lazy
    vmap
lucid.func.control: lazy
    cond scan while_loop
lucid.compiler: lazy
    compile

lucid.linalg: lazy method
    cholesky_inverse cholesky_solve det lu_unpack:-method matrix_exp matrix_power slogdet
lucid.linalg.classic: lazy method
    cholesky geqrf lu lu_solve orgqr ormqr qr svd triangular_solve
lucid.linalg.determinants: lazy method
    logdet
lucid.linalg.least_squares: lazy method
    pinverse
lucid.linalg.products: lazy
    chain_matmul vander
lucid.linalg.solvers: lazy method
    inverse
lucid.sparse.creation: lazy
    sparse_compressed_tensor sparse_coo_tensor sparse_csc_tensor sparse_csr_tensor
lucid.sparse.functions: lazy
    spmm:of=mm
lucid.sparse.conversion: lazy unlisted method
    sparse_mask to_dense to_sparse to_sparse_coo to_sparse_csc to_sparse_csr
lucid.signal.spectra: lazy method
    istft stft
lucid.signal.windows: lazy
    bartlett_window blackman_window hamming_window hann_window kaiser_window
lucid.special.bessel: lazy unlisted special
    airy_ai bessel_j0:scipy=j0 bessel_j1:scipy=j1 bessel_y0:scipy=y0 bessel_y1:scipy=y1 i0:scipy:-unlisted:method
    i0e:scipy i1:scipy i1e:scipy modified_bessel_i0 modified_bessel_i1 modified_bessel_k0:scipy=k0
    modified_bessel_k1:scipy=k1 scaled_modified_bessel_k0:scipy=k0e scaled_modified_bessel_k1:scipy=k1e
    spherical_bessel_j0 i0_:-unlisted:-special:method
lucid.special.bessel: lazy unlisted special scipy adapter=of_order
    iv ive jv kv kve yv
lucid.special.entropy: lazy unlisted special scipy
    entr xlog1py
lucid.special.gamma_functions: lazy unlisted special scipy
    beta betainc betaincinv betaln gamma gammainc gammaincc gammaincinv multigammaln:-scipy zeta:-scipy
lucid.special.gamma_functions: lazy method
    igamma igamma_:unlisted igammac igammac_:unlisted mvlgamma mvlgamma_:unlisted
lucid.special.normal: lazy unlisted special scipy
    erfcinv erfcx log_ndtr ndtr ndtri
lucid.special.polynomials: lazy unlisted special adapter=of_degree
    chebyshev_polynomial_t:scipy=eval_chebyt chebyshev_polynomial_u:scipy=eval_chebyu chebyshev_polynomial_v
    chebyshev_polynomial_w hermite_polynomial_h:scipy=eval_hermite hermite_polynomial_he:scipy=eval_hermitenorm
    laguerre_polynomial_l:scipy=eval_laguerre legendre_polynomial_p:scipy=eval_legendre
    shifted_chebyshev_polynomial_t:scipy=eval_sh_chebyt shifted_chebyshev_polynomial_u:scipy=eval_sh_chebyu
    shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_w

lucid.amp: lazy
    GradScaler autocast
lucid.checkpoints: lazy
    load load_safetensors load_sharded save save_safetensors save_sharded
lucid.checkpoints.parallel: lazy
    Shard load_parallel save_parallel
lucid.checkpoints.programs: lazy unlisted func
    ExportError Exported export load_exported
lucid.nn.functional: lazy
    adaptive_avg_pool1d alpha_dropout avg_pool1d bilinear binary_cross_entropy_with_logits celu celu_ channel_shuffle
    conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d cosine_embedding_loss cosine_similarity
    ctc_loss dropout feature_alpha_dropout gelu:method group_norm hardshrink:method:out hinge_embedding_loss kl_div layer_norm
    margin_ranking_loss max_pool1d max_pool2d max_pool3d pairwise_distance pixel_shuffle pixel_unshuffle
    poisson_nll_loss prelu:method rms_norm rrelu rrelu_ selu:method selu_ silu:method threshold:out threshold_ triplet_margin_loss
lucid.nn.functional.padding: lazy
    constant_pad_nd pad:method
lucid.nn.functional: lazy unlisted method
    hardsigmoid:methods=hard_sigmoid hardswish:methods=hard_swish mish relu6
lucid.utils.storages: lazy unlisted method
    eval pin_memory share_memory_ untyped_storage
lucid.utils.annotations: lazy
    DTypeLike DeviceLike HasShape Scalar ShapeLike StateDict SupportsGrad SupportsNumpyConversion TensorLike
    TensorLikeProtocol TensorOrScalar
lucid.utils.settings: lazy
    are_deterministic_algorithms_enabled eval get_default_device get_num_interop_threads is_storage set_default_device
    set_num_interop_threads use_deterministic_algorithms

lucid.array_api.creation: lazy unlisted standard
    arange asarray empty empty_like eye from_dlpack full full_like linspace meshgrid ones ones_like tril triu zeros
    zeros_like
lucid.array_api.data_types: lazy unlisted standard
    astype:-unlisted:method can_cast finfo iinfo isdtype:-unlisted result_type
lucid.array_api.elementwise: lazy unlisted standard
    add bitwise_invert:-unlisted:-standard clip positive round
lucid.array_api.indexing: lazy unlisted standard
    take take_along_axis:-unlisted
lucid.array_api.inspection: lazy standard
    __array_api_version__ __array_namespace_info__
lucid.array_api.linear_algebra: lazy unlisted standard
    matmul matrix_transpose:-unlisted tensordot vecdot:-unlisted
lucid.array_api.manipulation: lazy unlisted standard
    broadcast_arrays:-unlisted broadcast_to concat expand_dims flip moveaxis permute_dims:-unlisted repeat:-unlisted
    reshape roll squeeze stack tile unstack:-unlisted
lucid.array_api.searching: lazy unlisted standard
    argmax argmin count_nonzero nonzero searchsorted where
lucid.array_api.sets: lazy standard
    unique_all unique_counts unique_inverse unique_values
lucid.array_api.sorting: lazy unlisted standard
    argsort sort
lucid.array_api.statistics: lazy unlisted standard
    cumulative_prod:-unlisted cumulative_sum:-unlisted max mean min prod std sum var
lucid.array_api.utility: lazy unlisted standard
    all any diff
lucid.array_api.methods: lazy unlisted method
    __array_namespace__ to_device
"""

# Packages that load on first use.
PACKAGES = (
    "amp array_api compiler data debug distributed distributions dtypes einops fft func kernels linalg masked nn optim profiler "
    "serialization signal sparse special tree utils"
)


class Row(NamedTuple):
    """A public name, the module that has it, its other names, and its columns with their values."""

    name: str
    home: str
    aliases: tuple[str, ...]
    columns: dict[str, str]

    @property
    def names(self) -> tuple[str, ...]:
        """The name and all others of the method."""
        names = (self.name, *self.aliases)
        return (*names, *self.named("methods")) if "methods" in self.columns else names

    def named(self, column: str, default: str = "") -> list[str]:
        """The names that a column lists; `default` where it is there and lists none."""
        value = self.columns.get(column)
        return [] if value is None else [v for v in (value or default).split(",") if v]

    def function(self) -> Any:
        """What the name stands for, as its module has it."""
        return getattr(sys.modules.get(self.home) or import_module(self.home), self.columns.get("of", self.name))

    def value(self) -> Any:
        """The same as the public namespace has it: with `out=`, where the table says so."""
        out = self.columns.get("out")
        if out is None:
            return self.function()
        return fills_out(self.function()) if out == "made" else takes_out(self.function())


def _changed(columns: dict[str, str], words: Iterable[str]) -> dict[str, str]:
    changed = columns.copy()
    for word in words:
        if word[0] == "-":
            del changed[word[1:]]
        else:
            column, _, value = word.partition("=")
            changed[column] = value
    return changed


def rows(table: str) -> list[Row]:
    """The rows of a table in order."""
    found: list[Row] = []
    home, shared = "", dict[str, str]()
    for line in table.splitlines():
        if line[:1] != " ":
            home, _, columns = line.partition(":")
            shared = _changed({}, columns.split())
            continue
        for word in line.split():
            if word.isidentifier():  # as most are: this runs at import
                found.append(Row(word, home, (), shared))
                continue
            names, *own = word.split(":")
            name, *aliases = names.split("/")
            found.append(Row(name, home, tuple(aliases), _changed(shared, own) if own else shared))
    return found


ROWS = rows(TABLE)


def having(column: str, rows: Iterable[Row] = ROWS) -> list[Row]:
    """The rows that have a column."""
    return [row for row in rows if column in row.columns]


_LAZY = {"lazy": ""}


def listed(rows: Iterable[Row] = ROWS) -> dict[str, Row]:
    """What `lucid` has, by name: rows, their other names, and in-place forms."""
    found: dict[str, Row] = {}
    for row in rows:
        name, _, aliases, columns = row
        if "unlisted" in columns:
            continue
        for known in (name, *aliases) if aliases else (name,):
            found[known] = row
            if columns.get("inplace") == "listed":
                found[f"{known}_"] = Row(f"{known}_", "lucid.api.inplace", (), _LAZY)
    return found


def special(rows: Iterable[Row] = ROWS) -> dict[str, Row]:
    """What `lucid.special` has, by name."""
    return {name: row for row in having("special", rows) for name in row.named("special", row.name)}


def of_scipy(rows: Iterable[Row] = ROWS) -> dict[str, Row]:
    """What stands for the functions of `scipy.special`, by their names."""
    known = having("scipy", rows)
    return {name: row for row in known for name in row.named("scipy") or row.named("special", row.name)}


def public(namespace: dict[str, Any], *modules: str) -> list[str]:
    """The public names of a package: what it imported of its modules, and those modules that are public themselves."""
    found = [name for name, value in namespace.items() if name[0] != "_" and not isinstance(value, ModuleType)]
    return sorted([*found, *modules])
