"""C functions that are gone, and what to call today.

Of cuDNN: what 7 and 8 had and 9 lacks. Of cuBLAS: the interface without handles, whose functions
libcublas still exports under their short names; where only "_v2" was added, the loader says so.
"""

from __future__ import annotations

_RNN_SET = "cudnnSetRNNDescriptor_v8"
_RNN_GET = "cudnnGetRNNDescriptor_v8"
_RNN_ALGORITHM = f"the argument algo of {_RNN_SET}"

REPLACEMENTS: dict[str, str] = {
    "cudnnGetConvolutionForwardAlgorithm": "cudnnGetConvolutionForwardAlgorithm_v7",
    "cudnnGetConvolutionBackwardDataAlgorithm": "cudnnGetConvolutionBackwardDataAlgorithm_v7",
    "cudnnGetConvolutionBackwardFilterAlgorithm": "cudnnGetConvolutionBackwardFilterAlgorithm_v7",
    "cudnnOpsInferVersionCheck": "cudnnOpsVersionCheck",
    "cudnnOpsTrainVersionCheck": "cudnnOpsVersionCheck",
    "cudnnCnnInferVersionCheck": "cudnnCnnVersionCheck",
    "cudnnCnnTrainVersionCheck": "cudnnCnnVersionCheck",
    "cudnnAdvInferVersionCheck": "cudnnAdvVersionCheck",
    "cudnnAdvTrainVersionCheck": "cudnnAdvVersionCheck",
    "cudnnRNNForwardTraining": "cudnnRNNForward",
    "cudnnRNNForwardTrainingEx": "cudnnRNNForward",
    "cudnnRNNForwardInference": "cudnnRNNForward",
    "cudnnRNNForwardInferenceEx": "cudnnRNNForward",
    "cudnnRNNBackwardData": "cudnnRNNBackwardData_v8",
    "cudnnRNNBackwardDataEx": "cudnnRNNBackwardData_v8",
    "cudnnRNNBackwardWeights": "cudnnRNNBackwardWeights_v8",
    "cudnnRNNBackwardWeightsEx": "cudnnRNNBackwardWeights_v8",
    "cudnnRNNSetClip": "cudnnRNNSetClip_v9",
    "cudnnRNNGetClip": "cudnnRNNGetClip_v9",
    "cudnnGetRNNParamsSize": "cudnnGetRNNWeightSpaceSize",
    "cudnnGetRNNLinLayerMatrixParams": "cudnnGetRNNWeightParams",
    "cudnnGetRNNLinLayerBiasParams": "cudnnGetRNNWeightParams",
    "cudnnGetRNNWorkspaceSize": "cudnnGetRNNTempSpaceSizes",
    "cudnnGetRNNTrainingReserveSize": "cudnnGetRNNTempSpaceSizes",
    **dict.fromkeys(
        (
            "cudnnSetRNNDescriptor",
            "cudnnSetRNNDescriptor_v5",
            "cudnnSetRNNDescriptor_v6",
            "cudnnSetRNNAlgorithmDescriptor",
            "cudnnSetRNNBiasMode",
            "cudnnSetRNNMatrixMathType",
            "cudnnSetRNNPaddingMode",
            "cudnnSetRNNProjectionLayers",
        ),
        _RNN_SET,
    ),
    **dict.fromkeys(
        (
            "cudnnGetRNNDescriptor",
            "cudnnGetRNNDescriptor_v6",
            "cudnnGetRNNBiasMode",
            "cudnnGetRNNMatrixMathType",
            "cudnnGetRNNPaddingMode",
            "cudnnGetRNNProjectionLayers",
        ),
        _RNN_GET,
    ),
    **dict.fromkeys(
        (
            "cudnnCreatePersistentRNNPlan",
            "cudnnSetPersistentRNNPlan",
            "cudnnDestroyPersistentRNNPlan",
        ),
        "cudnnBuildRNNDynamic",
    ),
    **dict.fromkeys(
        (
            "cudnnCreateAlgorithmDescriptor",
            "cudnnSetAlgorithmDescriptor",
            "cudnnGetAlgorithmDescriptor",
            "cudnnCopyAlgorithmDescriptor",
            "cudnnDestroyAlgorithmDescriptor",
            "cudnnCreateAlgorithmPerformance",
            "cudnnSetAlgorithmPerformance",
            "cudnnGetAlgorithmPerformance",
            "cudnnDestroyAlgorithmPerformance",
            "cudnnGetAlgorithmSpaceSize",
            "cudnnSaveAlgorithm",
            "cudnnRestoreAlgorithm",
            "cudnnFindRNNForwardTrainingAlgorithmEx",
            "cudnnFindRNNForwardInferenceAlgorithmEx",
            "cudnnFindRNNBackwardDataAlgorithmEx",
            "cudnnFindRNNBackwardWeightsAlgorithmEx",
            "cudnnGetRNNForwardTrainingAlgorithmMaxCount",
            "cudnnGetRNNForwardInferenceAlgorithmMaxCount",
            "cudnnGetRNNBackwardDataAlgorithmMaxCount",
            "cudnnGetRNNBackwardWeightsAlgorithmMaxCount",
        ),
        _RNN_ALGORITHM,
    ),
}

OLD_CUBLAS: dict[str, str] = {
    "cublasInit": "cublasCreate_v2",
    "cublasShutdown": "cublasDestroy_v2",
    "cublasSetKernelStream": "cublasSetStream_v2",
    "cublasGetError": "the status that each function returns",
    "cublasAlloc": "memory of the CUDA runtime: cudaMalloc",
    "cublasFree": "memory of the CUDA runtime: cudaFree",
}
