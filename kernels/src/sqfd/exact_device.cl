// Weighted similarities of queries and objects in f64: the device twin of `reference::sigma` (`sqfd/reference.rs`), with the
// same bits.
//
// A work item computes one pair. OpenCL rounds additions, products, quotients and roots of doubles as IEEE 754 does, and
// the exponential is made of these. Two rules remain: additions happen in the order of the reference, and no compiler may
// fuse a product with an addition. Every product therefore goes through `product`.
//
// `exact_device.rs` defines all constants: DIMENSIONS, ITEMS, the name of the measure, and the numbers of the exponential as
// bits.

#if !defined(cl_khr_fp64) && !defined(__opencl_c_fp64)
#error the device has no numbers of 64 bits
#endif
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL FP_CONTRACT OFF

// Numbers of a centroid: its coordinates, then its weight.
#define ROW (DIMENSIONS + 1)

// As in `extract/device.cl`: NVIDIA's compiler gets the instruction itself.
#if defined(__NV_CL_C_VERSION)
inline double product(double a, double b) {
    double c;
    __asm("mul.rn.f64 %0, %1, %2;" : "=d"(c) : "d"(a), "d"(b));
    return c;
}
#else
#define product(a, b) ((a) * (b))
#endif

// The part of one dimension in the ground distance.
#if defined(ABSOLUTE)
#define PART(x) fabs(x)
#else
#define PART(x) product(x, x)
#endif

#if defined(GAUSSIAN)
#define OF(bits) as_double(bits)

// `exp` of `elementary.rs`, operation by operation.
inline double exponential(double x) {
    const double clamped = x < OF(EXP_MIN) ? OF(EXP_MIN) : x;
    const double rounded = product(clamped, OF(EXP_LOG2_E)) + OF(EXP_ROUND);
    const double whole = rounded - OF(EXP_ROUND);
    const double r = (clamped - product(whole, OF(EXP_LN_2_HIGH))) - product(whole, OF(EXP_LN_2_LOW));
    const double square = product(r, r);
    double odd = OF(EXP_TERM_13);
    odd = product(odd, square) + OF(EXP_TERM_11);
    odd = product(odd, square) + OF(EXP_TERM_9);
    odd = product(odd, square) + OF(EXP_TERM_7);
    odd = product(odd, square) + OF(EXP_TERM_5);
    odd = product(odd, square) + OF(EXP_TERM_3);
    double even = OF(EXP_TERM_12);
    even = product(even, square) + OF(EXP_TERM_10);
    even = product(even, square) + OF(EXP_TERM_8);
    even = product(even, square) + OF(EXP_TERM_6);
    even = product(even, square) + OF(EXP_TERM_4);
    even = product(even, square) + OF(EXP_TERM_2);
    const double power = 1.0 + (r + product(square, product(odd, r) + even));
    const double scaled = as_double(as_ulong(power) + (as_ulong(rounded) << 52));
    return x < OF(EXP_MIN) ? 0.0 : scaled;
}
#define SIMILARITY(d) exponential(product(-alpha, d))
#elif defined(HEURISTIC_L2)
#define SIMILARITY(d) (1.0 / (alpha + sqrt(d)))
#elif defined(HEURISTIC)
#define SIMILARITY(d) (1.0 / (alpha + (d)))
#elif defined(MINUS_L2)
#define SIMILARITY(d) (-sqrt(d))
#else
#define SIMILARITY(d) (-(d))
#endif

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void sqfd_exact(
    // The centroids of all queries one after the other, ROW numbers each; the first centroid of each query, and the number
    // of all centroids.
    __global const float *queries, __global const uint *query_offsets,
    // And for the objects of the block.
    __global const float *objects, __global const uint *object_offsets,
    // For each of `pairs_count` pairs: the index of its query, then the index of its object.
    __global const uint *pairs, uint pairs_count, double alpha,
    // By pair.
    __global double *sums) {
    const uint pair = get_global_id(0);
    if (pair >= pairs_count) {
        return;
    }
    const uint query = pairs[2 * pair];
    const uint object = pairs[2 * pair + 1];
    const uint first = query_offsets[query];
    const uint first_end = query_offsets[query + 1];
    const uint second_end = object_offsets[object + 1];
    double sum = 0.0;
    for (uint j = object_offsets[object]; j < second_end; ++j) {
        __global const float *column = objects + (size_t)j * ROW;
        double held[DIMENSIONS];
#pragma unroll
        for (uint d = 0; d < DIMENSIONS; ++d) {
            held[d] = column[d];
        }
        double inner = 0.0;
        for (uint i = first; i < first_end; ++i) {
            __global const float *centroid = queries + (size_t)i * ROW;
            double ground = 0.0;
#pragma unroll
            for (uint d = 0; d < DIMENSIONS; ++d) {
                const double x = (double)centroid[d] - held[d];
                ground += PART(x);
            }
            inner += product((double)centroid[DIMENSIONS], SIMILARITY(ground));
        }
        sum += product((double)column[DIMENSIONS], inner);
    }
    sums[pair] = sum;
}
