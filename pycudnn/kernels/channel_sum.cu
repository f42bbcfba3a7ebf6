// Sum of an NCHW tensor over n, h and w: the gradient of a convolution's bias.
//
// Two launches, so that many blocks read at once and the order of the sums is fixed: blocks of
// partial_sums each add up some samples of one channel, final_sums adds the blocks' results.

constexpr int kThreads = 256;

__device__ float block_sum(float value) {
    __shared__ float warps[kThreads / 32];
    for (int offset = 16; offset > 0; offset >>= 1)
        value += __shfl_xor_sync(0xffffffff, value, offset);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
    __syncthreads();
    value = 0;
    for (int warp = 0; warp < kThreads / 32; ++warp) value += warps[warp];
    return value;
}

// Grid (channels, splits): block (c, s) adds the samples s, s + splits, ... of channel c.
extern "C" __global__ void partial_sums(
    const float* y, float* partial, long long samples, long long channels, long long area) {
    const long long channel = blockIdx.x;
    float sum = 0;
    // Threads walk over (sample, position) as one index, so that small areas keep them all busy.
    const long long more_samples = kThreads / area, more_positions = kThreads % area;
    long long position = threadIdx.x % area;
    long long turn = threadIdx.x / area;
    for (long long sample; (sample = blockIdx.y + turn * gridDim.y) < samples;) {
        sum += y[(sample * channels + channel) * area + position];
        turn += more_samples;
        position += more_positions;
        if (position >= area) {
            position -= area;
            ++turn;
        }
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) partial[blockIdx.y * channels + channel] = sum;
}

// Grid (channels): block c adds the splits of channel c.
extern "C" __global__ void final_sums(
    const float* partial, float* sums, long long splits, long long channels) {
    float sum = 0;
    for (long long split = threadIdx.x; split < splits; split += kThreads)
        sum += partial[split * channels + blockIdx.x];
    sum = block_sum(sum);
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}
