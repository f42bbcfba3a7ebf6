// Sum of an (images, channels, plane) tensor over images and plane: the gradient of a bias.
// The elements of a channel, image after image, are cut into gridDim.y slices, one per block.

__device__ float sum_of(float value) { return value; }
__device__ float sum_of(float4 value) { return (value.x + value.y) + (value.z + value.w); }

// `plane` counts Elements: float, or float4 where planes and memory allow loads of 16 bytes.
template <typename Element>
__device__ void sum_channel(const Element *x, long long images, long long channels, long long plane,
                            unsigned int *counters, float *partials, float *sums)
{
    const int channel = blockIdx.x, slice = blockIdx.y, slices = gridDim.y;
    const long long all = images * plane;
    const long long end = all * (slice + 1) / slices;
    long long i = all * slice / slices + threadIdx.x;

    // i = image * plane + position goes up by blockDim.x; only the first needs a division.
    long long image = i / plane, position = i % plane;
    const long long image_step = blockDim.x / plane, position_step = blockDim.x % plane;
    float sum = 0;
#pragma unroll 4
    for (; i < end; i += blockDim.x) {
        sum += sum_of(x[(image * channels + channel) * plane + position]);
        image += image_step;
        position += position_step;
        if (position >= plane) {
            position -= plane;
            ++image;
        }
    }

    float total;
    if (sum_over_blocks(block_sum(sum), slice, slices, counters + channel,
                        partials + (long long)channel * slices, total))
        sums[channel] = total;
}

extern "C" __global__ void channel_sum(
    const float *x, long long images, long long channels, long long plane,
    unsigned int *counters, float *partials, float *sums)
{
    sum_channel(x, images, channels, plane, counters, partials, sums);
}

extern "C" __global__ void channel_sum_float4(
    const float4 *x, long long images, long long channels, long long plane,
    unsigned int *counters, float *partials, float *sums)
{
    sum_channel(x, images, channels, plane, counters, partials, sums);
}
