// Selection of candidates by bounds of their distances: finds a range that holds the k nearest objects, and lists the
// objects that this range does not rule out. `selection.rs` defines the constants: ITEMS, HELD, PAYLOAD if entries have more than a
// bound, and SIMILARITIES if the bounds are those of squared distances, computed here.
//
// Bounds are at least 0, and the bits of such numbers have the order of the numbers.

#define NOWHERE 0xffffffffu
#define DIGITS 256

#if defined(PAYLOAD)
#define OF_PAYLOAD __global const float *PAYLOAD,
#define PAYLOAD_OF(object) as_uint(PAYLOAD[first + (object)])
#else
#define OF_PAYLOAD
#define PAYLOAD_OF(object) 0
#endif

// Lowers ranges[query] to the `wanted`-th least of some upper bounds of different objects, if there are as many. Finds it
// eight bits at a time, the highest first. Needs a single work group.
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

// Lists the objects whose lower bound (from `first` on) is within ranges[query]: their indexes, lower bounds and PAYLOADs, in
// no order, in up to `capacity` entries from entry query * capacity on. counts[query] is the number of such objects, which
// may be larger than the capacity.
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void winnow(
    __global const float *lowers, OF_PAYLOAD uint first, uint objects, __global const float *ranges,
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
        // Entries beyond the capacity are dropped.
        if (places[h] != NOWHERE && begin < capacity && places[h] < capacity - begin) {
            const uint entry = 3 * (query * capacity + begin + places[h]);
            const uint object = (get_group_id(0) * HELD + h) * ITEMS + item;
            entries[entry] = object;
            entries[entry + 1] = as_uint(low[h]);
            entries[entry + 2] = PAYLOAD_OF(object);
        }
    }
}

#if defined(SIMILARITIES)
// Bounds of the squared distances of a query from the objects whose similarities are in `sums` from `sums_first` on. Writes
// the lower bounds to the same places of `lowers`, and the `kept` least upper bounds of each work group to `minima`.
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void straddle(
    __global const float *sums, uint sums_first, uint objects,
    // The objects' similarities to themselves.
    __global const float *sigmas, uint sigmas_first,
    // The query's similarity to itself, and the largest error of a squared distance due to the cross similarity.
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
            // Rounding of both self-similarities to f32, two sums, and the sum with the slack: eight units cover them.
            const float slack = error + 4.76837158e-7f * (fabs(own) + fabs(sigma) + fabs(sum));
            lowers[sums_first + object] = fmax(squared - slack, 0.0f);
            // A NaN gives no upper bound, and 0 as the lower bound.
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
