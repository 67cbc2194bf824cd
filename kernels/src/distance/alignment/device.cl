// Alignments of texts with queries by tables of numbers: the least cost of edits or, with SCORES, the score of the best local alignment.
// `device.rs` defines the constants: ITEMS of a group; LANES of a pair, and ROWS of the table that each lane keeps in registers; LETTERS of
// the table of costs, if those of a stripe lie in local memory; LOOKED_UP, if costs are looked up in global memory. With neither, letters are
// compared.
//
// A stripe of LANES x ROWS rows is cut as a parallelogram: in step `s` lane `t` computes its rows at column `s - t`, and then hands its
// lowest number to the lane below. The lowest numbers of the last lane are the border above the next stripe.
//
// The two triangles beside the table run on a letter of padding, for which no letter is replaced. Before a lane's first column every number
// then follows from the one above it, so the lane stays at the left edge of the table. Nothing reads the numbers behind the last
// column and below the last row, and none of them is a better score.

#define EACH _Pragma("unroll")
// Pairs of a group: one query, and texts that lie next to each other in the order of their lengths.
#define PAIRS (ITEMS / LANES)
#define HEIGHT (LANES * ROWS)

#if defined(SCORES)
#define FAR (-(1 << 29))
#define TOP(column) 0
#define LEFT(row) 0
#define CELL(corner, cost, up, left) \
    max(max(max((corner) + (cost), 0), (left) - insert), (up) - delete)
#else
#define FAR (1 << 29)
#define TOP(column) (((int)(column) + 1) * insert)
// Rows that fill up the last stripe have the number of the last row, which fits.
#define LEFT(row) ((int)min((uint)(row), query.y) * delete)
// The number above comes last: it is the newest, on the chain of all rows.
#define CELL(corner, cost, up, left) \
    min(min((corner) + (cost), (left) + insert), (up) + delete)
#endif

#if defined(LETTERS)
// Four rows of a letter: lanes lie side by side, so that they read different banks.
#define COSTS_PLACE(letter, rows) (((letter) * (ROWS / 4) + (rows)) * LANES)
#define KEEP_COSTS __local int4 costs_of[LETTERS * HEIGHT / 4];
#define COST(r) (((r) & 3) == 0 ? four[(r) / 4].x : ((r) & 3) == 1 ? four[(r) / 4].y : ((r) & 3) == 2 ? four[(r) / 4].z : four[(r) / 4].w)
#else
#define KEEP_COSTS
#if defined(LOOKED_UP)
#define COST(r) table[row_letters[r] + letter]
#else
#define COST(r) (row_letters[r] == letter ? equal : unequal)
#endif
#endif

// A number of the lane above. The first lane of a pair gets that of another pair.
#if LANES == 1
#define FROM_ABOVE(up, bottom) const int up = 0;
#elif defined(__NV_CL_C_VERSION)
inline int from_above(int bottom) {
    int up;
    __asm volatile("shfl.sync.up.b32 %0, %1, 1, 0, 0xffffffff;" : "=r"(up) : "r"(bottom));
    return up;
}
#define FROM_ABOVE(up, bottom) const int up = from_above(bottom);
#else
// Through local memory, so that this code runs on every device. Steps take the two halves in turn, so one barrier is enough.
#define FROM_ABOVE(up, bottom)                                \
    exchange[(step & 1) * ITEMS + item] = bottom;             \
    barrier(CLK_LOCAL_MEM_FENCE);                             \
    const int up = item == 0 ? 0 : exchange[(step & 1) * ITEMS + item - 1];
#endif

// The border of a pair: those of a group's pairs lie side by side.
#define BORDER(column) borders[((ulong)get_group_id(0) * border_columns + (column)) * PAIRS + pair]

// The numbers of all texts from each query.
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void align(
    __global const ushort *letters,
    // Of each text, in the order of lengths: its first letter, and their number.
    __global const uint2 *texts, uint texts_count,
    // Letters of queries, and the same of each of them.
    __global const ushort *query_letters, __global const uint2 *queries, uint queries_count,
    // Costs that are added for a letter of the text alone and of the query alone; scores lose them.
    int insert, int delete,
    // Of pairs of letters, if these are compared.
    int equal, int replace,
    // The letter that pads texts, and the one that pads queries.
    uint text_padding, uint query_padding,
    // Costs by letters of queries and of texts.
    __global const int *table, uint table_columns,
    // Room for each group, if a query has several stripes.
    __global int *borders, uint border_columns,
    // By query and text.
    __global int *numbers) {
    KEEP_COSTS
    __local int exchange[2 * ITEMS];
    const uint item = get_local_id(0), lane = item % LANES, pair = item / LANES;
    const uint bundles = (texts_count + PAIRS - 1) / PAIRS;
    for (uint job = get_group_id(0); job < bundles * queries_count; job += get_num_groups(0)) {
        // Long texts come first: the last one of these would run alone.
        const uint bundle = bundles - 1 - job / queries_count, query_idx = job % queries_count;
        const uint2 query = queries[query_idx];
        const uint place = bundle * PAIRS + pair;
        const uint2 text = place < texts_count ? texts[place] : (uint2)(0, 0);
        const uint longest = texts[min((bundle + 1) * PAIRS, texts_count) - 1].y;
        const uint stripes = (query.y + HEIGHT - 1) / HEIGHT;
        // The last row, in the last stripe.
        const uint last = (query.y - 1) % HEIGHT;
        // The largest score so far; or the cost of a text without letters, and then of this one.
        int found = LEFT(query.y);
        for (uint stripe = 0; stripe < stripes; stripe++) {
            const uint first = stripe * HEIGHT + lane * ROWS;
            // Pairs with the reads of the last stripe; those of a border follow its writes.
            barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
#if defined(LETTERS)
            for (uint at = item; at < LETTERS * HEIGHT / 4; at += ITEMS) {
                const uint row = stripe * HEIGHT + at % LANES * ROWS + at / LANES % (ROWS / 4) * 4;
                const uint letter = at / (HEIGHT / 4);
                int of_rows[4];
                EACH for (uint r = 0; r < 4; r++) {
                    const uint of_row = row + r < query.y ? query_letters[query.x + row + r] : query_padding;
                    of_rows[r] = letter < table_columns ? table[of_row * table_columns + letter] : 0;
                }
                costs_of[at] = (int4)(of_rows[0], of_rows[1], of_rows[2], of_rows[3]);
            }
            barrier(CLK_LOCAL_MEM_FENCE);
#else
            uint row_letters[ROWS];
            EACH for (uint r = 0; r < ROWS; r++) {
                const uint of_row = first + r < query.y ? query_letters[query.x + first + r] : query_padding;
#if defined(LOOKED_UP)
                row_letters[r] = of_row * table_columns;
#else
                row_letters[r] = of_row;
#endif
            }
#endif
            int left[ROWS];
            EACH for (uint r = 0; r < ROWS; r++) {
                left[r] = LEFT(first + r + 1);
            }
            int corner = LEFT(first), bottom = left[ROWS - 1];
            // The border is read a step ahead.
            const bool has_border = stripe > 0 && lane == 0;
            int next = has_border && longest > 0 ? BORDER(0) : 0;
            for (uint step = 0; step < longest + LANES - 1; step++) {
                // Wraps around before the first column.
                const uint column = step - lane;
                const bool is_inside = column < text.y;
                const uint letter = is_inside ? letters[text.x + column] : text_padding;
#if defined(LETTERS)
                int4 four[ROWS / 4];
                EACH for (uint rows = 0; rows < ROWS / 4; rows++) {
                    four[rows] = costs_of[COSTS_PLACE(letter, rows) + lane];
                }
#elif !defined(LOOKED_UP)
                const int unequal = is_inside ? replace : FAR;
#endif
                FROM_ABOVE(handed, bottom)
                int up = handed;
                if (lane == 0) {
                    up = stripe > 0 ? next : TOP(step);
                }
                if (has_border && step + 1 < longest) {
                    next = BORDER(step + 1);
                }
                int diagonal = corner;
                corner = up;
                EACH for (uint r = 0; r < ROWS; r++) {
                    const int cost = COST(r);
                    const int cell = CELL(diagonal, cost, up, left[r]);
#if defined(SCORES)
                    found = max(found, cell);
#endif
                    diagonal = left[r];
                    left[r] = cell;
                    up = cell;
                }
                bottom = up;
                if (lane == LANES - 1 && stripe + 1 < stripes && column < longest) {
                    BORDER(column) = bottom;
                }
#if !defined(SCORES)
                if (stripe + 1 == stripes && column + 1 == text.y && lane == last / ROWS) {
                    EACH for (uint r = 0; r < ROWS; r++) {
                        found = r == last % ROWS ? left[r] : found;
                    }
                }
#endif
            }
        }
        const ulong to = (ulong)query_idx * texts_count + place;
#if defined(SCORES)
        exchange[item] = found;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lane == 0 && place < texts_count) {
            for (uint other = 1; other < LANES; other++) {
                found = max(found, exchange[item + other]);
            }
            numbers[to] = found;
        }
        // Pairs with the writes of the next pair.
        barrier(CLK_LOCAL_MEM_FENCE);
#else
        if (place < texts_count && query.y == 0 && lane == 0) {
            numbers[to] = (int)text.y * insert;
        }
        if (place < texts_count && query.y > 0 && lane == last / ROWS) {
            numbers[to] = found;
        }
#endif
    }
}
