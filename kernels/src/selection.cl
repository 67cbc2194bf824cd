// What is left of many objects by bounds of their distances: a range that holds the k nearest, and the objects that it
// does not rule out. `selection.rs` gives the constants: ITEMS, HELD, PAYLOAD, and SIMILARITIES where the bounds are
// those of squared distances, made here.
//
// Bounds are numbers of at least 0, whose bits are in the numbers' order.

#define NOWHERE 0xffffffffu
#define DIGITS 256

// Lowers ranges[query] to the `wanted`-th least of some upper bounds of different objects, where there are as many: by
// eight bits at a time, the highest first. One group.
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void kth(
    __global const uint *minima, uint minima_first, uint minima_count, uint wanted, __global uint *ranges,
    uint query) {
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
            const uint bits = minima[minima_first + i];
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

// Lists the objects whose lower bound, `first` and following, is within ranges[query]: their places, the bounds and
// what PAYLOAD has of them, `capacity` of them from entry query * capacity on, in no order; counts[query] says how
// many there are, be it more than that.
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void winnow(
    __global const float *lowers, __global const float *PAYLOAD, uint first, uint objects, __global const float *ranges,
    uint query, __global uint *entries, uint capacity, __global uint *counts) {
    __local uint found;
    __local uint begin;
    const uint item = get_local_id(0);
    const float range = ranges[query];
    if (item == 0) {
        found = 0;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    float low[HELD];
    uint places[HELD];
#pragma unroll
    for (uint h = 0; h < HELD; ++h) {
        const uint object = (get_group_id(0) * HELD + h) * ITEMS + item;
        low[h] = object < objects ? lowers[first + object] : 0.0f;
        places[h] = object < objects ? object : NOWHERE;
    }
#pragma unroll
    for (uint h = 0; h < HELD; ++h) {
        if (places[h] != NOWHERE) {
            places[h] = low[h] <= range ? atomic_inc(&found) : NOWHERE;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item == 0) {
        begin = found == 0 ? 0 : atomic_add(&counts[query], found);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
    for (uint h = 0; h < HELD; ++h) {
        // Past the capacity nothing is written.
        if (places[h] != NOWHERE && begin < capacity && places[h] < capacity - begin) {
            const uint entry = 3 * (query * capacity + begin + places[h]);
            const uint object = (get_group_id(0) * HELD + h) * ITEMS + item;
            entries[entry] = object;
            entries[entry + 1] = as_uint(low[h]);
            entries[entry + 2] = as_uint(PAYLOAD[first + object]);
        }
    }
}

#if defined(SIMILARITIES)
// Bounds of the squared distances of a query from the objects of `sums`, which has a similarity each, `sums_first` and
// following: from below to the same places of `lowers`, and `kept` of the least from above of each group to `minima`.
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void straddle(
    __global const float *sums, uint sums_first, uint objects,
    // The objects' similarities to themselves.
    __global const float *sigmas, uint sigmas_first,
    // The query's to itself, and how far a squared distance may be from that of f64 by the similarity alone.
    float own, float error, __global float *lowers, __global float *minima, uint minima_first, uint kept) {
    __local float least[ITEMS];
    const uint item = get_local_id(0);
    float smallest = INFINITY;
#pragma unroll
    for (uint h = 0; h < HELD; ++h) {
        const uint object = (get_group_id(0) * HELD + h) * ITEMS + item;
        if (object < objects) {
            const float sum = 2.0f * sums[sums_first + object];
            const float sigma = sigmas[sigmas_first + object];
            const float squared = own + sigma - sum;
            // Both own similarities rounded to f32, two sums, and the one with the slack: eight units cover them.
            const float slack = error + 4.76837158e-7f * (fabs(own) + fabs(sigma) + fabs(sum));
            lowers[sums_first + object] = fmax(squared - slack, 0.0f);
            // Where there is no number, nothing is known from above, and from below 0.
            if (squared + slack <= INFINITY) {
                smallest = fmin(smallest, fmax(squared + slack, 0.0f));
            }
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
        minima[minima_first + get_group_id(0) * kept + item] = least[item];
    }
}
#endif
