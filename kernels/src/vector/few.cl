// Values of all rows for a few queries, in one pass over the rows: as fast as they are read. `scan` (`device.cl`) would compute as
// much as for a full group of queries. `few.rs` defines the constants: ITEMS, TEAM, HELD, QUERIES, DEPTH, LOADED, and the type of
// the rows' numbers: NUMBER, or HALVES.
//
// A team of items shares a row: each item loads LOADED numbers of it at a time, the next item the next ones. An item has HELD rows,
// so that as many loads are under way. Queries lie in local memory, in the order in which items read them.
//
// Values are written to memory, which costs four bytes for the hundreds that a row has; and so is the least value of each group.
// The k-th least of these is a limit (`k_select.cl`), by which `winnow` drops almost all rows.

#define TEAMS (ITEMS / TEAM)
#define GROUP_ROWS (TEAMS * HELD)
// Numbers that are computed with at a time.
#define GROUPED (LOADED < 4 ? LOADED : 4)
#define ABSENT INFINITY

#if GROUPED == 4
#define NUMBERS float4
#define DOT(a, b, sum) fma((a).w, (b).w, fma((a).z, (b).z, fma((a).y, (b).y, fma((a).x, (b).x, sum))))
#elif GROUPED == 2
#define NUMBERS float2
#define DOT(a, b, sum) fma((a).y, (b).y, fma((a).x, (b).x, sum))
#else
#define NUMBERS float
#define DOT(a, b, sum) fma(a, b, sum)
#endif

#if defined(HALVES)
#if defined(__NV_CL_C_VERSION)
inline float2 of_halves(uint word) {
    float low, high;
    __asm("{.reg .b16 l, h;\n mov.b32 {l, h}, %2;\n cvt.f32.f16 %0, l;\n cvt.f32.f16 %1, h;}"
          : "=f"(low), "=f"(high)
          : "r"(word));
    return (float2)(low, high);
}
#else
inline float2 of_halves(uint word) {
    return (float2)(vload_half(0, (const half *)&word), vload_half(1, (const half *)&word));
}
#endif
#define WIDENED(numbers, at) vload_half(at, (__global const half *)(numbers))
#define OF_WORD(word) of_halves(word)
#define NUMBER ushort
#else
#define WIDENED(numbers, at) ((float)(numbers)[at])
#endif

// A load, and some of its numbers.
#if LOADED == 1
#define LOAD float
#define READ(rows, at) WIDENED(rows, at)
#define OF_LOAD(load, group) (load)
#elif defined(HALVES) && LOADED == 8
#define LOAD uint4
#define OF_LOAD(load, group) \
    (group == 0 ? (float4)(of_halves((load).x), of_halves((load).y)) : (float4)(of_halves((load).z), of_halves((load).w)))
#elif defined(HALVES)
#define LOAD uint
#define OF_LOAD(load, group) of_halves(load)
#elif defined(BYTES) && LOADED == 16
#define LOAD uint4
#define OF_LOAD(load, group) \
    convert_float4(BYTES(group == 0 ? (load).x : group == 1 ? (load).y : group == 2 ? (load).z : (load).w))
#elif defined(BYTES)
#define LOAD uint
#define OF_LOAD(load, group) convert_float4(BYTES(load))
#else
#define LOAD float4
#define OF_LOAD(load, group) (load)
#endif
#if LOADED > 1
#define READ(rows, at) ((__global const LOAD *)(rows))[(at) / LOADED]
#endif

// The place in local memory of a number of a query: the numbers that the items of a team read at the same time lie side by side.
#define PLACE(number)                                                                        \
    ((number) / (TEAM * LOADED) * (TEAM * LOADED) + (number) % LOADED / GROUPED * (TEAM * GROUPED) + \
     (number) / LOADED % TEAM * GROUPED + (number) % GROUPED)

// The bits of a number, in the order of the numbers.
inline uint ordered(uint bits) { return bits ^ (bits >> 31 ? 0xffffffffu : 0x80000000u); }

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void few(
    // Vectors of `dimensions` numbers, one after the other.
    __global const NUMBER *rows,
    // By row: the base and the factor of its value, `base - factor * product`.
    __global const float2 *terms, uint rows_first, uint rows_end,
    // Vectors of as many numbers; those that a row lacks are zero.
    __global const float *queries, uint queries_count, uint dimensions,
    // By query, `rows_end - rows_first` values.
    __global float *values,
    // By query, the least value of each group; no number for a group with a value that is none.
    __global float *minima) {
    // The queries; then, by query, the parts of sums, which need the same room.
    __local float near[QUERIES * (DEPTH > GROUP_ROWS * TEAM ? DEPTH : GROUP_ROWS * TEAM)] __attribute__((aligned(16)));
    __local uint least[QUERIES], has_none[QUERIES];

    const uint item = get_local_id(0), member = item % TEAM, team = item / TEAM;
    const uint first_row = rows_first + get_group_id(0) * GROUP_ROWS;
    float sums[HELD][QUERIES];
#pragma unroll
    for (uint h = 0; h < HELD; h++) {
#pragma unroll
        for (uint q = 0; q < QUERIES; q++) {
            sums[h][q] = 0.0f;
        }
    }
    for (uint begin = 0; begin < dimensions; begin += DEPTH) {
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint i = item; i < QUERIES * DEPTH; i += ITEMS) {
            const uint query = i / DEPTH, number = i % DEPTH;
            const bool is_there = query < queries_count && begin + number < dimensions;
            near[query * DEPTH + PLACE(number)] =
                is_there ? queries[(ulong)query * dimensions + begin + number] : 0.0f;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint number = member * LOADED; number < DEPTH && begin + number < dimensions; number += TEAM * LOADED) {
            LOAD loads[HELD];
#pragma unroll
            for (uint h = 0; h < HELD; h++) {
                // The last row stands for those that are missing.
                const ulong row = min(first_row + h * TEAMS + team, rows_end - 1);
                loads[h] = READ(rows, row * dimensions + begin + number);
            }
#pragma unroll
            for (uint group = 0; group < LOADED / GROUPED; group++) {
                const uint at = number / (TEAM * LOADED) * (TEAM * LOADED) + group * (TEAM * GROUPED) + member * GROUPED;
                NUMBERS y[QUERIES];
#pragma unroll
                for (uint q = 0; q < QUERIES; q++) {
                    y[q] = *(const __local NUMBERS *)(near + q * DEPTH + at);
                }
#pragma unroll
                for (uint h = 0; h < HELD; h++) {
                    const NUMBERS x = OF_LOAD(loads[h], group);
#pragma unroll
                    for (uint q = 0; q < QUERIES; q++) {
                        sums[h][q] = DOT(x, y[q], sums[h][q]);
                    }
                }
            }
        }
    }
    const uint row = first_row + item;
    const float2 term = item < GROUP_ROWS && row < rows_end ? terms[row] : (float2)(ABSENT, 0.0f);
    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
    for (uint q = 0; q < QUERIES; q++) {
#pragma unroll
        for (uint h = 0; h < HELD; h++) {
            near[q * (GROUP_ROWS * TEAM) + h * ITEMS + item] = sums[h][q];
        }
    }
    if (item < QUERIES) {
        least[item] = ordered(as_uint(ABSENT));
        has_none[item] = 0;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item < GROUP_ROWS && row < rows_end) {
        for (uint q = 0; q < queries_count; q++) {
            float sum = 0.0f;
#pragma unroll
            for (uint m = 0; m < TEAM; m++) {
                sum += near[q * (GROUP_ROWS * TEAM) + item * TEAM + m];
            }
            const float value = fma(-term.y, sum, term.x);
            values[(ulong)q * (rows_end - rows_first) + (row - rows_first)] = value;
            // A value that is no number says nothing about others.
            if (value < ABSENT) {
                atomic_min(&least[q], ordered(as_uint(value)));
            } else if (value != value) {
                has_none[q] = 1;
            }
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item < queries_count) {
        const uint bits = least[item];
        minima[(ulong)item * get_num_groups(0) + get_group_id(0)] =
            has_none[item] ? NAN : as_float(bits >> 31 ? bits ^ 0x80000000u : ~bits);
    }
}

// Appends the rows to the list of a query that the k-th of `least` does not exclude: the rows of groups of different least values.
// The second index of a group is its query.
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void winnow(
    __global const float *values, uint rows_first, uint rows_end,
    // By query, `wanted` values of different rows, ascending.
    __global const float *least, uint wanted,
    // By query: the error of two values, and the value above which none matters.
    __global const float *errors, __global const float *limits, __global uint *counts, __global uint2 *entries,
    uint capacity) {
    const uint query = get_group_id(1), count = rows_end - rows_first;
    // Rounded up, as in `shorten`.
    const float reached = least[(ulong)query * wanted + wanted - 1] + errors[query];
    const float limit = fmin(limits[query], reached + fabs(reached) * 2.38418579e-7f + 1e-37f);
    const uint first = get_group_id(0) * (ITEMS * WINNOWED) + get_local_id(0);
#pragma unroll
    for (uint w = 0; w < WINNOWED; w++) {
        const uint i = first + w * ITEMS;
        const float value = i < count ? values[(ulong)query * count + i] : ABSENT;
        if (!(value > limit) && value != ABSENT) {
            const uint place = atomic_inc(&counts[query]);
            if (place < capacity) {
                entries[(ulong)query * capacity + place] =
                    (uint2)(rows_first + i, value == value ? as_uint(value) : 0x7fc00000u);
            }
        }
    }
}

#if defined(MINIMA)
#define DIGITS 256
// Sums of digits that are next to each other.
#define PARTS 16
// Least values of groups that an item keeps.
#define KEPT (MINIMA / ITEMS)
// Groups whose values an item reads at a time.
#define READ_AT_ONCE 8

// The number of bits `rank` from below among those of all items, eight bits at a time, the highest first. `EACH(f)` calls f with
// the ordered bits of each number of the item.
#define SELECT(known, rank, EACH)                                                                         \
    for (uint round = 0; round < 4; ++round) {                                                            \
        const uint shift = 24 - 8 * round, mask = round == 0 ? 0 : 0xffffffffu << (shift + 8);            \
        for (uint i = item; i < DIGITS; i += ITEMS) {                                                     \
            digits[i] = 0;                                                                                \
        }                                                                                                 \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                     \
        EACH(COUNT)                                                                                       \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                     \
        if (item < PARTS) {                                                                               \
            uint sum = 0;                                                                                 \
            for (uint i = 0; i < DIGITS / PARTS; ++i) {                                                   \
                sum += digits[item * (DIGITS / PARTS) + i];                                               \
            }                                                                                             \
            parts[item] = sum;                                                                            \
        }                                                                                                 \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                     \
        for (uint digit = item; digit < DIGITS; digit += ITEMS) {                                         \
            const uint part = digit / (DIGITS / PARTS);                                                   \
            uint before = 0;                                                                              \
            for (uint i = 0; i < part; ++i) {                                                             \
                before += parts[i];                                                                       \
            }                                                                                             \
            for (uint i = part * (DIGITS / PARTS); i < digit; ++i) {                                      \
                before += digits[i];                                                                      \
            }                                                                                             \
            if (before <= rank && rank - before < digits[digit]) {                                        \
                chosen[0] = known | digit << shift;                                                       \
                chosen[1] = rank - before;                                                                \
            }                                                                                             \
        }                                                                                                 \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                     \
        known = chosen[0];                                                                                \
        rank = chosen[1];                                                                                 \
    }
#define COUNT(bits)                                                                                       \
    if (((bits) & mask) == known) {                                                                       \
        atomic_inc(&digits[(bits) >> shift & (DIGITS - 1)]);                                              \
    }
#define EACH_MINIMUM(f)                                                                                   \
    _Pragma("unroll") for (uint i = 0; i < KEPT; i++) {                                                   \
        if (i * ITEMS + item < groups) {                                                                  \
            f(least[i])                                                                                   \
        }                                                                                                 \
    }
#define EACH_ENTRY(f)                                                                                     \
    for (uint i = item; i < listed; i += ITEMS) {                                                         \
        const uint bits_of_entry = ordered(list[i].y);                                                    \
        f(bits_of_entry)                                                                                  \
    }

// The limit that a value gives, rounded up, as in `shorten` (`device.cl`); a value that is no number gives none.
inline float limit_of(uint bits, float error, float limit) {
    const float reached = as_float(bits >> 31 ? bits ^ 0x80000000u : ~bits) + error;
    return fmin(limit, reached + fabs(reached) * 2.38418579e-7f + 1e-37f);
}

// Hands over the rows that may be among the `wanted` nearest of a query, if one slice has all rows: what `winnow`, `shorten` and
// `hand_over` do, in one launch. Only the values of groups are read whose least one is not above the limit. A work group has one
// query, and there are `wanted` groups at least.
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void conclude(
    __global const float *values, __global const float *minima, uint rows_first, uint rows_end, uint wanted,
    __global const float *errors, __global const float *limits, __global uint *counts,
    // By query, room for `capacity` entries.
    __global uint2 *entries, uint capacity,
    // By query, the entries that the host reads, `most` at most.
    uint most, __global uint2 *found) {
    __local uint chosen_groups[MINIMA];
    __local uint digits[DIGITS], parts[PARTS], chosen[2];
    __local uint groups_count, entries_count, found_count;
    const uint item = get_local_id(0), query = get_group_id(0);
    const uint count = rows_end - rows_first, groups = (count + GROUP_ROWS - 1) / GROUP_ROWS;
    __global uint2 *list = entries + (ulong)query * capacity, *to = found + (ulong)query * most;
    if (item == 0) {
        groups_count = entries_count = found_count = 0;
    }
    uint least[KEPT];
#pragma unroll
    for (uint i = 0; i < KEPT; i++) {
        const uint group = i * ITEMS + item;
        least[i] = group < groups ? ordered(as_uint(minima[(ulong)query * groups + group])) : 0xffffffffu;
    }
    uint known = 0, rank = wanted - 1;
    SELECT(known, rank, EACH_MINIMUM)
    float limit = limit_of(known, errors[query], limits[query]);
#pragma unroll
    for (uint i = 0; i < KEPT; i++) {
        // A group whose least value is no number is read: it may hold any.
        const uint bits = least[i];
        const float value = as_float(bits >> 31 ? bits ^ 0x80000000u : ~bits);
        if (i * ITEMS + item < groups && !(value > limit)) {
            chosen_groups[atomic_inc(&groups_count)] = i * ITEMS + item;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint first = 0; first < groups_count; first += READ_AT_ONCE) {
        uint rows[READ_AT_ONCE];
        float of_rows[READ_AT_ONCE];
#pragma unroll
        for (uint i = 0; i < READ_AT_ONCE; i++) {
            rows[i] = first + i < groups_count ? chosen_groups[first + i] * GROUP_ROWS + item : count;
            const bool is_there = item < GROUP_ROWS && rows[i] < count;
            of_rows[i] = is_there ? values[(ulong)query * count + rows[i]] : ABSENT;
        }
#pragma unroll
        for (uint i = 0; i < READ_AT_ONCE; i++) {
            const float value = of_rows[i];
            // A value that is no number stays.
            if (!(value > limit) && value != ABSENT) {
                const uint place = atomic_inc(&entries_count);
                const uint2 entry = (uint2)(rows_first + rows[i], value == value ? as_uint(value) : 0x7fc00000u);
                if (place < capacity) {
                    list[place] = entry;
                }
                if (place < most) {
                    to[place] = entry;
                }
            }
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    const uint listed = entries_count;
    // Fewer than are wanted limit nothing, and of more than there is room for some are missing: the host sees that not all came back.
    const bool is_limited = listed > most && listed <= capacity && listed >= wanted;
    if (is_limited) {
        // The wanted-th of all values limits more than that of the groups' least ones.
        known = 0;
        rank = wanted - 1;
        SELECT(known, rank, EACH_ENTRY)
        limit = limit_of(known, errors[query], limit);
        for (uint i = item; i < listed; i += ITEMS) {
            const uint2 entry = list[i];
            if (!(as_float(entry.y) > limit)) {
                const uint place = atomic_inc(&found_count);
                if (place < most) {
                    to[place] = entry;
                }
            }
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item == 0) {
        counts[query] = is_limited ? found_count : listed;
    }
}
#endif
