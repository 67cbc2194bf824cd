// Upper bounds of the scores of all objects of some tiles of sketches: the device twin of `FastPass::uppers` (`pass.rs`). The
// largest bound of each group lets the host look at few of them.
//
// A work item holds the coordinates of HELD objects in registers, and goes through the marks, whose numbers the group holds
// in local memory, LOCAL_MARKS at a time. Neighbouring items read neighbouring half-precision numbers. `pass/device.rs` lays
// out the marks and defines all constants: COORDINATES, TILE, ITEMS, HELD, LOCAL_MARKS, and the covariance's name.
//
// `pass.rs` declares the error: the roundings of one multiply-add for each coordinate, and those of the functions here.

// The covariance of a scaled square.
#if defined(INVERSE_MULTIQUADRIC)
#define COVARIANCE(square) rsqrt(fmax(square, 1.0f))
#elif defined(GAUSSIAN)
#define COVARIANCE(square) exp2(-fmax(square, 0.0f))
#else
#define COVARIANCE(square) exp2(-root * sqrt(square))
#endif

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void uppers(
    // Tiles of TILE objects: COORDINATES lines of TILE half-precision numbers each.
    __global const half *tiles, uint objects,
    // COORDINATES numbers of each mark, and its squared norm, weight and share.
    __global const float *numbers, __global const float4 *terms, uint marks,
    // The factor of squared norms, and of the deviation.
    float scale, float explore,
    // The bounds of all objects, and the largest of each group.
    __global float *out, __global float *maxima) {
    __local float most[ITEMS];
    __local float4 near[LOCAL_MARKS * COORDINATES / 4];
    __local float4 near_terms[LOCAL_MARKS];

    const uint item = get_local_id(0);
    const uint first = get_group_id(0) * ITEMS * HELD + item;
#if !defined(INVERSE_MULTIQUADRIC) && !defined(GAUSSIAN)
    const float root = sqrt(scale);
#endif
    float x[HELD][COORDINATES];
    float norm[HELD], mean[HELD], largest[HELD];
#pragma unroll
    for (uint held = 0; held < HELD; held++) {
        // Objects beyond the end are those of the last tile once more; nothing is written for them.
        const uint object = min(first + held * ITEMS, objects - 1);
        const ulong place = (ulong)(object / TILE) * (TILE * COORDINATES) + object % TILE;
        float sum = 0.0f;
#pragma unroll
        for (uint number = 0; number < COORDINATES; number++) {
            x[held][number] = vload_half(place + number * TILE, tiles);
            sum = fma(x[held][number], x[held][number], sum);
        }
        norm[held] = sum * scale;
        mean[held] = 0.0f;
        largest[held] = 0.0f;
    }
    for (uint begin = 0; begin < marks; begin += LOCAL_MARKS) {
        const uint here = min((uint)LOCAL_MARKS, marks - begin);
        barrier(CLK_LOCAL_MEM_FENCE);
        __global const float4 *from = (__global const float4 *)(numbers + (ulong)begin * COORDINATES);
        for (uint i = item; i < here * (COORDINATES / 4); i += ITEMS) {
            near[i] = from[i];
        }
        for (uint i = item; i < here; i += ITEMS) {
            near_terms[i] = terms[begin + i];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint mark = 0; mark < here; mark++) {
            const float4 term = near_terms[mark];
            float square[HELD];
#pragma unroll
            for (uint held = 0; held < HELD; held++) {
#if defined(INVERSE_MULTIQUADRIC) || defined(GAUSSIAN)
                square[held] = norm[held] + term.x;
#else
                square[held] = 0.0f;
#endif
            }
#pragma unroll
            for (uint quarter = 0; quarter < COORDINATES / 4; quarter++) {
                const float4 y = near[mark * (COORDINATES / 4) + quarter];
#pragma unroll
                for (uint held = 0; held < HELD; held++) {
#if defined(INVERSE_MULTIQUADRIC) || defined(GAUSSIAN)
                    square[held] = fma(x[held][4 * quarter + 0], y.x, square[held]);
                    square[held] = fma(x[held][4 * quarter + 1], y.y, square[held]);
                    square[held] = fma(x[held][4 * quarter + 2], y.z, square[held]);
                    square[held] = fma(x[held][4 * quarter + 3], y.w, square[held]);
#else
                    const float4 apart = (float4)(x[held][4 * quarter], x[held][4 * quarter + 1],
                                                  x[held][4 * quarter + 2], x[held][4 * quarter + 3]) - y;
                    square[held] = fma(apart.x, apart.x, square[held]);
                    square[held] = fma(apart.y, apart.y, square[held]);
                    square[held] = fma(apart.z, apart.z, square[held]);
                    square[held] = fma(apart.w, apart.w, square[held]);
#endif
                }
            }
#pragma unroll
            for (uint held = 0; held < HELD; held++) {
                const float covariance = COVARIANCE(square[held]);
                mean[held] = fma(term.y, covariance, mean[held]);
                largest[held] = fmax(largest[held], covariance * covariance * term.z);
            }
        }
    }
    float best = -INFINITY;
#pragma unroll
    for (uint held = 0; held < HELD; held++) {
        if (first + held * ITEMS < objects) {
            const float upper = fma(explore, sqrt(fmax(1.0f - largest[held], 0.0f)), mean[held]);
            out[first + held * ITEMS] = upper;
            best = fmax(best, upper);
        }
    }
    most[item] = best;
    for (uint width = ITEMS / 2; width > 0; width /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (item < width) {
            most[item] = fmax(most[item], most[item + width]);
        }
    }
    if (item == 0) {
        maxima[get_group_id(0)] = most[0];
    }
}
