// The f64 distances of listed rows, as far as a device computes them: the twin of `measure.rs`, to the bit. `exact.rs` defines the
// constants.
//
// A work group has one query. SHARING items share a row, each with one of the partial sums of the reference, which are added in its
// order. The host takes roots and quotients; the root here, which IEEE 754 rounds too, only orders rows.

#if !defined(cl_khr_fp64) && !defined(__opencl_c_fp64)
#error "this device has no doubles"
#endif
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL FP_CONTRACT OFF

#if defined(__NV_CL_C_VERSION)
// The driver's compiler may fuse a product with an addition whatever the text says.
inline double times(double a, double b) {
    double c;
    __asm("mul.rn.f64 %0, %1, %2;" : "=d"(c) : "d"(a), "d"(b));
    return c;
}
#else
inline double times(double a, double b) { return a * b; }
#endif

#if defined(HALVES)
#define WIDE(numbers, at) ((double)vload_half(at, numbers))
#else
#define WIDE(numbers, at) ((double)(numbers)[at])
#endif

// Adds the partial sums of each row: what the reference does, width after width.
inline void join(__local double *sums, uint item) {
    for (uint width = SHARING / 2; width > 0; width /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (item % SHARING < width) {
            sums[item] += sums[item + width];
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void exact_sums(
    // Vectors of `stride` numbers, of which `dimensions` count; ROWS is the name of their buffer.
    __global const NUMBER *ROWS, uint stride, __global const float *wide_queries, uint dimensions,
    // By query, `most` entries: a row, and the bits of its value. A list that has overflowed is not looked at.
    __global const uint2 *found, uint most, __global const uint *counts,
    // By query, SUMS numbers for each entry.
    __global double *sums) {
    __local double partial[ITEMS];
    const uint item = get_local_id(0), query = get_group_id(0);
    const uint count = counts[query] <= most ? counts[query] : 0;
    for (uint first = 0; first < count; first += ITEMS / SHARING) {
        const uint entry = first + item / SHARING;
        const bool is_there = entry < count;
        const ulong row = is_there ? (ulong)found[(ulong)query * most + entry].x * stride : 0;
        double sum = 0.0;
#if SUMS > 1
        double square = 0.0;
#endif
        if (is_there) {
            for (uint at = item % SHARING; at < dimensions; at += SHARING) {
                const double x = (double)wide_queries[(ulong)query * dimensions + at], y = WIDE(ROWS, row + at);
#if defined(DIFFERENCES)
                sum += times(x - y, x - y);
#else
                sum += times(x, y);
#endif
#if SUMS > 1
                square += times(y, y);
#endif
            }
        }
        partial[item] = sum;
        join(partial, item);
        const bool writes = is_there && item % SHARING == 0;
        __global double *to = sums + ((ulong)query * most + entry) * SUMS;
        if (writes) {
            to[0] = partial[item];
        }
#if SUMS > 1
        barrier(CLK_LOCAL_MEM_FENCE);
        partial[item] = square;
        join(partial, item);
        if (writes) {
            to[1] = partial[item];
        }
#endif
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

#if SUMS == 1
#if defined(DIFFERENCES)
#define DISTANCE(sum) sqrt(sum)
#else
#define DISTANCE(sum) (0.0 - (sum))
#endif

// A divisor of ITEMS.
#define AT_ONCE 8

// The `wanted` nearest of the listed rows of each query, by distance, then by row. A work group has one query. The place of a row is the
// number of rows before it: lists are short, and each row is compared with all.
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void exact_ranks(
    __global const uint2 *found, uint most, __global const uint *counts, __global const double *sums, uint wanted,
    // By query, `wanted` entries and their sums.
    __global uint2 *nearest, __global double *nearest_sums) {
    __local double distances[ITEMS];
    __local uint rows[ITEMS];
    const uint item = get_local_id(0), query = get_group_id(0);
    const uint count = counts[query] <= most ? counts[query] : 0;
    found += (ulong)query * most;
    sums += (ulong)query * most;
    for (uint first = 0; first < count; first += ITEMS) {
        const uint own = min(first + item, count - 1);
        const uint2 entry = found[own];
        const double sum = sums[own], distance = DISTANCE(sum);
        uint before = 0;
        for (uint others = 0; others < count; others += ITEMS) {
            const uint other = min(others + item, count - 1), upto = min((uint)ITEMS, count - others);
            const bool is_there = others + item < count;
            barrier(CLK_LOCAL_MEM_FENCE);
            // None is before a row that is there, so that rows are compared AT_ONCE at a time.
            distances[item] = is_there ? DISTANCE(sums[other]) : INFINITY;
            rows[item] = found[other].x;
            barrier(CLK_LOCAL_MEM_FENCE);
            for (uint i = 0; i < upto; i += AT_ONCE) {
#pragma unroll
                for (uint j = i; j < i + AT_ONCE; j++) {
                    before += (distances[j] < distance) | ((distances[j] == distance) & (rows[j] < entry.x));
                }
            }
        }
        if (first + item < count && before < wanted) {
            const ulong to = (ulong)query * wanted + before;
            nearest[to] = entry;
            nearest_sums[to] = sum;
        }
    }
}
#endif
