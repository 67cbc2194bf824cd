// OpenMP: tasks that depend on one variable for the chain, independent tasks for the grain, taskwait for the recursion.
#include <omp.h>

#include "peer.hpp"

using namespace peer;

// One thread makes the tasks; each depends on the one before.
static Round chain(const Settings &settings) {
    const long hops = (settings.count("boxes") + 1) * settings.count("messages");
    const int workers = static_cast<int>(settings.count("workers"));
    return [=] {
        long arrived = 0;
        const auto start = Clock::now();
#pragma omp parallel num_threads(workers)
#pragma omp single
        for (long hop = 0; hop < hops; ++hop) {
#pragma omp task depend(inout : arrived) shared(arrived)
            ++arrived;
        }
        const double seconds = seconds_since(start);
        check("arrived", arrived, hops);
        return Figures{{"hop_ns", seconds * 1e9 / hops}};
    };
}

static std::uint64_t fib(std::uint64_t n, std::uint64_t cutoff) {
    if (n < 2 || n <= cutoff) return fib_in_turn(n);
    std::uint64_t a, b;
#pragma omp task shared(b)
    b = fib(n - 2, cutoff);
    a = fib(n - 1, cutoff);
#pragma omp taskwait
    return a + b;
}

static std::uint64_t skynet(std::uint64_t first, std::uint64_t leaves) {
    if (leaves < 10) return first;
    std::uint64_t sums[10], sum = 0;
    for (std::uint64_t child = 1; child < 10; ++child) {
#pragma omp task shared(sums)
        sums[child] = skynet(first + child * (leaves / 10), leaves / 10);
    }
    sums[0] = skynet(first, leaves / 10);
#pragma omp taskwait
    for (const auto part : sums) sum += part;
    return sum;
}

static Round recursion(const Settings &settings) {
    const int workers = static_cast<int>(settings.count("workers"));
    const auto in_team = [=](auto compute) {
        std::uint64_t sum = 0;
#pragma omp parallel num_threads(workers)
#pragma omp single
        sum = compute();
        return sum;
    };
    return nested(
        settings, [=](std::uint64_t n, std::uint64_t cutoff) { return in_team([=] { return fib(n, cutoff); }); },
        [=](std::uint64_t leaves) { return in_team([=] { return skynet(0, leaves); }); });
}

static Round grain(const Settings &settings) {
    const int workers = static_cast<int>(settings.count("workers"));
    return [=] {
        return grains(settings, [=](std::uint64_t iterations, long tasks) {
            std::uint64_t sum = 0;
#pragma omp parallel num_threads(workers)
#pragma omp single
            for (long task = 0; task < tasks; ++task) {
#pragma omp task shared(sum)
                {
                    const std::uint64_t number = spin(iterations);
#pragma omp atomic
                    sum += number;
                }
            }
            check("sum", sum, tasks * std::uint64_t(spin(iterations)));
        });
    };
}

int main(int count, char **arguments) {
    const std::string name = "OpenMP (g++ " + std::to_string(__GNUC__) + ")";
    return serve(name, count, arguments, {{"B1", chain}, {"B3", recursion}, {"B8", grain}});
}
