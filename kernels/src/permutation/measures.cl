// Measures between a query's list and those of all objects, in one pass over the lists. `measures.rs` defines the constants: ITEMS of a
// group and HELD objects of an item; BLOCK objects whose lists lie together, place by place; PIVOTS and LENGTH; STEP, the places whose
// tables lie in local memory at a time; ENTRY, the type of a number of a table, and WRAPS if sums wrap around at 16 bits; WORDS, if numbers of
// lists have two bytes; BINS and SHIFT of the histogram of measures.
//
// A measure is a sum of one look-up for each place (`tables.rs`). The second index of a group is its query.

#if defined(WORDS)
#define NUMBER ushort
#define LOAD uint4
#define HALF(load, h) ((h) < 2 ? (load).x : (h) < 4 ? (load).y : (h) < 6 ? (load).z : (load).w)
#define OF_LOAD(load, h) (HALF(load, h) >> 16 * ((h) & 1) & 0xffff)
#else
#define NUMBER uchar
#define LOAD uint2
#define OF_LOAD(load, h) (((h) < 4 ? (load).x : (load).y) >> 8 * ((h) & 3) & 0xff)
#endif

#if defined(WRAPS)
#define OF_SUM(sum) ((sum) & 0xffff)
#else
#define OF_SUM(sum) (sum)
#endif

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void measures(
    // By block, place and object.
    __global const NUMBER *lists, uint blocks,
    // A bit for each object, whether it is there; for all objects of all groups.
    __global const uchar *alive,
    // By query, place and pivot.
    __global const ENTRY *tables,
    // By query: the measure to which look-ups add.
    __global const uint *starts,
    // By query: the measures, infinite for objects that are not there, of which there are `stride`; and how many lie in each bin.
    __global float *lowers, uint stride, __global uint *histogram) {
    __local ENTRY table[STEP * PIVOTS];
    __local uint bins[BINS];
    const uint item = get_local_id(0), query = get_group_id(1);
    const uint first = (get_group_id(0) * ITEMS + item) * HELD;
    for (uint i = item; i < BINS; i += ITEMS) {
        bins[i] = 0;
    }
    // Items beyond the last block read the first one; none of their objects is there.
    const uint block = first / BLOCK < blocks ? first / BLOCK : 0;
    __global const NUMBER *list = lists + (ulong)block * (BLOCK * LENGTH) + first % BLOCK;
    __global const ENTRY *of_query = tables + (ulong)query * (LENGTH * PIVOTS);
    uint sums[HELD];
#pragma unroll
    for (uint h = 0; h < HELD; h++) {
        sums[h] = starts[query];
    }
    for (uint begin = 0; begin < LENGTH; begin += STEP) {
        const uint places = min((uint)STEP, LENGTH - begin);
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint i = item; i < places * PIVOTS; i += ITEMS) {
            table[i] = of_query[begin * PIVOTS + i];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll 4
        for (uint place = 0; place < places; place++) {
            const LOAD load = *(__global const LOAD *)(list + (begin + place) * BLOCK);
#pragma unroll
            for (uint h = 0; h < HELD; h++) {
                sums[h] += table[place * PIVOTS + OF_LOAD(load, h)];
            }
        }
    }
    const uint marks = alive[first / HELD];
    float found[HELD];
#pragma unroll
    for (uint h = 0; h < HELD; h++) {
        const uint measure = OF_SUM(sums[h]);
        const bool is_there = marks >> h & 1;
        found[h] = is_there ? (float)measure : INFINITY;
        if (is_there) {
            atomic_inc(&bins[min(measure >> SHIFT, (uint)BINS - 1)]);
        }
    }
    __global float4 *to = (__global float4 *)(lowers + (ulong)query * stride + first);
    to[0] = (float4)(found[0], found[1], found[2], found[3]);
    to[1] = (float4)(found[4], found[5], found[6], found[7]);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = item; i < BINS; i += ITEMS) {
        if (bins[i] > 0) {
            atomic_add(&histogram[query * BINS + i], bins[i]);
        }
    }
}

// The range of each query: the end of the bin in which the `wanted`-th least measure lies.
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void limit(
    __global const uint *histogram, uint wanted, __global float *ranges) {
    __local uint sums[ITEMS];
    const uint item = get_local_id(0), query = get_group_id(0);
    __global const uint *bins = histogram + query * BINS;
    uint sum = 0;
    for (uint i = 0; i < BINS / ITEMS; i++) {
        sum += bins[item * (BINS / ITEMS) + i];
    }
    sums[item] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item == 0) {
        uint below = 0, part = 0;
        while (part + 1 < ITEMS && below + sums[part] < wanted) {
            below += sums[part];
            part++;
        }
        uint bin = part * (BINS / ITEMS);
        while (bin + 1 < (part + 1) * (BINS / ITEMS) && below + bins[bin] < wanted) {
            below += bins[bin];
            bin++;
        }
        // The last bin has all measures from its begin on.
        ranges[query] = bin + 1 < BINS ? (float)((bin + 1 << SHIFT) - 1) : INFINITY;
    }
}
