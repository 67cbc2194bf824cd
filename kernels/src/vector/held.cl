// Products of vectors that stay in registers with vectors that pass through local memory, on matrix units. It follows `tile.cl`;
// `tile.rs` defines the constants: HELD, BLOCKS, BANDS, WARPS, PASSING.
//
// A work group holds STAYING vectors of BLOCKS times 32 halves, a warp BANDS times 16 of them, and goes through the others PASSING
// at a time: while it multiplies some, the next are on their way to the other half of its local memory. So an instruction loads
// nothing but its right operand, a barrier comes once for PASSING vectors, and nothing waits for memory but the first of them.
//
// An item loads quadruples of words. The words of a quadruple are the operands of two instructions, so these multiply the numbers
// of a vector in another order than that of memory, the same for both sides.

#if defined(HELD)
// Quadruples of words of a vector.
#define QUADRUPLES (4 * BLOCKS)
#define HELD_ITEMS (WARPS * WARP)
#define STAYING (WARPS * 16 * BANDS)
#define LENT (PASSING * QUADRUPLES)
// Quadruples of vectors that are next to each other lie in different banks.
#if BLOCKS % 2 == 0
#define PLACE_OF(vector, quadruple) ((vector) * QUADRUPLES + ((quadruple) ^ ((vector) & 1) << 2))
#else
#define PLACE_OF(vector, quadruple) ((vector) * QUADRUPLES + (quadruple))
#endif

// Sends 16 bytes to local memory, of which the first `bytes` are read, 0, 8 or 16, and the others are zeros.
#if defined(__NV_CL_C_VERSION)
inline void send(__local void *to, __global const void *from, uint bytes) {
    const uint at = (uint)(size_t)to;
    __asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(bytes));
}
// Waits for all that the item has sent. A barrier follows.
#define ARRIVED() __asm volatile("cp.async.wait_all;" ::: "memory")
// Whether it is so for any item of the warp: a branch that all of them take, or none.
inline bool in_any(bool is) {
    uint any;
    const uint own = is;
    __asm volatile(
        "{.reg .pred p;\n setp.ne.u32 p, %1, 0;\n vote.sync.any.pred p, p, 0xffffffff;\n selp.u32 %0, 1, 0, p;}"
        : "=r"(any)
        : "r"(own));
    return any != 0;
}
// The items of a warp go on together, as an instruction of matrix units demands.
#define TOGETHER() __asm volatile("bar.warp.sync 0xffffffff;" ::: "memory")
#else
inline void send(__local void *to, __global const void *from, uint bytes) {
    uint4 quadruple = 0;
    if (bytes == 16) {
        quadruple = *(__global const uint4 *)from;
    } else if (bytes == 8) {
        quadruple.xy = *(__global const uint2 *)from;
    }
    *(__local uint4 *)to = quadruple;
}
#define ARRIVED()
#define in_any(is) (is)
#define TOGETHER()
#endif

// Sends the vectors from `first` on, PASSING of them; those from `end` on are zeros. `some` is a vector that is there.
#define SEND_VECTORS(near, vectors, first, end, some)                                                     \
    _Pragma("unroll") for (uint c = 0; c < (LENT + HELD_ITEMS - 1) / HELD_ITEMS; c++) {                   \
        const uint i = c * HELD_ITEMS + item, vector = i / QUADRUPLES, quadruple = i % QUADRUPLES;        \
        const bool is_there = (first) + vector < (end);                                                   \
        if (LENT % HELD_ITEMS == 0 || i < LENT) {                                                         \
            send(&(near)[PLACE_OF(vector, quadruple)],                                                    \
                 (vectors) + (ulong)(is_there ? (first) + vector : (some)) * QUADRUPLES + quadruple,      \
                 is_there ? 16 : 0);                                                                      \
        }                                                                                                 \
    }

// The vectors that stay, in the order of the left operands: item by item, `lane / 4` and 8 more.
#define HOLD(held, vectors, first, count)                                                                 \
    _Pragma("unroll") for (uint band = 0; band < BANDS; band++) {                                         \
        _Pragma("unroll") for (uint high = 0; high < 2; high++) {                                         \
            const uint vector = (first) + band * 16 + high * 8 + lane / 4;                                \
            _Pragma("unroll") for (uint block = 0; block < BLOCKS; block++) {                             \
                (held)[band][high][block] = vector < (count)                                              \
                                                ? (vectors)[(ulong)vector * QUADRUPLES + block * 4 + lane % 4] \
                                                : (uint4)(0);                                             \
            }                                                                                             \
        }                                                                                                 \
    }

// The products with eight of those that pass, from `eight` on: by band, those of `lane / 4` with the passing vectors
// `lane % 4 * 2` and one more, and those of `lane / 4 + 8` with the same.
#define PRODUCTS(sums, held, near, eight)                                                                 \
    _Pragma("unroll") for (uint band = 0; band < BANDS; band++) { (sums)[band] = 0.0f; }                  \
    _Pragma("unroll") for (uint block = 0; block < BLOCKS; block++) {                                     \
        const uint4 right = (near)[PLACE_OF((eight) + lane / 4, block * 4 + lane % 4)];                   \
        _Pragma("unroll") for (uint band = 0; band < BANDS; band++) {                                     \
            const uint4 low = (held)[band][0][block], high = (held)[band][1][block];                      \
            (sums)[band] = MULTIPLY((uint4)(low.x, high.x, low.y, high.y), right.x, right.y, (sums)[band]); \
            (sums)[band] = MULTIPLY((uint4)(low.z, high.z, low.w, high.w), right.z, right.w, (sums)[band]); \
        }                                                                                                 \
    }
#endif
