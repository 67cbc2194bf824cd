// Feature signatures of pictures: the device twin of `reference::extract` (`extract/reference.rs`), with the same bits.
//
// A work group computes one picture. Its samples are in global memory, coordinate by coordinate, in fixed point as on the
// processor. The co-occurrence matrices, one for each of the first WINDOWS work items, are in local memory; means and sums
// take their place later. A sum has two parts of 32 bits, so that adding takes two atomic additions; these are integers, so
// their order does not matter. Doubles are multiplied by `product`, which no compiler fuses with an addition.
//
// `device.rs` defines all constants: ITEMS, WINDOWS, POINTS, SEEDS, SLOTS, ITERATIONS, CLUSTER_MIN, RADIUS, LEVELS, COUNTER,
// MATRIX, POOL, JOIN, and the name of the ground distance.

#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL FP_CONTRACT OFF

#define FEATURES 7
// Numbers of a mean: its coordinates, and its weight as bits.
#define MEAN 8
// Numbers of a cluster: two parts of each coordinate's sum, and the number of its samples.
#define SUMS (2 * FEATURES + 1)
// A coordinate is made positive. The lower of its two parts has this many bits.
#define BIAS (1 << 23)
#define PART 12
#define WORDS ((SEEDS + 31) / 32)
#define PAIRS_MAX (4 * (2 * RADIUS) * (2 * RADIUS))
// The places of the numbers from the host: the sRGB curve, the matrix, the three of the linear branch, then the transform.
#define XYZ_AT 256
#define LINE_AT (XYZ_AT + 9)
#define MULTIPLIER_AT (LINE_AT + 3)
#define OFFSET_AT (MULTIPLIER_AT + FEATURES)

#if defined(__NV_CL_C_VERSION)
inline double product(double a, double b) {
    double c;
    __asm("mul.rn.f64 %0, %1, %2;" : "=d"(c) : "d"(a), "d"(b));
    return c;
}
#else
#define product(a, b) ((a) * (b))
#endif

inline double cube_root_nearer(double y, double x) {
    const double cube = product(product(y, y), y);
    return product(y, cube + product(2.0, x)) / (product(2.0, cube) + x);
}

inline double cube_root(double x) {
    const double guess = as_float(as_uint(convert_float_rte(x)) / 3u + 0x2a5119f2u);
    return cube_root_nearer(cube_root_nearer(guess, x), x);
}

inline double compress(double t, __global const double *line) {
    const double root = cube_root(t > 1e-6 ? t : 1e-6);
    const double straight = product(line[0], t) + line[1];
    return t > line[2] ? root : straight;
}

inline int fixed_point(double feature, uint d, __global const double *numbers) {
    const double value = product(numbers[MULTIPLIER_AT + d], feature) + numbers[OFFSET_AT + d];
    // Rounds to a whole number, halves to even, and leaves it in the lowest bits.
    return (int)(uint)as_ulong(product(value, 65536.0) + 6755399441055744.0);
}

inline uint pixel_of(float s, uint side) { return (uint)(product((double)s, (double)(side - 1)) + 0.5); }

// One step of a distance; for L2 of its square.
inline float step_of(float sum, float t) {
#if defined(L1)
    return sum + fabs(t);
#elif defined(LINF)
    const float size = fabs(t);
    return size > sum ? size : sum;
#else
    return fma(t, t, sum);
#endif
}

inline float distance_of(const float *x, __local const float *mean) {
    float sum = 0.0f;
    for (uint d = 0; d < FEATURES; ++d) sum = step_of(sum, x[d] - mean[d]);
    return sum;
}

// Contrast and entropy about a pixel.
inline double2 texture_of(
    __global const uchar *grey, uint width, uint height, uint x, uint y, __local COUNTER *matrix,
    __global const ulong *terms) {
    const uint left = x > RADIUS ? x - RADIUS : 0, right = min(x + RADIUS, width - 1);
    const uint top = y > RADIUS ? y - RADIUS : 0, bottom = min(y + RADIUS, height - 1);
    const uint pairs = 4 * (right - left) * (bottom - top);
    if (pairs == 0) return (double2)(0.0, 0.0);
    __local uint *words = (__local uint *)matrix;
    for (uint word = 0; word < MATRIX * sizeof(COUNTER) / 4; ++word) words[word] = 0;
    uint squares = 0;
    ulong sum = 0;
    for (uint row = top; row < bottom; ++row) {
        __global const uchar *above = grey + row * width, *below = above + width;
        uint upper = above[left], lower = below[left];
        for (uint column = left; column < right; ++column) {
            const uint next = above[column + 1], after = below[column + 1];
            const uint first[4] = {upper, upper, upper, next}, second[4] = {next, lower, after, lower};
            for (uint pair = 0; pair < 4; ++pair) {
                const uint high = max(first[pair], second[pair]), low = min(first[pair], second[pair]);
                const uint cell = high * (high + 1) / 2 + low;
                const uint count = matrix[cell];
                matrix[cell] = (COUNTER)(count + 1);
                // The growth of the cell's term.
                sum += terms[count];
                squares += (high - low) * (high - low);
            }
            upper = next;
            lower = after;
        }
    }
    const double n = (double)pairs;
    const double left_over = (double)(long)(terms[PAIRS_MAX + 1 + pairs] - sum);
    return (double2)((double)squares / n, left_over / 4294967296.0 / n);
}

// Keeps the means whose bits are set, in their order, and returns their number. All items must call it.
inline uint compact(__local float *means, uint count, __local const uint *kept) {
    const uint item = get_local_id(0);
    for (uint start = 0; start < count; start += ITEMS) {
        const uint i = start + item;
        const bool stays = i < count && (kept[i / 32] >> (i % 32) & 1) != 0;
        float8 mean = (float8)(0.0f);
        uint place = 0;
        if (stays) {
            for (uint word = 0; word < i / 32; ++word) place += popcount(kept[word]);
            place += popcount(kept[i / 32] & ((1u << (i % 32)) - 1));
            mean = vload8(i, means);
        }
        // No item reads what another item overwrites: places only become smaller.
        barrier(CLK_LOCAL_MEM_FENCE);
        if (stays) vstore8(mean, place, means);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    uint left = 0;
    for (uint word = 0; word < WORDS; ++word) left += popcount(kept[word]);
    barrier(CLK_LOCAL_MEM_FENCE);
    return left;
}

inline void clear_kept(__local uint *kept) {
    for (uint word = get_local_id(0); word < WORDS; word += ITEMS) kept[word] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
}

// Drops each mean that has a later one nearer than the threshold.
inline uint join(__local float *means, uint count, __local uint *kept) {
    clear_kept(kept);
    for (uint i = get_local_id(0); i < count; i += ITEMS) {
        float x[FEATURES];
        for (uint d = 0; d < FEATURES; ++d) x[d] = means[MEAN * i + d];
        bool near = false;
        for (uint j = i + 1; j < count && !near; ++j) near = distance_of(x, means + MEAN * j) < JOIN;
        if (!near) atomic_or(&kept[i / 32], 1u << (i % 32));
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    return compact(means, count, kept);
}

// A coordinate's sum over so many samples, from its two parts.
inline long whole_sum(uint low, uint high, uint samples) {
    return ((long)high << PART) + (long)low - (long)samples * BIAS;
}

inline float mean_of(long sum, uint samples) {
    return convert_float_rte(product((double)sum / (double)samples, 1.0 / 65536.0));
}

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void extract_signatures(
    // RGB, picture after picture.
    __global const uchar *pixels,
    // Per picture: its first byte, its width and height, and its first pixel.
    __global const uint4 *pictures,
    // The sampling points: x and y of each.
    __global const float *sampling_points,
    __global const double *feature_numbers,
    // c ln c in fixed point: its growth from c to c + 1, then its values, each for c from 0 to PAIRS_MAX.
    __global const ulong *entropy_terms, uint grey_max,
    // Scratch: a byte per pixel, and FEATURES * POINTS numbers per picture.
    __global uchar *greys, __global int *samples,
    // Per picture: SLOTS numbers for each coordinate and for the weights, and the number of centroids.
    __global float *centroids, __global uint *counts) {
    __local uint pool[POOL];
    const uint item = get_local_id(0), group = get_group_id(0);
    const uint4 picture = pictures[group];
    const uint width = picture.y, height = picture.z;
    __global const uchar *rgb = pixels + picture.x;
    __global uchar *grey = greys + picture.w;
    for (uint i = item; i < width * height; i += ITEMS) {
        const uint luma = 299u * rgb[3 * i] + 587u * rgb[3 * i + 1] + 114u * rgb[3 * i + 2];
        grey[i] = (uchar)((2 * luma * grey_max + 255000u) / 510000u);
    }
    barrier(CLK_GLOBAL_MEM_FENCE);

    __global int *sample = samples + (size_t)group * FEATURES * POINTS;
    if (item < WINDOWS) {
        __local COUNTER *matrix = (__local COUNTER *)pool + item * MATRIX;
        for (uint p = item; p < POINTS; p += WINDOWS) {
            const uint x = pixel_of(sampling_points[2 * p], width), y = pixel_of(sampling_points[2 * p + 1], height);
            const double2 texture = texture_of(grey, width, height, x, y, matrix, entropy_terms);
            __global const uchar *pixel = rgb + 3 * (y * width + x);
            const double r = feature_numbers[pixel[0]], g = feature_numbers[pixel[1]], b = feature_numbers[pixel[2]];
            double f[3];
            for (uint row = 0; row < 3; ++row) {
                __global const double *m = feature_numbers + XYZ_AT + 3 * row;
                const double t = product(m[0], r) + product(m[1], g) + product(m[2], b);
                f[row] = compress(t, feature_numbers + LINE_AT);
            }
            const double features[FEATURES] = {
                (double)x / (double)width, (double)y / (double)height, product(116.0, f[1]) - 16.0,
                product(500.0, f[0] - f[1]), product(200.0, f[1] - f[2]), texture.x, texture.y};
            for (uint d = 0; d < FEATURES; ++d) sample[d * POINTS + p] = fixed_point(features[d], d, feature_numbers);
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);

    __local float *means = (__local float *)pool;
    __local uint *sums = pool + MEAN * SEEDS;
    __local uint *kept = sums + SUMS * SEEDS;
    for (uint i = item; i < SEEDS; i += ITEMS) {
        for (uint d = 0; d < FEATURES; ++d)
            means[MEAN * i + d] = (float)sample[d * POINTS + i] * (1.0f / 65536.0f);
        means[MEAN * i + FEATURES] = as_float(1u);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    uint count = join(means, SEEDS, kept);
    for (uint iteration = 1; iteration <= ITERATIONS; ++iteration) {
        for (uint i = item; i < SUMS * count; i += ITEMS) sums[i] = 0;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint p = item; p < POINTS; p += ITEMS) {
            int coordinates[FEATURES];
            float x[FEATURES];
            for (uint d = 0; d < FEATURES; ++d) {
                coordinates[d] = sample[d * POINTS + p];
                x[d] = (float)coordinates[d] * (1.0f / 65536.0f);
            }
            float best = INFINITY;
            uint nearest = 0;
            for (uint i = 0; i < count; ++i) {
                const float distance = distance_of(x, means + MEAN * i);
                if (distance < best) {
                    best = distance;
                    nearest = i;
                }
            }
            __local uint *sum = sums + SUMS * nearest;
            for (uint d = 0; d < FEATURES; ++d) {
                const uint positive = (uint)(coordinates[d] + BIAS);
                atomic_add(&sum[2 * d], positive & ((1u << PART) - 1));
                atomic_add(&sum[2 * d + 1], positive >> PART);
            }
            atomic_inc(&sum[2 * FEATURES]);
        }
        clear_kept(kept);
        for (uint i = item; i < count; i += ITEMS) {
            __local const uint *sum = sums + SUMS * i;
            const uint weight = sum[2 * FEATURES];
            if (weight == 0 || (ulong)weight < (ulong)CLUSTER_MIN * iteration) continue;
            for (uint d = 0; d < FEATURES; ++d)
                means[MEAN * i + d] = mean_of(whole_sum(sum[2 * d], sum[2 * d + 1], weight), weight);
            means[MEAN * i + FEATURES] = as_float(weight);
            atomic_or(&kept[i / 32], 1u << (i % 32));
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        const uint left = compact(means, count, kept);
        if (left == 0) {
            // The mean of all samples.
            if (item < FEATURES) {
                long total = 0;
                for (uint i = 0; i < count; ++i) {
                    __local const uint *sum = sums + SUMS * i;
                    total += whole_sum(sum[2 * item], sum[2 * item + 1], sum[2 * FEATURES]);
                }
                means[item] = mean_of(total, POINTS);
            } else if (item == FEATURES) {
                means[FEATURES] = as_float((uint)POINTS);
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            count = 1;
            break;
        }
        count = join(means, left, kept);
    }

#if SLOTS < SEEDS
    if (count > SLOTS) {
        // The heaviest means; of equally heavy ones, the earlier.
        clear_kept(kept);
        for (uint i = item; i < count; i += ITEMS) {
            const uint weight = as_uint(means[MEAN * i + FEATURES]);
            uint before = 0;
            for (uint j = 0; j < count; ++j) {
                const uint other = as_uint(means[MEAN * j + FEATURES]);
                before += other > weight || (other == weight && j < i);
            }
            if (before < SLOTS) atomic_or(&kept[i / 32], 1u << (i % 32));
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        count = compact(means, count, kept);
    }
#endif
    ulong total = 0;
    for (uint i = 0; i < count; ++i) total += as_uint(means[MEAN * i + FEATURES]);
    __global float *to = centroids + (size_t)group * MEAN * SLOTS;
    for (uint i = item; i < count; i += ITEMS) {
        for (uint d = 0; d < FEATURES; ++d) to[d * SLOTS + i] = means[MEAN * i + d];
        const double weight = (double)as_uint(means[MEAN * i + FEATURES]);
        to[FEATURES * SLOTS + i] = convert_float_rte(weight / (double)total);
    }
    if (item == 0) counts[group] = count;
}
