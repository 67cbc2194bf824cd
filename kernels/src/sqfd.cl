// Weighted similarities of queries to signatures: what `Evaluator::sigma_cross` computes in `sqfd.rs`, on a device.
//
// A group computes one tile for one query. The centroids of its signatures lie flat in the tile, HELD of them in the
// registers of each work item, so that no item idles whatever the signatures' sizes; the query's centroids pass by in
// local memory, read by all items at once. Each centroid's sum is then weighted and the sums of each piece (a
// signature, or PIECE centroids of one) are added in a fixed tree. `device.rs` lays tiles and pieces out and gives all
// constants: DIMENSIONS, ROW, ITEMS, HELD, ROWS, PARTIAL, APART, TENSOR, GATHERED, and the measure's name.
//
// The depth of every sum is part of the declared error (`bound.rs`): PARTIAL terms, then partial sums, then the tree.
//
// With TENSOR the exponents are products of matrices, 16 centroids of the tile by 8 of the query at a time: a
// candidate's row is its coordinates and a one, a query's column its coordinates and its end. Both are split into two
// numbers of 11 bits, and the product of the two lower ones is left out (it is part of the declared error too). What is
// then left for each pair is its power of two and an addition.

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

#if TENSOR
// Rows of a matrix product: candidates.
#define BAND 16
// Columns: centroids of the query.
#define GROUP 8
// Steps of eight numbers that a row has.
#define STEPS ((DIMENSIONS + 8) / 8)
#define WARP 32
#define BANDS (TILE / (ITEMS / WARP) / BAND)
// Groups whose terms are added up before they join the total: two terms of each in an item.
#define GROUPS_PARTIAL 4
// What no sum may be below: a centroid so far away has nothing in common with any.
#define NOTHING (-1e30f)

#if defined(__NV_CL_C_VERSION)
inline uint upper_bits(float x) {
    uint bits;
    __asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return bits & 0xffffe000u;
}
// The sum over four lanes, in each of them.
inline float over_four(float x) {
    float other;
    __asm volatile("shfl.sync.bfly.b32 %0, %1, 1, 0x1f, 0xffffffff;" : "=f"(other) : "f"(x));
    x += other;
    __asm volatile("shfl.sync.bfly.b32 %0, %1, 2, 0x1f, 0xffffffff;" : "=f"(other) : "f"(x));
    return x + other;
}
inline float4 multiply_by(uint4 a, uint b0, uint b1, float4 c) {
    // The compiler takes no parts of vectors here.
    float x;
    float y;
    float z;
    float w;
    const uint a0 = a.x;
    const uint a1 = a.y;
    const uint a2 = a.z;
    const uint a3 = a.w;
    const float c0 = c.x;
    const float c1 = c.y;
    const float c2 = c.z;
    const float c3 = c.w;
    __asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
        : "=f"(x), "=f"(y), "=f"(z), "=f"(w)
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1), "f"(c0), "f"(c1), "f"(c2), "f"(c3));
    return (float4)(x, y, z, w);
}
#define MULTIPLY(d, a, b0, b1, c) d = multiply_by(a, b0, b1, c)
#else
// The same by local memory, so that what is written for matrix units runs everywhere.
inline uint upper_bits(float x) { return (as_uint(x) + 0x1000u) & 0xffffe000u; }
inline float over_four_by(float x, __local float *scratch) {
    const uint item = get_local_id(0);
    barrier(CLK_LOCAL_MEM_FENCE);
    scratch[item] = x;
    barrier(CLK_LOCAL_MEM_FENCE);
    __local const float *s = scratch + item / 4 * 4;
    const uint lane = item % 4;
    return (s[lane] + s[lane ^ 1]) + (s[lane ^ 2] + s[lane ^ 3]);
}
inline float4 multiply_by(uint4 a, uint b0, uint b1, float4 c, __local float *scratch) {
    const uint item = get_local_id(0);
    const uint warp = item / WARP * WARP;
    const uint row = item % WARP / 4;
    const uint column = item % 4 * 2;
    float sums[4] = {c.x, c.y, c.z, c.w};
    const uint as[4] = {a.x, a.y, a.z, a.w};
    const uint bs[2] = {b0, b1};
    for (uint part = 0; part < 2; ++part) {
        for (uint lower = 0; lower < 2; ++lower) {
            barrier(CLK_LOCAL_MEM_FENCE);
            scratch[item] = as_float(as[2 * part + lower]);
            scratch[ITEMS + item] = as_float(bs[part]);
            barrier(CLK_LOCAL_MEM_FENCE);
            for (uint i = 0; i < 4; ++i) {
                for (uint right = 0; right < 2; ++right) {
                    sums[2 * lower + right] = fma(
                        scratch[warp + row * 4 + i], scratch[ITEMS + warp + (column + right) * 4 + i],
                        sums[2 * lower + right]);
                }
            }
        }
    }
    return (float4)(sums[0], sums[1], sums[2], sums[3]);
}
#define over_four(x) over_four_by(x, scratch)
#define MULTIPLY(d, a, b0, b1, c) d = multiply_by(a, b0, b1, c, scratch)
#endif

// Powers of two by the units that add and multiply, for the share of them that the unit for powers has no time for: a
// polynomial between -1/2 and 1/2, off by 2^-22 of itself at most.
inline float power_of_two_by_product(float x) {
    const float shift = 12582912.0f;
    const float least = fmax(x, -125.0f);
    const float whole = least + shift;
    const float part = least - (whole - shift);
    float power = 1.32764701e-3f;
    power = fma(power, part, 9.67554096e-3f);
    power = fma(power, part, 5.55071309e-2f);
    power = fma(power, part, 2.40221202e-1f);
    power = fma(power, part, 6.93146944e-1f);
    power = fma(power, part, 1.00000012f);
    return as_float(as_int(power) + (as_int(whole) << 23));
}
#endif

// Where the centroid of a slot of a tile begins in the columns. What lies beyond the tile's end computes nonsense of the
// last centroid, which nobody adds.
inline uint place(uint4 tile, __global const uint4 *pieces, uint slot) {
    const uint used = min(slot, tile.w - 1);
    if (tile.z != GATHERED) {
        return tile.z + used;
    }
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
    return pieces[low].x + used - pieces[low].y;
}

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
    __local float shelf[TILE];
    __local float folded[ITEMS];

    const uint item = get_local_id(0);
    // The groups of one tile follow each other, so that its columns are read from a cache for all queries but one.
    const uint query_idx = get_group_id(0) % queries_count;
    const uint query = queries_first + query_idx;
    const uint4 tile = tiles[tiles_first + get_group_id(0) / queries_count];
    const uint rows_end = row_offsets[query + 1];

#if TENSOR
    // A query's columns as an item multiplies them: of its lane's column, numbers `lane % 4` and `lane % 4 + 4` of each
    // step, their upper bits and then the lower ones.
    __local float4 passing[ROWS / GROUP * STEPS * WARP];
#if !defined(__NV_CL_C_VERSION)
    __local float scratch[2 * ITEMS];
#endif
    const uint lane = item % WARP;
    const uint quarter = lane % 4;
    for (uint from = 0; from < BANDS; from += BATCH) {
        uint4 upper[BATCH][STEPS];
        uint4 lower[BATCH][STEPS];
        float4 starts[BATCH];
        float2 totals[BATCH];
#pragma unroll
        for (uint b = 0; b < BATCH; ++b) {
            float norms[2];
            float numbers[2][STEPS][2];
#pragma unroll
            for (uint side = 0; side < 2; ++side) {
                const uint slot = (item / WARP * BANDS + from + b) * BAND + side * 8 + lane / 4;
                const uint centroid = place(tile, pieces, slot);
                float norm = 0.0f;
#pragma unroll
                for (uint i = 0; i < 2 * STEPS; ++i) {
                    const uint d = 4 * i + quarter;
                    float x = d == DIMENSIONS ? 1.0f : 0.0f;
                    if (d < DIMENSIONS) {
                        x = (columns[d * stride + centroid] - centres[query * DIMENSIONS + d]) * factor;
                        norm = fma(x, x, norm);
                    }
                    numbers[side][i / 2][i % 2] = x;
                }
                norm = -over_four(norm);
                if (!(norm > NOTHING)) {
                    norm = NOTHING;
#pragma unroll
                    for (uint i = 0; i < 2 * STEPS; ++i) {
                        numbers[side][i / 2][i % 2] = 0.0f;
                    }
                }
                norms[side] = norm;
            }
            starts[b] = (float4)(norms[0], norms[0], norms[1], norms[1]);
            totals[b] = (float2)(0.0f, 0.0f);
#pragma unroll
            for (uint s = 0; s < STEPS; ++s) {
                upper[b][s] = (uint4)(upper_bits(numbers[0][s][0]), upper_bits(numbers[1][s][0]),
                                      upper_bits(numbers[0][s][1]), upper_bits(numbers[1][s][1]));
                const float4 all =
                    (float4)(numbers[0][s][0], numbers[1][s][0], numbers[0][s][1], numbers[1][s][1]);
                const float4 left = all - as_float4(upper[b][s]);
                lower[b][s] = (uint4)(upper_bits(left.x), upper_bits(left.y), upper_bits(left.z), upper_bits(left.w));
            }
        }
        for (uint first = row_offsets[query]; first < rows_end; first += ROWS) {
            const uint count = min((uint)ROWS, rows_end - first);
            const uint groups = (count + GROUP - 1) / GROUP;
            // A query that lies in local memory as a whole stays there.
            if (from == 0 || rows_end - row_offsets[query] > ROWS) {
                barrier(CLK_LOCAL_MEM_FENCE);
                for (uint i = item; i < groups * STEPS * WARP; i += ITEMS) {
                    const uint row = i / (STEPS * WARP) * GROUP + i % WARP / 4;
                    const uint d = i / WARP % STEPS * 8 + i % 4;
                    float pair[2];
#pragma unroll
                    for (uint part = 0; part < 2; ++part) {
                        // Beyond the query's end there is nothing that adds anything.
                        float x = d + 4 * part == DIMENSIONS ? NOTHING : 0.0f;
                        if (row < count && d + 4 * part <= DIMENSIONS) {
                            x = fmax(rows[(first + row) * ROW + d + 4 * part], NOTHING);
                        }
                        pair[part] = x;
                    }
                    const float high = as_float(upper_bits(pair[0]));
                    const float second = as_float(upper_bits(pair[1]));
                    passing[i] = (float4)(high, second, as_float(upper_bits(pair[0] - high)),
                                          as_float(upper_bits(pair[1] - second)));
                }
                barrier(CLK_LOCAL_MEM_FENCE);
            }
            for (uint begin = 0; begin < groups; begin += GROUPS_PARTIAL) {
                const uint end = min(begin + GROUPS_PARTIAL, groups);
                float2 partial[BATCH];
#pragma unroll
                for (uint b = 0; b < BATCH; ++b) {
                    partial[b] = (float2)(0.0f, 0.0f);
                }
                for (uint group = begin; group < end; ++group) {
                    float4 sums[BATCH];
#pragma unroll
                    for (uint s = 0; s < STEPS; ++s) {
                        const uint4 column = as_uint4(passing[(group * STEPS + s) * WARP + lane]);
#pragma unroll
                        for (uint b = 0; b < BATCH; ++b) {
                            if (s == 0) {
                                MULTIPLY(sums[b], lower[b][s], column.x, column.y, starts[b]);
                            } else {
                                MULTIPLY(sums[b], lower[b][s], column.x, column.y, sums[b]);
                            }
                            MULTIPLY(sums[b], upper[b][s], column.z, column.w, sums[b]);
                            MULTIPLY(sums[b], upper[b][s], column.x, column.y, sums[b]);
                        }
                    }
#pragma unroll
                    for (uint b = 0; b < BATCH; ++b) {
                        partial[b].x += power_of_two(sums[b].x) + power_of_two(sums[b].y);
                        partial[b].y += power_of_two(sums[b].z) +
                            (b < PRODUCTS ? power_of_two_by_product(sums[b].w) : power_of_two(sums[b].w));
                    }
                }
#pragma unroll
                for (uint b = 0; b < BATCH; ++b) {
                    totals[b] += partial[b];
                }
            }
        }
#pragma unroll
        for (uint b = 0; b < BATCH; ++b) {
            const float above = over_four(totals[b].x);
            const float below = over_four(totals[b].y);
            if (quarter < 2) {
                const uint slot = (item / WARP * BANDS + from + b) * BAND + quarter * 8 + lane / 4;
                const float weight = columns[DIMENSIONS * stride + place(tile, pieces, slot)];
                shelf[slot] = (quarter == 0 ? above : below) * weight;
            }
        }
    }
#else
    __local float4 passing[ROWS * ROW / 4];
    float held[HELD][DIMENSIONS];
    float starts[HELD];
    float weights[HELD];
    float totals[HELD];
#pragma unroll
    for (uint h = 0; h < HELD; ++h) {
        const uint centroid = place(tile, pieces, h * ITEMS + item);
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
#endif
    barrier(CLK_LOCAL_MEM_FENCE);
    const uint adder = item % LANES;
    for (uint first = 0; first < tile.y; first += ITEMS / LANES) {
        const uint mine = first + item / LANES;
        float sum = 0.0f;
        if (mine < tile.y) {
            const uint4 piece = pieces[tile.x + mine];
            for (uint i = adder; i < piece.z; i += LANES) {
                sum += shelf[piece.y + i];
            }
        }
        folded[item] = sum;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (adder == 0 && mine < tile.y) {
            __local const float *s = folded + item;
            sums[sums_first + query_idx * pieces_count + tile.x - pieces_first + mine] =
                ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}
