// Weighted similarities of queries to signatures: what `Evaluator::sigma_cross` computes in `sqfd.rs`, on a device.
//
// A group computes one tile for one query. The centroids of its signatures lie flat in the tile, HELD of them in the
// registers of each work item, so that no item idles whatever the signatures' sizes; the query's centroids pass by in
// local memory, read by all items at once. Each centroid's sum is then weighted and the sums of each piece (a
// signature, or PIECE centroids of one) are added in a fixed tree. `device.rs` lays tiles and pieces out and gives all
// constants: DIMENSIONS, ROW, ITEMS, HELD, ROWS, PARTIAL, APART, GATHERED, and the measure's name.
//
// The depth of every sum is part of the declared error (`bound.rs`): PARTIAL terms, then partial sums, then the tree.

#define TILE (ITEMS * HELD)
// Items that add up one piece together.
#define LANES 8

// Powers of two; what is below the normal numbers is 0. NVIDIA's compiler scales around its unit to keep such results,
// which takes three instructions a pair, unless it is asked for the unit itself.
#if defined(__NV_CL_C_VERSION)
inline float power_of_two(float x) {
    float power;
    __asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
}
#else
#define power_of_two(x) native_exp2(x)
#endif

// The similarity of a pair, its query's weight included; `sum` went through all dimensions.
#if defined(GAUSSIAN)
#if APART
// The sum began with the end.
#define TERM(sum, end) power_of_two(sum)
#else
#define TERM(sum, end) power_of_two((sum) + (end))
#endif
#elif defined(HEURISTIC_L2)
#define TERM(sum, end) ((end) / (alpha + sqrt(sum)))
#elif defined(HEURISTIC)
#define TERM(sum, end) ((end) / (alpha + (sum)))
#elif defined(MINUS_L2)
#define TERM(sum, end) (-(end) * sqrt(sum))
#else
#define TERM(sum, end) (-(end) * (sum))
#endif

// One dimension of a pair.
#if defined(GAUSSIAN)
#define STEP(query, candidate, sum) fma(query, candidate, sum)
#elif defined(L1)
#define STEP(query, candidate, sum) ((sum) + fabs((query) - (candidate)))
#else
#define STEP(query, candidate, sum) fma((query) - (candidate), (query) - (candidate), sum)
#endif

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void sqfd(
    // DIMENSIONS columns of coordinates and one of weights, each `stride` long.
    __global const float *columns, uint stride,
    // Of a tile: its first piece, the number of its pieces, where its centroids begin in the columns if they follow
    // each other (else GATHERED), and their number. Those from `tiles_first` on are this launch's.
    __global const uint4 *tiles, uint tiles_first,
    // Of a piece: where its centroids begin in the columns, where in the tile, and their number. `pieces_count` of
    // them, from `pieces_first` on, are this launch's.
    __global const uint4 *pieces, uint pieces_first, uint pieces_count,
    // The rows of all queries one after the other, ROW numbers each: coordinates, then the end.
    __global const float *rows,
    // Where a query's rows begin; one more than there are queries.
    __global const uint *row_offsets, uint queries_first, uint queries_count,
    // What is taken from a candidate's coordinates, by query, before they are multiplied by the factor.
    __global const float *centres, float factor, float alpha,
    // From `sums_first` on: by query, then by piece.
    __global float *sums, uint sums_first) {
    __local float4 passing[ROWS * ROW / 4];
    __local float shelf[TILE];
    __local float folded[ITEMS];

    const uint item = get_local_id(0);
    // The groups of one tile follow each other, so that its columns are read from a cache for all queries but one.
    const uint query_idx = get_group_id(0) % queries_count;
    const uint query = queries_first + query_idx;
    const uint4 tile = tiles[tiles_first + get_group_id(0) / queries_count];

    float held[HELD][DIMENSIONS];
    float starts[HELD];
    float weights[HELD];
    float totals[HELD];
#pragma unroll
    for (uint h = 0; h < HELD; ++h) {
        const uint slot = h * ITEMS + item;
        // What lies beyond the tile's end computes nonsense of the last centroid, which nobody adds.
        const uint used = min(slot, tile.w - 1);
        uint centroid = tile.z + used;
        if (tile.z == GATHERED) {
            // The last piece that begins at or before the slot.
            uint low = tile.x;
            uint high = tile.x + tile.y;
            while (high - low > 1) {
                const uint middle = (low + high) / 2;
                if (pieces[middle].y <= used) {
                    low = middle;
                } else {
                    high = middle;
                }
            }
            centroid = pieces[low].x + used - pieces[low].y;
        }
        totals[h] = 0.0f;
        starts[h] = 0.0f;
        weights[h] = columns[DIMENSIONS * stride + centroid];
#pragma unroll
        for (uint d = 0; d < DIMENSIONS; ++d) {
            const float x = columns[d * stride + centroid];
#if defined(GAUSSIAN)
            held[h][d] = (x - centres[query * DIMENSIONS + d]) * factor;
            starts[h] -= held[h][d] * held[h][d];
#else
            held[h][d] = x;
#endif
        }
#if defined(GAUSSIAN)
        // A centroid whose norm is beyond all bounds has nothing in common with any query; infinities would.
        if (!(starts[h] > -1e30f)) {
            starts[h] = -1e30f;
#pragma unroll
            for (uint d = 0; d < DIMENSIONS; ++d) {
                held[h][d] = 0.0f;
            }
        }
#if APART
        weights[h] *= power_of_two(starts[h]);
#endif
#endif
    }

    const uint rows_end = row_offsets[query + 1];
    for (uint first = row_offsets[query]; first < rows_end; first += ROWS) {
        const uint count = min((uint)ROWS, rows_end - first);
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint i = item; i < count * (ROW / 4); i += ITEMS) {
            passing[i] = vload4(first * (ROW / 4) + i, rows);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint begin = 0; begin < count; begin += PARTIAL) {
            const uint end = min(begin + PARTIAL, count);
            float partial[HELD];
#pragma unroll
            for (uint h = 0; h < HELD; ++h) {
                partial[h] = 0.0f;
            }
            // Rows come in fours (ROWS_PER_GROUP), so that the loop may be unrolled by as many.
#pragma unroll 4
            for (uint row = begin; row < end; ++row) {
                float numbers[ROW];
#pragma unroll
                for (uint i = 0; i < ROW / 4; ++i) {
                    const float4 four = passing[row * (ROW / 4) + i];
                    numbers[4 * i] = four.x;
                    numbers[4 * i + 1] = four.y;
                    numbers[4 * i + 2] = four.z;
                    numbers[4 * i + 3] = four.w;
                }
#pragma unroll
                for (uint h = 0; h < HELD; ++h) {
#if APART
                    float sum = numbers[DIMENSIONS];
#else
                    float sum = starts[h];
#endif
#pragma unroll
                    for (uint d = 0; d < DIMENSIONS; ++d) {
                        sum = STEP(numbers[d], held[h][d], sum);
                    }
                    partial[h] += TERM(sum, numbers[DIMENSIONS]);
                }
            }
#pragma unroll
            for (uint h = 0; h < HELD; ++h) {
                totals[h] += partial[h];
            }
        }
    }

#pragma unroll
    for (uint h = 0; h < HELD; ++h) {
        shelf[h * ITEMS + item] = totals[h] * weights[h];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const uint lane = item % LANES;
    for (uint first = 0; first < tile.y; first += ITEMS / LANES) {
        const uint mine = first + item / LANES;
        float sum = 0.0f;
        if (mine < tile.y) {
            const uint4 piece = pieces[tile.x + mine];
            for (uint i = lane; i < piece.z; i += LANES) {
                sum += shelf[piece.y + i];
            }
        }
        folded[item] = sum;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lane == 0 && mine < tile.y) {
            __local const float *s = folded + item;
            sums[sums_first + query_idx * pieces_count + tile.x - pieces_first + mine] =
                ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}
