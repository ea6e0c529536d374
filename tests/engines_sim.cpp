// engines_sim.cpp -- linked where the simulator is: the engines sim (our .cu files compiled by g++) and ptx (the same
// kernels as nvcc's PTX, translated), each in three thread orders that must give the same bits.
#include "kernels/sim/control.h"
#include "tests/harness.h"

namespace test {

static std::vector<Variant> orders(cusim::Engine engine) {
    std::vector<Variant> v;
    for (cusim::Order order : {cusim::Order::forward, cusim::Order::reverse, cusim::Order::random}) {
        v.push_back({std::string(cusim::name_of(order)) + " order", [=] {
                         cusim::set_engine(engine);
                         cusim::set_order(order, seed());
                     }});
    }
    return v;
}

static std::vector<std::string> findings() {
    std::vector<std::string> text;
    for (const cusim::Finding& f : cusim::take_findings()) {
        text.push_back(std::string(cusim::name_of(f.kind)) + " in " + f.kernel + ": " + f.text);
    }
    (void)cusim::take_warnings();  // nvcc may load padding that it never uses
    return text;
}

std::vector<Engine> sim_engines() {
    const lc::Backend* b = lc::find_backend("sim");
    const double max_flops = cusim::hooked() ? 4e6 : 1e8;  // a tenth of a second a case either way
    std::vector<Engine> list = {
        {"sim", b, orders(cusim::Engine::source), max_flops, true, findings, cusim::name_buffer}};
    if (cusim::ptx_available()) {
        list.push_back({"ptx", b, orders(cusim::Engine::ptx), max_flops, true, findings, cusim::name_buffer});
    }
    return list;
}

}  // namespace test
