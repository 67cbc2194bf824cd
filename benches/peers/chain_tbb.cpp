// B1 in oneTBB's flow graph: a chain of function nodes that hand on an integer, on one thread.
//
// Arguments: nodes, messages. Answers each line of its input with a line of JSON: seconds for `count` hops.
#include <oneapi/tbb/flow_graph.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/version.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

int main(int, char **arguments) {
    namespace flow = oneapi::tbb::flow;
    const long nodes = std::atol(arguments[1]), messages = std::atol(arguments[2]);
    oneapi::tbb::global_control one(oneapi::tbb::global_control::max_allowed_parallelism, 1);
    flow::graph graph;
    long arrived = 0;
    using Node = flow::function_node<int, int>;
    std::vector<std::unique_ptr<Node>> chain;
    for (long idx = 0; idx < nodes; ++idx) {
        chain.push_back(std::make_unique<Node>(graph, flow::serial, [](int message) { return message; }));
        if (idx > 0) flow::make_edge(*chain[idx - 1], *chain[idx]);
    }
    flow::function_node<int> end(graph, flow::serial, [&](int) { ++arrived; });
    flow::make_edge(*chain.back(), end);
    std::cout << "{\"name\": \"oneTBB " << TBB_VERSION_MAJOR << "." << TBB_VERSION_MINOR << "\"}" << std::endl;
    for (std::string question; std::getline(std::cin, question);) {
        arrived = 0;
        const auto start = std::chrono::steady_clock::now();
        for (long message = 0; message < messages; ++message) chain.front()->try_put(7);
        graph.wait_for_all();
        const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
        if (arrived != messages) return 1;
        std::cout << "{\"seconds\": " << time.count() << ", \"count\": " << nodes * messages << "}" << std::endl;
    }
}
