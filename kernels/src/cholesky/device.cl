// The Cholesky factor of a matrix in tiles, and solves with it: see device.rs. tiles.cl comes before this text.
//
// A product over several columns of tiles is one loop over slices of SLICE columns. Each work group computes one tile; its 256 items hold
// the tile in registers.

// Vectors of an item's rows, or columns.
#define VECTORS (BANDS / VECTOR)
// Matrix units read one number an item: four numbers between columns keep their banks apart.
#ifdef UNITS
#define STRIDE (TILE + 4)
#else
#define STRIDE TILE
#endif
// Vectors of a slice that an item copies.
#define COPIED (SLICE * TILE / VECTOR / ITEMS)

// Factors a diagonal tile in registers: item (x, y) of SIDE x SIDE holds the rows x + SIDE a and the columns y + SIDE b. A column passes
// by in local memory, in two places in turn, so that one barrier a column suffices. The first column without a positive pivot goes to
// `failed`, if no earlier one did.
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void factor(
    __global number *tiles, uint first_column, uint width, uint k, __global uint *failed) {
    __local number shelf[2][TILE];
    const uint item = get_local_id(0), x = item % SIDE, y = item / SIDE;
    __global number *tile = tiles + tile_in(k, k, first_column, width);
    number held[BANDS][BANDS];
#pragma unroll
    for (uint b = 0; b < BANDS; b++) {
#pragma unroll
        for (uint a = b; a < BANDS; a++) {
            held[a][b] = tile[(b * SIDE + y) * TILE + a * SIDE + x];
        }
    }
    uint first = TILE;
#pragma unroll
    for (uint band = 0; band < BANDS; band++) {
        for (uint c = 0; c < SIDE; c++) {
            const uint column = band * SIDE + c;
            __local number *passing = shelf[c % 2];
            if (y == c) {
#pragma unroll
                for (uint a = band; a < BANDS; a++) {
                    passing[a * SIDE + x] = held[a][band];
                }
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            number pivot = passing[column];
            if (!(pivot > 0 && pivot < INFINITY)) {
                first = min(first, column);
                pivot = 1;
            }
            // One operation in the chain from column to column, in place of a root and a quotient.
            const number inverse = rsqrt(pivot), root = pivot * inverse;
            number of_rows[BANDS];
#pragma unroll
            for (uint a = band; a < BANDS; a++) {
                of_rows[a] = passing[a * SIDE + x] * inverse;
            }
#pragma unroll
            for (uint b = band; b < BANDS; b++) {
                if (b > band || y > c) {
                    const number of_column = passing[b * SIDE + y] * inverse;
#pragma unroll
                    for (uint a = b; a < BANDS; a++) {
                        held[a][b] = fma(-of_rows[a], of_column, held[a][b]);
                    }
                }
            }
            if (y == c) {
#pragma unroll
                for (uint a = band; a < BANDS; a++) {
                    held[a][band] = a == band && x == c ? root : of_rows[a];
                }
            }
        }
    }
#pragma unroll
    for (uint b = 0; b < BANDS; b++) {
#pragma unroll
        for (uint a = b; a < BANDS; a++) {
            if (a > b || x >= y) {
                tile[(b * SIDE + y) * TILE + a * SIDE + x] = held[a][b];
            }
        }
    }
    if (item == 0 && first < TILE && *failed == UINT_MAX) {
        *failed = k * TILE + first;
    }
}

// The inverse of the factor of a diagonal tile, with zeros above its diagonal, by the same division of a tile: rows pass by.
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void invert(
    __global const number *tiles, uint first_column, uint width, uint k, __global number *inverses) {
    __local number shelf[2][TILE];
    const uint item = get_local_id(0), x = item % SIDE, y = item / SIDE;
    __global const number *tile = tiles + tile_in(k, k, first_column, width);
    number held[BANDS][BANDS];
#pragma unroll
    for (uint a = 0; a < BANDS; a++) {
#pragma unroll
        for (uint b = 0; b <= a; b++) {
            held[a][b] = a == b && x == y ? 1 : 0;
        }
    }
    // The next column of the factor is on its way while a row passes.
    number next_rows[BANDS], next_pivot = tile[0];
#pragma unroll
    for (uint a = 0; a < BANDS; a++) {
        next_rows[a] = tile[a * SIDE + x];
    }
#pragma unroll
    for (uint band = 0; band < BANDS; band++) {
        for (uint r = 0; r < SIDE; r++) {
            const uint row = band * SIDE + r, next = min(row + 1, (uint)(TILE - 1));
            __local number *passing = shelf[r % 2];
            const number inverse = 1 / next_pivot;
            number of_rows[BANDS];
#pragma unroll
            for (uint a = band; a < BANDS; a++) {
                of_rows[a] = next_rows[a];
                next_rows[a] = tile[next * TILE + a * SIDE + x];
            }
            next_pivot = tile[next * TILE + next];
            if (x == r) {
#pragma unroll
                for (uint b = 0; b <= band; b++) {
                    held[band][b] *= inverse;
                    passing[b * SIDE + y] = held[band][b];
                }
            }
            barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
            for (uint b = 0; b <= band; b++) {
                const number of_column = passing[b * SIDE + y];
#pragma unroll
                for (uint a = band; a < BANDS; a++) {
                    if (a > band || x > r) {
                        held[a][b] = fma(-of_rows[a], of_column, held[a][b]);
                    }
                }
            }
        }
    }
    __global number *to = inverses + (ulong)k * NUMBERS;
#pragma unroll
    for (uint b = 0; b < BANDS; b++) {
#pragma unroll
        for (uint a = 0; a < BANDS; a++) {
            to[(b * SIDE + y) * TILE + a * SIDE + x] = a >= b ? held[a][b] : 0;
        }
    }
}

#ifdef UNITS
// NVIDIA's matrix units: a warp computes 64 rows and 32 columns, in squares of 8 (Parallel Thread Execution ISA, mma.m8n8k4). A lane holds
// row lane / 4 and columns 2 (lane % 4), + 1 of each square.
#define HELD number held[8][4][2]
#define FOR_HELD(work)                                                                       \
    _Pragma("unroll") for (uint a = 0; a < 8; a++) {                                         \
        _Pragma("unroll") for (uint b = 0; b < 4; b++) {                                     \
            _Pragma("unroll") for (uint i = 0; i < 2; i++) {                                 \
                const uint row = item / 32 % 2 * 64 + a * 8 + item % 32 / 4;                 \
                const uint column = item / 64 * 32 + b * 8 + item % 4 * 2 + i;               \
                work(held[a][b][i], row, column)                                             \
            }                                                                                \
        }                                                                                    \
    }
#define ONE(at, row, column) at = 0;
#define CLEAR FOR_HELD(ONE)
#if UNITS == 2
// Two squares and eight terms at once, from compute capability 9.0 on.
#define MULTIPLY                                                                                                      \
    _Pragma("unroll") for (uint s = 0; s < SLICE; s += 8) {                                                           \
        number l[8][2], r[4][2];                                                                                      \
        _Pragma("unroll") for (uint h = 0; h < 2; h++) {                                                              \
            const uint at = (s + h * 4 + item % 4) * STRIDE + item % 32 / 4;                                          \
            _Pragma("unroll") for (uint a = 0; a < 8; a++) l[a][h] = near_left[at + item / 32 % 2 * 64 + a * 8];      \
            _Pragma("unroll") for (uint b = 0; b < 4; b++) r[b][h] = near_right[at + item / 64 * 32 + b * 8];         \
        }                                                                                                             \
        _Pragma("unroll") for (uint a = 0; a < 8; a += 2) {                                                           \
            _Pragma("unroll") for (uint b = 0; b < 4; b++) {                                                          \
                number c0, c1, c2, c3;                                                                                \
                __asm volatile("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7}, " \
                               "{%8, %9}, {%10, %11, %12, %13};"                                                      \
                               : "=d"(c0), "=d"(c1), "=d"(c2), "=d"(c3)                                               \
                               : "d"(l[a][0]), "d"(l[a + 1][0]), "d"(l[a][1]), "d"(l[a + 1][1]), "d"(r[b][0]),        \
                                 "d"(r[b][1]), "d"(held[a][b][0]), "d"(held[a][b][1]), "d"(held[a + 1][b][0]),        \
                                 "d"(held[a + 1][b][1]));                                                             \
                held[a][b][0] = c0, held[a][b][1] = c1, held[a + 1][b][0] = c2, held[a + 1][b][1] = c3;               \
            }                                                                                                         \
        }                                                                                                             \
    }
#else
#define MULTIPLY                                                                                                  \
    _Pragma("unroll") for (uint s = 0; s < SLICE; s += 4) {                                                       \
        number l[8], r[4];                                                                                        \
        const uint at = (s + item % 4) * STRIDE + item % 32 / 4;                                                  \
        _Pragma("unroll") for (uint a = 0; a < 8; a++) l[a] = near_left[at + item / 32 % 2 * 64 + a * 8];         \
        _Pragma("unroll") for (uint b = 0; b < 4; b++) r[b] = near_right[at + item / 64 * 32 + b * 8];            \
        _Pragma("unroll") for (uint a = 0; a < 8; a++) {                                                          \
            _Pragma("unroll") for (uint b = 0; b < 4; b++) {                                                      \
                number c0, c1;                                                                                    \
                __asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%4, %5};"  \
                               : "=d"(c0), "=d"(c1)                                                               \
                               : "d"(l[a]), "d"(r[b]), "d"(held[a][b][0]), "d"(held[a][b][1]));                   \
                held[a][b][0] = c0, held[a][b][1] = c1;                                                           \
            }                                                                                                     \
        }                                                                                                         \
    }
#endif
#else
// An item holds VECTORS vectors of rows in VECTORS * VECTOR columns.
#define HELD several held[VECTORS][BANDS]
#define CLEAR                                                                   \
    _Pragma("unroll") for (uint a = 0; a < VECTORS; a++) {                      \
        _Pragma("unroll") for (uint b = 0; b < BANDS; b++) held[a][b] = 0;      \
    }
#define MULTIPLY                                                                                                       \
    _Pragma("unroll") for (uint s = 0; s < SLICE; s++) {                                                               \
        several l[VECTORS], r[VECTORS];                                                                                \
        _Pragma("unroll") for (uint a = 0; a < VECTORS; a++) {                                                         \
            l[a] = ((const __local several *)near_left)[s * (STRIDE / VECTOR) + a * SIDE + item % SIDE];               \
            r[a] = ((const __local several *)near_right)[s * (STRIDE / VECTOR) + a * SIDE + item / SIDE];              \
        }                                                                                                              \
        _Pragma("unroll") for (uint a = 0; a < VECTORS; a++) {                                                         \
            _Pragma("unroll") for (uint b = 0; b < VECTORS; b++) {                                                     \
                ADD_PRODUCTS(l[a], r[b], held[a], b * VECTOR)                                                          \
            }                                                                                                          \
        }                                                                                                              \
    }
#ifdef DOUBLES
#define ADD_PRODUCTS(l, r, to, b)               \
    to[b] = fma(l, (several)(r.x), to[b]);      \
    to[b + 1] = fma(l, (several)(r.y), to[b + 1]);
#else
#define ADD_PRODUCTS(l, r, to, b)                      \
    to[b] = fma(l, (several)(r.x), to[b]);             \
    to[b + 1] = fma(l, (several)(r.y), to[b + 1]);     \
    to[b + 2] = fma(l, (several)(r.z), to[b + 2]);     \
    to[b + 3] = fma(l, (several)(r.w), to[b + 3]);
#endif
// Vectors of a column of the tile, each with its place in the tile.
#define FOR_VECTORS(work)                                                                        \
    _Pragma("unroll") for (uint b = 0; b < BANDS; b++) {                                         \
        _Pragma("unroll") for (uint a = 0; a < VECTORS; a++) {                                   \
            const uint column = (b / VECTOR * SIDE + item / SIDE) * VECTOR + b % VECTOR;         \
            work(held[a][b], column * (TILE / VECTOR) + a * SIDE + item % SIDE)                  \
        }                                                                                        \
    }
#endif

// held += left right^T over slices of columns, which lie in turn in two places of local memory: while one is multiplied, the next is on
// its way to registers.
#define READ(slice)                                                                                    \
    _Pragma("unroll") for (uint c = 0; c < COPIED; c++) {                                              \
        const ulong at = (ulong)(slice) * (SLICE * TILE / VECTOR) + c * ITEMS + item;                  \
        next_left[c] = ((__global const several *)left)[at];                                           \
        next_right[c] = ((__global const several *)right)[at];                                         \
    }
#define PUT(to, from)                                                                                       \
    _Pragma("unroll") for (uint c = 0; c < COPIED; c++) {                                                   \
        const uint i = c * ITEMS + item;                                                                    \
        ((__local several *)(to))[i / (TILE / VECTOR) * (STRIDE / VECTOR) + i % (TILE / VECTOR)] = from[c]; \
    }
#define SUM_UP(slices)                                                          \
    several next_left[COPIED], next_right[COPIED];                              \
    READ(0)                                                                     \
    for (uint slice = 0; slice < (slices); slice++) {                           \
        __local number *near_left = shelf + slice % 2 * (2 * SLICE * STRIDE);   \
        __local number *near_right = near_left + SLICE * STRIDE;                \
        PUT(near_left, next_left)                                               \
        PUT(near_right, next_right)                                             \
        barrier(CLK_LOCAL_MEM_FENCE);                                           \
        if (slice + 1 < (slices)) {                                             \
            READ(slice + 1)                                                     \
        }                                                                       \
        MULTIPLY                                                                \
    }

// Subtracts from tiles (i, j) the products of tiles (i, k) with the transposes of tiles (j, k), `first` <= k < `end`: from those of
// `columns` columns from `from` on, which lie in the block `to_tiles`. The tiles (i, k) lie in the block `tiles`.
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void update(
    __global number *to_tiles, uint to_first, uint to_width, __global const number *tiles, uint first_column, uint width,
    uint from, uint columns, uint first, uint end) {
    __local number shelf[4 * SLICE * STRIDE] __attribute__((aligned(16)));
    const uint item = get_local_id(0);
    const uint2 place = place_in(get_group_id(0), columns);
    const uint i = from + place.x, j = from + place.y;
    __global const number *left = tiles + tile_in(i, first, first_column, width);
    __global const number *right = tiles + tile_in(j, first, first_column, width);
    HELD;
    CLEAR
    SUM_UP((end - first) * (TILE / SLICE))
    __global number *to = to_tiles + tile_in(i, j, to_first, to_width);
#ifdef UNITS
#define SUBTRACT(sum, row, column) to[(column) * TILE + (row)] -= sum;
    FOR_HELD(SUBTRACT)
#else
#define SUBTRACT(sum, at) ((__global several *)to)[at] -= sum;
    FOR_VECTORS(SUBTRACT)
#endif
}

// Replaces the tiles of column k below its diagonal by their products with the transpose of the inverse of the factor there.
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void solve(
    __global number *tiles, uint first_column, uint width, uint k, __global const number *inverses) {
    __local number shelf[4 * SLICE * STRIDE] __attribute__((aligned(16)));
    const uint item = get_local_id(0);
    __global number *to = tiles + tile_in(k + 1 + get_group_id(0), k, first_column, width);
    __global const number *left = to, *right = inverses + (ulong)k * NUMBERS;
    HELD;
    CLEAR
    SUM_UP(TILE / SLICE)
    // All items have read all of the tile.
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
#ifdef UNITS
#define REPLACE(sum, row, column) to[(column) * TILE + (row)] = sum;
    FOR_HELD(REPLACE)
#else
#define REPLACE(sum, at) ((__global several *)to)[at] = sum;
    FOR_VECTORS(REPLACE)
#endif
}

// One step of L x = b: x_j from b_j by the inverse of the factor's diagonal tile, which each group computes anew, and b_i -= A_ij x_j for the
// row i of a group. The first group writes x_j. Numbers of vectors are wide.
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void forward(
    __global const number *tiles, uint first_column, uint width, __global const number *inverses, uint j,
    __global wide *b, __global wide *solved) {
    __local wide own[TILE], x[TILE], halves[TILE];
    const uint item = get_local_id(0), row = item % TILE, half_of = item / TILE, group = get_group_id(0);
    if (item < TILE) {
        own[item] = b[j * TILE + item];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    __global const number *inverse = inverses + (ulong)j * NUMBERS;
    wide sum = 0;
    for (uint c = half_of * (TILE / 2); c < (half_of + 1) * (TILE / 2); c++) {
        sum = fma((wide)inverse[c * TILE + row], own[c], sum);
    }
    if (half_of == 1) {
        halves[row] = sum;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (half_of == 0) {
        x[row] = sum + halves[row];
        if (group == 0) {
            solved[j * TILE + row] = x[row];
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (group > 0) {
        __global const number *tile = tiles + tile_in(j + group, j, first_column, width);
        sum = 0;
        for (uint c = half_of * (TILE / 2); c < (half_of + 1) * (TILE / 2); c++) {
            sum = fma((wide)tile[c * TILE + row], x[c], sum);
        }
        if (half_of == 1) {
            halves[row] = sum;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (group > 0 && half_of == 0) {
        b[(j + group) * TILE + row] -= sum + halves[row];
    }
}

// One step of L^T x = b, from the last tile on, where b is what `forward` has solved: x_j from b_j by the transpose of the inverse, and
// b_i -= A_ji^T x_j for i < j. Sixteen items sum up a column. The groups are the columns i of a block of columns, up to j; that of j itself
// writes x_j.
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void backward(
    __global const number *tiles, uint first_column, uint width, __global const number *inverses, uint j,
    __global wide *solved, __global wide *weights) {
    __local wide own[TILE], x[TILE], parts[ITEMS];
    const uint item = get_local_id(0), lane = item % SIDE, part = item / SIDE, i = first_column + get_group_id(0);
    if (item < TILE) {
        own[item] = solved[j * TILE + item];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    __global const number *from = inverses + (ulong)j * NUMBERS;
    for (uint round = 0; round < 2; round++) {
        // First x_j; then, in the groups of other rows, what it takes from b_i.
        for (uint band = 0; band < BANDS; band++) {
            const uint column = band * SIDE + part;
            wide sum = 0;
            for (uint a = 0; a < BANDS; a++) {
                const uint row = a * SIDE + lane;
                sum = fma((wide)from[column * TILE + row], round == 0 ? own[row] : x[row], sum);
            }
            parts[item] = sum;
            barrier(CLK_LOCAL_MEM_FENCE);
            if (item < SIDE) {
                wide all = 0;
                for (uint l = 0; l < SIDE; l++) {
                    all += parts[item * SIDE + l];
                }
                const uint at = band * SIDE + item;
                if (round == 0) {
                    x[at] = all;
                    if (i == j) {
                        weights[j * TILE + at] = all;
                    }
                } else if (i < j) {
                    solved[i * TILE + at] -= all;
                }
            }
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        from = i < j ? tiles + tile_in(j, i, first_column, width) : from;
    }
}

// Twice the sum of the logarithms of the diagonal is the logarithm of the determinant: the diagonal goes to a vector.
__kernel void diagonal(
    __global const number *tiles, uint first_column, uint width, uint count, __global wide *pivots) {
    const uint row = first_column * TILE + get_global_id(0), tile = row / TILE;
    if (row < count && tile < first_column + width) {
        pivots[row] = tiles[tile_in(tile, tile, first_column, width) + row % TILE * (TILE + 1)];
    }
}

// C = A B^T for the rates of products alone: A and B have `depth` columns of tiles in each row of tiles, C all its rows and columns.
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void product(
    __global const number *a, __global const number *b, __global number *c, uint depth) {
    __local number shelf[4 * SLICE * STRIDE] __attribute__((aligned(16)));
    const uint item = get_local_id(0), i = get_group_id(0), j = get_group_id(1);
    __global const number *left = a + (ulong)i * depth * NUMBERS, *right = b + (ulong)j * depth * NUMBERS;
    HELD;
    CLEAR
    SUM_UP(depth * (TILE / SLICE))
    __global number *to = c + ((ulong)j * get_num_groups(0) + i) * NUMBERS;
#ifdef UNITS
    FOR_HELD(REPLACE)
#else
    FOR_VECTORS(REPLACE)
#endif
}

// Rows of tiles beside the matrix solve X L^T = B from the left: each row loses products with the rows of L, as the matrix does itself.
// Row p of `beside` has a tile for each column of the `width` columns of L; with `is_upper` it begins at column p, and all before are 0.
ulong beside_at(uint p, uint j, uint width, uint is_upper) {
    return ((ulong)p * width - (is_upper ? (ulong)p * (p + 1) / 2 : 0) + j) * NUMBERS;
}

// The tiles of column j: they lose the products with columns from `first` on, and are multiplied with the transpose of the inverse of
// L's diagonal tile. Group p has row p. `tiles` begins with tile `base` of the lower half of L.
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void eliminate(
    __global number *beside, __global const number *tiles, uint base, __global const number *inverses, uint width,
    uint is_upper, uint j, uint first) {
    __local number shelf[4 * SLICE * STRIDE] __attribute__((aligned(16)));
    const uint item = get_local_id(0), p = get_group_id(0), from = is_upper ? max(first, p) : first;
    __global number *to = beside + beside_at(p, j, width, is_upper);
    __global const number *left = beside + beside_at(p, from, width, is_upper);
    __global const number *right = tiles + (tile_at(j, from) - (ulong)base * NUMBERS);
    HELD;
    CLEAR
    {
        SUM_UP((j - from) * (TILE / SLICE))
    }
#ifdef UNITS
    FOR_HELD(SUBTRACT)
#else
    FOR_VECTORS(SUBTRACT)
#endif
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    left = to;
    right = inverses + (ulong)j * NUMBERS;
    CLEAR
    {
        SUM_UP(TILE / SLICE)
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
#ifdef UNITS
    FOR_HELD(REPLACE)
#else
    FOR_VECTORS(REPLACE)
#endif
}

// Tiles of columns from `from` on lose the products with the columns `first` to `end` before them: group (j, p) has column from + j.
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void behind(
    __global number *beside, __global const number *tiles, uint base, uint width, uint is_upper, uint from, uint first,
    uint end) {
    __local number shelf[4 * SLICE * STRIDE] __attribute__((aligned(16)));
    const uint item = get_local_id(0), j = from + get_group_id(0), p = get_group_id(1);
    const uint begun = is_upper ? max(first, p) : first;
    __global number *to = beside + beside_at(p, j, width, is_upper);
    __global const number *left = beside + beside_at(p, begun, width, is_upper);
    __global const number *right = tiles + (tile_at(j, begun) - (ulong)base * NUMBERS);
    HELD;
    CLEAR
    SUM_UP((end - begun) * (TILE / SLICE))
#ifdef UNITS
    FOR_HELD(SUBTRACT)
#else
    FOR_VECTORS(SUBTRACT)
#endif
}

// The sums of the squares of the rows of each tile, to row j of `parts` behind as many rows as there are columns.
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void squared(
    __global const number *beside, uint places_stride, __global wide *parts) {
    __local wide halves[TILE];
    const uint item = get_local_id(0), row = item % TILE, half_of = item / TILE;
    const uint width = get_num_groups(0), j = get_group_id(0), p = get_group_id(1);
    __global const number *from = beside + beside_at(p, j, width, 0) + row;
    wide sum = 0;
    for (uint c = half_of * (TILE / 2); c < (half_of + 1) * (TILE / 2); c++) {
        const wide one = from[c * TILE];
        sum = fma(one, one, sum);
    }
    if (half_of == 1) {
        halves[row] = sum;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (half_of == 0) {
        parts[(ulong)(width + j) * places_stride + p * TILE + row] = sum + halves[row];
    }
}

// Sums up `width` rows of `parts` for each point: those of means, then, in further items, those of squares.
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void totals(
    __global const wide *parts, uint places_stride, uint width, uint kinds, __global wide *sums) {
    const uint at = get_global_id(0), point = at % places_stride;
    if (at < kinds * places_stride) {
        __global const wide *from = parts + (ulong)(at / places_stride) * width * places_stride + point;
        wide sum = 0;
        for (uint j = 0; j < width; j++) {
            sum += from[(ulong)j * places_stride];
        }
        sums[at] = sum;
    }
}

// The rows of the identity, from its diagonal on: group (i, j) of the lower half writes tile (j, i).
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void unit(__global number *beside, uint width) {
    const uint item = get_local_id(0);
    const uint2 place = place_of(get_group_id(0));
    __global number *to = beside + beside_at(place.y, place.x, width, 1);
    for (uint at = item; at < NUMBERS; at += ITEMS) {
        to[at] = place.x == place.y && at % (TILE + 1) == 0 ? 1 : 0;
    }
}

// The lower half of the inverse of L L^T, U U^T with the rows of U = L^-T beside the matrix, in place of L.
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void inverse(
    __global number *tiles, __global const number *beside, uint width) {
    __local number shelf[4 * SLICE * STRIDE] __attribute__((aligned(16)));
    const uint item = get_local_id(0), tile = get_group_id(0);
    const uint2 place = place_of(tile);
    __global number *to = tiles + (ulong)tile * NUMBERS;
    __global const number *left = beside + beside_at(place.x, place.x, width, 1);
    __global const number *right = beside + beside_at(place.y, place.x, width, 1);
    HELD;
    CLEAR
    SUM_UP((width - place.x) * (TILE / SLICE))
#ifdef UNITS
    FOR_HELD(REPLACE)
#else
    FOR_VECTORS(REPLACE)
#endif
}
