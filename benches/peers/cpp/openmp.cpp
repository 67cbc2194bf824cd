// OpenMP: tasks that depend on one variable for the chain, independent tasks for the grain.
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
    return serve(name, count, arguments, {{"B1", chain}, {"B8", grain}});
}
