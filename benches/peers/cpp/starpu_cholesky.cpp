// StarPU: the tasks of a Cholesky factorisation by tiles, with the operations of OpenBLAS on tiles; processors only.
//
//     g++ -O2 -std=c++17 starpu_cholesky.cpp $(pkg-config --cflags --libs starpu-1.3) -lopenblas -o starpu_cholesky
//     starpu_cholesky THREADS TILE
//
// It answers benches/cholesky.rs line by line, as peers/lapack.py does. Tasks and tiles are those of our graph. A task's priority is the longest way
// left, as in StarPU's own example, or with PRIORITIES=steps in the environment that of our graph.
#include <starpu.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

extern "C" {
void dpotrf_(const char *, const int *, double *, const int *, int *);
void spotrf_(const char *, const int *, float *, const int *, int *);
void dtrsm_(const char *, const char *, const char *, const char *, const int *, const int *, const double *, const double *,
            const int *, double *, const int *);
void strsm_(const char *, const char *, const char *, const char *, const int *, const int *, const float *, const float *,
            const int *, float *, const int *);
void dsyrk_(const char *, const char *, const int *, const int *, const double *, const double *, const int *, const double *,
            double *, const int *);
void ssyrk_(const char *, const char *, const int *, const int *, const float *, const float *, const int *, const float *,
            float *, const int *);
void dgemm_(const char *, const char *, const int *, const int *, const int *, const double *, const double *, const int *,
            const double *, const int *, const double *, double *, const int *);
void sgemm_(const char *, const char *, const int *, const int *, const int *, const float *, const float *, const int *,
            const float *, const int *, const float *, float *, const int *);
void openblas_set_num_threads(int);
}

static void potrf(int n, double *a, int *info) { dpotrf_("L", &n, a, &n, info); }
static void potrf(int n, float *a, int *info) { spotrf_("L", &n, a, &n, info); }
static void trsm(int n, const double *l, double *a) {
    const double one = 1.0;
    dtrsm_("R", "L", "T", "N", &n, &n, &one, l, &n, a, &n);
}
static void trsm(int n, const float *l, float *a) {
    const float one = 1.0f;
    strsm_("R", "L", "T", "N", &n, &n, &one, l, &n, a, &n);
}
static void syrk(int n, const double *l, double *a) {
    const double less = -1.0, one = 1.0;
    dsyrk_("L", "N", &n, &n, &less, l, &n, &one, a, &n);
}
static void syrk(int n, const float *l, float *a) {
    const float less = -1.0f, one = 1.0f;
    ssyrk_("L", "N", &n, &n, &less, l, &n, &one, a, &n);
}
static void gemm(int n, const double *l, const double *r, double *a) {
    const double less = -1.0, one = 1.0;
    dgemm_("N", "T", &n, &n, &n, &less, l, &n, r, &n, &one, a, &n);
}
static void gemm(int n, const float *l, const float *r, float *a) {
    const float less = -1.0f, one = 1.0f;
    sgemm_("N", "T", &n, &n, &n, &less, l, &n, r, &n, &one, a, &n);
}

template <typename T> static T *tile(void *buffer) { return reinterpret_cast<T *>(STARPU_MATRIX_GET_PTR(buffer)); }
static int rows(void *buffer) { return static_cast<int>(STARPU_MATRIX_GET_NX(buffer)); }

template <typename T> static void run_potrf(void *buffers[], void *) {
    int info = 0;
    potrf(rows(buffers[0]), tile<T>(buffers[0]), &info);
    if (info != 0) {
        std::fprintf(stderr, "the matrix is not positive definite\n");
        std::abort();
    }
}
template <typename T> static void run_trsm(void *buffers[], void *) {
    trsm(rows(buffers[0]), tile<T>(buffers[0]), tile<T>(buffers[1]));
}
template <typename T> static void run_syrk(void *buffers[], void *) {
    syrk(rows(buffers[0]), tile<T>(buffers[0]), tile<T>(buffers[1]));
}
template <typename T> static void run_gemm(void *buffers[], void *) {
    gemm(rows(buffers[0]), tile<T>(buffers[0]), tile<T>(buffers[1]), tile<T>(buffers[2]));
}

static starpu_codelet codelet(starpu_cpu_func_t function, int buffers) {
    starpu_codelet made;
    starpu_codelet_init(&made);
    made.cpu_funcs[0] = function;
    made.nbuffers = buffers;
    for (int i = 0; i < buffers; ++i) made.modes[i] = i + 1 == buffers ? STARPU_RW : STARPU_R;
    return made;
}

// The number of a place in the matrix: those of benches/cholesky/matrix.rs.
static double entry(std::uint64_t n, std::uint64_t row, std::uint64_t column) {
    if (row == column) return static_cast<double>(n);
    const std::uint64_t mixed = ((row << 32 | column) * 0x9e3779b97f4a7c15ull) >> 11;
    return static_cast<double>(mixed) / 4503599627370496.0 - 1.0;
}

struct Answer {
    double seconds = 0.0;
    std::vector<double> product;
};

template <typename T> static Answer factor(long n, long size, bool checks) {
    static starpu_codelet of_potrf = codelet(run_potrf<T>, 1), of_trsm = codelet(run_trsm<T>, 2);
    static starpu_codelet of_syrk = codelet(run_syrk<T>, 2), of_gemm = codelet(run_gemm<T>, 3);
    const long count = (n + size - 1) / size;
    std::vector<std::vector<T>> tiles(count * count);
    std::vector<starpu_data_handle_t> handles(count * count);
    for (long i = 0; i < count; ++i) {
        for (long j = 0; j <= i; ++j) {
            auto &of = tiles[i * count + j];
            of.resize(size * size);
            for (long column = 0; column < size; ++column) {
                for (long row = 0; row < size; ++row) {
                    const long r = i * size + row, c = j * size + column;
                    // What fills the last tiles is a diagonal of ones.
                    of[column * size + row] =
                        r >= n || c >= n ? static_cast<T>(r == c) : static_cast<T>(r >= c ? entry(n, r, c) : 0.0);
                }
            }
            starpu_matrix_data_register(&handles[i * count + j], STARPU_MAIN_RAM, reinterpret_cast<uintptr_t>(of.data()), size,
                                        size, size, sizeof(T));
        }
    }
    const auto at = [&](long i, long j) { return handles[i * count + j]; };
    const char *priorities = std::getenv("PRIORITIES");
    const bool by_steps = priorities != nullptr && std::string(priorities) == "steps";
    const auto begun = std::chrono::steady_clock::now();
    for (long k = 0; k < count; ++k) {
        const int of_step = static_cast<int>(2 * (count - k)), left = static_cast<int>(3 * (count - k));
        starpu_task_insert(&of_potrf, STARPU_PRIORITY, by_steps ? of_step + 3 : left, STARPU_RW, at(k, k), 0);
        for (long i = k + 1; i < count; ++i) {
            const int priority = by_steps ? of_step + 3 : left - static_cast<int>(i - k);
            starpu_task_insert(&of_trsm, STARPU_PRIORITY, priority, STARPU_R, at(k, k), STARPU_RW, at(i, k), 0);
        }
        for (long j = k + 1; j < count; ++j) {
            const int of_column = by_steps ? of_step : static_cast<int>(3 * (count - j));
            starpu_task_insert(&of_syrk, STARPU_PRIORITY, of_column, STARPU_R, at(j, k), STARPU_RW, at(j, j), 0);
            for (long i = j + 1; i < count; ++i) {
                const int priority = by_steps ? of_step : of_column - static_cast<int>(i - j);
                starpu_task_insert(&of_gemm, STARPU_PRIORITY, priority, STARPU_R, at(i, k), STARPU_R, at(j, k), STARPU_RW, at(i, j),
                                   0);
            }
        }
    }
    starpu_task_wait_for_all();
    Answer answer;
    answer.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    for (long i = 0; i < count; ++i) {
        for (long j = 0; j <= i; ++j) starpu_data_unregister(at(i, j));
    }
    if (checks) {
        answer.product.assign(n, 0.0);
        for (long column = 0; column < n; ++column) {
            const double weight = 0.5 + static_cast<double>(column * 37 % 101) / 101.0;
            for (long row = column; row < n; ++row) {
                const auto &of = tiles[row / size * count + column / size];
                answer.product[row] += static_cast<double>(of[column % size * size + row % size]) * weight;
            }
        }
    }
    return answer;
}

int main(int count, char **arguments) {
    if (count != 3) {
        std::fprintf(stderr, "usage: starpu_cholesky THREADS TILE\n");
        return 2;
    }
    const int threads = std::atoi(arguments[1]);
    const long size = std::atol(arguments[2]);
    openblas_set_num_threads(1);
    starpu_conf conf;
    starpu_conf_init(&conf);
    conf.ncpus = threads;
    conf.ncuda = conf.nopencl = 0;
    conf.sched_policy_name = "lws";
    if (starpu_init(&conf) != 0) {
        std::cout << "{\"missing\": \"StarPU\", \"why\": \"it does not start\"}" << std::endl;
        return 0;
    }
    std::cout << "{\"name\": \"StarPU " << STARPU_MAJOR_VERSION << "." << STARPU_MINOR_VERSION << ", OpenBLAS on tiles of " << size << ", "
              << threads << " threads\"}" << std::endl;
    std::string line;
    while (std::getline(std::cin, line)) {
        std::istringstream words(line);
        std::string word, number;
        long n = 0;
        words >> word >> n >> number;
        const bool checks = word == "check";
        const Answer answer = number == "f32" ? factor<float>(n, size, checks) : factor<double>(n, size, checks);
        std::cout.precision(17);
        if (checks) {
            std::cout << "{\"product\": [";
            for (std::size_t i = 0; i < answer.product.size(); ++i) std::cout << (i == 0 ? "" : ", ") << answer.product[i];
            std::cout << "]}" << std::endl;
        } else {
            std::cout << "{\"seconds\": " << answer.seconds << ", \"count\": 1}" << std::endl;
        }
    }
    starpu_shutdown();
    return 0;
}
