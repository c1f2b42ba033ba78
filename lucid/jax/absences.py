"""Public names of JAX that are not here, and why. `tests/jax_names.txt` has all of them."""

_MACHINERY = "it belongs to the inner workings of JAX: use the function, or lucid's own primitives"
_DEVICES = "there is one device"
_SMALL = "there are no types of less than 8 bits, and none of 8 for floats"
_REFS = "arrays cannot be written; use .at[] and pass new ones on"
_GUARDS = "it guards or shows what JAX does with devices, caches and memory"
_PATHS = "paths in nests are strings"

# A reason -> the names that it holds for, under the path that has them.
REASONS: dict[str, dict[str, str]] = {
    "jax.lax": {
        _MACHINERY: "after_all create_token composite dce_sink stage platform_dependent shape_as_value "
        "broadcast_like index_take random_gamma_grad igamma_grad_a scatter_apply",
        _DEVICES: "all_to_all pbroadcast pcast precv psend pshuffle pswapaxes ragged_all_to_all with_sharding_constraint",
        "say what the numbers of dimensions mean in words, as in dimension_numbers=('NHWC', 'HWIO', 'NHWC')": "ConvGeneralDilatedDimensionNumbers DotDimensionNumbers "
        "RaggedDotDimensionNumbers PrecisionLike conv_general_permutations conv_general_shape_tuple conv_shape_tuple "
        "conv_transpose_shape_tuple reduce_window_shape_tuple",
        "products are as precise as their type": "AccuracyMode DotAlgorithm DotAlgorithmPreset Tolerance scaled_dot RoundingMethod",
        "use jax.random": "RandomAlgorithm rng_bit_generator",
        "use jax.numpy.fft": "FftType fft",
        "use jax.numpy": "dtype clz mulhi approx_min_k",
        "differentiate the equation with custom_vjp": "custom_linear_solve custom_root",
        "write it with conv_general_dilated": "conv_general_dilated_local conv_general_dilated_patches",
        "write it with segment_sum and dot_general": "ragged_dot ragged_dot_general",
    },
    "jax.numpy": {
        _SMALL: "float4_e2m1fn float6_e2m3fn float6_e3m2fn float8_e3m4 float8_e4m3 float8_e4m3b11fnuz float8_e4m3fn "
        "float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu int1 int2 int4 uint1 uint2 uint4",
        _REFS: "place put",
        "use the types with a width": "complex_ float_",
        "it is a class of warnings of NumPy's": "ComplexWarning",
    },
    "jax.nn": {
        "there is no scaled product of small types": "get_scaled_dot_general_config scaled_dot_general scaled_matmul"
    },
    "jax.random": {
        "ask a key for its dtype": "key_dtype",
        _MACHINERY: "random_gamma_p",
        "use categorical, or sum bernoulli": "binomial multinomial",
    },
    "jax": {
        "there is one device; use vmap": "pmap",
        _DEVICES: "NamedSharding P Shard Device make_mesh set_mesh shard_map smap reshard make_array_from_callback "
        "make_array_from_process_local_data make_array_from_single_device_arrays host_count host_id host_ids "
        "process_indices sharding remove_size_one_mesh_axis_from_type copy_to_host_async memory auto_pcast",
        _REFS: "Ref new_ref empty_ref free_ref freeze ds",
        _GUARDS: "allow_f16_reductions array_garbage_collection_guard check_tracer_leaks checking_leaks clear_caches "
        "debug_infs debug_key_reuse debug_nans default_prng_impl effects_barrier enable_checks enable_custom_prng "
        "explain_cache_misses jax2tf_associative_scan_reductions legacy_prng_key live_arrays log_compiles make_user_context "
        "no_execution no_tracing numpy_dtype_promotion numpy_rank_promotion print_environment_info softmax_custom_jvp "
        "thread_guard threefry_partitionable transfer_guard transfer_guard_device_to_device transfer_guard_device_to_host "
        "transfer_guard_host_to_device",
        _MACHINERY: "ad typeof float0 fwd_and_bwd checkpoint_policies closure_convert custom_gradient",
        "what is being tried out in JAX is not here": "experimental",
        "use lucid.distributed, which has the names of torch.distributed": "distributed",
        "use lucid.profiler": "profiler",
        "programs are not exported": "export",
        "call foreign functions from a lucid.autograd.Function": "ffi",
    },
    "jax.tree_util": {
        _PATHS: "DictKey FlattenedIndexKey GetAttrKey KeyEntry KeyPath SequenceKey register_pytree_with_keys "
        "register_pytree_with_keys_class flatten_one_level_with_keys",
        _MACHINERY: "default_registry flatten_one_level is_tree_node register_static tree_broadcast tree_reduce_associative "
        "treedef_children treedef_is_leaf treedef_tuple all_leaves",
    },
    "jax.debug": {
        _GUARDS: "DebugEffect OrderedDebugEffect inspect_array_sharding log visualize_array_sharding visualize_sharding"
    },
}


def why(path: str, name: str) -> str | None:
    """The reason why a path has no such name, if one is known."""
    if path == "jax.lax" and name.endswith("_p"):
        return _MACHINERY
    return next((reason for reason, names in REASONS.get(path, {}).items() if name in names.split()), None)


def missing(path: str, name: str) -> AttributeError:
    """The error for a name that is not there."""
    reason = why(path, name)
    return AttributeError(f"module {path!r} has no attribute {name!r}" + (f": {reason}" if reason else ""))
