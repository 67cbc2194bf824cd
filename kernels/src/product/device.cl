// Sums of the tables of product codes for many pairs of a query and a list. `device.rs` defines the constants: ITEMS, QUERIES,
// GROUP, DIMENSIONS, PARTS, WIDTH, BITS, AT_ONCE, LAUNCHES, and one of NO_TERMS, KEPT_TERMS and COMPUTED_TERMS.
//
// Sums and tables have the bits that slots compute: the same operations on f32 in the same order, none of them fused.

#pragma OPENCL FP_CONTRACT OFF

// Centroids of a part, and the numbers of all tables.
#define CENTROIDS (1 << BITS)
#define TABLES (PARTS * CENTROIDS)
// Codes in a word, and words of a row.
#define CODES (32 / BITS)
#define WORDS ((PARTS + CODES - 1) / CODES)
// Parts whose tables lie in local memory: PARTS in all, unless several launches share them.
#define WORDS_AT_ONCE ((AT_ONCE + CODES - 1) / CODES)
#define NEAR (AT_ONCE * CENTROIDS)
#define HELD ((NEAR + ITEMS - 1) / ITEMS)
#if LAUNCHES == 1 || LAUNCHES * AT_ONCE == PARTS
#define PARTS_HERE AT_ONCE
#else
#define PARTS_HERE min((uint)AT_ONCE, PARTS - parts_first)
#endif
// The place of a row that is not there.
#define NOWHERE 0xffffffffu

// The part of the tables that a query has for all lists: -2 <x, c>.
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void list_products(
    // Part after part, number after number, for all centroids of the part.
    __global const float *codebook,
    // Query after query.
    __global const float *queries, uint queries_count, __global float *products) {
    const uint entry = get_global_id(0), first = get_group_id(1) * QUERIES;
    if (entry >= TABLES) {
        return;
    }
    const uint part = entry / CENTROIDS, centroid = entry % CENTROIDS;
    float sums[QUERIES];
#pragma unroll
    for (uint q = 0; q < QUERIES; q++) {
        sums[q] = 0.0f;
    }
    for (uint j = 0; j < WIDTH && part * WIDTH + j < DIMENSIONS; j++) {
        const uint number = part * WIDTH + j;
        const float y = codebook[(ulong)number * CENTROIDS + centroid];
#pragma unroll
        for (uint q = 0; q < QUERIES; q++) {
            // A query that is not there is the last one once more.
            const uint query = min(first + q, queries_count - 1);
            const float product = (queries[(ulong)query * DIMENSIONS + number] * -2.0f) * y;
            sums[q] = sums[q] + product;
        }
    }
#pragma unroll
    for (uint q = 0; q < QUERIES; q++) {
        if (first + q < queries_count) {
            products[(ulong)(first + q) * TABLES + entry] = sums[q];
        }
    }
}

#if defined(COMPUTED_TERMS)
// A number of a list's part of the tables: |c|^2 + 2 <y, c>.
inline float term_of(__global const float *codebook, __global const float *centroid, uint entry) {
    const uint part = entry / CENTROIDS;
    float sum = 0.0f;
    for (uint j = 0; j < WIDTH && part * WIDTH + j < DIMENSIONS; j++) {
        const uint number = part * WIDTH + j;
        const float x = centroid[number], y = codebook[(ulong)number * CENTROIDS + entry % CENTROIDS];
        const float product = (y + (x + x)) * y;
        sum = sum + product;
    }
    return sum;
}
#endif

// The sums of a job's rows for its queries. A work group has one job: some groups of rows that lie side by side in one list, and
// queries that look into it. Codes are read once from global memory, then mostly from caches. Several launches share the parts of long codes: each goes on
// with the sums of the one before.
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void list_sums(
    // By group of rows, WORDS words of each row, the rows side by side.
    __global const uint *codes,
    // By group of rows, a bit for each row that is searched.
    __global const uint *alive,
#if defined(KEPT_TERMS)
    // List after list.
    __global const float *terms,
#elif defined(COMPUTED_TERMS)
    __global const float *codebook, __global const float *centroids,
#endif
    __global const float *products,
    // By job: the first group of rows, their number, the list, the first pair, the number of pairs, and the rows of the pairs
    // before these rows.
    __global const uint *jobs,
    // By pair: the query, the place of the first sum of the list, and the bits of the number that sums begin with.
    __global const uint *pairs,
    // By pair and row: the sums, and the group of each group of rows. Rows that are not searched are infinitely far.
    __global float *scores, __global uint *groups, uint parts_first) {
    __local float near[NEAR];
    const uint item = get_local_id(0);
    __global const uint *job = jobs + (ulong)get_group_id(0) * 6;
    const uint first_group = job[0], rows = job[1] * GROUP, list = job[2];
    const uint pairs_first = job[3], pairs_end = pairs_first + job[4], before = job[5];
    const uint held = PARTS_HERE * CENTROIDS;
    // The list's part of the tables is that of all queries.
#if !defined(NO_TERMS)
    float own[HELD];
#pragma unroll
    for (uint h = 0; h < HELD; h++) {
        const uint entry = h * ITEMS + item;
#if defined(KEPT_TERMS)
        own[h] = entry < held ? terms[(ulong)list * TABLES + parts_first * CENTROIDS + entry] : 0.0f;
#else
        own[h] = entry < held
                     ? term_of(codebook, centroids + (ulong)list * DIMENSIONS, parts_first * CENTROIDS + entry)
                     : 0.0f;
#endif
    }
#endif
    for (uint pair = pairs_first; pair < pairs_end; pair++) {
        const uint query = pairs[(ulong)pair * 3], start = pairs[(ulong)pair * 3 + 1] + before;
        const float base = as_float(pairs[(ulong)pair * 3 + 2]);
        __global const float *of_query = products + (ulong)query * TABLES + parts_first * CENTROIDS;
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
        for (uint h = 0; h < HELD; h++) {
            const uint entry = h * ITEMS + item;
            if (entry < held) {
#if defined(NO_TERMS)
                near[entry] = of_query[entry];
#else
                near[entry] = of_query[entry] + own[h];
#endif
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint row = item; row < rows; row += ITEMS) {
            const uint group = first_group + row / GROUP, place = row % GROUP;
            const ulong at = (ulong)start + row;
            __global const uint *code = codes + ((ulong)group * WORDS + parts_first / CODES) * GROUP + place;
            float sum = parts_first == 0 ? base : scores[at];
#pragma unroll
            for (uint w = 0; w < WORDS_AT_ONCE; w++) {
                if (w * CODES >= PARTS_HERE) {
                    break;
                }
                const uint word = code[w * GROUP];
#pragma unroll
                for (uint i = 0; i < CODES; i++) {
                    const uint part = w * CODES + i;
                    if (part < PARTS_HERE) {
                        sum = sum + near[part * CENTROIDS + (word >> i * BITS & (CENTROIDS - 1))];
                    }
                }
            }
            if (parts_first == 0) {
                if ((alive[group] >> place & 1) == 0) {
                    sum = INFINITY;
                }
                if (place == 0) {
                    groups[at / GROUP] = group;
                }
            }
            scores[at] = sum;
        }
    }
}

// The places of the rows of the k least sums of each query: rows are numbered group after group. A work item has one of them.
__kernel void list_places(
    // By query, the place of its first sum, and one more.
    __global const uint *starts, __global const float *least, __global const uint *least_places, uint k, uint count,
    __global const uint *groups, __global uint *found) {
    const uint i = get_global_id(0);
    if (i >= count) {
        return;
    }
    const uint at = least_places[i];
    const ulong sum = (ulong)starts[i / k] + at;
    found[i] = least[i] < INFINITY ? groups[sum / GROUP] * GROUP + (uint)(sum % GROUP) : NOWHERE;
}
