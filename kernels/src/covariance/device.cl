// Covariances of points as tiles of a matrix: see device.rs. cholesky/tiles.cl comes before this text.

// The covariance of two points: the parameters are as Expression::device_numbers gives them, and a list has a step of 1 from dimension to
// dimension, one number for all a step of 0.
wide squares(const wide *x, const __local wide *y, __constant wide *inverses, uint step) {
    wide sum = 0;
#pragma unroll
    for (uint d = 0; d < DIMENSIONS; d++) {
        const wide apart = (x[d] - y[d * TILE]) * inverses[d * step];
        sum = fma(apart, apart, sum);
    }
    return sum;
}

wide inner(const wide *x, const __local wide *y) {
    wide sum = 0;
#pragma unroll
    for (uint d = 0; d < DIMENSIONS; d++) {
        sum = fma(x[d], y[d * TILE], sum);
    }
    return sum;
}

wide sines(const wide *x, const __local wide *y, __constant wide *periods, uint period_step, __constant wide *inverses,
           uint step) {
    wide sum = 0;
#pragma unroll
    for (uint d = 0; d < DIMENSIONS; d++) {
        const wide sine = sinpi((x[d] - y[d * TILE]) / periods[d * period_step]) * inverses[d * step];
        sum = fma(sine, sine, sum);
    }
    return sum;
}

#define SQUARES(at, step) squares(x, y, parameters + (at), step)
#define RBF(at, step) exp((wide)-0.5 * SQUARES(at, step))
#define MATERN12(at, step) exp(-sqrt(SQUARES(at, step)))
#define MATERN32(at, step) matern32(sqrt((wide)3 * SQUARES(at, step)))
#define MATERN52(at, step) matern52(sqrt((wide)5 * SQUARES(at, step)))
#define RATIONAL(at, step, c) exp(-parameters[c] * log1p(SQUARES(at, step) / ((wide)2 * parameters[c])))
#define PERIODIC(period, period_step, at, step)                                                                    \
    exp((wide)-2 * sines(x, y, parameters + (period), period_step, parameters + (at), step))
#define LINEAR inner(x, y)
#define CONSTANT(at) parameters[at]
#define WHITE(at) (is_same ? parameters[at] : (wide)0)

wide matern32(wide a) { return ((wide)1 + a) * exp(-a); }
wide matern52(wide a) { return ((wide)1 + a + a * a / (wide)3) * exp(-a); }

// Fills the tiles of a block of columns with covariances, and the rows behind the last point with those of the identity. `points` has a column of `stride`
// numbers for each dimension.
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void fill(
    __global number *tiles, uint first_column, uint width, __global const wide *points, uint stride, uint count,
    __constant wide *parameters, __constant wide *added) {
    __local wide columns[DIMENSIONS * TILE];
    const uint item = get_local_id(0), tile = get_group_id(0);
    const uint2 place = place_in(tile, width) + first_column;
    for (uint at = item; at < DIMENSIONS * TILE; at += ITEMS) {
        columns[at] = points[(ulong)(at / TILE) * stride + place.y * TILE + at % TILE];
    }
    const uint row = place.x * TILE + item % TILE;
    wide x[DIMENSIONS];
#pragma unroll
    for (uint d = 0; d < DIMENSIONS; d++) {
        x[d] = points[(ulong)d * stride + row];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    __global number *to = tiles + (ulong)tile * NUMBERS + item % TILE;
    for (uint c = item / TILE; c < TILE; c += ITEMS / TILE) {
        const uint column = place.y * TILE + c;
        const bool is_same = row == column;
        wide entry = is_same ? 1 : 0;
        if (row < count && column < count) {
            const __local wide *y = columns + c;
            entry = (COVARIANCE) + (is_same ? added[0] : (wide)0);
        }
        to[c * TILE] = (number)entry;
    }
}

// Covariances of new points with samples: group (j, p) has the samples of tile j and the points of tile p. A row of `beside` holds the
// tiles of some points; they are written if `keeps` says so. The products with the weights of the samples, summed up within a tile, go to
// row j of `parts`.
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void between(
    __global number *beside, __global const wide *places, uint places_stride, __global const wide *points, uint stride,
    uint count, __constant wide *parameters, __global const wide *weights, uint keeps, __global wide *parts) {
    __local wide columns[DIMENSIONS * TILE], halves[TILE];
    const uint item = get_local_id(0), j = get_group_id(0), p = get_group_id(1), row = item % TILE;
    for (uint at = item; at < DIMENSIONS * TILE; at += ITEMS) {
        columns[at] = points[(ulong)(at / TILE) * stride + j * TILE + at % TILE];
    }
    wide x[DIMENSIONS];
#pragma unroll
    for (uint d = 0; d < DIMENSIONS; d++) {
        x[d] = places[(ulong)d * places_stride + p * TILE + row];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    __global number *to = beside + ((ulong)p * get_num_groups(0) + j) * NUMBERS + row;
    const bool is_same = false;
    wide sum = 0;
    for (uint c = item / TILE; c < TILE; c += ITEMS / TILE) {
        const uint column = j * TILE + c;
        wide entry = 0;
        if (column < count) {
            const __local wide *y = columns + c;
            entry = (COVARIANCE);
            sum = fma(entry, weights[column], sum);
        }
        if (keeps) {
            to[c * TILE] = (number)entry;
        }
    }
    if (item >= TILE) {
        halves[row] = sum;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item < TILE) {
        parts[(ulong)j * places_stride + p * TILE + row] = sum + halves[row];
    }
}

#ifdef SLOPES
// Derivatives by the logarithms of parameters, as sums over the entries of a tile: `weight` is that of the entry, and `sums` has a number
// for each parameter. SLOPES is a row of these, as Expression::device_slopes gives it.
#define BY_VALUE(at, value) sums[at] = fma(weight, value, sums[at]);
#define BY_LENGTH(at, step, value)                                                             \
    {                                                                                          \
        const wide slope = weight * (value);                                                   \
        _Pragma("unroll") for (uint d = 0; d < DIMENSIONS; d++) {                              \
            const wide apart = (x[d] - y[d * TILE]) * parameters[(at) + d * (step)];           \
            sums[(at) + d * (step)] = fma(slope, apart * apart, sums[(at) + d * (step)]);      \
        }                                                                                      \
    }
#define BY_PERIOD(period, period_step, at, step, value)                                                       \
    {                                                                                                         \
        const wide slope = weight * (value);                                                                  \
        _Pragma("unroll") for (uint d = 0; d < DIMENSIONS; d++) {                                             \
            const wide turns = (x[d] - y[d * TILE]) / parameters[(period) + d * (period_step)];               \
            const wide inverse = parameters[(at) + d * (step)], sine = sinpi(turns) * inverse;                \
            sums[(at) + d * (step)] = fma(slope, (wide)4 * sine * sine, sums[(at) + d * (step)]);             \
            sums[(period) + d * (period_step)] =                                                              \
                fma(slope, (wide)2 * PI * turns * inverse * inverse * sinpi((wide)2 * turns),                 \
                    sums[(period) + d * (period_step)]);                                                      \
        }                                                                                                     \
    }
#define PI ((wide)3.14159265358979323846)
#define MATERN12_SLOPE(at, step) matern12_slope(sqrt(SQUARES(at, step)))
#define MATERN32_SLOPE(at, step) ((wide)3 * exp(-sqrt((wide)3 * SQUARES(at, step))))
#define MATERN52_SLOPE(at, step) matern52_slope(sqrt((wide)5 * SQUARES(at, step)))
#define RATIONAL_SLOPE(at, step, c)                                                                   \
    exp(-(parameters[c] + (wide)1) * log1p(SQUARES(at, step) / ((wide)2 * parameters[c])))
#define RATIONAL_SHAPE(at, step, c) rational_shape(SQUARES(at, step) / ((wide)2 * parameters[c]), parameters[c])

wide matern12_slope(wide r) { return r > 0 ? exp(-r) / r : (wide)0; }
wide matern52_slope(wide a) { return (wide)5 / (wide)3 * ((wide)1 + a) * exp(-a); }
wide rational_shape(wide half_square, wide c) {
    return exp(-c * log1p(half_square)) * c * (half_square / ((wide)1 + half_square) - log1p(half_square));
}

// The sums of (alpha_i alpha_j - K^-1_ij) dK_ij over the entries of a tile in the lower half, those of the diagonal by half: `tiles` has
// the lower half of the inverse. Row `tile` of `parts` gets a number for each parameter.
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void slopes(
    __global const number *tiles, __global const wide *points, uint stride, uint count, __constant wide *parameters,
    __global const wide *alpha, __global wide *parts) {
    __local wide columns[DIMENSIONS * TILE], shelf[ITEMS];
    const uint item = get_local_id(0), tile = get_group_id(0);
    const uint2 place = place_of(tile);
    for (uint at = item; at < DIMENSIONS * TILE; at += ITEMS) {
        columns[at] = points[(ulong)(at / TILE) * stride + place.y * TILE + at % TILE];
    }
    const uint row = place.x * TILE + item % TILE;
    wide x[DIMENSIONS], sums[PARAMETERS];
#pragma unroll
    for (uint d = 0; d < DIMENSIONS; d++) {
        x[d] = points[(ulong)d * stride + row];
    }
#pragma unroll
    for (uint at = 0; at < PARAMETERS; at++) {
        sums[at] = 0;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    __global const number *from = tiles + (ulong)tile * NUMBERS + item % TILE;
    for (uint c = item / TILE; c < TILE; c += ITEMS / TILE) {
        const uint column = place.y * TILE + c;
        if (row < count && column <= row) {
            const bool is_same = row == column;
            const __local wide *y = columns + c;
            const wide both = fma(alpha[row], alpha[column], -(wide)from[c * TILE]);
            const wide weight = is_same ? (wide)0.5 * both : both;
            SLOPES
        }
    }
    for (uint at = 0; at < PARAMETERS; at++) {
        shelf[item] = sums[at];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint half_of = ITEMS / 2; half_of > 0; half_of /= 2) {
            if (item < half_of) {
                shelf[item] += shelf[item + half_of];
            }
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        if (item == 0) {
            parts[(ulong)tile * PARAMETERS + at] = shelf[0];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}
#endif
