// Bounds of the distances from a query to all objects of some blocks of a pivot table: the device twin of
// `BoundEvaluator::bounds` (`block.rs`).
//
// A work group bounds HELD blocks of ITEMS objects each; a work item bounds one object of each block. The columns of a block
// are read once, in the order of their addresses, and neighbouring items read neighbouring numbers. The query's numbers are
// in local memory. Each group keeps its least few upper bounds for `selection.cl`. `device.rs` lays out numbers and pairs
// and defines all constants: NUMBERS, ITEMS, HELD, TILE, and the rule's name.
//
// Every sum and product is one operation with one rounding, or none. `device.rs` declares the additional errors of a device
// (its root, and subnormal numbers), and the slack given includes them.

#if defined(PTOLEMAIC) || defined(COMBINED)
#define PAIRS
#endif

// The bound by a pair of pivots. The first product and the subtraction are one operation, the second product is another.
#define SAY(largest, pair, p, s) \
    largest = fmax(largest, fabs(fma((pair).x, s, -((pair).y * (p)))) - (pair).z)

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void bounds(
    // The columns of `blocks` blocks, NUMBERS times ITEMS numbers each, with `objects` objects in all.
    __global const float *columns, uint blocks, uint objects,
    // The numbers of all queries one after the other, NUMBERS each, and the place of this query's.
    __global const float *numbers, uint numbers_first,
    // The pairs of pivots, by query, then by tile, and the place of this query's.
    __global const float4 *pairs, uint pairs_first,
    // The slack of lower bounds by triangles or apexes and of upper bounds; the slack of lower bounds by pairs.
    float slack, float pairs_slack,
    // The bounds of all objects. This launch writes from `first` on.
    __global float *lowers, __global float *uppers, uint first,
    // The `kept` least upper bounds of each group, from `minima_first` on. `kept` is a power of two, at most ITEMS.
    __global float *minima, uint minima_first, uint kept) {
    __local float passing[NUMBERS];
    __local float least[ITEMS];
#if defined(PAIRS)
    __local float4 passing_pairs[TILE * TILE];
#endif

    const uint item = get_local_id(0);
    const uint group = get_group_id(0);
    for (uint i = item; i < NUMBERS; i += ITEMS) {
        passing[i] = numbers[numbers_first + i];
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    // The object's number in the first column of each block. Blocks beyond the last one repeat it, and write nothing.
    __global const float *own[HELD];
#pragma unroll
    for (uint h = 0; h < HELD; ++h) {
        own[h] = columns + (size_t)min(group * HELD + h, blocks - 1) * (NUMBERS * ITEMS) + item;
    }

    float low[HELD];
    float high[HELD];
#if defined(SIMPLEX)
    float squared[HELD];
    float altitudes[HELD];
#pragma unroll
    for (uint h = 0; h < HELD; ++h) {
        squared[h] = 0.0f;
        altitudes[h] = 0.0f;
    }
    // Eight columns are requested before the first is used.
#pragma unroll 8
    for (uint number = 0; number < NUMBERS; ++number) {
        const float q = passing[number];
#pragma unroll
        for (uint h = 0; h < HELD; ++h) {
            const float o = own[h][number * ITEMS];
            squared[h] = fma(q - o, q - o, squared[h]);
            // The last number is the altitude.
            altitudes[h] = o;
        }
    }
#pragma unroll
    for (uint h = 0; h < HELD; ++h) {
        low[h] = fmax(sqrt(squared[h]) - slack, 0.0f);
        high[h] = sqrt(fma(4.0f * passing[NUMBERS - 1], altitudes[h], squared[h])) + slack;
    }
#else
#pragma unroll
    for (uint h = 0; h < HELD; ++h) {
        low[h] = 0.0f;
        high[h] = INFINITY;
    }
#pragma unroll 8
    for (uint number = 0; number < NUMBERS; ++number) {
        const float q = passing[number];
#pragma unroll
        for (uint h = 0; h < HELD; ++h) {
            const float o = own[h][number * ITEMS];
#if !defined(PTOLEMAIC)
            low[h] = fmax(low[h], fabs(q - o));
#endif
            high[h] = fmin(high[h], q + o);
        }
    }
#pragma unroll
    for (uint h = 0; h < HELD; ++h) {
        low[h] = fmax(low[h] - slack, 0.0f);
        high[h] += slack;
    }
#endif

#if defined(PAIRS)
    // TILE pivots are paired among themselves and with each later TILE of pivots. The object's distances to them are in
    // registers, and the numbers of the pairs in local memory.
    float largest[HELD];
#pragma unroll
    for (uint h = 0; h < HELD; ++h) {
        largest[h] = 0.0f;
    }
    uint tile = pairs_first;
    for (uint p_first = 0; p_first < NUMBERS; p_first += TILE) {
        float p[HELD][TILE];
#pragma unroll
        for (uint i = 0; i < TILE; ++i) {
#pragma unroll
            for (uint h = 0; h < HELD; ++h) {
                p[h][i] = own[h][min(p_first + i, (uint)NUMBERS - 1) * ITEMS];
            }
        }
        for (uint s_first = p_first; s_first < NUMBERS; s_first += TILE) {
            barrier(CLK_LOCAL_MEM_FENCE);
            for (uint i = item; i < TILE * TILE; i += ITEMS) {
                passing_pairs[i] = pairs[tile + i];
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            tile += TILE * TILE;
            if (s_first == p_first) {
#pragma unroll
                for (uint i = 0; i < TILE; ++i) {
#pragma unroll
                    for (uint j = i + 1; j < TILE; ++j) {
                        const float4 pair = passing_pairs[i * TILE + j];
#pragma unroll
                        for (uint h = 0; h < HELD; ++h) {
                            SAY(largest[h], pair, p[h][i], p[h][j]);
                        }
                    }
                }
            } else {
                float s[HELD][TILE];
#pragma unroll
                for (uint j = 0; j < TILE; ++j) {
#pragma unroll
                    for (uint h = 0; h < HELD; ++h) {
                        s[h][j] = own[h][min(s_first + j, (uint)NUMBERS - 1) * ITEMS];
                    }
                }
#pragma unroll
                for (uint i = 0; i < TILE; ++i) {
#pragma unroll
                    for (uint j = 0; j < TILE; ++j) {
                        const float4 pair = passing_pairs[i * TILE + j];
#pragma unroll
                        for (uint h = 0; h < HELD; ++h) {
                            SAY(largest[h], pair, p[h][i], s[h][j]);
                        }
                    }
                }
            }
        }
    }
#pragma unroll
    for (uint h = 0; h < HELD; ++h) {
        low[h] = fmax(largest[h] - pairs_slack, low[h]);
    }
#endif

    float smallest = INFINITY;
#pragma unroll
    for (uint h = 0; h < HELD; ++h) {
        const uint object = (group * HELD + h) * ITEMS + item;
        if (object < objects) {
            lowers[first + object] = low[h];
            uppers[first + object] = high[h];
            smallest = fmin(smallest, high[h]);
        }
    }
    least[item] = smallest;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint width = ITEMS / 2; width >= kept; width /= 2) {
        if (item < width) {
            least[item] = fmin(least[item], least[item + width]);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (item < kept) {
        minima[minima_first + group * kept + item] = least[item];
    }
}
