// What is left of many objects by bounds of their distances: a range that holds the k nearest, and the objects that
// it does not rule out. `selection.rs` gives the constants: ITEMS, HELD.
//
// Bounds are numbers of at least 0, whose bits are in the numbers' order.

#define NOWHERE 0xffffffffu
#define DIGITS 256

// Lowers ranges[query] to the `wanted`-th least of some upper bounds of different objects, where there are as many: by
// eight bits at a time, the highest first. One group.
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void kth(
    __global const uint *minima, uint minima_count, uint wanted, __global uint *ranges, uint query) {
    __local uint counts[DIGITS];
    __local uint chosen[2];
    const uint item = get_local_id(0);
    if (wanted == 0 || minima_count < wanted) {
        return;
    }
    uint known = 0;
    uint rank = wanted - 1;
    for (uint round = 0; round < 4; ++round) {
        const uint shift = 24 - 8 * round;
        const uint mask = round == 0 ? 0 : 0xffffffffu << (shift + 8);
        for (uint i = item; i < DIGITS; i += ITEMS) {
            counts[i] = 0;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint i = item; i < minima_count; i += ITEMS) {
            const uint bits = minima[i];
            if ((bits & mask) == known) {
                atomic_inc(&counts[(bits >> shift) & (DIGITS - 1)]);
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (item == 0) {
            uint digit = 0;
            while (digit < DIGITS - 1 && rank >= counts[digit]) {
                rank -= counts[digit];
                ++digit;
            }
            chosen[0] = known | digit << shift;
            chosen[1] = rank;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        known = chosen[0];
        rank = chosen[1];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (item == 0) {
        ranges[query] = min(ranges[query], known);
    }
}

// Lists the objects whose lower bound, or upper, is within ranges[query]: their places and both bounds, `capacity` of them
// from entry query * capacity on, in no order; counts[query] says how many there are, be it more than that.
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void winnow(
    __global const float *lowers, __global const float *uppers, uint objects, __global const float *ranges, uint query,
    __global uint *entries, uint capacity, __global uint *counts) {
    __local uint found;
    __local uint begin;
    const uint item = get_local_id(0);
    const float range = ranges[query];
    if (item == 0) {
        found = 0;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    float low[HELD];
    float high[HELD];
    uint places[HELD];
#pragma unroll
    for (uint h = 0; h < HELD; ++h) {
        const uint object = (get_group_id(0) * HELD + h) * ITEMS + item;
        low[h] = object < objects ? lowers[object] : INFINITY;
        high[h] = object < objects ? uppers[object] : INFINITY;
        places[h] = object < objects ? 0 : NOWHERE;
    }
#pragma unroll
    for (uint h = 0; h < HELD; ++h) {
        if (places[h] != NOWHERE) {
            places[h] = low[h] <= range || high[h] <= range ? atomic_inc(&found) : NOWHERE;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item == 0) {
        begin = found == 0 ? 0 : atomic_add(&counts[query], found);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
    for (uint h = 0; h < HELD; ++h) {
        // Past the capacity nothing is written; a sum that wraps round is not below it.
        if (places[h] != NOWHERE && begin < capacity && places[h] < capacity - begin) {
            const uint entry = 3 * (query * capacity + begin + places[h]);
            entries[entry] = (get_group_id(0) * HELD + h) * ITEMS + item;
            entries[entry + 1] = as_uint(low[h]);
            entries[entry + 2] = as_uint(high[h]);
        }
    }
}
