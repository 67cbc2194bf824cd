// Edit distances of many pairs of texts, one bit a pair: an item has 32 pairs in the bits of its registers. `device.rs` defines the
// constants: ITEMS; ROWS of the table that an item keeps in registers; PLANES, the bits of a letter; DIGITS, the bits of a distance;
// COLUMNS, the columns whose differences lie in local memory, or else they lie in global memory; LISTED, if only distances up to a limit
// are wanted; PAIRED and PADDED for the kernel `pairs`.
//
// Neighbours in the table differ by -1, 0 or 1: `rise` and `fall` have the bits of vertical differences, `right` and `back` those of
// horizontal ones. A cell takes five operations of three inputs for 32 pairs, after the bits of letters that differ are known.
//
// Rows are filled up at the top: a row of no letter, which differs from every one and has no vertical difference at its
// border, leaves the differences above it as they are. So the last row of every table is the last row of a strip.
//
// Items share nothing, so there are no barriers: what an item writes to local memory it alone reads.

#define EACH _Pragma("unroll")

#if defined(COLUMNS)
#define COLUMN(place) kept[(place) * ITEMS + item]
#define KEEP_COLUMNS __local uint2 kept[COLUMNS * ITEMS];
#else
#define COLUMN(place) columns[((ulong)get_group_id(0) * columns_of_group + (place)) * ITEMS + item]
#define KEEP_COLUMNS
#endif

// A word of an item: the words of all items of a group lie side by side.
#define WORD(row) planes[(ulong)(row) * ITEMS + item]

// A cell: from the differences above it and to its left to those below it and to its right.
#define CELL(differ, rise, fall, right, back)                    \
    {                                                            \
        const uint costly = (differ) & ~((fall) | (back));       \
        const uint below_right = (fall) | (costly & ~(rise));    \
        const uint below_back = (rise) & ~costly;                \
        (rise) = (back) | (costly & ~(right));                   \
        (fall) = (right) & ~costly;                              \
        (right) = below_right;                                   \
        (back) = below_back;                                     \
    }

// Adds 1, 0 or -1 to 32 numbers of DIGITS bits.
inline void add(uint *digits, uint right, uint back) {
    uint carry = digits[0] & (right | back);
    digits[0] ^= right | back;
    EACH for (uint d = 1; d < DIGITS; d++) {
        const uint digit = digits[d];
        digits[d] = digit ^ back ^ carry;
        carry = (digit & back) | (digit & carry) | (back & carry);
    }
}

inline void set(uint *digits, uint number) {
    EACH for (uint d = 0; d < DIGITS; d++) {
        digits[d] = 0 - (number >> d & 1);
    }
}

#if !defined(LISTED)
#define EXCHANGE_BITS(x, apart, mask)                                    \
    EACH for (uint i = 0; i < 8; i++) {                                  \
        if ((i & (apart)) == 0) {                                        \
            const uint t = (x[i] >> (apart) ^ x[i + (apart)]) & (mask);  \
            x[i + (apart)] ^= t;                                         \
            x[i] ^= t << (apart);                                        \
        }                                                                \
    }

// Turns eight planes from `first` on into bytes: byte b of word w is that of lane 8 b + w, which is text 4 w + b.
inline void bytes_of(const uint *digits, uint first, uint *x) {
    EACH for (uint i = 0; i < 8; i++) {
        x[i] = first + i < DIGITS ? digits[first + i] : 0;
    }
    EXCHANGE_BITS(x, 1, 0x55555555u)
    EXCHANGE_BITS(x, 2, 0x33333333u)
    EXCHANGE_BITS(x, 4, 0x0f0f0f0fu)
}

// Writes 32 distances, in a byte or two each.
inline void write(const uint *digits, __global uint4 *to) {
    uint low[8];
    bytes_of(digits, 0, low);
#if DIGITS <= 8
    to[0] = (uint4)(low[0], low[1], low[2], low[3]);
    to[1] = (uint4)(low[4], low[5], low[6], low[7]);
#else
    uint high[8];
    bytes_of(digits, 8, high);
#define PAIR(w, b) ((low[w] >> (8 * (b)) & 0xff) | (high[w] >> (8 * (b)) & 0xff) << 8)
#define FIRST(w) (PAIR(w, 0) | PAIR(w, 1) << 16)
#define SECOND(w) (PAIR(w, 2) | PAIR(w, 3) << 16)
    EACH for (uint i = 0; i < 4; i++) {
        to[i] = (uint4)(FIRST(2 * i), SECOND(2 * i), FIRST(2 * i + 1), SECOND(2 * i + 1));
    }
#endif
}
#define WORDS_WRITTEN (DIGITS <= 8 ? 2 : 4)
#endif

#if !defined(PAIRED)
// Letters in parts of three bits. A part of a letter differs from a place of the texts where the table of the place says so: the
// table of a part has a word for each of its eight values.
#define PARTS ((PLANES + 2) / 3)
#define VALUES 8
// The letter that no text has, and its place in the table of the first part.
#define NEVER 0xffffu
#define TABLE (VALUES * PARTS + 1)

// The distances of each text from each query: bundles of 32 ITEMS texts, each from one query at a time.
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void to_queries(
    // By bundle and place: PLANES words for each item. From the first place on that is beyond the end of a text follow, by place, the
    // texts that are longer.
    __global const uint *planes,
    // Of each bundle: where its words begin, its places, and the places that all of its texts have.
    __global const uint4 *bundles, uint bundles_count, uint texts_count,
    __global const ushort *letters,
    // Of each query: its first letter, and their number.
    __global const uint2 *queries, uint queries_count,
    // Room for each group, if columns do not lie in local memory.
    __global uint2 *columns, uint columns_of_group,
#if defined(LISTED)
    // By query: the largest distance that is wanted, or a negative number.
    __global const int *limits,
    // The number of entries that there are, of which there is room for `capacity`: a query, and a text above its distance.
    __global uint *counts, __global uint2 *entries, uint capacity
#else
    // By query, bundle and text.
    __global uint4 *distances
#endif
) {
    __local uint table[TABLE * ITEMS];
    KEEP_COLUMNS
    const uint item = get_local_id(0);
    table[VALUES * PARTS * ITEMS + item] = 0xffffffffu;
    for (uint job = get_group_id(0); job < bundles_count * queries_count; job += get_num_groups(0)) {
        // Bundles of long texts come first: a last one of these would run alone.
        const uint bundle_idx = bundles_count - 1 - job / queries_count, query_idx = job % queries_count;
        const uint4 bundle = bundles[bundle_idx];
        const uint2 query = queries[query_idx];
        const uint strips = max((query.y + ROWS - 1) / ROWS, 1u), lead = strips * ROWS - query.y;
#if defined(LISTED)
        const int limit = limits[query_idx];
        if (limit >= 0) {
#endif
            uint digits[DIGITS];
            set(digits, query.y);
            for (uint strip = 0; strip < strips; strip++) {
                uint places[PARTS][ROWS], rise[ROWS], fall[ROWS];
                EACH for (uint r = 0; r < ROWS; r++) {
                    const uint row = strip * ROWS + r;
                    const uint letter = row < lead ? NEVER : letters[query.x + row - lead];
                    EACH for (uint part = 0; part < PARTS; part++) {
                        places[part][r] = (part * VALUES + (letter >> 3 * part & (VALUES - 1))) * ITEMS + item;
                    }
                    places[0][r] = letter == NEVER ? VALUES * PARTS * ITEMS + item : places[0][r];
                    rise[r] = row < lead ? 0 : 0xffffffffu;
                    fall[r] = 0;
                }
                for (uint place = 0; place < bundle.y; place++) {
                    EACH for (uint part = 0; part < PARTS; part++) {
                        uint bits[3];
                        EACH for (uint b = 0; b < 3; b++) {
                            bits[b] = 3 * part + b < PLANES ? WORD(bundle.x + place * PLANES + 3 * part + b) : 0;
                        }
                        EACH for (uint value = 0; value < VALUES; value++) {
                            // Values that no letter has are left out.
                            if (PLANES >= 3 * part + 3 || value >> (PLANES - 3 * part) == 0) {
                                table[(part * VALUES + value) * ITEMS + item] = (value & 1 ? ~bits[0] : bits[0]) |
                                                                                (value & 2 ? ~bits[1] : bits[1]) |
                                                                                (value & 4 ? ~bits[2] : bits[2]);
                            }
                        }
                    }
                    const uint2 above = strip > 0 ? COLUMN(place) : (uint2)(0xffffffffu, 0);
                    uint right = above.x, back = above.y;
                    EACH for (uint r = 0; r < ROWS; r++) {
                        uint differ = table[places[0][r]];
                        EACH for (uint part = 1; part < PARTS; part++) {
                            differ |= table[places[part][r]];
                        }
                        CELL(differ, rise[r], fall[r], right, back)
                    }
                    if (strip + 1 < strips) {
                        COLUMN(place) = (uint2)(right, back);
                    } else {
                        const uint longer = place < bundle.z ? 0xffffffffu : WORD(bundle.x + bundle.y * PLANES + place - bundle.z);
                        add(digits, right & longer, back & longer);
                    }
                }
            }
#if defined(LISTED)
            uint above = 0;
            EACH for (uint d = 0; d < DIGITS; d++) {
                const uint lacks = (limit >> d & 1) - 1;
                above = (above & digits[d]) | (above & lacks) | (digits[d] & lacks);
            }
            uint wanted = ~above;
            if (wanted != 0) {
                uint at = atomic_add(&counts[0], popcount(wanted));
                while (wanted != 0) {
                    const uint lane = 31 - clz(wanted);
                    wanted ^= 1u << lane;
                    uint distance = 0;
                    EACH for (uint d = 0; d < DIGITS; d++) {
                        distance |= (digits[d] >> lane & 1) << d;
                    }
                    const uint text = (bundle_idx * ITEMS + item) * 32 + 4 * (lane & 7) + (lane >> 3);
                    // Texts that fill up the last bundle are none.
                    const bool is_text = text < texts_count;
                    if (at < capacity) {
                        entries[at] = (uint2)(is_text ? query_idx : 0xffffffffu, text << DISTANCE_BITS | distance);
                    }
                    at++;
                }
            }
        }
#else
        write(digits, distances + ((ulong)(query_idx * bundles_count + bundle_idx) * ITEMS + item) * WORDS_WRITTEN);
#endif
    }
}
#endif

#if defined(PAIRED)
// The distances of pairs of texts: bundles of 32 ITEMS pairs.
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void pairs(
    // By bundle: as of `to_queries`, first of the first texts of pairs, which end at one row, and then of the second ones.
    __global const uint *planes,
    // Of each bundle: where the words of the first texts begin, their rows, and the rows that not all of them have; where the words of the second
    // texts begin, their places, and the places that all of them have.
    __global const uint8 *bundles, uint bundles_count, __global uint2 *columns, uint columns_of_group,
    // By bundle and pair.
    __global uint4 *distances) {
    KEEP_COLUMNS
    const uint item = get_local_id(0);
    for (uint bundle_idx = get_group_id(0); bundle_idx < bundles_count; bundle_idx += get_num_groups(0)) {
        const uint8 bundle = bundles[bundle_idx];
        const uint strips = max((bundle.s1 + ROWS - 1) / ROWS, 1u), lead = strips * ROWS - bundle.s1;
        uint digits[DIGITS];
        set(digits, bundle.s1);
        for (uint strip = 0; strip < strips; strip++) {
            uint first[PLANES][ROWS], rise[ROWS], fall[ROWS];
#if defined(PADDED)
            uint missing[ROWS];
#define MISSING(r) missing[r]
#else
#define MISSING(r) 0
#endif
            EACH for (uint r = 0; r < ROWS; r++) {
                const uint row = strip * ROWS + r;
                const bool is_there = row >= lead;
                EACH for (uint p = 0; p < PLANES; p++) {
                    first[p][r] = is_there ? WORD(bundle.s0 + (row - lead) * PLANES + p) : 0;
                }
                rise[r] = is_there ? 0xffffffffu : 0;
                fall[r] = 0;
#if defined(PADDED)
                if (is_there && row - lead < bundle.s2) {
                    rise[r] = WORD(bundle.s0 + bundle.s1 * PLANES + row - lead);
                    add(digits, 0, ~rise[r]);
                }
                missing[r] = ~rise[r];
#endif
            }
            for (uint place = 0; place < bundle.s4; place++) {
                uint bits[PLANES];
                EACH for (uint p = 0; p < PLANES; p++) {
                    bits[p] = WORD(bundle.s3 + place * PLANES + p);
                }
                const uint2 above = strip > 0 ? COLUMN(place) : (uint2)(0xffffffffu, 0);
                uint right = above.x, back = above.y;
                EACH for (uint r = 0; r < ROWS; r++) {
                    uint differ = MISSING(r);
                    EACH for (uint p = 0; p < PLANES; p++) {
                        differ |= first[p][r] ^ bits[p];
                    }
                    CELL(differ, rise[r], fall[r], right, back)
                }
                if (strip + 1 < strips) {
                    COLUMN(place) = (uint2)(right, back);
                } else {
                    const uint longer = place < bundle.s5 ? 0xffffffffu : WORD(bundle.s3 + bundle.s4 * PLANES + place - bundle.s5);
                    add(digits, right & longer, back & longer);
                }
            }
        }
        write(digits, distances + ((ulong)bundle_idx * ITEMS + item) * WORDS_WRITTEN);
    }
}
#endif
