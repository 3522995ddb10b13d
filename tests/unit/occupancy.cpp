// NVIDIA's own occupancy calculator, for tests/unit/test_exercises_hopper_anywhere.py: programs on an SM.
#include "cuda_occupancy.h"

extern "C" int programs(int major, int minor, int threads, size_t shared_sm, size_t shared_block, size_t reserved,
                        int registers, size_t shared, int warps) {
    cudaOccDeviceProp device;
    device.computeMajor = major, device.computeMinor = minor;
    device.maxThreadsPerBlock = 1024, device.maxThreadsPerMultiprocessor = threads;
    device.regsPerBlock = device.regsPerMultiprocessor = 65536;
    device.warpSize = 32, device.numSms = 1;
    device.sharedMemPerBlock = 48 << 10, device.sharedMemPerBlockOptin = shared_block;
    device.sharedMemPerMultiprocessor = shared_sm, device.reservedSharedMemPerBlock = reserved;
    cudaOccFuncAttributes kernel;
    kernel.maxThreadsPerBlock = 1024, kernel.numRegs = registers, kernel.sharedSizeBytes = 0;
    kernel.partitionedGCConfig = PARTITIONED_GC_OFF, kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
    kernel.maxDynamicSharedSizeBytes = shared_block, kernel.numBlockBarriers = 1;
    cudaOccDeviceState state;
    state.cacheConfig = CACHE_PREFER_NONE, state.carveoutConfig = SHAREDMEM_CARVEOUT_MAX_SHARED;
    cudaOccResult result;
    cudaOccError error = cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &kernel, &state, 32 * warps, shared);
    return error == CUDA_OCC_SUCCESS ? result.activeBlocksPerMultiprocessor : -1 - error;
}
