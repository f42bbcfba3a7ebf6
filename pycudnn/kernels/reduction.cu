// Sums whose order never changes, so that a result is the same in every run.
// Blocks are one-dimensional, their size a multiple of 32.

__device__ float warp_sum(float value)
{
    for (int offset = 16; offset > 0; offset /= 2)
        value += __shfl_xor_sync(0xffffffff, value, offset);
    return value;
}

__device__ int warp_sum(int value)
{
    for (int offset = 16; offset > 0; offset /= 2)
        value += __shfl_xor_sync(0xffffffff, value, offset);
    return value;
}

__device__ float warp_max(float value)
{
    for (int offset = 16; offset > 0; offset /= 2)
        value = fmaxf(value, __shfl_xor_sync(0xffffffff, value, offset));
    return value;
}

// The sum over all threads of the block, in every thread.
template <typename Number>
__device__ Number block_sum(Number value)
{
    __shared__ Number warps[32];
    const int lane = threadIdx.x % 32;
    value = warp_sum(value);
    if (lane == 0)
        warps[threadIdx.x / 32] = value;
    __syncthreads();
    value = warp_sum(lane < blockDim.x / 32 ? warps[lane] : Number(0));
    __syncthreads();  // before the next use of `warps`
    return value;
}

// Sums one number per block over `blocks` blocks that share a counter. True in thread 0 of the
// block that came last, which has the sum in `total`; the counter is then 0 again.
template <typename Number>
__device__ bool sum_over_blocks(Number value, int block, int blocks, unsigned int *counter,
                                Number *partials, Number &total)
{
    __shared__ bool last;
    if (threadIdx.x == 0) {
        partials[block] = value;
        __threadfence();  // the partial sum is seen by whoever sees the count
        last = atomicInc(counter, blocks - 1) == blocks - 1;
    }
    __syncthreads();
    if (!last)
        return false;
    __threadfence();
    Number sum = 0;
    for (int i = threadIdx.x; i < blocks; i += blockDim.x)
        sum += __ldcg(partials + i);  // from L2: other blocks wrote them
    total = block_sum(sum);
    return threadIdx.x == 0;
}
