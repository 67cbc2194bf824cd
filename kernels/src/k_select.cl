// The k least numbers of each of many arrays, in one pass over them. `k_select.rs` defines the constants: ARRAY, the name of the
// buffer of arrays; STARTS, if their lengths differ; DIGITS or KEPT, by the way of selection; and the sizes of that way.
//
// Pairs of a number and its place are compared, so equal numbers go by place, and there is one answer. What is no number counts
// as infinity, and -0 as 0. Places beyond an array's end stand where an array has fewer than k numbers.

#define NOWHERE 0xffffffffu

#if defined(STARTS)
// Array i begins at the place STARTS[i], and the next one follows it.
#define ARRAYS __global const float *ARRAY, __global const uint *STARTS
#define FIND_ARRAY                                                           \
    __global const float *array = ARRAY + STARTS[get_group_id(0)];           \
    const uint numbers = STARTS[get_group_id(0) + 1] - STARTS[get_group_id(0)];
#else
// Numbers of an array, and from one array to the next.
#define ARRAYS __global const float *ARRAY, uint numbers, uint stride
#define FIND_ARRAY __global const float *array = ARRAY + (ulong)get_group_id(0) * stride;
#endif

// Whether a pair comes before another; without branches.
#define IS_LESS(value, place, of_value, of_place) \
    (((value) < (of_value)) | (((value) == (of_value)) & ((place) < (of_place))))

// A number as it is compared.
inline float compared(float value) { return value == value ? value + 0.0f : INFINITY; }

#if defined(KEPT)
// By warps (WarpSelect: Johnson, Douze, Jegou 2017): the k least so far are in the registers of 32 items, sorted, element i in
// register i / 32 of lane i % 32. Each lane gathers up to QUEUED numbers that come before the k-th; when a lane has as many,
// those of all lanes are sorted and merged with the k least. A work group is one warp.
//
// The networks sort any number of registers, not only powers of two: missing ones are thought to be before the first (`FRONT`)
// or after the last, where comparisons change nothing, and are left out.

#define WARP 32
// Numbers of a lane that are read before the first is looked at.
#define AHEAD 4

#if defined(__NV_CL_C_VERSION)
#define EACH _Pragma("unroll")
#define ONE_BY_ONE _Pragma("unroll 1")
inline uint shuffled(uint word, uint mask) {
    uint other;
    __asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=r"(other) : "r"(word), "r"(mask));
    return other;
}
inline uint of_lane(uint word, uint lane) {
    uint other;
    __asm volatile("shfl.sync.idx.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=r"(other) : "r"(word), "r"(lane));
    return other;
}
inline bool in_any(bool is) {
    uint any;
    const uint own = is;
    __asm volatile(
        "{.reg .pred p;\n setp.ne.u32 p, %1, 0;\n vote.sync.any.pred p, p, 0xffffffff;\n selp.u32 %0, 1, 0, p;}"
        : "=r"(any)
        : "r"(own));
    return any != 0;
}
// The pair of another lane.
#define SHUFFLE(value, place, of_value, of_place, mask)              \
    const float value = as_float(shuffled(as_uint(of_value), mask)); \
    const uint place = shuffled(of_place, mask);
#define OF_LANE(word, lane) of_lane(word, lane)
#define IN_ANY(is) in_any(is)
#define EXCHANGE
#else
// A compiler that unrolls loops around barriers takes minutes.
#define EACH _Pragma("unroll 1")
#define ONE_BY_ONE _Pragma("unroll 1")
// Through local memory, so that this code runs on every device.
inline uint2 shuffled(uint2 pair, uint mask, __local uint2 *exchange) {
    const uint lane = get_local_id(0);
    barrier(CLK_LOCAL_MEM_FENCE);
    exchange[lane] = pair;
    barrier(CLK_LOCAL_MEM_FENCE);
    return exchange[lane ^ mask];
}
inline uint of_lane(uint word, uint lane, __local uint2 *exchange) {
    barrier(CLK_LOCAL_MEM_FENCE);
    exchange[get_local_id(0)].x = word;
    barrier(CLK_LOCAL_MEM_FENCE);
    return exchange[lane].x;
}
inline bool in_any(bool is, __local uint2 *exchange) {
    barrier(CLK_LOCAL_MEM_FENCE);
    exchange[0].x = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (is) {
        exchange[0].x = 1;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    return exchange[0].x != 0;
}
#define SHUFFLE(value, place, of_value, of_place, mask)                                           \
    const uint2 value##_##place = shuffled((uint2)(as_uint(of_value), of_place), mask, exchange); \
    const float value = as_float(value##_##place.x);                                              \
    const uint place = value##_##place.y;
#define OF_LANE(word, lane) of_lane(word, lane, exchange)
#define IN_ANY(is) in_any(is, exchange)
#define EXCHANGE __local uint2 exchange[WARP];
#endif

// Compares register `r` of all lanes with itself, between lanes whose numbers differ by `mask`: a lane without `bit` gets the
// lesser pair.
#define SWAP_LANES(values, places, r, mask, bit)                                                           \
    {                                                                                                      \
        SHUFFLE(value, place, values[r], places[r], mask)                                                  \
        const bool is_less = IS_LESS(value, place, values[r], places[r]);                                  \
        const bool takes = is_less == ((lane & (bit)) == 0);                                               \
        values[r] = takes ? value : values[r];                                                             \
        places[r] = takes ? place : places[r];                                                             \
    }

// Puts the lesser pair of two registers of a lane into the first.
#define SWAP_REGISTERS(values, places, r, s)                                                               \
    {                                                                                                      \
        const bool is_less = IS_LESS(values[s], places[s], values[r], places[r]);                          \
        const float value = values[r];                                                                     \
        const uint place = places[r];                                                                      \
        values[r] = is_less ? values[s] : value;                                                           \
        places[r] = is_less ? places[s] : place;                                                           \
        values[s] = is_less ? value : values[s];                                                           \
        places[s] = is_less ? place : places[s];                                                           \
    }

// A step of `SWAP_LANES` for `count` registers.
#define EACH_LANE(values, places, first, count, mask, bit)                                                 \
    EACH for (uint r = 0; r < (count); r++) {                                                              \
        SWAP_LANES(values, places, (first) + r, mask, bit)                                                 \
    }

// Compares registers at a distance. `FRONT` registers are thought to be missing before the first.
#define EACH_REGISTER(values, places, first, count, apart, FRONT)                                          \
    EACH for (uint r = 0; r < (count); r++) {                                                              \
        if (r + (apart) < (count) && ((r + (FRONT)) & (apart)) == 0) {                                     \
            SWAP_REGISTERS(values, places, (first) + r, (first) + r + (apart))                             \
        }                                                                                                  \
    }

// Sorts `count` registers from `first` on that the first step of a merge has left.
#define CONTINUE(values, places, first, count, FRONT)                                                      \
    EACH for (int level = 5; level >= 0; level--) {                                                        \
        EACH_REGISTER(values, places, first, count, 1u << level, FRONT)                                    \
    }                                                                                                      \
    EACH for (int level = 4; level >= 0; level--) {                                                        \
        EACH_LANE(values, places, first, count, 1u << level, 1u << level)                                  \
    }

// What a number of registers lacks of a power of two.
#define LACKING(count) \
    (((count) > 32 ? 64 : (count) > 16 ? 32 : (count) > 8 ? 16 : (count) > 4 ? 8 : (count) > 2 ? 4 : (count)) - (count))

// A constant, as the bounds of all loops over registers: they are unrolled.
#define FEWER(a, b) ((a) < (b) ? (a) : (b))

// Merges `left` sorted registers from `first` on with `right` sorted ones after them.
#define MERGE(values, places, first, left, right)                                                          \
    EACH for (uint r = 0; r < FEWER(left, right); r++) {                                                   \
        const uint a = (first) + (left)-1 - r, b = (first) + (left) + r;                                   \
        SHUFFLE(value_b, place_b, values[b], places[b], WARP - 1)                                          \
        SHUFFLE(value_a, place_a, values[a], places[a], WARP - 1)                                          \
        const bool from_b = IS_LESS(value_b, place_b, values[a], places[a]);                               \
        const bool from_a = IS_LESS(values[b], places[b], value_a, place_a);                               \
        values[a] = from_b ? value_b : values[a];                                                          \
        places[a] = from_b ? place_b : places[a];                                                          \
        values[b] = from_a ? value_a : values[b];                                                          \
        places[b] = from_a ? place_a : places[b];                                                          \
    }                                                                                                      \
    CONTINUE(values, places, first, left, LACKING(left))                                                   \
    CONTINUE(values, places, (first) + (left), right, 0)

// Sorts each register, from pairs of lanes to all 32.
#define SORT_LANES(values, places, count)                                                                  \
    EACH for (int size = 1; size <= 5; size++) {                                                           \
        EACH_LANE(values, places, 0, count, (1u << size) - 1, 1u << (size - 1))                            \
        EACH for (int level = size - 2; level >= 0; level--) {                                             \
            EACH_LANE(values, places, 0, count, 1u << level, 1u << level)                                  \
        }                                                                                                  \
    }

// Sorts the gathered numbers: halves, the smaller one first.
#if QUEUED == 2
#define SORT_QUEUES SORT_LANES(queue, queue_places, 2) MERGE(queue, queue_places, 0, 1, 1)
#elif QUEUED == 3
#define SORT_QUEUES                                                                                        \
    SORT_LANES(queue, queue_places, 3) MERGE(queue, queue_places, 1, 1, 1) MERGE(queue, queue_places, 0, 1, 2)
#elif QUEUED == 4
#define SORT_QUEUES                                                                                        \
    SORT_LANES(queue, queue_places, 4)                                                                     \
    MERGE(queue, queue_places, 0, 1, 1) MERGE(queue, queue_places, 2, 1, 1) MERGE(queue, queue_places, 0, 2, 2)
#else
#define SORT_QUEUES                                                                                        \
    SORT_LANES(queue, queue_places, 8)                                                                     \
    MERGE(queue, queue_places, 0, 1, 1) MERGE(queue, queue_places, 2, 1, 1) MERGE(queue, queue_places, 0, 2, 2)\
    MERGE(queue, queue_places, 4, 1, 1) MERGE(queue, queue_places, 6, 1, 1) MERGE(queue, queue_places, 4, 2, 2)\
    MERGE(queue, queue_places, 0, 4, 4)
#endif

// Takes the gathered numbers to the k least. What is left of them comes after the k-th, and is dropped.
#define TAKE_QUEUES                                                                                        \
    {                                                                                                      \
        SORT_QUEUES                                                                                        \
        EACH for (uint r = 0; r < FEWER(KEPT, QUEUED); r++) {                                     \
            SHUFFLE(value, place, queue[r], queue_places[r], WARP - 1)                                     \
            const bool takes = IS_LESS(value, place, kept[KEPT - 1 - r], kept_places[KEPT - 1 - r]);       \
            kept[KEPT - 1 - r] = takes ? value : kept[KEPT - 1 - r];                                       \
            kept_places[KEPT - 1 - r] = takes ? place : kept_places[KEPT - 1 - r];                         \
        }                                                                                                  \
        CONTINUE(kept, kept_places, 0, KEPT, LACKING(KEPT))                                                \
        EACH for (uint q = 0; q < QUEUED; q++) {                                                           \
            queue[q] = INFINITY;                                                                           \
            queue_places[q] = NOWHERE;                                                                     \
        }                                                                                                  \
        last = as_float(OF_LANE(as_uint(kept[KEPT - 1]), (k - 1) % WARP));                                 \
        last_place = OF_LANE(kept_places[KEPT - 1], (k - 1) % WARP);                                       \
    }

// Selects from array `get_group_id(0)`. `k` is more than 32 less than KEPT registers hold, and at most as many.
__kernel __attribute__((reqd_work_group_size(WARP, 1, 1))) void k_least(
    ARRAYS, uint k,
    // By array, k numbers and their places, ascending.
    __global float *least, __global uint *least_places) {
    EXCHANGE
    const uint lane = get_local_id(0);
    FIND_ARRAY
    float kept[KEPT], queue[QUEUED];
    uint kept_places[KEPT], queue_places[QUEUED];
    EACH for (uint r = 0; r < KEPT; r++) {
        kept[r] = INFINITY;
        kept_places[r] = NOWHERE;
    }
    // The first of a queue is its last by order: it is full when that comes before the k-th.
    EACH for (uint q = 0; q < QUEUED; q++) {
        queue[q] = INFINITY;
        queue_places[q] = NOWHERE;
    }
    float last = INFINITY;
    uint last_place = NOWHERE;
    // Once more at the end, for what the queues still have: the networks are long, and stand here once.
    for (uint first = 0;; first += WARP * AHEAD) {
        const bool is_end = first >= numbers;
        float values[AHEAD];
        bool is_any = false;
        EACH for (uint a = 0; a < AHEAD; a++) {
            const uint place = first + a * WARP + lane;
            values[a] = place < numbers ? compared(array[place]) : INFINITY;
        }
        EACH for (uint a = 0; a < AHEAD; a++) {
            const uint place = first + a * WARP + lane;
            is_any |= (place < numbers) & IS_LESS(values[a], place, last, last_place);
        }
        if (!is_end && !IN_ANY(is_any)) {
            continue;
        }
        ONE_BY_ONE for (uint a = 0; a < AHEAD; a++) {
            const uint next_place = first + a * WARP + lane;
            const float next = a == 0 ? values[0] : a == 1 ? values[1] : a == 2 ? values[2] : values[3];
            if (next_place < numbers && IS_LESS(next, next_place, last, last_place)) {
                queue[0] = next;
                queue_places[0] = next_place;
                EACH for (uint q = 0; q + 1 < QUEUED; q++) {
                    SWAP_REGISTERS(queue, queue_places, q + 1, q)
                }
            }
            // Infinite numbers fill a queue too: their places come before the k-th.
            if (is_end || IN_ANY(IS_LESS(queue[0], queue_places[0], last, last_place))) {
                TAKE_QUEUES
            }
            if (is_end) {
                break;
            }
        }
        if (is_end) {
            break;
        }
    }
    EACH for (uint r = 0; r < KEPT; r++) {
        const uint i = r * WARP + lane;
        if (i < k) {
            least[(ulong)get_group_id(0) * k + i] = kept[r];
            least_places[(ulong)get_group_id(0) * k + i] = kept_places[r];
        }
    }
}
#endif

#if defined(DIGITS)
// By digits: a work group lists the numbers that come before the k-th of an earlier list, in local memory. When the list is
// nearly full, it finds the k-th of the list eight bits at a time, the highest first, and drops what comes after. Few numbers of
// a long array are listed, so the cost is that of reading the array.

// Numbers that a group reads at a time, for which there is always room.
#define HELD (AT_ONCE / ITEMS)
// Sums of digits that are next to each other.
#define PARTS 16

// The bits of a number, in the order of the numbers.
inline uint key_of(float value) {
    const uint bits = as_uint(compared(value));
    return bits ^ (bits >> 31 ? 0xffffffffu : 0x80000000u);
}

inline float value_of(uint key) { return as_float(key >> 31 ? key ^ 0x80000000u : ~key); }

// The digit below which fewer than `rank` + 1 of the counted ones lie, written with what is left of the rank and the digit's
// count. Every item calls it.
inline void find_digit(__local const uint *digits, __local uint *parts, __local uint *chosen, uint rank) {
    const uint item = get_local_id(0);
    if (item < PARTS) {
        uint sum = 0;
        for (uint i = 0; i < DIGITS / PARTS; i++) {
            sum += digits[item * (DIGITS / PARTS) + i];
        }
        parts[item] = sum;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint digit = item; digit < DIGITS; digit += ITEMS) {
        const uint part = digit / (DIGITS / PARTS);
        uint before = 0;
        for (uint i = 0; i < part; i++) {
            before += parts[i];
        }
        for (uint i = part * (DIGITS / PARTS); i < digit; i++) {
            before += digits[i];
        }
        if (before <= rank && rank - before < digits[digit]) {
            chosen[0] = digit;
            chosen[1] = rank - before;
            chosen[2] = digits[digit];
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

// The word of rank `rank` among `count` words, of those whose `of` is `wanted` if `is_of`; chosen[1] and chosen[2] are its rank
// among equal ones and their number.
inline uint find_word(
    __local const uint *words, __local const uint *of, bool is_of, uint wanted, uint count, uint rank,
    __local uint *digits, __local uint *parts, __local uint *chosen) {
    const uint item = get_local_id(0);
    uint known = 0;
    for (uint round = 0; round < 4; round++) {
        const uint shift = 24 - 8 * round, mask = round == 0 ? 0 : 0xffffffffu << (shift + 8);
        for (uint i = item; i < DIGITS; i += ITEMS) {
            digits[i] = 0;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint i = item; i < count; i += ITEMS) {
            const uint word = words[i];
            if ((word & mask) == known && (!is_of || of[i] == wanted)) {
                atomic_inc(&digits[word >> shift & (DIGITS - 1)]);
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        find_digit(digits, parts, chosen, rank);
        known |= chosen[0] << shift;
        rank = chosen[1];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    return known;
}

// Selects from array `get_group_id(0)`.
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void k_least(
    ARRAYS, uint k, __global float *least, __global uint *least_places) {
    __local uint keys[CAPACITY], listed[CAPACITY];
    __local uint digits[DIGITS], parts[PARTS], chosen[3];
    __local uint filled;
    const uint item = get_local_id(0);
    FIND_ARRAY
    // No pair that comes after this one is listed.
    uint last = NOWHERE, last_place = NOWHERE;
    if (item == 0) {
        filled = 0;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint first = 0; first < numbers || first == 0; first += AT_ONCE) {
        uint values[HELD];
#pragma unroll
        for (uint h = 0; h < HELD; h++) {
            const uint place = first + h * ITEMS + item;
            values[h] = place < numbers ? key_of(array[place]) : NOWHERE;
        }
        const uint before = filled;
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
        for (uint h = 0; h < HELD; h++) {
            const uint place = first + h * ITEMS + item;
            if (place < numbers && (values[h] < last || (values[h] == last && place < last_place))) {
                // Nothing is left out before the first selection.
                const uint at = last == NOWHERE ? before + h * ITEMS + item : atomic_inc(&filled);
                keys[at] = values[h];
                listed[at] = place;
            }
        }
        if (last == NOWHERE && item == 0) {
            filled = before + min((uint)AT_ONCE, numbers - first);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        const uint count = filled;
        const bool is_end = numbers - first <= AT_ONCE;
        if (count <= k || !(count > CAPACITY - AT_ONCE || is_end)) {
            continue;
        }
        last = find_word(keys, keys, false, 0, count, k - 1, digits, parts, chosen);
        const uint rank = chosen[1], equals = chosen[2];
        barrier(CLK_LOCAL_MEM_FENCE);
        // Of equal numbers, the first ones.
        last_place = NOWHERE;
        if (rank + 1 < equals) {
            last_place = find_word(listed, keys, true, last, count, rank, digits, parts, chosen);
        }
        if (item == 0) {
            filled = 0;
        }
        // In place: a pair moves to a place that has been read.
        for (uint begin = 0; begin < count; begin += ITEMS) {
            const uint i = begin + item;
            const uint key = i < count ? keys[i] : NOWHERE, place = i < count ? listed[i] : NOWHERE;
            barrier(CLK_LOCAL_MEM_FENCE);
            if (i < count && (key < last || (key == last && place <= last_place))) {
                const uint at = atomic_inc(&filled);
                keys[at] = key;
                listed[at] = place;
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    const uint count = min(filled, k);
    // Sorted in steps of compared pairs, of the next power of two.
    uint size_max = 1;
    while (size_max < count) {
        size_max *= 2;
    }
    for (uint i = count + item; i < size_max; i += ITEMS) {
        keys[i] = NOWHERE;
        listed[i] = NOWHERE;
    }
    for (uint size = 2; size <= size_max; size *= 2) {
        for (uint apart = size / 2; apart > 0; apart /= 2) {
            barrier(CLK_LOCAL_MEM_FENCE);
            for (uint i = item; i < size_max / 2; i += ITEMS) {
                const uint a = i / apart * apart * 2 + i % apart;
                // The first step of a size is reversed, so all run upwards.
                const uint b = apart == size / 2 ? (a | (size - 1)) - (a & (size - 1)) : a + apart;
                const bool is_less = keys[b] < keys[a] || (keys[b] == keys[a] && listed[b] < listed[a]);
                if (is_less) {
                    const uint key = keys[a], place = listed[a];
                    keys[a] = keys[b];
                    listed[a] = listed[b];
                    keys[b] = key;
                    listed[b] = place;
                }
            }
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = item; i < k; i += ITEMS) {
        least[(ulong)get_group_id(0) * k + i] = i < count ? value_of(keys[i]) : INFINITY;
        least_places[(ulong)get_group_id(0) * k + i] = i < count ? listed[i] : NOWHERE;
    }
}
#endif
