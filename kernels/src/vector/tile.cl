// Parts of kernels that multiply a tile of vectors with another: sizes, and the matrix units with their emulation. It comes before
// the text of such kernels (`device.cl`, `kmeans/device.cl`).

#define ITEMS (SIDE * SIDE)
// Four numbers more, so that items that copy one vector write to different banks, and quadruples stay aligned.
#define STRIDE (GROUP + 4)
// Numbers of a vector that one item copies.
#define COPIED (GROUP * DEPTH / ITEMS)

#if defined(UNITS)
// On matrix units: rows and queries are halves, PADDED numbers each, and the products of 16 vectors of one side with
// 8 of the other are one instruction of 32 items, a warp. Products of halves are exact, and so are the sums of a few; `device.rs` bounds the error.

#define WARP 32
// Words of two halves of a vector that lie in local memory at a time, and their distance there: warps read without conflicts.
#define WORDS 16
#define PITCH (WORDS + 4)
#if !defined(HELD)
// Vectors of a warp: it has BANDS times 16 rows and COLUMNS times 8 queries.
#define BANDS 4
#define COLUMNS 4
#define WARPS_OF_ROWS (GROUP / (16 * BANDS))
#endif

#if defined(__NV_CL_C_VERSION)
// The compiler does not accept components of vectors as operands.
inline float4 multiply(uint4 a, uint b0, uint b1, float4 c) {
    float x, y, z, w;
    const uint a0 = a.x, a1 = a.y, a2 = a.z, a3 = a.w;
    const float c0 = c.x, c1 = c.y, c2 = c.z, c3 = c.w;
    __asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
                   : "=f"(x), "=f"(y), "=f"(z), "=f"(w)
                   : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1), "f"(c0), "f"(c1), "f"(c2), "f"(c3));
    return (float4)(x, y, z, w);
}
#define SCRATCH
#define MULTIPLY(a, b0, b1, c) multiply(a, b0, b1, c)
#else
// Through local memory, so that this code runs on every device.
inline float4 multiply(uint4 a, uint b0, uint b1, float4 c, __local uint *scratch) {
    const uint item = get_local_id(0), warp = item / WARP * WARP;
    const uint row = item % WARP / 4, column = item % 4 * 2;
    barrier(CLK_LOCAL_MEM_FENCE);
    scratch[item] = a.x;
    scratch[ITEMS + item] = a.y;
    scratch[2 * ITEMS + item] = a.z;
    scratch[3 * ITEMS + item] = a.w;
    scratch[4 * ITEMS + item] = b0;
    scratch[5 * ITEMS + item] = b1;
    barrier(CLK_LOCAL_MEM_FENCE);
    float sums[4] = {c.x, c.y, c.z, c.w};
    for (uint sum = 0; sum < 4; ++sum) {
        for (uint i = 0; i < 8; ++i) {
            const uint left = scratch[(2 * (i / 4) + sum / 2) * ITEMS + warp + row * 4 + i % 4];
            const uint right = scratch[(4 + i / 4) * ITEMS + warp + (column + sum % 2) * 4 + i % 4];
            for (uint half_of = 0; half_of < 2; ++half_of) {
                sums[sum] = fma(
                    vload_half(half_of, (const half *)&left), vload_half(half_of, (const half *)&right), sums[sum]);
            }
        }
    }
    return (float4)(sums[0], sums[1], sums[2], sums[3]);
}
#define SCRATCH __local uint scratch[6 * ITEMS];
#define MULTIPLY(a, b0, b1, c) multiply(a, b0, b1, c, scratch)
#endif
#endif
