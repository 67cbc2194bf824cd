// Edit distances of long pairs of texts, tile by tile: an item has 32 rows of the table in the bits of its registers, and a group some
// columns of as many words of rows as it has items. `long.rs` defines the constants: ITEMS of a group; LANES, the items that hand on at
// every step; STEPS of a tile; PARTS of a letter, of PART_BITS each.
//
// An item is a column behind the one above it, so that all of them compute at once (G. Myers 1999, with the differences between words of
// H. Hyyro 2003). A launch has a diagonal of the tiles of each pair: a tile needs the one above it and the one to its left, which the
// launches before it have computed.
//
// Lanes hand their rows' differences to the lane below at each step. The last lane of a warp hands them to the next warp a chunk of steps
// later, when all items have met at a barrier. So the items of a warp need no barrier on devices that move words between lanes.
//
// An item that has not begun has rising rows, and a falling row above it: an unbounded table has these to the left of its first
// column, whatever the letters there. So items need no condition when they begin. After the last column they compute numbers that reach no
// column before it.
//
// Operations for 32 cells: a mask's address, two for the sum's terms, one for the sum of three numbers, eight for the differences. That is 12
// where an instruction takes three inputs; beside them the unit of loads moves six words: a letter, a mask, two between lanes, two
// between warps.

// Steps between two barriers, which are the bits of a word of a border.
#define CHUNK 32
#define WARPS (ITEMS / LANES)
#define VALUES (1 << PART_BITS)
#define BEHIND(item) ((item) + (CHUNK - 1) * ((item) / LANES))
// Columns that the last item of a tile is behind the first one. The next strip is as far behind as that item.
#define STRIP_BEHIND BEHIND(ITEMS - 1)
// The highest bit of a word, which a row's difference is handed on in.
#define HIGHEST 0x80000000u

#if defined(__NV_CL_C_VERSION) && LANES == 32
#define EACH _Pragma("unroll")
#define KEEP_PASSED
inline uint of_lane_above(uint word) {
    uint above;
    __asm volatile("shfl.sync.up.b32 %0, %1, 1, 0, 0xffffffff;" : "=r"(above) : "r"(word));
    return above;
}
#define TAKE_FROM_ABOVE(step)              \
    uint above_up = of_lane_above(up);     \
    uint above_down = of_lane_above(down);
#else
// A compiler that unrolls loops around barriers takes minutes.
#define EACH _Pragma("unroll 1")
// Through local memory, in two parts by turns, so that this code runs on every device.
#define KEEP_PASSED __local uint2 passed[2 * ITEMS];
#define TAKE_FROM_ABOVE(step)                                        \
    __local uint2 *of_step = passed + ((step) & 1) * ITEMS;          \
    of_step[item] = (uint2)(up, down);                               \
    barrier(CLK_LOCAL_MEM_FENCE);                                    \
    const uint2 of_above = of_step[item > 0 ? item - 1 : 0];         \
    uint above_up = of_above.x, above_down = of_above.y;
#endif

// A letter as it lies in local memory: its place in the table if it has one part, so that a step computes no product.
#if PARTS == 1
#define PLACED(letter) ((letter) * ITEMS)
inline uint rows_with(__local const uint *of_item, uint placed) { return of_item[placed]; }
#else
#define PLACED(letter) (letter)
inline uint rows_with(__local const uint *of_item, uint letter) {
    uint rows = 0xffffffffu;
    for (uint part = 0; part < PARTS; part++) {
        rows &= of_item[(part * VALUES + (letter >> PART_BITS * part & (VALUES - 1))) * ITEMS];
    }
    return rows;
}
#endif

// The tiles of a diagonal: groups by strip of rows, from `strips_first` on, and pair.
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void tiles(
    // The letters of all pairs by number. A letter of one text that the other one lacks has a number that the other one does not have.
    __global const ushort *rows, __global const ushort *columns,
    // Of each pair: its first row and the number of rows, its first column and the number of columns, the first word of its border,
    // and its first strip.
    __global const uint8 *pairs, uint strips_first, uint diagonal,
    // By strip and item: the rows that rise, and those that fall, down the last column, and along the rows to that column.
    __global uint4 *words,
    // By strip, warp and step of a chunk: the differences that the warp hands on next.
    __global uint2 *handed,
    // By pair and chunk of steps: the differences along the lowest row of the last tile that was computed there, a bit a step.
    __global uint2 *borders) {
    __local uint table[PARTS * VALUES * ITEMS];
    __local ushort letters[STRIP_BEHIND + STEPS + 2];
    // The differences above the tile, from the second chunk on. Those below it come into the place of the chunk before.
    __local uint2 border[CHUNK + STEPS];
    // By warp, in two chunks by turns.
    __local uint2 between[WARPS * 2 * CHUNK];
    KEEP_PASSED
    const uint item = get_local_id(0), lane = item % LANES, warp = item / LANES;
    const uint8 pair = pairs[get_group_id(1)];
    const uint strip = strips_first + get_group_id(0), place = diagonal - strip;
    const uint words_of_pair = (pair.s1 + 31) / 32, word = strip * ITEMS + item;
    const uint last = min(words_of_pair - strip * ITEMS, (uint)ITEMS) - 1;
    const uint first_place = strip * STRIP_BEHIND / STEPS;
    const uint last_place = (pair.s3 - 1 + strip * STRIP_BEHIND + BEHIND(last)) / STEPS;
    // Diagonals of a pair have other strips than those of the longest one.
    if (strip * ITEMS < words_of_pair && strip <= diagonal && first_place <= place && place <= last_place) {
        // The first word lacks rows at its top. They differ from all letters and have no differences at their border, so they leave
        // the differences above them as they are.
        const uint lacking = words_of_pair * 32 - pair.s1;
        for (uint value = 0; value < PARTS * VALUES; value++) {
            table[value * ITEMS + item] = 0;
        }
        for (uint r = 0; r < 32; r++) {
            // A row above the first one has a number beyond the last one.
            const uint row = word * 32 + r - lacking;
            if (row < pair.s1) {
                const uint letter = rows[pair.s0 + row];
                for (uint part = 0; part < PARTS; part++) {
                    table[(part * VALUES + (letter >> PART_BITS * part & (VALUES - 1))) * ITEMS + item] |= 1u << r;
                }
            }
        }
        // Outside the table there is any letter.
        const int column_first = (int)(place * STEPS) - (int)((strip + 1) * STRIP_BEHIND);
        for (uint i = item; i < STRIP_BEHIND + STEPS + 2; i += ITEMS) {
            const int column = column_first + (int)i;
            letters[i] = column >= 0 && column < (int)pair.s3 ? PLACED(columns[pair.s2 + (uint)column]) : 0;
        }
        __global uint2 *own_border = borders + pair.s4 + place * (STEPS / CHUNK);
        for (uint step = item; step < STEPS; step += ITEMS) {
            // The row above the table rises.
            uint2 bits = (uint2)(0xffffffffu, 0);
            if (strip > 0) {
                bits = own_border[step / CHUNK];
            }
            border[CHUNK + step] = (uint2)(bits.x >> step % CHUNK << 31, bits.y >> step % CHUNK << 31);
        }
        const uint strip_of_all = pair.s5 + strip;
        __global uint2 *own_handed = handed + (strip_of_all * WARPS + warp) * CHUNK;
        const bool begins = place == first_place;
        for (uint step = lane; step < CHUNK; step += LANES) {
            uint2 next = (uint2)(0, HIGHEST);
            if (!begins) {
                next = own_handed[step];
            }
            between[(2 * warp + 1) * CHUNK + step] = next;
        }
        uint4 state = (uint4)(word == 0 ? 0xffffffffu << lacking : 0xffffffffu, 0, 0, 0xffffffffu);
        if (!begins) {
            state = words[strip_of_all * ITEMS + item];
        }
        uint rise = state.x, fall = state.y, up = state.z, down = state.w;
        barrier(CLK_LOCAL_MEM_FENCE);
        // A letter and a mask are read a step before they are needed.
        __local const uint *of_item = table + item;
        __local const ushort *next_letters = letters + (STRIP_BEHIND - BEHIND(item));
        uint next_equal = rows_with(of_item, next_letters[0]), next_letter = next_letters[1];
        for (uint chunk = 0; chunk < STEPS / CHUNK; chunk++) {
            __local const uint2 *from = border + (chunk + 1) * CHUNK;
            if (warp > 0) {
                from = between + (2 * (warp - 1) + (chunk + 1) % 2) * CHUNK;
            }
            __local uint2 *to = between + (2 * warp + chunk % 2) * CHUNK;
            if (item == last) {
                to = border + chunk * CHUNK;
            }
            const bool hands_on = item == last || lane == LANES - 1;
            next_letters = letters + (STRIP_BEHIND - BEHIND(item) + chunk * CHUNK + 2);
            EACH for (uint step = 0; step < CHUNK; step++) {
                const uint equal = next_equal;
                next_equal = rows_with(of_item, next_letter);
                next_letter = next_letters[step];
                TAKE_FROM_ABOVE(step)
                if (lane == 0) {
                    const uint2 of_warp = from[step];
                    above_up = of_warp.x;
                    above_down = of_warp.y;
                }
                const uint vertical = equal | fall;
                // A falling row above counts as an equal letter in the first row, and so as a carry.
                const uint sum = (equal & rise) + rise + (above_down >> 31);
                const uint horizontal = (sum ^ rise) | equal;
                up = fall | ~(horizontal | rise);
                down = rise & horizontal;
                const uint right = up << 1 | above_up >> 31, back = down << 1 | above_down >> 31;
                rise = back | ~(vertical | right);
                fall = right & vertical;
                if (hands_on) {
                    to[step] = (uint2)(up, down);
                }
            }
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        words[strip_of_all * ITEMS + item] = (uint4)(rise, fall, up, down);
        for (uint step = lane; step < CHUNK; step += LANES) {
            own_handed[step] = between[(2 * warp + (STEPS / CHUNK - 1) % 2) * CHUNK + step];
        }
        for (uint chunk = item; chunk < STEPS / CHUNK; chunk += ITEMS) {
            uint2 bits = (uint2)(0, 0);
            for (uint i = 0; i < CHUNK; i++) {
                // Items begin at different steps, so that they read different banks of the memory.
                const uint step = (i + chunk) % CHUNK;
                const uint2 of_step = border[chunk * CHUNK + step];
                bits |= (uint2)(of_step.x >> 31 << step, of_step.y >> 31 << step);
            }
            own_border[chunk] = bits;
        }
    }
}
