// Values of all rows of a chunk for many queries, with selection in the same loop: the device twin of `FlatQueries::scan`
// (`flat.rs`). Values are not written to memory: a work item compares its own with the limits of its queries, and appends the
// few that are not above them to the lists of these queries. `device.rs` defines the constants.
//
// A work group computes GROUP rows times GROUP queries, a work item 4 QUADS times 4 QUADS of them in registers. The group holds
// DEPTH numbers of its rows and queries in local memory at a time, place by place. Numbers that are not there count as zero. On
// matrix units queries of few numbers stay in registers instead, and the group goes through many rows (`held.cl`).

#if defined(HALVES)
#define WIDENED(numbers, at) vload_half(at, numbers)
#else
#define WIDENED(numbers, at) ((float)(numbers)[at])
#endif

// Not an element: a row that was removed, or is not to be searched. No other value is infinite, for queries and rows whose
// values might be are not given to devices.
#define ABSENT INFINITY

// The bits of a value: one pattern stands for all that are no numbers, which come after all numbers.
inline uint bits_of(float value) { return value == value ? as_uint(value) : 0x7fc00000u; }

inline void append(
    __global uint *counts, __global uint2 *entries, uint capacity, uint query, uint row, float value) {
    const uint place = atomic_inc(&counts[query]);
    if (place < capacity) {
        entries[(ulong)query * capacity + place] = (uint2)(row, bits_of(value));
    }
}

#if defined(HELD)
__kernel __attribute__((reqd_work_group_size(HELD_ITEMS, 1, 1))) void scan(
    __global const uint4 *rows, __global const float2 *terms, uint rows_first, uint rows_end,
    __global const uint4 *queries, uint queries_count, uint dimensions,
    __global const float *limits, __global uint *counts, __global uint2 *entries, uint capacity, uint keeps_all,
    // Rows that a group goes through, a multiple of PASSING.
    uint rows_of_group) {
    __local uint4 near[2][LENT];
    __local float4 near_terms[2][PASSING / 2];
    SCRATCH

    const uint item = get_local_id(0), lane = item % WARP;
    // Groups that run at the same time read the same rows.
    const uint query_groups = (queries_count + STAYING - 1) / STAYING;
    const uint first_query = get_group_id(0) % query_groups * STAYING + item / WARP * (16 * BANDS);
    const uint first_row = rows_first + get_group_id(0) / query_groups * rows_of_group;
    const uint end = min(rows_end, first_row + rows_of_group);
#define SEND_ROWS(to, first)                                                                              \
    SEND_VECTORS(near[to], rows, first, end, first_row)                                                   \
    if (item < PASSING / 2) {                                                                             \
        const uint row = (first) + 2 * item;                                                              \
        send(&near_terms[to][item], terms + (row < end ? row : first_row), row < end ? 8 * min(end - row, 2u) : 0); \
    }
    SEND_ROWS(0, first_row)
    uint4 held[BANDS][2][BLOCKS];
    HOLD(held, queries, first_query, queries_count)
    float limit_of[BANDS][2];
#pragma unroll
    for (uint band = 0; band < BANDS; band++) {
#pragma unroll
        for (uint high = 0; high < 2; high++) {
            const uint query = first_query + band * 16 + high * 8 + lane / 4;
            limit_of[band][high] = query < queries_count ? limits[query] : -INFINITY;
        }
    }
    uint turn = 0;
    for (uint first = first_row; first < end; first += PASSING) {
        ARRIVED();
        barrier(CLK_LOCAL_MEM_FENCE);
        if (first + PASSING < end) {
            SEND_ROWS(turn ^ 1, first + PASSING)
        }
#pragma unroll 2
        for (uint eight = 0; eight < PASSING; eight += 8) {
            float4 sums[BANDS];
            PRODUCTS(sums, held, near[turn], eight)
            const float4 term = near_terms[turn][eight / 2 + lane % 4];
            // Almost never is one of them kept.
            bool keeps = keeps_all;
#pragma unroll
            for (uint band = 0; band < BANDS; band++) {
                const float4 four = sums[band];
                keeps |= !(fma(-term.y, four.x, term.x) > limit_of[band][0]);
                keeps |= !(fma(-term.w, four.y, term.z) > limit_of[band][0]);
                keeps |= !(fma(-term.y, four.z, term.x) > limit_of[band][1]);
                keeps |= !(fma(-term.w, four.w, term.z) > limit_of[band][1]);
            }
            if (!in_any(keeps)) {
                continue;
            }
#pragma unroll
            for (uint band = 0; band < BANDS; band++) {
#pragma unroll
                for (uint part = 0; part < 4; part++) {
                    const uint query = first_query + band * 16 + part / 2 * 8 + lane / 4;
                    const uint row = first + eight + lane % 4 * 2 + part % 2;
                    const float4 four = sums[band];
                    const float sum = part / 2 ? (part % 2 ? four.w : four.z) : (part % 2 ? four.y : four.x);
                    const float value = part % 2 ? fma(-term.w, sum, term.z) : fma(-term.y, sum, term.x);
                    const bool is_there = query < queries_count && row < end;
                    if (is_there && keeps_all) {
                        entries[(ulong)query * capacity + (row - rows_first)] = (uint2)(row, bits_of(value));
                    } else if (is_there && !(value > limit_of[band][part / 2]) && value != ABSENT) {
                        append(counts, entries, capacity, query, row, value);
                    }
                }
            }
            TOGETHER();
        }
        turn ^= 1;
    }
}
#elif defined(UNITS)
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void scan(
    __global const uint4 *rows, __global const float2 *terms, uint rows_first, uint rows_end,
    __global const uint4 *queries, uint queries_count,
    // Of halves, with those that fill the last words.
    uint dimensions, __global const float *limits, __global uint *counts, __global uint2 *entries, uint capacity,
    uint keeps_all) {
    __local uint near_rows[GROUP * PITCH] __attribute__((aligned(16)));
    __local uint near_queries[GROUP * PITCH] __attribute__((aligned(16)));
    SCRATCH

    const uint item = get_local_id(0);
    const uint warp = item / WARP, lane = item % WARP;
    const uint query_groups = (queries_count + GROUP - 1) / GROUP;
    const uint first_query = get_group_id(0) % query_groups * GROUP;
    const uint first_row = rows_first + get_group_id(0) / query_groups * GROUP;
    const uint warp_row = warp % WARPS_OF_ROWS * (16 * BANDS), warp_query = warp / WARPS_OF_ROWS * (8 * COLUMNS);

    float4 sums[BANDS][COLUMNS];
#pragma unroll
    for (uint band = 0; band < BANDS; band++) {
#pragma unroll
        for (uint column = 0; column < COLUMNS; column++) {
            sums[band][column] = 0.0f;
        }
    }
// Quadruples of words of a vector, and those that an item copies.
#define QUADRUPLES (WORDS / 4)
#define COPIED_QUADRUPLES (GROUP * QUADRUPLES / ITEMS)
    const ulong of_vector = dimensions / 8;
    uint4 next_rows[COPIED_QUADRUPLES], next_queries[COPIED_QUADRUPLES];
#define READ_HALVES(begin)                                                                                \
    _Pragma("unroll") for (uint c = 0; c < COPIED_QUADRUPLES; c++) {                                      \
        const uint i = c * ITEMS + item, vector = i / QUADRUPLES, place = (begin) + i % QUADRUPLES;       \
        const ulong row = first_row + vector, query = first_query + vector;                               \
        next_rows[c] = row < rows_end ? rows[row * of_vector + place] : (uint4)(0);                       \
        next_queries[c] = query < queries_count ? queries[query * of_vector + place] : (uint4)(0);        \
    }
    READ_HALVES(0)
    for (uint begin = 0; begin < of_vector; begin += QUADRUPLES) {
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
        for (uint c = 0; c < COPIED_QUADRUPLES; c++) {
            const uint i = c * ITEMS + item;
            const uint at = i / QUADRUPLES * (PITCH / 4) + i % QUADRUPLES;
            ((__local uint4 *)near_rows)[at] = next_rows[c];
            ((__local uint4 *)near_queries)[at] = next_queries[c];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (begin + QUADRUPLES < of_vector) {
            READ_HALVES(begin + QUADRUPLES)
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
                    near_queries + (warp_query + column * 8 + lane / 4) * PITCH + step * 8 + lane % 4;
                const uint b0 = at[0], b1 = at[4];
#pragma unroll
                for (uint band = 0; band < BANDS; band++) {
                    sums[band][column] = MULTIPLY(a[band], b0, b1, sums[band][column]);
                }
            }
        }
    }
    // Read once, as each limit serves all rows of the item.
    float limit_of[COLUMNS][2];
#pragma unroll
    for (uint column = 0; column < COLUMNS; column++) {
#pragma unroll
        for (uint odd = 0; odd < 2; odd++) {
            const uint query = first_query + warp_query + column * 8 + lane % 4 * 2 + odd;
            limit_of[column][odd] = query < queries_count ? limits[query] : -INFINITY;
        }
    }
#pragma unroll
    for (uint band = 0; band < BANDS; band++) {
#pragma unroll
        for (uint high = 0; high < 2; high++) {
            const uint row = first_row + warp_row + band * 16 + high * 8 + lane / 4;
            const float2 term = row < rows_end ? terms[row] : (float2)(ABSENT, 0.0f);
            // Almost never is one of them kept.
            bool keeps = keeps_all;
#pragma unroll
            for (uint column = 0; column < COLUMNS; column++) {
                const float4 four = sums[band][column];
                keeps |= !(fma(-term.y, high ? four.z : four.x, term.x) > limit_of[column][0]);
                keeps |= !(fma(-term.y, high ? four.w : four.y, term.x) > limit_of[column][1]);
            }
            if (!keeps || row >= rows_end) {
                continue;
            }
#pragma unroll
            for (uint column = 0; column < COLUMNS; column++) {
#pragma unroll
                for (uint odd = 0; odd < 2; odd++) {
                    const uint query = first_query + warp_query + column * 8 + lane % 4 * 2 + odd;
                    const float4 four = sums[band][column];
                    const float sum = high ? (odd ? four.w : four.z) : (odd ? four.y : four.x);
                    const float value = fma(-term.y, sum, term.x);
                    if (query >= queries_count) {
                        continue;
                    }
                    if (keeps_all) {
                        entries[(ulong)query * capacity + (row - rows_first)] = (uint2)(row, bits_of(value));
                    } else if (!(value > limit_of[column][odd]) && value != ABSENT) {
                        append(counts, entries, capacity, query, row, value);
                    }
                }
            }
        }
    }
}
#else
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void scan(
    // Vectors of `dimensions` numbers, one after the other.
    __global const NUMBER *rows,
    // By row: the base and the factor of its value, `base - factor * product`.
    __global const float2 *terms, uint rows_first, uint rows_end, __global const float *queries,
    uint queries_count, uint dimensions,
    // By query: no value above it matters.
    __global const float *limits,
    // By query: the number of its entries, which may be more than there is room for.
    __global uint *counts,
    // By query, `capacity` entries: a row, and the bits of its value.
    __global uint2 *entries, uint capacity,
    // Whether every value is an entry, at the place of its row.
    uint keeps_all) {
    __local float near_rows[DEPTH * STRIDE] __attribute__((aligned(16)));
    __local float near_queries[DEPTH * STRIDE] __attribute__((aligned(16)));

    const uint item = get_local_id(0);
    const uint item_row = item % SIDE, item_query = item / SIDE;
    // Groups that run at the same time read the same rows.
    const uint query_groups = (queries_count + GROUP - 1) / GROUP;
    const uint first_query = get_group_id(0) % query_groups * GROUP;
    const uint first_row = rows_first + get_group_id(0) / query_groups * GROUP;

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
    // The next numbers are read while the group computes with the last ones.
    float next_rows[COPIED], next_queries[COPIED];
#define READ(begin)                                                                                       \
    _Pragma("unroll") for (uint c = 0; c < COPIED; c++) {                                                 \
        const uint i = c * ITEMS + item, vector = i / DEPTH, place = (begin) + i % DEPTH;                 \
        const ulong row = first_row + vector, query = first_query + vector;                               \
        next_rows[c] = row < rows_end && place < dimensions ? WIDENED(rows, row * dimensions + place) : 0.0f; \
        next_queries[c] =                                                                                 \
            query < queries_count && place < dimensions ? queries[query * dimensions + place] : 0.0f;     \
    }
    READ(0)
    for (uint begin = 0; begin < dimensions; begin += DEPTH) {
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
        for (uint c = 0; c < COPIED; c++) {
            const uint i = c * ITEMS + item;
            near_rows[i % DEPTH * STRIDE + i / DEPTH] = next_rows[c];
            near_queries[i % DEPTH * STRIDE + i / DEPTH] = next_queries[c];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (begin + DEPTH < dimensions) {
            READ(begin + DEPTH)
        }
#pragma unroll
        for (uint d = 0; d < DEPTH; d++) {
            float4 x[QUADS], y[QUADS];
#pragma unroll
            for (uint quad = 0; quad < QUADS; quad++) {
                x[quad] = ((const __local float4 *)near_rows)[d * (STRIDE / 4) + quad * SIDE + item_row];
                y[quad] = ((const __local float4 *)near_queries)[d * (STRIDE / 4) + quad * SIDE + item_query];
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
            const uint query = first_query + (b * SIDE + item_query) * 4 + j;
            if (query >= queries_count) {
                continue;
            }
            const float limit = limits[query];
#pragma unroll
            for (uint a = 0; a < QUADS; a++) {
#pragma unroll
                for (uint i = 0; i < 4; i++) {
                    const uint row = first_row + (a * SIDE + item_row) * 4 + i;
                    if (row >= rows_end) {
                        continue;
                    }
                    const float2 term = terms[row];
                    const float4 four = sums[a][i][b];
                    const float sum = j == 0 ? four.x : j == 1 ? four.y : j == 2 ? four.z : four.w;
                    const float value = fma(-term.y, sum, term.x);
                    if (keeps_all) {
                        entries[(ulong)query * capacity + (row - rows_first)] = (uint2)(row, bits_of(value));
                    } else if (!(value > limit) && value != ABSENT) {
                        // A value that is no number stays.
                        append(counts, entries, capacity, query, row, value);
                    }
                }
            }
        }
    }
}
#endif

// The bits of a number, in the order of the numbers.
uint ordered(uint bits) {
    return bits ^ (bits >> 31 ? 0xffffffffu : 0x80000000u);
}

#define DIGITS 256
// Sums of digits that are next to each other.
#define PARTS 16

// Lowers the limit of each query to the `wanted`-th least value of its entries and the error of two values, and drops the
// entries above it. A work group has one query. A list that has overflowed stays, and takes no more entries.
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void shorten(
    __global uint2 *entries, uint capacity, __global uint *counts, uint wanted, __global const float *errors,
    __global float *limits) {
    __local uint digits[DIGITS], parts[PARTS];
    __local uint chosen[3];
    const uint item = get_local_id(0), query = get_group_id(0);
    const uint count = counts[query];
    __global uint2 *list = entries + (ulong)query * capacity;
    if (count > capacity) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (item == 0) {
            limits[query] = -INFINITY;
        }
        return;
    }
    float limit = limits[query];
    // The wanted-th least, eight bits at a time, the highest first.
    if (wanted > 0 && count >= wanted) {
        uint known = 0, rank = wanted - 1;
        for (uint round = 0; round < 4; ++round) {
            const uint shift = 24 - 8 * round, mask = round == 0 ? 0 : 0xffffffffu << (shift + 8);
            for (uint i = item; i < DIGITS; i += ITEMS) {
                digits[i] = 0;
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            for (uint i = item; i < count; i += ITEMS) {
                const uint bits = ordered(list[i].y);
                if ((bits & mask) == known) {
                    atomic_inc(&digits[bits >> shift & (DIGITS - 1)]);
                }
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            if (item < PARTS) {
                uint sum = 0;
                for (uint i = 0; i < DIGITS / PARTS; ++i) {
                    sum += digits[item * (DIGITS / PARTS) + i];
                }
                parts[item] = sum;
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            // Each item counts what comes before its digit; the rank falls into one.
            for (uint digit = item; digit < DIGITS; digit += ITEMS) {
                const uint part = digit / (DIGITS / PARTS);
                uint before = 0;
                for (uint i = 0; i < part; ++i) {
                    before += parts[i];
                }
                for (uint i = part * (DIGITS / PARTS); i < digit; ++i) {
                    before += digits[i];
                }
                if (before <= rank && rank - before < digits[digit]) {
                    chosen[0] = known | digit << shift;
                    chosen[1] = rank - before;
                }
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            known = chosen[0];
            rank = chosen[1];
        }
        const float kth = as_float(known >> 31 ? known ^ 0x80000000u : ~known);
        // Rounded up. Without a number it lowers nothing.
        const float reached = kth + errors[query];
        limit = fmin(limit, reached + fabs(reached) * 2.38418579e-7f + 1e-37f);
    }
    // In place: an entry moves to a place that has been read.
    if (item == 0) {
        chosen[2] = 0;
    }
    for (uint first = 0; first < count; first += ITEMS) {
        const uint i = first + item;
        const uint2 entry = i < count ? list[i] : (uint2)(0, 0);
        const float value = as_float(entry.y);
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        if (i < count && !(value > limit) && value != ABSENT) {
            list[atomic_inc(&chosen[2])] = entry;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item == 0) {
        counts[query] = chosen[2];
        limits[query] = limit;
    }
}

// Copies the first entries of each query, `most` of them at most, to where the host reads them.
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void hand_over(
    __global const uint2 *entries, uint capacity, __global const uint *counts, uint most, __global uint2 *found) {
    const uint query = get_group_id(0);
    const uint count = min(min(counts[query], capacity), most);
    for (uint i = get_local_id(0); i < count; i += ITEMS) {
        found[(ulong)query * most + i] = entries[(ulong)query * capacity + i];
    }
}
