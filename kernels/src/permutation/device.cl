// The lists of the nearest pivots of vectors: squared distances in f32, and the least of them in order by the bitonic network of
// `network.rs`, in local memory. `device.rs` defines the constants: ITEMS, the items of a group; OBJECTS, the vectors of a group;
// PIVOTS; PADDED, a power of two of pivots; RUN, the numbers of a sorted run; LENGTH and KEPT, the pivots of a list, and those that are
// kept to tell whether the last one of a list is certain; STEP, the numbers of a vector that are read at a time; PARTIAL, the squares that
// are summed before they are added to a sum.
//
// A key has the bits of a squared distance, which is not negative, above the number of its pivot. So equal distances go by pivot,
// and pivots that are missing are last.

#define PER (PADDED / ITEMS)
#define KEYS (OBJECTS * PADDED)

// Puts two keys in order.
#define ORDER(low, high, is_up)                                 \
    {                                                           \
        const ulong a = keys[low], b = keys[high];              \
        const bool is_swapped = (a > b) == (is_up);             \
        keys[low] = is_swapped ? b : a;                         \
        keys[high] = is_swapped ? a : b;                        \
    }

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void nearest_pivots(
    __global const float *rows, uint count, uint dimensions,
    // Number by number, PADDED each.
    __global const float *pivots,
    // Whether all numbers of pivots are whole; the error of a difference, relative and absolute.
    uint are_whole, float slack, float least,
    // By vector: its list, and whether it is uncertain.
    __global ushort *lists, __global uchar *doubts) {
    __local ulong keys[KEYS];
    __local float part[OBJECTS * STEP];
    __local uint has_fraction[OBJECTS];
    __local uint is_doubtful[OBJECTS];
    const uint item = get_local_id(0);
    const ulong first = (ulong)get_group_id(0) * OBJECTS;
    const uint objects = min((ulong)OBJECTS, count - first);
    if (item < OBJECTS) {
        has_fraction[item] = 0;
        is_doubtful[item] = 0;
    }
    float sums[PER][OBJECTS];
    for (uint j = 0; j < PER; j++) {
        for (uint object = 0; object < OBJECTS; object++) {
            sums[j][object] = 0.0f;
        }
    }
    for (uint at = 0; at < dimensions; at += STEP) {
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint i = item; i < OBJECTS * STEP; i += ITEMS) {
            const uint object = i / STEP, number = at + i % STEP;
            float x = 0.0f;
            if (object < objects && number < dimensions) {
                x = rows[(first + object) * dimensions + number];
            }
            part[i] = x;
            if (x != rint(x)) {
                has_fraction[object] = 1;
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        // Sums of a few squares are added to the sum of all: fewer roundings are on the way of a square.
        for (uint begin = 0; begin < STEP && at + begin < dimensions; begin += PARTIAL) {
            const uint end = min((uint)(begin + PARTIAL), dimensions - at);
            float partial[PER][OBJECTS];
            for (uint j = 0; j < PER; j++) {
                for (uint object = 0; object < OBJECTS; object++) {
                    partial[j][object] = 0.0f;
                }
            }
            for (uint number = begin; number < end; number++) {
                __global const float *of_number = pivots + (ulong)(at + number) * PADDED + item;
                for (uint j = 0; j < PER; j++) {
                    const float pivot = of_number[j * ITEMS];
                    for (uint object = 0; object < OBJECTS; object++) {
                        const float away = part[object * STEP + number] - pivot;
                        partial[j][object] = fma(away, away, partial[j][object]);
                    }
                }
            }
            for (uint j = 0; j < PER; j++) {
                for (uint object = 0; object < OBJECTS; object++) {
                    sums[j][object] += partial[j][object];
                }
            }
        }
    }
    for (uint j = 0; j < PER; j++) {
        const uint pivot = j * ITEMS + item;
        for (uint object = 0; object < OBJECTS; object++) {
            const ulong key = (ulong)as_uint(sums[j][object]) << 32 | pivot;
            keys[object * PADDED + pivot] = pivot < PIVOTS ? key : ULONG_MAX;
        }
    }
    // Runs, of which every second one of a vector descends.
    for (uint size = 2; size <= RUN; size *= 2) {
        for (uint apart = size / 2; apart > 0; apart /= 2) {
            barrier(CLK_LOCAL_MEM_FENCE);
            for (uint i = item; i < KEYS / 2; i += ITEMS) {
                const uint low = 2 * i - (i & (apart - 1));
                ORDER(low, low + apart, (low & (PADDED - 1) & size) == 0)
            }
        }
    }
    // Of two runs the least keys, which take the place of the first one and are sorted.
    for (uint stride = RUN; stride < PADDED; stride *= 2) {
        const uint kept = KEYS / (2 * stride) * RUN;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint i = item; i < kept; i += ITEMS) {
            const uint place = i / RUN * 2 * stride + i % RUN;
            keys[place] = min(keys[place], keys[place + stride]);
        }
        for (uint apart = RUN / 2; apart > 0; apart /= 2) {
            barrier(CLK_LOCAL_MEM_FENCE);
            for (uint i = item; i < kept / 2; i += ITEMS) {
                const uint run = i / (RUN / 2) * 2 * stride, of_run = i % (RUN / 2);
                const uint low = run + 2 * of_run - (of_run & (apart - 1));
                ORDER(low, low + apart, (run & (PADDED - 1) & (2 * stride)) == 0)
            }
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = item; i < objects * LENGTH; i += ITEMS) {
        const uint object = i / LENGTH, place = i % LENGTH;
        const ulong key = keys[object * PADDED + place];
        lists[first * LENGTH + i] = (ushort)key;
        if (place + 1 < KEPT) {
            const float near = as_float((uint)(key >> 32));
            const float far = as_float((uint)(keys[object * PADDED + place + 1] >> 32));
            const bool is_exact = are_whole && !has_fraction[object] && far < WHOLE_MAX;
            if (!is_exact && !(far - near > slack * far + least)) {
                is_doubtful[object] = 1;
            }
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item < objects) {
        doubts[first + item] = (uchar)is_doubtful[item];
    }
}
