// Tiles of a matrix in the memory of a device: the head of the texts that compute with them, see device.rs.
//
// A tile has TILE rows and columns, by columns. The tiles of the lower half lie row by row of tiles: (0, 0), (1, 0), (1, 1), (2, 0), ...
// So the tiles of a row that follow each other are one piece of memory. A matrix may lie in several buffers, each a block of columns of
// tiles: `first` is the first of them, `width` how many there are; the rows of a block, from its first diagonal tile down, lie one after the
// other. A block of all columns is the lower half as above.

#define ITEMS 256
#define SIDE 16
#define NUMBERS (TILE * TILE)
#define BANDS (TILE / SIDE)

#ifdef DOUBLES
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
typedef double number;
typedef double2 several;
#define VECTOR 2
#else
typedef float number;
typedef float4 several;
#define VECTOR 4
#endif
#ifdef WIDE_DOUBLES
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
typedef double wide;
#else
typedef float wide;
#endif

ulong tile_at(uint i, uint j) { return ((ulong)i * (i + 1) / 2 + j) * NUMBERS; }

// The row and the column of a tile of the lower half, by its number.
uint2 place_of(uint tile) {
    uint i = (uint)((sqrt(8.0f * (float)tile + 1.0f) - 1.0f) * 0.5f);
    while ((ulong)i * (i + 1) / 2 > tile) {
        i--;
    }
    while ((ulong)(i + 1) * (i + 2) / 2 <= tile) {
        i++;
    }
    return (uint2)(i, tile - (uint)((ulong)i * (i + 1) / 2));
}

// The tiles of a block of columns before row i, and before column j in it.
ulong tile_in(uint i, uint j, uint first, uint width) {
    const ulong row = i - first;
    const ulong before = row < width ? row * (row + 1) / 2 : (ulong)width * (width + 1) / 2 + (row - width) * width;
    return (before + (j - first)) * NUMBERS;
}

// The row and the column of a tile, within a block of columns, by its number.
uint2 place_in(uint tile, uint width) {
    const uint whole = width * (width + 1) / 2;
    return tile < whole ? place_of(tile) : (uint2)(width + (tile - whole) / width, (tile - whole) % width);
}
