// finetune.cpp -- see finetune.h.
#include "nn/finetune.h"

namespace lc {

Var Trunk::operator()(const Var& images) {
    Tape tape;
    tape.training = false;
    const Var map = net_.run(tape, std::ref(units_), images, 0, cut_);
    return cut_ == net_.head() ? avgpool(tape, map) : map;
}

namespace {

ResNet::Output finish(const ResNet& net, Tape& t, const ConvBnUnit& unit, const Var& x, int64_t cut,
                      const ResNet::Dropout& dropout) {
    if (cut == net.head()) return {x, net.logits(t, x, dropout)};
    return net.classify(t, net.run(t, unit, x, cut, net.head()), dropout);
}

}  // namespace

Trainee trainee_of(const ResNet& net, int64_t cut, const FinetuneOptions& o) {
    LC_CHECK(cut >= 0 && cut <= net.head(),
             "a network is cut in front of a stage, 0 to " << net.head() << "; found " << cut);
    LC_CHECK(!o.batch_statistics_everywhere || cut == 0,
             "with batch statistics everywhere no part of the network is a fixed function: it cannot be cut");
    LC_CHECK(!o.dropout_on_map || cut < net.head(), "dropout on the map needs the map, and the cut is behind it");
    const auto frozen = std::make_shared<FoldedUnits>();
    Trainee t = {.parameters = net.trained(), .statistics = net.statistics(), .logits = {}, .inference = {}};
    t.logits = [=, &net](Tape& tape, const Var& x, RandomKey key) {
        const ConvBnUnit unit = training_unit(tape, *frozen, o.batch_statistics_everywhere);
        return finish(net, tape, unit, x, cut, {o.dropout, o.dropout_on_map, key}).logits;
    };
    t.inference = [=, &net] {
        const auto units = std::make_shared<FoldedUnits>();  // folded anew: the weights have moved
        return [=, &net](const Var& x) {
            Tape tape;
            tape.training = false;
            const ResNet::Output out = finish(net, tape, std::ref(*units), x, cut, {});
            return Outputs{out.features->value.to_host(), out.logits->value.to_host()};
        };
    };
    return t;
}

}  // namespace lc
