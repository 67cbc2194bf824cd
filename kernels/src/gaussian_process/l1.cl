// L1 distances of all objects from all marks: the device twin of `Marks::distances` (`l1.rs`).
//
// A work group computes GROUP times GROUP distances. A work item computes those of QUADS quadruples of objects and as many of
// marks, in registers. The group holds DEPTH dimensions of its vectors in local memory at a time, dimension by dimension; a
// quadruple is read from there at once, and each number serves 4 QUADS sums. `l1.rs` defines all constants and declares the
// error.

#define ITEMS (SIDE * SIDE)
// Four numbers more a row, so that items that copy one vector write to different banks, and rows stay aligned.
#define ROW (GROUP + 4)

// Copies DEPTH dimensions of some vectors, zeros where there is none.
#define COPY(to, from, first, count)                                                                      \
    for (uint i = item; i < GROUP * DEPTH; i += ITEMS) {                                                  \
        const uint vector = i / DEPTH, dimension = begin + i % DEPTH;                                     \
        const bool is_there = (first) + vector < (count) && dimension < dimensions;                       \
        to[(i % DEPTH) * ROW + vector] =                                                                  \
            is_there ? from[(ulong)((first) + vector) * dimensions + dimension] : 0.0f;                   \
    }

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void l1(
    // Vectors of `dimensions` numbers, one after the other.
    __global const float *objects, uint objects_count, __global const float *marks, uint marks_count,
    uint dimensions,
    // The distances, object by object.
    __global float *out) {
    __local float near_objects[DEPTH * ROW] __attribute__((aligned(16)));
    __local float near_marks[DEPTH * ROW] __attribute__((aligned(16)));

    const uint item = get_local_id(0);
    const uint item_object = item / SIDE, item_mark = item % SIDE;
    const uint first_object = get_group_id(0) * GROUP, first_mark = get_group_id(1) * GROUP;
    // For each quadruple of objects, object of it, and quadruple of marks: the sums with its four marks.
    float4 sums[QUADS][4][QUADS];
#pragma unroll
    for (uint a = 0; a < QUADS; a++) {
#pragma unroll
        for (uint i = 0; i < 4; i++) {
#pragma unroll
            for (uint b = 0; b < QUADS; b++) {
                sums[a][i][b] = 0.0f;
            }
        }
    }
    for (uint begin = 0; begin < dimensions; begin += DEPTH) {
        barrier(CLK_LOCAL_MEM_FENCE);
        COPY(near_objects, objects, first_object, objects_count)
        COPY(near_marks, marks, first_mark, marks_count)
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
        for (uint d = 0; d < DEPTH; d++) {
            float4 x[QUADS], y[QUADS];
#pragma unroll
            for (uint quad = 0; quad < QUADS; quad++) {
                x[quad] = ((const __local float4 *)near_objects)[d * (ROW / 4) + quad * SIDE + item_object];
                y[quad] = ((const __local float4 *)near_marks)[d * (ROW / 4) + quad * SIDE + item_mark];
            }
#pragma unroll
            for (uint a = 0; a < QUADS; a++) {
#pragma unroll
                for (uint b = 0; b < QUADS; b++) {
                    sums[a][0][b] += fabs(x[a].x - y[b]);
                    sums[a][1][b] += fabs(x[a].y - y[b]);
                    sums[a][2][b] += fabs(x[a].z - y[b]);
                    sums[a][3][b] += fabs(x[a].w - y[b]);
                }
            }
        }
    }
#pragma unroll
    for (uint a = 0; a < QUADS; a++) {
#pragma unroll
        for (uint i = 0; i < 4; i++) {
            const uint object = first_object + 4 * (a * SIDE + item_object) + i;
#pragma unroll
            for (uint b = 0; b < QUADS; b++) {
                const uint mark = first_mark + 4 * (b * SIDE + item_mark);
                const float found[4] = {sums[a][i][b].x, sums[a][i][b].y, sums[a][i][b].z, sums[a][i][b].w};
#pragma unroll
                for (uint j = 0; j < 4; j++) {
                    if (object < objects_count && mark + j < marks_count) {
                        out[(ulong)object * marks_count + mark + j] = found[j];
                    }
                }
            }
        }
    }
}
