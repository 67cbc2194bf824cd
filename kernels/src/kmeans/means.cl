// The means of clusters with the bits of `update.rs`: sums in f64 of each block of rows, in the order of the rows, joined in the
// order of the blocks. An item has one number of one cluster, so items next to each other read one row.

#pragma OPENCL EXTENSION cl_khr_fp64 : enable

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void means(
    __global const float *rows,
    // By block, its rows cluster by cluster, in their order within each; and where each cluster begins, and the last one ends.
    __global const uint *order, __global const uint *starts, uint blocks, uint clusters, uint dimensions,
    __global float *found) {
    const ulong place = get_global_id(0);
    if (place >= (ulong)clusters * dimensions) {
        return;
    }
    const uint cluster = place / dimensions, number = place % dimensions;
    double total = 0.0;
    uint count = 0;
    for (uint block = 0; block < blocks; block++) {
        __global const uint *of_block = starts + (ulong)block * (clusters + 1) + cluster;
        const ulong first = (ulong)block * BLOCK;
        const uint begin = of_block[0], end = of_block[1];
        double sum = 0.0;
        uint i = begin;
        // Four are on their way at a time; they are added one after the other.
        for (; i + 4 <= end; i += 4) {
            const float a = rows[(ulong)order[first + i] * dimensions + number];
            const float b = rows[(ulong)order[first + i + 1] * dimensions + number];
            const float c = rows[(ulong)order[first + i + 2] * dimensions + number];
            const float d = rows[(ulong)order[first + i + 3] * dimensions + number];
            sum += (double)a;
            sum += (double)b;
            sum += (double)c;
            sum += (double)d;
        }
        for (; i < end; i++) {
            sum += (double)rows[(ulong)order[first + i] * dimensions + number];
        }
        total += sum;
        count += end - begin;
    }
    found[place] = (float)(total / (double)max(count, 1u));
}
