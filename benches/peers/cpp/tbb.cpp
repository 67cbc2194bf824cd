// oneTBB: a flow graph for the chain and the fan, parallel_pipeline for the stages, parallel_for for blocking tasks,
// a task_group for the grain and the recursion.
#include <oneapi/tbb/flow_graph.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/parallel_pipeline.h>
#include <oneapi/tbb/task_arena.h>
#include <oneapi/tbb/task_group.h>
#include <oneapi/tbb/version.h>

#include <memory>

#include "peer.hpp"

namespace flow = oneapi::tbb::flow;
using namespace peer;
using Envelope = std::shared_ptr<std::vector<std::uint64_t>>;

// One message in flight: the last node puts the next one into the first.
static Round chain(const Settings &settings) {
    struct Chain {
        flow::graph graph;
        std::vector<std::unique_ptr<flow::function_node<int, int>>> nodes;
        std::unique_ptr<flow::function_node<int>> end;
        long arrived = 0;
    };
    const long boxes = settings.count("boxes"), messages = settings.count("messages");
    auto chain = std::make_shared<Chain>();
    for (long idx = 0; idx < boxes; ++idx) {
        chain->nodes.push_back(std::make_unique<flow::function_node<int, int>>(chain->graph, flow::serial,
                                                                               [](int message) { return message; }));
        if (idx > 0) flow::make_edge(*chain->nodes[idx - 1], *chain->nodes[idx]);
    }
    auto *of = chain.get();
    chain->end = std::make_unique<flow::function_node<int>>(chain->graph, flow::serial, [of, messages](int) {
        if (++of->arrived < messages) of->nodes.front()->try_put(7);
    });
    flow::make_edge(*chain->nodes.back(), *chain->end);
    return [=] {
        chain->arrived = 0;
        const auto start = Clock::now();
        chain->nodes.front()->try_put(7);
        chain->graph.wait_for_all();
        const double seconds = seconds_since(start);
        check("arrived", chain->arrived, messages);
        return Figures{{"hop_ns", seconds * 1e9 / ((boxes + 1.0) * messages)}};
    };
}

static std::uint64_t fib(std::uint64_t n, std::uint64_t cutoff) {
    if (n < 2 || n <= cutoff) return fib_in_turn(n);
    std::uint64_t a, b;
    oneapi::tbb::task_group group;
    group.run([&] { b = fib(n - 2, cutoff); });
    a = fib(n - 1, cutoff);
    group.wait();
    return a + b;
}

static std::uint64_t skynet(std::uint64_t first, std::uint64_t leaves) {
    if (leaves < 10) return first;
    std::uint64_t sums[10], sum = 0;
    oneapi::tbb::task_group group;
    for (std::uint64_t child = 1; child < 10; ++child)
        group.run([=, &sums] { sums[child] = skynet(first + child * (leaves / 10), leaves / 10); });
    sums[0] = skynet(first, leaves / 10);
    group.wait();
    for (const auto part : sums) sum += part;
    return sum;
}

static Round recursion(const Settings &settings) {
    return nested(settings, fib, [](std::uint64_t leaves) { return skynet(0, leaves); });
}

// Broadcast to K nodes that copy; four messages in flight, as edges of four hold.
static Round fan(const Settings &settings) {
    const long boxes = settings.count("boxes"), messages = settings.count("messages"), rows = settings.count("rows");
    const long edge = settings.count("edge");
    return [=] {
        flow::graph graph;
        auto message = std::make_shared<std::vector<std::uint64_t>>(rows);
        for (long row = 0; row < rows; ++row) (*message)[row] = row;
        long sent = 0, arrived = 0;
        std::uint64_t sum = 0;
        flow::input_node<Envelope> source(graph, [&](oneapi::tbb::flow_control &control) -> Envelope {
            if (sent == messages) return control.stop(), Envelope();
            ++sent;
            return message;
        });
        flow::limiter_node<Envelope> limiter(graph, edge);
        flow::broadcast_node<Envelope> all(graph);
        flow::function_node<Envelope, flow::continue_msg> end(graph, flow::serial, [&](const Envelope &copy) {
            sum += copy->front() + copy->back();
            if (++arrived % boxes == 0) limiter.decrementer().try_put(flow::continue_msg());
            return flow::continue_msg();
        });
        std::vector<std::unique_ptr<flow::function_node<Envelope, Envelope>>> nodes;
        for (long idx = 0; idx < boxes; ++idx) {
            nodes.push_back(std::make_unique<flow::function_node<Envelope, Envelope>>(
                graph, flow::serial, [](const Envelope &old) {
                    auto copy = std::make_shared<std::vector<std::uint64_t>>(old->size());
                    std::transform(old->begin(), old->end(), copy->begin(), [](std::uint64_t n) { return n + 1; });
                    return copy;
                }));
            flow::make_edge(all, *nodes.back());
            flow::make_edge(*nodes.back(), end);
        }
        flow::make_edge(source, limiter);
        flow::make_edge(limiter, all);
        const auto start = Clock::now();
        source.activate();
        graph.wait_for_all();
        const double seconds = seconds_since(start), copies = double(boxes) * messages;
        check("sum", sum, boxes * messages * (rows + 1));
        return Figures{{"envelopes_per_s", messages / seconds}, {"copy_us", seconds * 1e6 / copies}};
    };
}

// Serial filters, with as many tokens as the edges of our pipeline hold.
static Round stages(const Settings &settings) {
    const long count = settings.count("stages"), messages = settings.count("messages");
    const double spin_us = settings.number("spin_us"), slow = settings.number("slow");
    const double workers = settings.number("workers");
    std::vector<std::uint64_t> iterations;
    double work_us = 0, slowest_us = 0;
    std::uint64_t wanted = 0;
    for (long idx = 0; idx < count; ++idx) {
        const double stage_us = idx == count / 2 ? spin_us * slow : spin_us;
        iterations.push_back(settings.iterations(stage_us));
        work_us += stage_us, slowest_us = std::max(slowest_us, stage_us);
        wanted += spin(iterations.back()) * std::uint64_t(messages);
    }
    const double ideal_s = std::max(work_us / workers, slowest_us) * messages / 1e6;
    const long tokens = settings.count("edge") * (count + 1);
    return [=] {
        const auto serial = oneapi::tbb::filter_mode::serial_in_order;
        long sent = 0;
        std::vector<std::uint64_t> sums(count), latencies_ns;
        const auto start = Clock::now();
        const auto now_ns = [=] { return std::uint64_t(seconds_since(start) * 1e9); };
        auto filter = oneapi::tbb::make_filter<void, Envelope>(serial, [&](oneapi::tbb::flow_control &control) -> Envelope {
            if (sent == messages) return control.stop(), Envelope();
            ++sent;
            return std::make_shared<std::vector<std::uint64_t>>(512, now_ns());
        });
        for (long idx = 0; idx < count; ++idx)
            filter = filter & oneapi::tbb::make_filter<Envelope, Envelope>(serial, [&, idx](Envelope message) {
                         sums[idx] += spin(iterations[idx]);
                         return message;
                     });
        const auto end = oneapi::tbb::make_filter<Envelope, void>(
            serial, [&](const Envelope &message) { latencies_ns.push_back(now_ns() - message->front()); });
        oneapi::tbb::parallel_pipeline(tokens, filter & end);
        const double seconds = seconds_since(start);
        std::uint64_t sum = 0;
        for (const auto part : sums) sum += part;
        check("sum", sum, wanted);
        check("arrived", latencies_ns.size(), messages);
        return Figures{{"overhead_hop_ns", (seconds - ideal_s) * workers * 1e9 / ((count + 1.0) * messages)},
                       {"envelopes_per_s", messages / seconds},
                       {"latency_p50_us", quantile_us(latencies_ns, 0.5)},
                       {"latency_p99_us", quantile_us(latencies_ns, 0.99)}};
    };
}

static Round blocking(const Settings &settings) {
    auto job = std::make_shared<Job>(settings);
    return [=] {
        return job->measure([&] {
            oneapi::tbb::parallel_for(
                oneapi::tbb::blocked_range<long>(0, job->tasks, 1), [&](const auto &) { job->run(); },
                oneapi::tbb::simple_partitioner());
        });
    };
}

static Round grain(const Settings &settings) {
    return [=] {
        return grains(settings, [](std::uint64_t iterations, long tasks) {
            std::atomic<std::uint64_t> sum{0};
            oneapi::tbb::task_group group;
            for (long task = 0; task < tasks; ++task) group.run([&] { sum += spin(iterations); });
            group.wait();
            check("sum", sum, tasks * std::uint64_t(spin(iterations)));
        });
    };
}

int main(int count, char **arguments) {
    long workers = 1;
    for (int idx = 1; idx < count; ++idx)
        if (std::string(arguments[idx]).rfind("workers=", 0) == 0) workers = std::atol(arguments[idx] + 8);
    oneapi::tbb::global_control limit(oneapi::tbb::global_control::max_allowed_parallelism, workers);
    const std::string name =
        "oneTBB " + std::to_string(TBB_VERSION_MAJOR) + "." + std::to_string(TBB_VERSION_MINOR);
    // A separate arena may have more threads than the machine has cores; the default arena may not.
    oneapi::tbb::task_arena arena(static_cast<int>(workers));
    return arena.execute([&] {
        return serve(name, count, arguments,
                     {{"B1", chain}, {"B3", recursion}, {"B4", fan}, {"B5", stages}, {"B6", blocking}, {"B8", grain}});
    });
}
