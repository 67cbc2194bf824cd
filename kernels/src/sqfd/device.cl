// Weighted similarities of queries to signatures: the device twin of `Evaluator::sigma_cross` (`sqfd.rs`).
//
// A work group computes one tile for one query. The tile holds the centroids of its signatures back to back, HELD of them in
// the registers of each work item, so no item idles whatever the sizes of the signatures. All items read the query's
// centroids from local memory at the same time. The sum of each centroid is then weighted, and the sums of each piece (a
// signature, or PIECE centroids of one) are added in a fixed tree. `device.rs` lays out tiles and pieces and defines all
// constants: DIMENSIONS, ROW, ITEMS, HELD, ROWS, PARTIAL, APART, TENSOR, GATHERED, and the measure's name.
//
// The depth of every sum is part of the declared error (`error_bound.rs`): PARTIAL terms, then partial sums, then the tree.
//
// With TENSOR, matrix units compute the exponents of 16 centroids of the tile and 8 of the query at a time. A candidate's row
// is its coordinates and a one; a query's column is its coordinates and its end. Each number is split into two parts of 11
// bits. The upper parts are multiplied in that precision (tf32). Each upper part is multiplied with the other number's lower
// part as halves, both in one product of rows twice as long. The product of two lower parts is left out. All of this is part
// of the declared error. Each pair then only needs a power of two and an addition. All numbers must be in the range of
// halves: a query out of that range takes the other path, and a candidate out of it has no similarity to the query.

#define TILE (ITEMS * HELD)
// Sums of a piece's centroids that are added at last.
#define LANES 8

// The place of a slot on the shelf. Without matrix units, each work item adds up a piece of its own. Neighbouring pieces may
// all be of 32 centroids or a multiple, so without gaps their work items would wait for the same bank of local memory.
#if TENSOR
#define SHELVED(slot) (slot)
#else
#define SHELVED(slot) ((slot) + (slot) / 32)
#endif

// Powers of two; subnormal results become 0. NVIDIA's compiler scales the argument to keep such results, which costs three
// instructions per pair, so the instruction is named here.
#if defined(__NV_CL_C_VERSION)
inline float power_of_two(float x) {
    float power;
    __asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
}
#else
#define power_of_two(x) native_exp2(x)
#endif

// The similarity of a pair times the query centroid's weight, from the `sum` over all dimensions.
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
// Numbers of a row that one work item holds.
#define NUMBERS (2 * STEPS)
#define WARP 32
#define BANDS (TILE / (ITEMS / WARP) / BAND)
// The least exponent: a centroid so far away has no similarity to any other.
#define NOTHING (-1e30f)
// The largest squared length of a candidate, and the least end of a query, that halves can hold.
#define HALVES_NORM 1e9f
#define HALVES_END (-1e8f)

// The upper 11 bits of a number, rounded to the nearest.
inline uint upper_bits(float x) { return (as_uint(x) + 0x1000u) & 0xffffe000u; }

#if defined(__NV_CL_C_VERSION)
// How often loops over groups and over bands are unrolled.
#define UNROLLED 5
#define EACH_BAND BATCH
#define EACH_SIDE 2
// Two halves in a word, the first one low.
inline uint halves(float first, float second) {
    uint word;
    __asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
    return word;
}
// The sum over four lanes, returned to each of them.
inline float over_four(float x) {
    float other;
    __asm volatile("shfl.sync.bfly.b32 %0, %1, 1, 0x1f, 0xffffffff;" : "=f"(other) : "f"(x));
    x += other;
    __asm volatile("shfl.sync.bfly.b32 %0, %1, 2, 0x1f, 0xffffffff;" : "=f"(other) : "f"(x));
    return x + other;
}
// The compiler does not accept components of vectors as operands.
#define PRODUCT(name, instruction) \
    inline float4 name(uint4 a, uint b0, uint b1, float4 c) { \
        float x; \
        float y; \
        float z; \
        float w; \
        const uint a0 = a.x; \
        const uint a1 = a.y; \
        const uint a2 = a.z; \
        const uint a3 = a.w; \
        const float c0 = c.x; \
        const float c1 = c.y; \
        const float c2 = c.z; \
        const float c3 = c.w; \
        __asm volatile(instruction " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};" \
                       : "=f"(x), "=f"(y), "=f"(z), "=f"(w) \
                       : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1), "f"(c0), "f"(c1), "f"(c2), "f"(c3)); \
        return (float4)(x, y, z, w); \
    }
PRODUCT(product_of_upper, "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32")
PRODUCT(product_of_halves, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
#define MULTIPLY(a, b0, b1, c) product_of_upper(a, b0, b1, c)
#define MULTIPLY_HALVES(a, b0, b1, c) product_of_halves(a, b0, b1, c)
#else
#define UNROLLED 1
#define EACH_BAND 1
#define EACH_SIDE 1
// A version through local memory, so that code for matrix units runs on every device.
inline uint halves(float first, float second) {
    uint word = 0;
    vstore_half_rte(first, 0, (half *)&word);
    vstore_half_rte(second, 1, (half *)&word);
    return word;
}
inline float over_four_by(float x, __local uint *scratch) {
    const uint item = get_local_id(0);
    barrier(CLK_LOCAL_MEM_FENCE);
    scratch[item] = as_uint(x);
    barrier(CLK_LOCAL_MEM_FENCE);
    __local const uint *s = scratch + item / 4 * 4;
    const uint lane = item % 4;
    return (as_float(s[lane]) + as_float(s[lane ^ 1])) + (as_float(s[lane ^ 2]) + as_float(s[lane ^ 3]));
}
inline float dot_by(uint a, uint b, bool are_halves, float sum) {
    if (!are_halves) {
        return fma(as_float(a), as_float(b), sum);
    }
    for (uint i = 0; i < 2; ++i) {
        sum = fma(vload_half(i, (const half *)&a), vload_half(i, (const half *)&b), sum);
    }
    return sum;
}
inline float4 multiply_by(uint4 a, uint b0, uint b1, float4 c, bool are_halves, __local uint *scratch) {
    const uint item = get_local_id(0);
    const uint warp = item / WARP * WARP;
    const uint row = item % WARP / 4;
    const uint column = item % 4 * 2;
    barrier(CLK_LOCAL_MEM_FENCE);
    scratch[item] = a.x;
    scratch[ITEMS + item] = a.y;
    scratch[2 * ITEMS + item] = a.z;
    scratch[3 * ITEMS + item] = a.w;
    scratch[4 * ITEMS + item] = b0;
    scratch[5 * ITEMS + item] = b1;
    barrier(CLK_LOCAL_MEM_FENCE);
    float sums[4] = {c.x, c.y, c.z, c.w};
    for (uint sum = 0; sum < 4; ++sum) {
        for (uint i = 0; i < 8; ++i) {
            const uint part = i / 4;
            const uint left = scratch[(2 * part + sum / 2) * ITEMS + warp + row * 4 + i % 4];
            const uint right = scratch[(4 + part) * ITEMS + warp + (column + sum % 2) * 4 + i % 4];
            sums[sum] = dot_by(left, right, are_halves, sums[sum]);
        }
    }
    return (float4)(sums[0], sums[1], sums[2], sums[3]);
}
#define over_four(x) over_four_by(x, scratch)
#define MULTIPLY(a, b0, b1, c) multiply_by(a, b0, b1, c, false, scratch)
#define MULTIPLY_HALVES(a, b0, b1, c) multiply_by(a, b0, b1, c, true, scratch)
#endif

// Powers of two by addition and multiplication, for the share of them that would wait for the special-function unit: a
// polynomial between -1/2 and 1/2 with a relative error of at most 2^-22.
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

// The place in the columns of the centroid in a slot of a tile. Slots beyond the tile's end repeat the last centroid, and
// their sums are not used.
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
    // Per tile: its first piece, its number of pieces, the place of its first centroid in the columns if its centroids
    // are consecutive (else GATHERED), and their number. This launch computes the tiles from `tiles_first` on.
    __global const uint4 *tiles, uint tiles_first,
    // Per piece: the place of its first centroid in the columns and in the tile, and its number of centroids. This launch
    // computes `pieces_count` pieces from `pieces_first` on.
    __global const uint4 *pieces, uint pieces_first, uint pieces_count,
    // The rows of all queries one after the other, ROW numbers each: coordinates, then the end.
    __global const float *rows,
    // The first row of each query, and the number of all rows.
    __global const uint *row_offsets, uint queries_first, uint queries_count,
    // Per query: the centre that is subtracted from a candidate's coordinates before they are multiplied by the factor.
    __global const float *centres, float factor, float alpha,
    // By query, then by piece, from `sums_first` on.
    __global float *sums, uint sums_first) {
    __local float shelf[SHELVED(TILE)];
#if TENSOR
    __local float folded[ITEMS];
#endif

    const uint item = get_local_id(0);
    // The work groups of one tile are consecutive, so its columns are in a cache for all queries but the first.
    const uint query_idx = get_group_id(0) % queries_count;
    const uint query = queries_first + query_idx;
    const uint4 tile = tiles[tiles_first + get_group_id(0) / queries_count];
    const uint rows_end = row_offsets[query + 1];

#if TENSOR
    // A query's columns in the layout of the multiplication: for the column of a lane, the upper bits of the numbers
    // `lane % 4` and `lane % 4 + 4` of each step, and then halves of those and of the lower parts.
    __local uint4 passing[ROWS / GROUP * STEPS * WARP];
#if !defined(__NV_CL_C_VERSION)
    __local uint scratch[6 * ITEMS];
#endif
    const uint lane = item % WARP;
    const uint quarter = lane % 4;
    // For centroids that are not consecutive: their places, until their sums replace them.
    if (tile.z == GATHERED) {
        for (uint slot = item; slot < TILE; slot += ITEMS) {
            shelf[slot] = as_float(place(tile, pieces, slot));
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    float moved[NUMBERS];
#pragma unroll
    for (uint i = 0; i < NUMBERS; ++i) {
        const uint d = 4 * i + quarter;
        moved[i] = d < DIMENSIONS ? centres[query * DIMENSIONS + d] : 0.0f;
    }
    for (uint from = 0; from < BANDS; from += BATCH) {
        uint4 upper[BATCH][STEPS];
        uint4 both[BATCH][STEPS];
        float2 starts[BATCH];
        float2 totals[BATCH];
        // The lanes of one quarter hold the weights of a band's rows.
        float2 weights[BATCH];
        float numbers[BATCH][2][NUMBERS];
        const uint slots = (item / WARP * BANDS + from) * BAND + lane / 4;
#pragma unroll
        for (uint b = 0; b < BATCH; ++b) {
#pragma unroll
            for (uint side = 0; side < 2; ++side) {
                const uint slot = slots + b * BAND + side * 8;
                const uint centroid =
                    tile.z == GATHERED ? as_uint(shelf[slot]) : tile.z + min(slot, tile.w - 1);
#pragma unroll
                for (uint i = 0; i < NUMBERS; ++i) {
                    const uint d = 4 * i + quarter;
                    numbers[b][side][i] = d <= DIMENSIONS ? columns[d * stride + centroid] : 0.0f;
                }
            }
        }
#pragma unroll EACH_BAND
        for (uint b = 0; b < BATCH; ++b) {
            float norms[2];
#pragma unroll EACH_SIDE
            for (uint side = 0; side < 2; ++side) {
                float norm = 0.0f;
#pragma unroll
                for (uint i = 0; i < NUMBERS; ++i) {
                    const float x = (numbers[b][side][i] - moved[i]) * factor;
                    norm = 4 * i + quarter < DIMENSIONS ? fma(x, x, norm) : norm;
                    if (i == DIMENSIONS / 4) {
                        if (side == 0) {
                            weights[b].x = numbers[b][side][i];
                        } else {
                            weights[b].y = numbers[b][side][i];
                        }
                    }
                    numbers[b][side][i] = x;
                }
                norms[side] = -over_four(norm);
                const bool is_near = norms[side] > -HALVES_NORM;
                norms[side] = is_near ? norms[side] : NOTHING;
#pragma unroll
                for (uint i = 0; i < NUMBERS; ++i) {
                    const uint d = 4 * i + quarter;
                    numbers[b][side][i] =
                        d < DIMENSIONS ? (is_near ? numbers[b][side][i] : 0.0f) : (d == DIMENSIONS ? 1.0f : 0.0f);
                }
            }
            starts[b] = (float2)(norms[0], norms[1]);
            totals[b] = (float2)(0.0f, 0.0f);
#pragma unroll
            for (uint s = 0; s < STEPS; ++s) {
                const float4 all = (float4)(numbers[b][0][2 * s], numbers[b][1][2 * s], numbers[b][0][2 * s + 1],
                                            numbers[b][1][2 * s + 1]);
                upper[b][s] =
                    (uint4)(upper_bits(all.x), upper_bits(all.y), upper_bits(all.z), upper_bits(all.w));
                const float4 high = as_float4(upper[b][s]);
                const float4 left = all - high;
                both[b][s] = (uint4)(halves(left.x, left.z), halves(left.y, left.w), halves(high.x, high.z),
                                     halves(high.y, high.w));
            }
        }
        for (uint first = row_offsets[query]; first < rows_end; first += ROWS) {
            const uint count = min((uint)ROWS, rows_end - first);
            const uint groups = (count + GROUP - 1) / GROUP;
            // A query that fits local memory as a whole stays there.
            if (from == 0 || rows_end - row_offsets[query] > ROWS) {
                barrier(CLK_LOCAL_MEM_FENCE);
                for (uint i = item; i < groups * STEPS * WARP; i += ITEMS) {
                    const uint row = i / (STEPS * WARP) * GROUP + i % WARP / 4;
                    const uint d = i / WARP % STEPS * 8 + i % 4;
                    float pair[2];
#pragma unroll
                    for (uint part = 0; part < 2; ++part) {
                        // Rows beyond the query's end must add nothing.
                        float x = d + 4 * part == DIMENSIONS ? NOTHING : 0.0f;
                        if (row < count && d + 4 * part <= DIMENSIONS) {
                            x = fmax(rows[(first + row) * ROW + d + 4 * part], NOTHING);
                        }
                        pair[part] = x;
                    }
                    const uint first_bits = upper_bits(pair[0]);
                    const uint second_bits = upper_bits(pair[1]);
                    float high[2] = {as_float(first_bits), as_float(second_bits)};
                    float left[2] = {pair[0] - high[0], pair[1] - high[1]};
#pragma unroll
                    for (uint part = 0; part < 2; ++part) {
                        // The lower part of a candidate's one is 0, and an end below HALVES_END needs no lower part.
                        if (d + 4 * part == DIMENSIONS) {
                            high[part] = 0.0f;
                            left[part] = pair[part] < HALVES_END ? 0.0f : left[part];
                        }
                    }
                    passing[i] =
                        (uint4)(first_bits, second_bits, halves(high[0], high[1]), halves(left[0], left[1]));
                }
                barrier(CLK_LOCAL_MEM_FENCE);
            }
            float2 partial[BATCH];
#pragma unroll
            for (uint b = 0; b < BATCH; ++b) {
                partial[b] = (float2)(0.0f, 0.0f);
            }
#pragma unroll UNROLLED
            for (uint group = 0; group < groups; ++group) {
                float4 sums[BATCH];
#pragma unroll
                for (uint b = 0; b < BATCH; ++b) {
                    sums[b] = (float4)(starts[b].x, starts[b].x, starts[b].y, starts[b].y);
                }
#pragma unroll
                for (uint s = 0; s < STEPS; ++s) {
                    const uint4 passes = passing[(group * STEPS + s) * WARP + lane];
#pragma unroll EACH_BAND
                    for (uint b = 0; b < BATCH; ++b) {
                        sums[b] = MULTIPLY_HALVES(both[b][s], passes.z, passes.w, sums[b]);
                    }
#pragma unroll EACH_BAND
                    for (uint b = 0; b < BATCH; ++b) {
                        sums[b] = MULTIPLY(upper[b][s], passes.x, passes.y, sums[b]);
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
#pragma unroll EACH_BAND
        for (uint b = 0; b < BATCH; ++b) {
            const float above = over_four(totals[b].x);
            const float below = over_four(totals[b].y);
            if (quarter == DIMENSIONS % 4) {
                shelf[slots + b * BAND] = above * weights[b].x;
                shelf[slots + b * BAND + 8] = below * weights[b].y;
            }
        }
    }
#else
    __local float4 passing[ROWS * ROW / 4];
    float held[HELD][DIMENSIONS];
    float starts[HELD];
    float weights[HELD];
    float totals[HELD];
    // The piece that this item adds up first. Read here, it arrives during the loops; at the end all items would wait for it.
    const uint4 early = pieces[tile.x + min(item, tile.y - 1)];
    if (tile.z != GATHERED && tile.z + TILE <= stride) {
        // Slots beyond the tile's end may hold any centroid, and without their limit one address serves a whole column.
        __global const float *first = columns + tile.z + item;
#pragma unroll
        for (uint d = 0; d < DIMENSIONS; ++d) {
#pragma unroll
            for (uint h = 0; h < HELD; ++h) {
                held[h][d] = first[(size_t)d * stride + h * ITEMS];
            }
        }
#pragma unroll
        for (uint h = 0; h < HELD; ++h) {
            weights[h] = first[(size_t)DIMENSIONS * stride + h * ITEMS];
        }
    } else {
#pragma unroll
        for (uint h = 0; h < HELD; ++h) {
            const uint centroid = place(tile, pieces, h * ITEMS + item);
            weights[h] = columns[DIMENSIONS * stride + centroid];
#pragma unroll
            for (uint d = 0; d < DIMENSIONS; ++d) {
                held[h][d] = columns[d * stride + centroid];
            }
        }
    }
#pragma unroll
    for (uint h = 0; h < HELD; ++h) {
        totals[h] = 0.0f;
        starts[h] = 0.0f;
#if defined(GAUSSIAN)
#pragma unroll
        for (uint d = 0; d < DIMENSIONS; ++d) {
            held[h][d] = (held[h][d] - centres[query * DIMENSIONS + d]) * factor;
            starts[h] -= held[h][d] * held[h][d];
        }
        // A centroid with such a large norm has no similarity to any query. Infinities would give one.
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
            // The number of rows is a multiple of four (ROWS_PER_GROUP), so the loop can be unrolled by four.
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
        shelf[SHELVED(h * ITEMS + item)] = totals[h] * weights[h];
    }
#endif
    barrier(CLK_LOCAL_MEM_FENCE);
#if TENSOR
    // LANES work items add up a piece together.
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
#else
    // A work item adds up a piece, so that a tile of many short pieces needs no barriers. LANES sums are independent.
    for (uint mine = item; mine < tile.y; mine += ITEMS) {
        const uint4 piece = mine == item ? early : pieces[tile.x + mine];
        const uint whole = piece.z / LANES * LANES;
        float s[LANES];
#pragma unroll
        for (uint lane = 0; lane < LANES; ++lane) {
            s[lane] = 0.0f;
        }
        for (uint i = 0; i < whole; i += LANES) {
#pragma unroll
            for (uint lane = 0; lane < LANES; ++lane) {
                s[lane] += shelf[SHELVED(piece.y + i + lane)];
            }
        }
#pragma unroll
        for (uint lane = 0; lane < LANES; ++lane) {
            if (whole + lane < piece.z) {
                s[lane] += shelf[SHELVED(piece.y + whole + lane)];
            }
        }
        sums[sums_first + query_idx * pieces_count + tile.x - pieces_first + mine] =
            ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
    }
#endif
}
