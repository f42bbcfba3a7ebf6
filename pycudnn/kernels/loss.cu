// Mean cross-entropy of the softmax of logits, and how many rows have their largest logit where the
// target has its largest entry. One block; each warp takes rows in turn.

constexpr int kWarps = 32;

__device__ float lowest() { return __int_as_float(0xff800000); }  // minus infinity

__device__ float warp_max(float value) {
    for (int offset = 16; offset > 0; offset >>= 1)
        value = fmaxf(value, __shfl_xor_sync(0xffffffff, value, offset));
    return value;
}

__device__ float warp_sum(float value) {
    for (int offset = 16; offset > 0; offset >>= 1)
        value += __shfl_xor_sync(0xffffffff, value, offset);
    return value;
}

// loss[0] = mean over rows of sum_c target[c] (log sum_j exp(logit[j]) - logit[c]).
// The row's maximum is taken out of the exponentials, so nothing overflows or underflows to log(0).
extern "C" __global__ void softmax_cross_entropy_loss(
    const float* logits, const float* target, float* loss, long long rows, long long classes) {
    __shared__ double partial[kWarps];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    double total = 0;
    for (long long row = warp; row < rows; row += kWarps) {
        const float* x = logits + row * classes;
        const float* t = target + row * classes;
        float largest = lowest();
        for (long long c = lane; c < classes; c += 32) largest = fmaxf(largest, x[c]);
        largest = warp_max(largest);
        float sum = 0;
        for (long long c = lane; c < classes; c += 32) sum += expf(x[c] - largest);
        const float log_sum = largest + logf(warp_sum(sum));
        float row_loss = 0;
        for (long long c = lane; c < classes; c += 32)
            if (t[c] != 0) row_loss += t[c] * (log_sum - x[c]);
        total += warp_sum(row_loss);
    }
    if (lane == 0) partial[warp] = total;
    __syncthreads();
    if (threadIdx.x == 0) {
        double sum = 0;
        for (int i = 0; i < kWarps; ++i) sum += partial[i];
        loss[0] = static_cast<float>(sum / rows);
    }
}

// The first position of the largest value, as NumPy's argmax; the same in every lane.
__device__ long long argmax(const float* x, long long classes, int lane) {
    float best = lowest();
    long long where = classes;
    for (long long c = lane; c < classes; c += 32)
        if (x[c] > best || where == classes) { best = x[c]; where = c; }
    for (int offset = 16; offset > 0; offset >>= 1) {
        const float other = __shfl_xor_sync(0xffffffff, best, offset);
        const long long at = __shfl_xor_sync(0xffffffff, where, offset);
        if (at < classes && (where == classes || other > best || (other == best && at < where))) {
            best = other;
            where = at;
        }
    }
    return where;
}

// count[0] = number of rows whose scores are largest where the target is.
extern "C" __global__ void count_correct(
    const float* scores, const float* target, int* count, long long rows, long long classes) {
    __shared__ int partial[kWarps];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int right = 0;
    for (long long row = warp; row < rows; row += kWarps)
        right += argmax(scores + row * classes, classes, lane)
              == argmax(target + row * classes, classes, lane);
    if (lane == 0) partial[warp] = right;
    __syncthreads();
    if (threadIdx.x == 0) {
        int sum = 0;
        for (int i = 0; i < kWarps; ++i) sum += partial[i];
        count[0] = sum;
    }
}
