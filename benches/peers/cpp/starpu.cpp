// StarPU: tasks that write one variable for the chain, independent tasks for the grain; processors only.
#include <starpu.h>

#include "peer.hpp"

using namespace peer;

struct Counted {
    std::uint64_t iterations = 0;
    std::atomic<std::uint64_t> sum{0};
};

static void add_one(void *buffers[], void *) { ++*reinterpret_cast<long *>(STARPU_VARIABLE_GET_PTR(buffers[0])); }

static void compute(void *[], void *counted) {
    auto *of = static_cast<Counted *>(counted);
    of->sum += spin(of->iterations);
}

static starpu_codelet codelet(starpu_cpu_func_t function, int buffers) {
    starpu_codelet codelet;
    starpu_codelet_init(&codelet);
    codelet.cpu_funcs[0] = function;
    codelet.nbuffers = buffers;
    codelet.modes[0] = STARPU_RW;
    return codelet;
}

static void submit(starpu_codelet &of, starpu_data_handle_t handle, void *argument) {
    starpu_task *task = starpu_task_create();
    task->cl = &of;
    task->handles[0] = handle;
    task->cl_arg = argument;
    if (starpu_task_submit(task) != 0) throw std::runtime_error("no worker takes the task");
}

// The time includes making the tasks: their dependencies follow from the order of submission.
static Round chain(const Settings &settings) {
    const long hops = (settings.count("boxes") + 1) * settings.count("messages");
    auto hop = std::make_shared<starpu_codelet>(codelet(add_one, 1));
    return [=] {
        long arrived = 0;
        starpu_data_handle_t handle;
        starpu_variable_data_register(&handle, STARPU_MAIN_RAM, reinterpret_cast<uintptr_t>(&arrived), sizeof arrived);
        const auto start = Clock::now();
        for (long idx = 0; idx < hops; ++idx) submit(*hop, handle, nullptr);
        starpu_task_wait_for_all();
        const double seconds = seconds_since(start);
        starpu_data_unregister(handle);
        check("arrived", arrived, hops);
        return Figures{{"hop_ns", seconds * 1e9 / hops}};
    };
}

static Round grain(const Settings &settings) {
    auto task = std::make_shared<starpu_codelet>(codelet(compute, 0));
    return [=] {
        return grains(settings, [=](std::uint64_t iterations, long tasks) {
            Counted counted;
            counted.iterations = iterations;
            for (long idx = 0; idx < tasks; ++idx) submit(*task, nullptr, &counted);
            starpu_task_wait_for_all();
            check("sum", counted.sum, tasks * std::uint64_t(spin(iterations)));
        });
    };
}

int main(int count, char **arguments) {
    starpu_conf conf;
    starpu_conf_init(&conf);
    conf.ncuda = conf.nopencl = 0;
    for (int idx = 1; idx < count; ++idx)
        if (std::string(arguments[idx]).rfind("workers=", 0) == 0) conf.ncpus = std::atoi(arguments[idx] + 8);
    if (starpu_init(&conf) != 0) return 4;
    int version[3];
    starpu_get_version(&version[0], &version[1], &version[2]);
    const std::string name = "StarPU " + std::to_string(version[0]) + "." + std::to_string(version[1]);
    const int status = serve(name, count, arguments, {{"B1", chain}, {"B8", grain}});
    starpu_shutdown();
    return status;
}
