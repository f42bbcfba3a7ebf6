// Mean cross-entropy of softmax(logits) against target, and the number of rows whose argmax agrees.
// Both matrices are (rows, classes), row-major. One warp takes a row at a time.

// log(sum(exp(x))) - x[label] for a one-hot target, with the largest logit taken out first: nothing
// overflows, and no log(0) appears.
__device__ float row_loss(const float *x, const float *target, long long classes, int lane)
{
    float largest = __int_as_float(0xff800000);  // -infinity
    for (long long c = lane; c < classes; c += 32)
        largest = fmaxf(largest, x[c]);
    largest = warp_max(largest);

    float exponentials = 0, weight = 0, picked = 0;
    for (long long c = lane; c < classes; c += 32) {
        const float shifted = x[c] - largest;
        exponentials += expf(shifted);
        if (target[c] != 0) {  // a class of no weight may have a logit of -infinity
            weight += target[c];
            picked += target[c] * shifted;
        }
    }
    return warp_sum(weight) * logf(warp_sum(exponentials)) - warp_sum(picked);
}

extern "C" __global__ void softmax_cross_entropy_loss(
    const float *logits, const float *target, long long rows, long long classes,
    unsigned int *counter, float *partials, float *loss)
{
    const int lane = threadIdx.x % 32, warps = blockDim.x / 32;
    float sum = 0;
    for (long long row = (long long)blockIdx.x * warps + threadIdx.x / 32; row < rows;
         row += (long long)gridDim.x * warps)
        sum += row_loss(logits + row * classes, target + row * classes, classes, lane);
    sum = block_sum(lane == 0 ? sum : 0.0f);  // every lane of a warp has the same sum

    float total;
    if (sum_over_blocks(sum, blockIdx.x, gridDim.x, counter, partials, total))
        *loss = total / rows;
}

// Does a candidate come before the best so far? As numpy.argmax: NaN is largest, the first wins.
__device__ bool precedes(float value, long long index, float best, long long best_index)
{
    if (isnan(value) != isnan(best))
        return isnan(value);
    if (value != best && !isnan(value))
        return value > best;
    return index < best_index;
}

__device__ long long row_argmax(const float *x, long long classes, int lane)
{
    float best = __int_as_float(0xff800000);
    long long best_index = classes;
    for (long long c = lane; c < classes; c += 32)
        if (precedes(x[c], c, best, best_index)) {
            best = x[c];
            best_index = c;
        }
    for (int offset = 16; offset > 0; offset /= 2) {
        const float other = __shfl_xor_sync(0xffffffff, best, offset);
        const long long other_index = __shfl_xor_sync(0xffffffff, best_index, offset);
        if (precedes(other, other_index, best, best_index)) {
            best = other;
            best_index = other_index;
        }
    }
    return best_index;
}

extern "C" __global__ void count_correct(
    const float *scores, const float *target, long long rows, long long classes,
    unsigned int *counter, int *partials, int *count)
{
    const int lane = threadIdx.x % 32, warps = blockDim.x / 32;
    int correct = 0;
    for (long long row = (long long)blockIdx.x * warps + threadIdx.x / 32; row < rows;
         row += (long long)gridDim.x * warps)
        correct += row_argmax(scores + row * classes, classes, lane)
                   == row_argmax(target + row * classes, classes, lane);
    correct = block_sum(lane == 0 ? correct : 0);

    int total;
    if (sum_over_blocks(correct, blockIdx.x, gridDim.x, counter, partials, total))
        *count = total;
}
