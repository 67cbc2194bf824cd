// The nearest centroid of each row, and whether it is so with certainty: the device twin of `assign.rs`. `vector/tile.cl` comes
// before this text, and `device.rs` defines the constants.
//
// A work group has GROUP rows and goes through all centroids, GROUP at a time; an item keeps the least two values of each of its
// rows in registers. On matrix units rows of few numbers stay in registers, and centroids pass by (`vector/held.cl`). A value is
// the squared norm of a centroid less twice its product with the row: the squared distance less the row's squared norm. Numbers
// that are not there count as zero, and centroids that are not there have infinite values.

// Items of a group that share a row.
#if defined(HELD)
#define SHARING 4
#else
#define SHARING 16
#endif
// Marks a cluster that is not certain.
#define UNDECIDED 0x80000000u

// A value of a row: the least two so far, and the centroid of the least.
#define ADD(place, value, centroid)                            \
    second[place] = fmin(second[place], fmax(least[place], value)); \
    which[place] = (value) < least[place] ? (centroid) : which[place]; \
    least[place] = fmin(least[place], value);

// Whether no other centroid can be as near as the one of the least value. `term` has the norm of the row, and the norm of what
// rounding has taken from it. `errors` has the error of a value, as a polynomial of this norm, and the largest norm of what
// rounding has taken from a centroid. `device.rs` has the proof.
inline bool is_decided(float least, float second, float2 term, float4 errors) {
#if !defined(UNITS)
    term.y = 0.0f;
#endif
    const float error = errors.x + term.x * (errors.y + term.x * errors.z);
    const float lost = term.y + errors.w, reach = term.x + term.y;
    const float distance = sqrt(fmax(least + error + reach * reach, 0.0f));
    const float slack = lost * (4.0f * distance + 5.0f * lost) + 2.0f * error;
    return second - least > slack * 1.00001f + 1e-37f;
}

// Joins what the items of a group have found for each row. The arrays have SHARING places for each row of the group.
inline void conclude(
    __local const float *leasts, __local const float *seconds, __local const uint *whichs, uint place, uint row,
    __global const float2 *terms, float4 errors, __global uint *clusters, __global uint *list_count,
    __global uint *list, bool is_last) {
    float least = INFINITY, second = INFINITY;
    uint which = 0;
    for (uint i = place * SHARING; i < (place + 1) * SHARING; i++) {
        second = fmin(fmin(second, seconds[i]), fmax(least, leasts[i]));
        which = leasts[i] < least ? whichs[i] : which;
        least = fmin(least, leasts[i]);
    }
    const bool decided = is_decided(least, second, terms[row], errors);
    clusters[row] = decided ? which : which | UNDECIDED;
    if (!decided && !is_last) {
        list[atomic_inc(list_count)] = row;
    }
}

#if defined(HELD)
__kernel __attribute__((reqd_work_group_size(HELD_ITEMS, 1, 1))) void assign(
    __global const uint4 *halves, __global const float2 *terms, uint rows_count,
    __global const uint4 *halved, __global const float *halved_squares, uint centroids_count,
    uint dimensions, float4 errors, __global uint *clusters,
    // The number of rows that are not decided, and these.
    __global uint *list_count, __global uint *list) {
    __local uint4 near[2][LENT];
    __local float near_squares[2][PASSING];
    __local float leasts[STAYING * SHARING], seconds[STAYING * SHARING];
    __local uint whichs[STAYING * SHARING];
    SCRATCH

    const uint item = get_local_id(0), lane = item % WARP;
    const uint first_row = get_group_id(0) * STAYING, warp_row = item / WARP * (16 * BANDS);
#define SQUARE_AT(at) (item < PASSING && (at) + item < centroids_count ? halved_squares[(at) + item] : INFINITY)
    SEND_VECTORS(near[0], halved, 0, centroids_count, 0)
    if (item < PASSING) {
        near_squares[0][item] = SQUARE_AT(0);
    }
    uint4 held[BANDS][2][BLOCKS];
    HOLD(held, halves, first_row + warp_row, rows_count)
    float least[2 * BANDS], second[2 * BANDS];
    uint which[2 * BANDS];
#pragma unroll
    for (uint row = 0; row < 2 * BANDS; row++) {
        least[row] = second[row] = INFINITY;
        which[row] = 0;
    }
    uint turn = 0;
    for (uint first = 0; first < centroids_count; first += PASSING) {
        ARRIVED();
        barrier(CLK_LOCAL_MEM_FENCE);
        const uint next = first + PASSING;
        float next_square = INFINITY;
        if (next < centroids_count) {
            SEND_VECTORS(near[turn ^ 1], halved, next, centroids_count, 0)
            next_square = SQUARE_AT(next);
        }
#pragma unroll 2
        for (uint eight = 0; eight < PASSING; eight += 8) {
            float4 sums[BANDS];
            PRODUCTS(sums, held, near[turn], eight)
            const uint centroid = first + eight + lane % 4 * 2;
            const float2 square = ((const __local float2 *)near_squares[turn])[eight / 2 + lane % 4];
#pragma unroll
            for (uint band = 0; band < BANDS; band++) {
                const float4 four = sums[band];
                ADD(2 * band, fma(-2.0f, four.x, square.x), centroid)
                ADD(2 * band, fma(-2.0f, four.y, square.y), centroid + 1)
                ADD(2 * band + 1, fma(-2.0f, four.z, square.x), centroid)
                ADD(2 * band + 1, fma(-2.0f, four.w, square.y), centroid + 1)
            }
        }
        turn ^= 1;
        if (item < PASSING) {
            near_squares[turn][item] = next_square;
        }
    }
#pragma unroll
    for (uint row = 0; row < 2 * BANDS; row++) {
        const uint at = (warp_row + row / 2 * 16 + row % 2 * 8 + lane / 4) * SHARING + lane % 4;
        leasts[at] = least[row];
        seconds[at] = second[row];
        whichs[at] = which[row];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item < STAYING && first_row + item < rows_count) {
        conclude(leasts, seconds, whichs, item, first_row + item, terms, errors, clusters, list_count, list, false);
    }
}
#elif defined(UNITS)
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void assign(
    __global const uint4 *halves, __global const float2 *terms, uint rows_count,
    __global const uint4 *halved, __global const float *halved_squares, uint centroids_count,
    // Of halves, with those that fill the last words.
    uint dimensions, float4 errors, __global uint *clusters,
    // The number of rows that are not decided, and these.
    __global uint *list_count, __global uint *list) {
    __local uint near_rows[GROUP * PITCH] __attribute__((aligned(16)));
    __local uint near_centroids[GROUP * PITCH] __attribute__((aligned(16)));
    __local uint whichs[GROUP * SHARING];
    SCRATCH

    const uint item = get_local_id(0);
    const uint warp = item / WARP, lane = item % WARP;
    const uint first_row = get_group_id(0) * GROUP;
    const uint warp_row = warp % WARPS_OF_ROWS * (16 * BANDS), warp_centroid = warp / WARPS_OF_ROWS * (8 * COLUMNS);

    float least[2 * BANDS], second[2 * BANDS];
    uint which[2 * BANDS];
#pragma unroll
    for (uint row = 0; row < 2 * BANDS; row++) {
        least[row] = second[row] = INFINITY;
        which[row] = 0;
    }
    float4 sums[BANDS][COLUMNS];
#pragma unroll
    for (uint band = 0; band < BANDS; band++) {
#pragma unroll
        for (uint column = 0; column < COLUMNS; column++) {
            sums[band][column] = 0.0f;
        }
    }
#define QUADRUPLES (WORDS / 4)
#define COPIED_QUADRUPLES (GROUP * QUADRUPLES / ITEMS)
    const ulong of_vector = dimensions / 8;
    uint4 next_rows[COPIED_QUADRUPLES], next_centroids[COPIED_QUADRUPLES];
#define READ_HALVES(first, begin)                                                                         \
    _Pragma("unroll") for (uint c = 0; c < COPIED_QUADRUPLES; c++) {                                      \
        const uint i = c * ITEMS + item, vector = i / QUADRUPLES, place = (begin) + i % QUADRUPLES;       \
        const ulong row = first_row + vector, centroid = (first) + vector;                                \
        next_rows[c] = row < rows_count ? halves[row * of_vector + place] : (uint4)(0);                   \
        next_centroids[c] = centroid < centroids_count ? halved[centroid * of_vector + place] : (uint4)(0);    \
    }
    READ_HALVES(0, 0)
    uint first = 0, begin = 0;
    while (first < centroids_count) {
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
        for (uint c = 0; c < COPIED_QUADRUPLES; c++) {
            const uint i = c * ITEMS + item;
            const uint at = i / QUADRUPLES * (PITCH / 4) + i % QUADRUPLES;
            ((__local uint4 *)near_rows)[at] = next_rows[c];
            ((__local uint4 *)near_centroids)[at] = next_centroids[c];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        // The next numbers are read while the group computes with these, also those of the next centroids.
        const bool is_full = begin + QUADRUPLES >= of_vector;
        const uint next_first = is_full ? first + GROUP : first, next_begin = is_full ? 0 : begin + QUADRUPLES;
        if (next_first < centroids_count) {
            READ_HALVES(next_first, next_begin)
        }
#pragma unroll
        for (uint step = 0; step < WORDS / 8; step++) {
            uint4 a[BANDS];
#pragma unroll
            for (uint band = 0; band < BANDS; band++) {
                const __local uint *at = near_rows + (warp_row + band * 16 + lane / 4) * PITCH + step * 8 + lane % 4;
                a[band] = (uint4)(at[0], at[8 * PITCH], at[4], at[8 * PITCH + 4]);
            }
#pragma unroll
            for (uint column = 0; column < COLUMNS; column++) {
                const __local uint *at =
                    near_centroids + (warp_centroid + column * 8 + lane / 4) * PITCH + step * 8 + lane % 4;
                const uint b0 = at[0], b1 = at[4];
#pragma unroll
                for (uint band = 0; band < BANDS; band++) {
                    sums[band][column] = MULTIPLY(a[band], b0, b1, sums[band][column]);
                }
            }
        }
        if (is_full) {
#pragma unroll
            for (uint column = 0; column < COLUMNS; column++) {
                const uint centroid = first + warp_centroid + column * 8 + lane % 4 * 2;
                const float even = centroid < centroids_count ? halved_squares[centroid] : INFINITY;
                const float odd = centroid + 1 < centroids_count ? halved_squares[centroid + 1] : INFINITY;
#pragma unroll
                for (uint band = 0; band < BANDS; band++) {
                    const float4 four = sums[band][column];
                    ADD(2 * band, fma(-2.0f, four.x, even), centroid)
                    ADD(2 * band, fma(-2.0f, four.y, odd), centroid + 1)
                    ADD(2 * band + 1, fma(-2.0f, four.z, even), centroid)
                    ADD(2 * band + 1, fma(-2.0f, four.w, odd), centroid + 1)
                    sums[band][column] = 0.0f;
                }
            }
        }
        first = next_first;
        begin = next_begin;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    __local float *leasts = (__local float *)near_rows, *seconds = (__local float *)near_centroids;
#pragma unroll
    for (uint row = 0; row < 2 * BANDS; row++) {
        const uint place = warp_row + row / 2 * 16 + row % 2 * 8 + lane / 4;
        const uint at = place * SHARING + warp / WARPS_OF_ROWS * 4 + lane % 4;
        leasts[at] = least[row];
        seconds[at] = second[row];
        whichs[at] = which[row];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item < GROUP && first_row + item < rows_count) {
        conclude(leasts, seconds, whichs, item, first_row + item, terms, errors, clusters, list_count, list, false);
    }
}
#else
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void assign(
    __global const float *rows, __global const float2 *terms, uint rows_count, __global const float *centroids,
    __global const float *squares, uint centroids_count, uint dimensions, float4 errors,
    // By row: its cluster, with a mark if it is not certain.
    __global uint *clusters,
    // The number of rows to assign, and these, in place of all rows.
    __global uint *list_count, __global uint *list, uint is_listed) {
    __local float near_rows[DEPTH * STRIDE] __attribute__((aligned(16)));
    __local float near_centroids[DEPTH * STRIDE] __attribute__((aligned(16)));
    __local uint whichs[GROUP * SHARING];
    __local uint numbers[GROUP];

    const uint item = get_local_id(0);
    const uint item_row = item % SIDE, item_centroid = item / SIDE;
    const uint first_row = get_group_id(0) * GROUP, end = is_listed ? *list_count : rows_count;
    if (first_row >= end) {
        return;
    }
    if (item < GROUP && first_row + item < end) {
        numbers[item] = is_listed ? list[first_row + item] : first_row + item;
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    float least[4 * QUADS], second[4 * QUADS];
    uint which[4 * QUADS];
#pragma unroll
    for (uint row = 0; row < 4 * QUADS; row++) {
        least[row] = second[row] = INFINITY;
        which[row] = 0;
    }
    float next_rows[COPIED], next_centroids[COPIED];
#define READ(first, begin)                                                                                \
    _Pragma("unroll") for (uint c = 0; c < COPIED; c++) {                                                 \
        const uint i = c * ITEMS + item, vector = i / DEPTH, place = (begin) + i % DEPTH;                 \
        const ulong centroid = (first) + vector;                                                          \
        next_rows[c] = first_row + vector < end && place < dimensions                                     \
                           ? rows[(ulong)numbers[vector] * dimensions + place]                            \
                           : 0.0f;                                                                        \
        next_centroids[c] =                                                                               \
            centroid < centroids_count && place < dimensions ? centroids[centroid * dimensions + place] : 0.0f; \
    }
    for (uint first = 0; first < centroids_count; first += GROUP) {
        float4 sums[QUADS][4][QUADS];
#pragma unroll
        for (uint a = 0; a < QUADS; a++) {
#pragma unroll
            for (uint i = 0; i < 4; i++) {
#pragma unroll
                for (uint b = 0; b < QUADS; b++) {
                    sums[a][i][b] = 0.0f;
                }
            }
        }
        READ(first, 0)
        for (uint begin = 0; begin < dimensions; begin += DEPTH) {
            barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
            for (uint c = 0; c < COPIED; c++) {
                const uint i = c * ITEMS + item;
                near_rows[i % DEPTH * STRIDE + i / DEPTH] = next_rows[c];
                near_centroids[i % DEPTH * STRIDE + i / DEPTH] = next_centroids[c];
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            if (begin + DEPTH < dimensions) {
                READ(first, begin + DEPTH)
            }
#pragma unroll
            for (uint d = 0; d < DEPTH; d++) {
                float4 x[QUADS], y[QUADS];
#pragma unroll
                for (uint quad = 0; quad < QUADS; quad++) {
                    x[quad] = ((const __local float4 *)near_rows)[d * (STRIDE / 4) + quad * SIDE + item_row];
                    y[quad] = ((const __local float4 *)near_centroids)[d * (STRIDE / 4) + quad * SIDE + item_centroid];
                }
#pragma unroll
                for (uint a = 0; a < QUADS; a++) {
#pragma unroll
                    for (uint b = 0; b < QUADS; b++) {
                        sums[a][0][b] = fma(x[a].x, y[b], sums[a][0][b]);
                        sums[a][1][b] = fma(x[a].y, y[b], sums[a][1][b]);
                        sums[a][2][b] = fma(x[a].z, y[b], sums[a][2][b]);
                        sums[a][3][b] = fma(x[a].w, y[b], sums[a][3][b]);
                    }
                }
            }
        }
#pragma unroll
        for (uint b = 0; b < QUADS; b++) {
#pragma unroll
            for (uint j = 0; j < 4; j++) {
                const uint centroid = first + (b * SIDE + item_centroid) * 4 + j;
                const float square = centroid < centroids_count ? squares[centroid] : INFINITY;
#pragma unroll
                for (uint a = 0; a < QUADS; a++) {
#pragma unroll
                    for (uint i = 0; i < 4; i++) {
                        const float4 four = sums[a][i][b];
                        const float sum = j == 0 ? four.x : j == 1 ? four.y : j == 2 ? four.z : four.w;
                        ADD(4 * a + i, fma(-2.0f, sum, square), centroid)
                    }
                }
            }
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
    for (uint row = 0; row < 4 * QUADS; row++) {
        const uint at = ((row / 4 * SIDE + item_row) * 4 + row % 4) * SHARING + item_centroid;
        near_rows[at] = least[row];
        near_centroids[at] = second[row];
        whichs[at] = which[row];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item < GROUP && first_row + item < end) {
        const uint row = numbers[item];
        conclude(near_rows, near_centroids, whichs, item, row, terms, errors, clusters, list_count, list, true);
    }
}
#endif
