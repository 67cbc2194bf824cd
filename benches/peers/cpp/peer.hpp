// Shared by the C++ programs: the work of a task, settings, figures, and the loop that answers line by line.
//
// The definitions follow lab/src/bench; each program calibrates the work separately, as compilers unroll it
// differently.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace peer {

using Clock = std::chrono::steady_clock;
using Figures = std::vector<std::pair<std::string, double>>;
// Measures once, and throws if the result is wrong.
using Round = std::function<Figures()>;

inline double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

__attribute__((noinline)) inline std::uint32_t spin(std::uint64_t iterations, std::uint32_t x = 1) {
    for (std::uint64_t i = 0; i < iterations; ++i) x = (x ^ x >> 15) * 1664525u + 1013904223u;
    // Without this the compiler treats calls as pure, and moves them to the use of their results: out of the section that
    // counts as computing, and behind locks.
    asm volatile("" : "+r"(x));
    return x;
}

inline double calibrate() {
    constexpr std::uint64_t iterations = 200000;
    double fastest = 1e9;
    for (int run = 0; run < 25; ++run) {
        const auto start = Clock::now();
        volatile std::uint32_t kept = spin(iterations);
        (void)kept;
        fastest = std::min(fastest, seconds_since(start));
    }
    return fastest * 1e9 / iterations;
}

// The `name=value` arguments after the workload's id.
class Settings {
  public:
    double ns_per_iteration = calibrate();

    Settings(int count, char **arguments) {
        for (int idx = 2; idx < count; ++idx) {
            const std::string argument = arguments[idx];
            const auto split = argument.find('=');
            values_[argument.substr(0, split)] = argument.substr(split + 1);
        }
    }
    std::string text(const std::string &name) const { return values_.count(name) ? values_.at(name) : ""; }
    double number(const std::string &name) const {
        if (!values_.count(name)) throw std::runtime_error(name + " is missing");
        return std::stod(values_.at(name));
    }
    long count(const std::string &name) const { return static_cast<long>(number(name)); }
    std::uint64_t iterations(double microseconds) const {
        return static_cast<std::uint64_t>(std::llround(microseconds * 1e3 / ns_per_iteration));
    }

  private:
    std::map<std::string, std::string> values_;
};

inline void check(const char *what, std::uint64_t found, std::uint64_t wanted) {
    if (found != wanted)
        throw std::runtime_error(std::string(what) + ": " + std::to_string(found) + ", not " + std::to_string(wanted));
}

inline double quantile_us(std::vector<std::uint64_t> &latencies_ns, double share) {
    std::sort(latencies_ns.begin(), latencies_ns.end());
    return latencies_ns[static_cast<std::size_t>(std::llround(share * (latencies_ns.size() - 1)))] / 1e3;
}

// B3: one round of a recursion; `fib` and `skynet` compute with branches.
inline std::uint64_t fib_in_turn(std::uint64_t n) { return n < 2 ? n : fib_in_turn(n - 1) + fib_in_turn(n - 2); }

template <class Fib, class Skynet> Round nested(const Settings &settings, Fib fib, Skynet skynet) {
    const bool is_fib = settings.text("part") == "fib";
    const std::uint64_t n = is_fib ? settings.count("n") : 0, cutoff = is_fib ? settings.count("cutoff") : 0;
    const std::uint64_t leaves = is_fib ? 0 : settings.count("leaves");
    const std::uint64_t wanted = is_fib ? fib_in_turn(n) : leaves * (leaves - 1) / 2;
    return [=] {
        const auto start = Clock::now();
        const std::uint64_t sum = is_fib ? fib(n, cutoff) : skynet(leaves);
        const double seconds = seconds_since(start);
        check("sum", sum, wanted);
        return Figures{{"nested_ms", seconds * 1e3}};
    };
}

// B6: a device with limited capacity, and the number of tasks that compute at once.
class Job {
  public:
    Job(const Settings &settings)
        : tasks(settings.count("tasks")), device_(settings.count("device")),
          block_s_(settings.number("block_ms") * settings.number("scale") / 1e3) {
        const double compute_us = settings.number("compute_ms") * settings.number("scale") * 1e3;
        const bool again = settings.text("part") == "compute_block_compute";
        before_ = settings.iterations(again ? compute_us / 2 : compute_us);
        after_ = again ? before_ : 0;
    }
    const long tasks;

    void run() {
        std::uint64_t sum = compute(before_);
        {
            std::unique_lock<std::mutex> lock(mutex_);
            freed_.wait(lock, [&] { return busy_ < device_; });
            ++busy_;
        }
        std::this_thread::sleep_for(std::chrono::duration<double>(block_s_));
        {
            std::lock_guard<std::mutex> lock(mutex_);
            --busy_;
        }
        freed_.notify_one();
        if (after_ > 0) sum += compute(after_);
        sum_ += sum;
    }
    Figures measure(const std::function<void()> &all) {
        sum_ = 0, peak_ = 0;
        const auto start = Clock::now();
        all();
        const double seconds = seconds_since(start);
        check("sum", sum_, tasks * (spin(before_) + (after_ > 0 ? std::uint64_t(spin(after_)) : 0)));
        return {{"makespan_ms", seconds * 1e3}, {"computing_peak", double(peak_)}};
    }

  private:
    std::uint64_t compute(std::uint64_t iterations) {
        const long now = ++computing_;
        for (long peak = peak_; peak < now && !peak_.compare_exchange_weak(peak, now);) {
        }
        const std::uint64_t number = spin(iterations);
        --computing_;
        return number;
    }
    const long device_;
    const double block_s_;
    std::uint64_t before_ = 0, after_ = 0;
    std::mutex mutex_;
    std::condition_variable freed_;
    long busy_ = 0;
    std::atomic<long> computing_{0}, peak_{0};
    std::atomic<std::uint64_t> sum_{0};
};

// B8: runs all tasks of each grain, from the largest to the smallest.
inline Figures grains(const Settings &settings, const std::function<void(std::uint64_t, long)> &run) {
    const double workers = settings.number("workers");
    const long tasks = settings.count("tasks_each") * settings.count("workers");
    std::vector<std::pair<double, double>> measured;
    // Three halvings below a microsecond.
    for (int power = static_cast<int>(std::log2(settings.number("most_us"))); power >= -3; --power) {
        const double grain_us = std::exp2(power);
        const auto start = Clock::now();
        run(settings.iterations(grain_us), tasks);
        measured.emplace_back(grain_us, tasks * grain_us / 1e6 / workers / seconds_since(start));
    }
    Figures figures;
    for (const auto &[name, wanted] : {std::pair{"metg50_us", 0.5}, {"metg90_us", 0.9}}) {
        // The smallest grain that has this efficiency, interpolated between two measured grains.
        std::size_t place = measured.size();
        while (place > 0 && measured[place - 1].second < wanted) --place;
        if (place == 0) continue;
        double least = measured[place - 1].first;
        if (place < measured.size()) {
            const auto [below, lower] = measured[place];
            const double share = (wanted - lower) / (measured[place - 1].second - lower);
            least = below * std::pow(least / below, share);
        }
        figures.emplace_back(name, least);
    }
    for (const auto &[grain, efficiency] : measured) {
        std::ostringstream name;
        name << "efficiency_" << grain << "us";
        figures.emplace_back(name.str(), efficiency);
    }
    return figures;
}

// Prints the program's name, then answers each line of the input with a line of figures.
inline int serve(const std::string &name, int count, char **arguments,
                 const std::map<std::string, std::function<Round(const Settings &)>> &workloads) {
    const auto found = workloads.find(count > 1 ? arguments[1] : "");
    if (found == workloads.end()) return 3;
    try {
        const Settings settings(count, arguments);
        const Round round = found->second(settings);
        std::cout << "{\"name\": \"" << name << "\", \"spin_ns_per_iteration\": " << settings.ns_per_iteration << "}"
                  << std::endl;
        for (std::string line; std::getline(std::cin, line);) {
            std::string answer;
            for (const auto &[figure, value] : round())
                answer += (answer.empty() ? "{\"" : ", \"") + figure + "\": " + std::to_string(value);
            std::cout << answer << "}" << std::endl;
        }
    } catch (const std::exception &error) {
        std::cerr << error.what() << std::endl;
        return 1;
    }
    return 0;
}

} // namespace peer
