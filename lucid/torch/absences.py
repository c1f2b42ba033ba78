"""Why names of PyTorch are not here: what asks for them is told, and `docs/porting.md` lists them."""

_REASONS = {
    "there are no quantized tensors": """
        quantization ao dequantize   quantize_per_channel
        quantize_per_tensor quantize_per_tensor_dynamic quantized_batch_norm quantized_max_pool1d quantized_max_pool2d
        qint8 qint32 quint8 quint2x4 quint4x2 int_repr q_scale q_zero_point q_per_channel_axis q_per_channel_scales
        q_per_channel_zero_points qscheme scaled_mm scaled_grouped_mm grouped_mm
        """,
    "there are no types of less than 8 bits, none of 8 for floats and none of 32 for complex numbers": """
        bit bits16 bits1x8 bits2x4 bits4x2 bits8 chalf complex32 float4_e2m1fn_x2 float8_e4m3fn float8_e4m3fnuz float8_e5m2
        float8_e5m2fnuz float8_e8m0fnu int1 int2 int3 int4 int5 int6 int7 uint1 uint2 uint3 uint4 uint5 uint6 uint7
        """,
    "sparse tensors have coordinates, compressed rows or columns, and no blocks": """
        sparse_bsc_tensor sparse_bsr_tensor resize_as_sparse_ to_padded_tensor to_sparse_bsc to_sparse_bsr to_mkldnn
    """,
    "it belongs to the compilers of PyTorch, and programs are not read here": """
        import_ir_module import_ir_module_from_buffer merge_type_from_type_comment parse_ir parse_schema
        parse_type_comment unify_type_list  AVG SUM
        """,
    "programs compiled by PyTorch are not read or written; save the state of the module": "load save",
    "models are not exported": "onnx",
    "use torch.profiler, or lucid.kernels to see generated code": "profile_hook_step",
    "nothing is downloaded": "download_url_to_file",
    "PyTorch gave them up: use a Dataset": """
        DFIterDataPipe DataChunk IterDataPipe MapDataPipe argument_validation functional_datapipe
        guaranteed_datapipes_determinism non_deterministic runtime_validation runtime_validation_disabled
        """,
    "a part of PyTorch's own machinery, with no meaning here": """
        CheckpointFunction  GraphExecGroup SAC_IGNORED_OPS SelectiveCheckpointContext
        BackwardCFunction NestedIOFunction enforce_grad_layout_policy region_activation_memory_budget
        set_override_stale_capture_stream set_warn_on_accumulate_grad_stream_mismatch
        swap_in_optimizer_params_and_state OptimizerPostHook OptimizerPreHook
           slice_inverse
        index  transfer_parametrizations_and_params
        """,
    "give tensors to autograd.grad; edges of the graph have no names": " ",
    "use lucid.masked, whose functions take a mask": "MaskedTensor as_masked_tensor is_masked_tensor masked_tensor",
    "use a Linear and a CrossEntropyLoss": "LinearCrossEntropyLoss LinearCrossEntropyOptions",
}

WHY = {name: reason for reason, names in _REASONS.items() for name in names.split()}


def reasons() -> dict[str, list[str]]:
    """The names that are not here, by the reason why.

    >>> from lucid.torch.absences import reasons
    >>> reasons()["nothing is downloaded"]
    ['download_url_to_file']
    """
    return {reason: names.split() for reason, names in _REASONS.items()}
