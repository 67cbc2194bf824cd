// BM3D on a device: the twin of `strip.rs`, `matching.rs`, `filter.rs` and `aggregation.rs`. Each operation is one IEEE operation in the
// order of the processor, or exact, so the bits are the processor's. `device.rs` defines the constants.
//
// A program has one of two parts. With SAMPLE it turns samples into planes and back; SAMPLE is the type of a sample, CHANNELS and
// COLOURS are those of a pixel, and IS_TOGETHER says whether colours become brightness and two differences. Otherwise it computes one
// phase.
//
// An operation that rounds goes through `product` or `quotient` where a compiler could fuse it or take a faster one.

#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
#pragma OPENCL FP_CONTRACT OFF

// Arrays of a caller stay in registers only if the function is a part of it.
#define INLINE inline __attribute__((always_inline))

#if defined(__NV_CL_C_VERSION)
INLINE float product(float a, float b) {
    float c;
    __asm("mul.rn.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
    return c;
}
INLINE float quotient(float a, float b) {
    float c;
    __asm("div.rn.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
    return c;
}
#else
#define product(a, b) ((a) * (b))
// A quotient of f32 that is rounded to f64 first is rounded to f32 as if it had not been.
INLINE float quotient(float a, float b) { return convert_float_rte((double)a / (double)b); }
#endif

#if defined(SAMPLE)

// The place in 0 to `count` that mirrors give for a place beyond; edges are repeated.
INLINE uint mirrored(uint place, uint count) {
    const uint turned = place % (2 * count);
    return turned < count ? turned : 2 * count - 1 - turned;
}

// A sample in grey levels: WORDS_PER_LEVEL is that of samples of 16 bits, 0 for others.
INLINE float level_of(SAMPLE sample) {
#if WORDS_PER_LEVEL
    return quotient((float)sample, (float)WORDS_PER_LEVEL);
#else
    return (float)sample;
#endif
}

INLINE SAMPLE sample_of(float level) {
    const float held = clamp(level, 0.0f, 255.0f);
#if WORDS_PER_LEVEL
    return (SAMPLE)rint(product(held, (float)WORDS_PER_LEVEL));
#elif IS_FLOAT
    return held;
#else
    return (SAMPLE)rint(held);
#endif
}

__kernel void to_planes(
    // The samples of rows from `top` on, of a picture of this width and height.
    __global const SAMPLE *samples, uint top, uint width, uint height,
    // Planes of rows from `top` on, which reach beyond a picture that is smaller than a patch.
    uint plane_width, uint plane_rows, __global float *noisy,
    // The sums of the first phase, which become 0.
    __global long *sums, uint sums_count) {
    const uint pixels = plane_width * plane_rows;
    for (uint at = get_global_id(0); at < sums_count; at += get_global_size(0)) sums[at] = 0;
    const uint pixel = get_global_id(0);
    if (pixel < pixels) {
        uint x = pixel % plane_width, y = top + pixel / plane_width;
        x = x < width ? x : mirrored(x, width);
        y = y < height ? y : mirrored(y, height);
        __global const SAMPLE *sample = samples + ((size_t)(y - top) * width + x) * CHANNELS;
#if COLOURS == 1
        noisy[pixel] = level_of(sample[0]);
#else
        const float r = level_of(sample[0]), g = level_of(sample[1]), b = level_of(sample[2]);
#if IS_TOGETHER
        noisy[pixel] = quotient(r + g + b, 3.0f);
        noisy[(size_t)pixels + pixel] = (r - b) * 0.5f;
        noisy[2 * (size_t)pixels + pixel] = (r - 2.0f * g + b) * 0.25f;
#else
        noisy[pixel] = r;
        noisy[(size_t)pixels + pixel] = g;
        noisy[2 * (size_t)pixels + pixel] = b;
#endif
#endif
    }
}

__kernel void to_samples(
    // Planes without noise.
    __global const float *estimates, uint plane_width, uint plane_rows,
    // The samples of the picture from `skipped` rows on have the alpha of these rows.
    __global const SAMPLE *samples, uint skipped, uint width, uint rows, __global SAMPLE *cleaned) {
    const uint pixel = get_global_id(0);
    if (pixel < width * rows) {
        const uint x = pixel % width, y = pixel / width;
        const size_t at = (size_t)y * plane_width + x;
        __global SAMPLE *to = cleaned + (size_t)pixel * CHANNELS;
#if COLOURS == 1
        to[0] = sample_of(estimates[at]);
#else
        const size_t pixels = (size_t)plane_width * plane_rows;
        const float p = estimates[at], q = estimates[pixels + at], v = estimates[2 * pixels + at];
#if IS_TOGETHER
        const float third = product(v, TWO_THIRDS);
        to[0] = sample_of(p + third + q);
        to[1] = sample_of(p - 2.0f * third);
        to[2] = sample_of(p + third - q);
#else
        to[0] = sample_of(p);
        to[1] = sample_of(q);
        to[2] = sample_of(v);
#endif
#endif
#if CHANNELS > COLOURS
        to[COLOURS] = samples[((size_t)(skipped + y) * width + x) * CHANNELS + COLOURS];
#endif
    }
}

#else

// Constants of a phase: PATCH, STEP, HALF and STACK are its settings, LIMIT is the largest difference of similar patches, and MODEL the
// name of the planes that are matched. MATCH_ITEMS work items match REFERENCES patches of a row, with a tile of rows of TILE_STRIDE
// numbers, of which TILE_WIDTH count. FILTER_ITEMS work items filter a stack. IS_WIENER and IS_WALSH choose the rule and the transform
// along stacks. FORWARD and INVERSE are matrices, CORRELATIONS are those of `variance.rs` by distance, WINDOW is the name of the
// phase's weights of pixels, and FEW is that of `variance.rs`.
#define SPAN (2 * HALF + 1)
#define TILE_ROWS (2 * HALF + PATCH)
// Bits of a key below the difference.
#define RANK_BITS 16
// Numbers of a row of a patch in local memory, odd, so that rows begin in different banks; and of a patch.
#define ROW (PATCH | 1)
#define PATCH_NUMBERS (PATCH * ROW)
// Places in whose order the noise that is left is summed.
#define PARTS 16
#define HALF_ROOT 0x1.6a09e6p-1f

// Sums up to LIMIT are exact either way, and others stay beyond it.
#if defined(FP_FAST_FMAF) || defined(__NV_CL_C_VERSION)
#define add_square(x, sum) fma((x), (x), (sum))
#else
#define add_square(x, sum) ((x) * (x) + (sum))
#endif

// The place of a displacement in the order of distance.
INLINE uint rank_of(uint rows_away, uint columns_away, bool is_below, bool is_right) {
    const uint rows = rows_away ? 2 : 1, columns = columns_away ? 2 : 1;
    return (rows_away ? (2 * rows_away - 1) * SPAN : 0) + (columns_away ? (2 * columns_away - 1) * rows : 0)
        + (is_below && rows_away ? columns : 0) + (is_right && columns_away ? 1 : 0);
}

// The displacement of a place in this order: rows and columns.
INLINE int2 displacement_of(uint rank) {
    const uint rows_away = rank < SPAN ? 0 : (rank - SPAN) / (2 * SPAN) + 1;
    const uint rows = rows_away ? 2 : 1;
    const uint of_rows = rows_away ? (rank - SPAN) % (2 * SPAN) : rank;
    const uint columns_away = of_rows < rows ? 0 : (of_rows - rows) / (2 * rows) + 1;
    const uint columns = columns_away ? 2 : 1;
    const uint left = columns_away ? (of_rows - rows) % (2 * rows) : of_rows;
    const bool is_below = left / columns == 1, is_right = left % columns == 1;
    return (int2)(is_below ? (int)rows_away : -(int)rows_away, is_right ? (int)columns_away : -(int)columns_away);
}

// Adds the squared differences of a row of pixels to the sums of all displacements in which the row takes part: sum i is of the one
// whose row i this is, and has the rows before. `first` and `end` are the rows of the reference that take part.
INLINE void add_row(float reference[PATCH][PATCH], float sums[PATCH], __local const float *pixels, bool is_part, int first, int end) {
    float other[PATCH];
#pragma unroll
    for (int j = 0; j < PATCH; ++j) other[j] = pixels[j];
#pragma unroll
    for (int i = PATCH - 1; i >= 0; --i) {
        float sum = i > 0 ? sums[i > 0 ? i - 1 : 0] : 0.0f;
        if (!is_part || (first <= i && i < end)) {
#pragma unroll
            for (int j = 0; j < PATCH; ++j) {
                const float away = reference[i][j] - other[j];
                sum = add_square(away, sum);
            }
        }
        sums[i] = sum;
    }
}

// The similar patches of reference patches. A work item has one reference patch and one column of the window, and goes through the rows
// of the window from the middle down, then up. Each row of pixels that it reads takes part in PATCH displacements, so it reads PATCH numbers
// for PATCH * PATCH differences. The work items of a reference patch share its best list, in which they insert the differences of a row
// of the window together.
__kernel __attribute__((reqd_work_group_size(MATCH_ITEMS, 1, 1))) void match_patches(
    // Planes of rows from `model_top` on.
    __global const float *MODEL, uint model_top, uint model_rows, uint width,
    // Reference patches of a row; the first row of the grid; the last row in which a patch lies.
    uint columns, uint first_row, uint last_row,
    // By reference patch: the ranks of its stack, and their number.
    __global ushort *ranks, __global uchar *counts) {
    __local float tile[TILE_ROWS * TILE_STRIDE];
    __local ulong lists[2 * REFERENCES * STACK];
    __local ulong fresh[REFERENCES * SPAN];
    __local uint fresh_counts[2 * REFERENCES];
    const uint item = get_local_id(0), first = get_group_id(0) * REFERENCES;
    const uint row = get_group_id(1), plane = get_group_id(2);
    const uint y = min((first_row + row) * STEP, last_row), last_column = width - PATCH;
    const uint left = min(first * STEP, last_column);
    __global const float *pixels = MODEL + (size_t)plane * model_rows * width;
    for (uint i = item; i < TILE_ROWS * TILE_WIDTH; i += MATCH_ITEMS) {
        const uint tile_row = i / TILE_WIDTH, tile_column = i % TILE_WIDTH;
        const int at_row = (int)(y + tile_row) - HALF - (int)model_top, at = (int)(left + tile_column) - HALF;
        float pixel = 0.0f;
        if (at_row >= 0 && at_row < (int)model_rows && at >= 0 && at < (int)width) {
            const float level = pixels[(size_t)at_row * width + at];
            pixel = rint(clamp(level, -LEVELS_MAX, LEVELS_MAX) * STEPS);
        }
        tile[tile_row * TILE_STRIDE + tile_column] = pixel;
    }
    for (uint i = item; i < 2 * REFERENCES * STACK; i += MATCH_ITEMS) lists[i] = ULONG_MAX;
    for (uint i = item; i < 2 * REFERENCES; i += MATCH_ITEMS) fresh_counts[i] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);

    const bool is_lane = item < REFERENCES * SPAN;
    const uint own = is_lane ? item / SPAN : REFERENCES - 1, lane = is_lane ? item % SPAN : 0;
    const uint x = min((first + own) * STEP, last_column);
    const int right = (int)lane - HALF;
    const bool is_inside = is_lane && first + own < columns && (int)x + right >= 0 && x + right <= last_column;
    __local const float *corner = tile + (x - left);
    uint current = 0, parity = 0;
    for (uint is_up = 0; is_up < 2; ++is_up) {
        // Down: 0 rows away and more; up: 1 row and more, with the rows of the patch from its last to its first.
        const uint count = is_up ? min(y, (uint)HALF) : min(last_row - y, (uint)HALF) + 1;
        float reference[PATCH][PATCH], sums[PATCH];
#pragma unroll
        for (int i = 0; i < PATCH; ++i) {
            const int from = HALF + (is_up ? PATCH - 1 - i : i);
            sums[i] = 0.0f;
#pragma unroll
            for (int j = 0; j < PATCH; ++j) reference[i][j] = corner[from * TILE_STRIDE + HALF + j];
        }
        __local const float *others = corner + lane + (is_up ? HALF + PATCH - 2 : HALF) * TILE_STRIDE;
        const int stride = is_up ? -TILE_STRIDE : TILE_STRIDE;
        for (int t = 0; t < PATCH - 1; ++t) add_row(reference, sums, others + t * stride, true, 0, t + 1);
        for (uint away = 0; away < count; ++away) {
            const int t = (int)away + PATCH - 1;
            if (t < (int)count) add_row(reference, sums, others + t * stride, false, 0, PATCH);
            else add_row(reference, sums, others + t * stride, true, t + 1 - (int)count, PATCH);
            const float difference = sums[PATCH - 1];
            const uint rank = rank_of(away + is_up, abs(right), !is_up, right > 0);
            const ulong key = (ulong)(uint)min(difference, LIMIT + 1.0f) << RANK_BITS | rank;
            __local ulong *list = lists + (current * REFERENCES + own) * STACK;
            __local ulong *next = lists + ((1 - current) * REFERENCES + own) * STACK;
            __local ulong *added = fresh + own * SPAN;
            if (is_inside && difference <= LIMIT && key < list[STACK - 1])
                added[atomic_inc(&fresh_counts[parity * REFERENCES + own])] = key;
            barrier(CLK_LOCAL_MEM_FENCE);
            const uint added_count = is_lane ? fresh_counts[parity * REFERENCES + own] : 0;
            if (added_count > 0) {
                // Each key goes to the place that is the number of smaller ones.
                for (uint i = lane; i < STACK; i += SPAN) {
                    uint place = i;
                    const ulong old = list[i];
                    for (uint other = 0; other < added_count; ++other) place += added[other] < old ? 1 : 0;
                    if (place < STACK) next[place] = old;
                }
                if (lane < added_count) {
                    const ulong new = added[lane];
                    uint place = 0;
                    for (uint part = STACK / 2; part > 0; part /= 2) place += list[place + part - 1] < new ? part : 0;
                    place += list[place] < new ? 1 : 0;
                    for (uint other = 0; other < added_count; ++other) place += added[other] < new ? 1 : 0;
                    if (place < STACK) next[place] = new;
                }
                current = 1 - current;
            }
            if (lane == 0) fresh_counts[(1 - parity) * REFERENCES + own] = 0;
            parity = 1 - parity;
            barrier(CLK_LOCAL_MEM_FENCE);
        }
    }
    if (is_lane && first + own < columns) {
        __local const ulong *list = lists + (current * REFERENCES + own) * STACK;
        const size_t of_reference = ((size_t)plane * get_num_groups(1) + row) * columns + first + own;
        for (uint i = lane; i < STACK; i += SPAN) ranks[of_reference * STACK + i] = (ushort)list[i];
        if (lane == 0) {
            // A power of two; the patch itself is always there.
            uint count = 1;
            while (2 * count <= STACK && list[2 * count - 1] != ULONG_MAX) count *= 2;
            counts[of_reference] = (uchar)count;
        }
    }
}

__constant float forward_matrix[PATCH * PATCH] = {FORWARD};
__constant float inverse_matrix[PATCH * PATCH] = {INVERSE};
__constant float correlations_of_rows[PATCH * PATCH] = {CORRELATIONS};

// Multiplies each column of patches in local memory by a matrix from the left, then each row by it from the right. The columns come
// from a plane if one is given. All items must call it.
INLINE void transform(
    __local float *stack, uint count, __constant const float *matrix, __global const float *plane, __local const uint *places,
    uint width) {
    const uint item = get_local_id(0);
    for (uint job = item; job < count * PATCH; job += FILTER_ITEMS) {
        const uint patch = job / PATCH, j = job % PATCH;
        __local float *column = stack + patch * PATCH_NUMBERS + j;
        float in[PATCH];
        if (plane) {
            __global const float *from = plane + places[patch] + j;
#pragma unroll
            for (int k = 0; k < PATCH; ++k) in[k] = from[(size_t)k * width];
        } else {
#pragma unroll
            for (int k = 0; k < PATCH; ++k) in[k] = column[k * ROW];
        }
#pragma unroll
        for (int i = 0; i < PATCH; ++i) {
            float sum = product(matrix[i * PATCH], in[0]);
#pragma unroll
            for (int k = 1; k < PATCH; ++k) sum += product(matrix[i * PATCH + k], in[k]);
            column[i * ROW] = sum;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint job = item; job < count * PATCH; job += FILTER_ITEMS) {
        __local float *row = stack + job / PATCH * PATCH_NUMBERS + job % PATCH * ROW;
        float in[PATCH];
#pragma unroll
        for (int k = 0; k < PATCH; ++k) in[k] = row[k];
#pragma unroll
        for (int i = 0; i < PATCH; ++i) {
            float sum = product(in[0], matrix[i * PATCH]);
#pragma unroll
            for (int k = 1; k < PATCH; ++k) sum += product(in[k], matrix[i * PATCH + k]);
            row[i] = sum;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

// Sums and differences of numbers that are `apart`: of the means only (Haar), or of all. They are their own inverse.
INLINE void butterflies(float v[STACK], uint count, int apart) {
    if (apart < (int)count) {
#pragma unroll
        for (int base = 0; base + apart < STACK; base += 2 * apart) {
#pragma unroll
            for (int i = base; i < base + (IS_WALSH ? apart : 1); ++i) {
                const float a = v[i], b = v[i + apart];
                v[i] = product(a + b, HALF_ROOT);
                v[i + apart] = product(a - b, HALF_ROOT);
            }
        }
    }
}

// One coefficient of all patches along the stack.
INLINE void there(float v[STACK], uint count) {
#if STACK > 1
    butterflies(v, count, 1);
#endif
#if STACK > 2
    butterflies(v, count, 2);
#endif
#if STACK > 4
    butterflies(v, count, 4);
#endif
#if STACK > 8
    butterflies(v, count, 8);
#endif
#if STACK > 16
    butterflies(v, count, 16);
#endif
}

INLINE void back(float v[STACK], uint count) {
#if STACK > 16
    butterflies(v, count, 16);
#endif
#if STACK > 8
    butterflies(v, count, 8);
#endif
#if STACK > 4
    butterflies(v, count, 4);
#endif
#if STACK > 2
    butterflies(v, count, 2);
#endif
#if STACK > 1
    butterflies(v, count, 1);
#endif
}

// The sum of the correlations of all pairs of one of `apart` patches from `base` on and one of the next `apart`, for one coefficient.
INLINE float of_few(
    uint base, uint apart, __local const float *correlations, __local const int *rows, __local const uint *lefts, uint i, uint j) {
    float sum = 0.0f;
    for (uint k = base; k < base + apart; ++k) {
        for (uint l = base + apart; l < base + 2 * apart; ++l) {
            const uint down = abs(rows[k] - rows[l]), right = abs((int)lefts[k] - (int)lefts[l]);
            if (down < PATCH && right < PATCH)
                sum += product(correlations[down * PATCH + i], correlations[right * PATCH + j]);
        }
    }
    return sum;
}

// As `of_few`, from the sums of a part for each number of rows away.
INLINE float of_many(__local const float *sums, __local const float *correlations, uint i, uint j) {
    float sum = 0.0f;
    for (uint away = 0; away < PATCH; ++away) sum += product(correlations[away * PATCH + i], sums[away * PATCH + j]);
    return sum;
}

// The variances of noise in one coefficient of all patches; those of a patch are FILTER_ITEMS apart. The memory of the stack serves for
// sums. All items must call it. Loops are not unrolled, as the program would become too large for PoCL.
INLINE void noise_of_stack(
    __local float *noise, uint count, __local float *stack, __local const float *correlations, __local const int *rows,
    __local const uint *lefts, uint i, uint j) {
    const uint item = get_local_id(0);
    // Parts of more patches than FEW on a side have a table of counts by distance and one of sums, together less than the stack.
    __local uint *bins = (__local uint *)stack;
    __local float *sums = stack + (STACK + 15) / 16 * PATCH * PATCH;
    for (uint n = 0; n < count; ++n) noise[n * FILTER_ITEMS] = 1.0f;
    for (uint apart = 1; apart < count; apart *= 2) {
        const uint parts = apart > FEW ? count / (2 * apart) : 0, cells = parts * PATCH * PATCH;
        for (uint cell = item; cell < cells; cell += FILTER_ITEMS) bins[cell] = 0;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint pair = item; pair < parts * apart * apart; pair += FILTER_ITEMS) {
            const uint part = pair / (apart * apart), k = 2 * apart * part + pair / apart % apart;
            const uint l = 2 * apart * part + apart + pair % apart;
            const uint down = abs(rows[k] - rows[l]), right = abs((int)lefts[k] - (int)lefts[l]);
            if (down < PATCH && right < PATCH) atomic_inc(bins + (part * PATCH + down) * PATCH + right);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint cell = item; cell < cells; cell += FILTER_ITEMS) {
            __local const uint *of_rows = bins + cell / PATCH * PATCH;
            float sum = 0.0f;
            for (uint away = 0; away < PATCH; ++away)
                sum += product((float)of_rows[away], correlations[away * PATCH + cell % PATCH]);
            sums[cell] = sum;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        // A part of the stack has the variance of its halves and of the pairs between them; it is that of its first patch so far.
        const float share = 1.0f / (float)apart;
        for (uint base = 0; base < count; base += 2 * apart) {
            const float of_pairs = apart > FEW ? of_many(sums + base / (2 * apart) * PATCH * PATCH, correlations, i, j)
                                               : of_few(base, apart, correlations, rows, lefts, i, j);
            __local float *low = noise + base * FILTER_ITEMS, *high = low + apart * FILTER_ITEMS;
            const float shared = product(of_pairs, share), mean = product(*low + *high, 0.5f), details = mean - shared;
            *low = mean + shared;
            *high = details > VARIANCE_MIN ? details : VARIANCE_MIN;
        }
    }
    *noise = *noise > VARIANCE_MIN ? *noise : VARIANCE_MIN;
    // The stack's patches take the place of the sums.
    barrier(CLK_LOCAL_MEM_FENCE);
}

// Filters a stack, which is in local memory, and adds its estimates and their weights to the sums of their pixels. A work item has a
// coefficient of all patches in registers.
__kernel __attribute__((reqd_work_group_size(FILTER_ITEMS, 1, 1))) void filter_stacks(
    // Planes of rows from `noisy_top` on.
    __global const float *noisy, uint noisy_top, uint noisy_rows,
#if IS_WIENER
    // The model, of rows from `model_top` on.
    __global const float *estimates, uint model_top, uint model_rows,
#endif
    uint width, uint columns, uint first_row, uint last_row,
    __global const ushort *ranks, __global const uchar *counts,
    // Whether each plane was matched, or the first one for all; by plane the limit of coefficients, or the variance of the noise.
    uint is_apart, float4 rules,
    // By pixel of a patch.
    __global const float *WINDOW,
    // By plane: sums of estimates, then of weights, of rows from `sums_top` on.
    volatile __global long *sums, uint sums_top, uint sums_rows) {
    __local float stack[STACK * PATCH_NUMBERS];
    __local float correlations[PATCH * PATCH];
#if !IS_WALSH
    __local float noise[STACK * FILTER_ITEMS];
#endif
    __local uint places[STACK];
#if IS_WIENER
    __local uint model_places[STACK];
#endif
    __local float parts[PARTS];
    __local int rows[STACK];
    __local uint lefts[STACK];
    const uint item = get_local_id(0), column = get_group_id(0), row = get_group_id(1), plane = get_group_id(2);
    const uint y = min((first_row + row) * STEP, last_row), x = min(column * STEP, width - PATCH);
    const size_t of_reference = ((size_t)(is_apart ? plane : 0) * get_num_groups(1) + row) * columns + column;
    const uint count = counts[of_reference];
    const float rule = plane == 0 ? rules.x : plane == 1 ? rules.y : rules.z;
    if (item < count) {
        const int2 away = displacement_of(ranks[of_reference * STACK + item]);
        const uint top = y + away.x, left = x + away.y;
        places[item] = (top - noisy_top) * width + left;
#if IS_WIENER
        model_places[item] = (top - model_top) * width + left;
#endif
        rows[item] = (int)top - (int)sums_top;
        lefts[item] = left;
    }
    const bool is_own = item < PATCH * PATCH;
    if (is_own) correlations[item] = correlations_of_rows[item];
    barrier(CLK_LOCAL_MEM_FENCE);

    const uint i = is_own ? item / PATCH : 0, j = is_own ? item % PATCH : 0;
    __local float *own = stack + i * ROW + j;
    float v[STACK];
#if !IS_WALSH
    noise_of_stack(noise + item, count, stack, correlations, rows, lefts, i, j);
#endif
#if IS_WIENER
    float gains[STACK];
    transform(stack, count, forward_matrix, estimates + (size_t)plane * model_rows * width, model_places, width);
#pragma unroll
    for (int n = 0; n < STACK; ++n) gains[n] = n < (int)count ? own[n * PATCH_NUMBERS] : 0.0f;
    there(gains, count);
    barrier(CLK_LOCAL_MEM_FENCE);
#endif
    transform(stack, count, forward_matrix, noisy + (size_t)plane * noisy_rows * width, places, width);
#pragma unroll
    for (int n = 0; n < STACK; ++n) v[n] = n < (int)count ? own[n * PATCH_NUMBERS] : 0.0f;
    there(v, count);
    // The coefficients that are left, and the variance of their noise.
#pragma unroll
    for (int n = 0; n < STACK; ++n) {
#if IS_WALSH
        const float variance = 1.0f;
#else
        const float variance = n < (int)count ? noise[n * FILTER_ITEMS + item] : 1.0f;
#endif
        const float limit = product(rule, variance);
#if IS_WIENER
        const float power = product(gains[n], gains[n]);
        const float gain = quotient(power, power + limit);
        v[n] = product(v[n], gain);
        const float left = product(product(gain, gain), variance);
#else
        const bool is_kept = (n == 0 && item == 0) || product(v[n], v[n]) >= limit;
        v[n] = is_kept ? v[n] : 0.0f;
        const float left = is_kept ? variance : 0.0f;
#endif
        if (is_own && n < (int)count) own[n * PATCH_NUMBERS] = left;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    // The order of sums is the processor's, which adds every sixteenth number of rows of 8 or 16.
    if (item < PARTS) {
        float sum = 0.0f;
        for (uint n = 0; n < count; ++n) {
#if PATCH == 8
            __local const float *of_part = stack + n * PATCH_NUMBERS + item / 8 * ROW + item % 8;
            for (uint k = 0; k < PATCH / 2; ++k) sum += of_part[2 * k * ROW];
#else
            __local const float *of_part = stack + n * PATCH_NUMBERS + min(item, (uint)PATCH - 1);
            for (uint k = 0; k < PATCH; ++k) sum += of_part[k * ROW];
#endif
        }
        parts[item] = PATCH == 8 || item < PATCH ? sum : 0.0f;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    float sum = 0.0f;
    for (uint part = 0; part < PARTS; ++part) sum += parts[part];
    const float weight = quotient(1.0f, sum > 1.0f ? sum : 1.0f);
    back(v, count);
#pragma unroll
    for (int n = 0; n < STACK; ++n) {
        if (is_own && n < (int)count) own[n * PATCH_NUMBERS] = v[n];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    transform(stack, count, inverse_matrix, 0, places, width);
    if (is_own) {
        const float part = product(weight, WINDOW[item]);
        const float scale = part * ESTIMATE_UNITS;
        const long units = (long)rint(part * WEIGHT_UNITS);
        const size_t pixels = (size_t)sums_rows * width;
        volatile __global long *of_plane = sums + 2 * plane * pixels;
        for (uint n = 0; n < count; ++n) {
            const int at_row = rows[n] + (int)i;
            if (at_row >= 0 && at_row < (int)sums_rows) {
                const size_t at = (size_t)at_row * width + lefts[n] + j;
                atom_add(of_plane + at, (long)rint(product(own[n * PATCH_NUMBERS], scale)));
                atom_add(of_plane + pixels + at, units);
            }
        }
    }
}

// The weighted means of a plane; the sums become 0.
__kernel void means(__global long *sums, uint pixels, __global float *estimates) {
    const uint pixel = get_global_id(0), plane = get_global_id(1);
    if (pixel < pixels) {
        __global long *of_plane = sums + 2 * (size_t)plane * pixels;
        const long estimate = of_plane[pixel], weight = of_plane[(size_t)pixels + pixel];
        of_plane[pixel] = 0;
        of_plane[(size_t)pixels + pixel] = 0;
        const double mean = (double)estimate * UNITS_RATIO / (double)max(weight, 1L);
        estimates[(size_t)plane * pixels + pixel] = convert_float_rte(mean);
    }
}

#endif
