// tape.h -- reverse-mode differentiation: every operation writes down how its gradient flows back, and backward() reads
// the list from its end.
//
//     Tape tape;
//     Var h = relu(tape, linear(tape, x, W, b));       forward: computed now, noted on the tape
//     tape.backward(loss);                             backward: the notes, last one first
//     W->grad                                          what Adam wants
//
// A Var is a shared handle to a value and, after backward(), its gradient.  Parameters are Vars that outlive the tape; data are
// Vars without wants_grad; results of operations live as long as the tape or somebody's handle.  Five minutes' reading: the
// whole mechanism is on this page, the operations are in ops.h, each with forward and backward side by side.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "nn/tensor.h"

namespace lc {

struct Node {
    Tensor value;
    Tensor grad = {};         // empty until something flows back; then the shape of value
    bool wants_grad = false;  // a parameter, or computed from one
};
using Var = std::shared_ptr<Node>;

inline Var parameter(Tensor value) { return std::make_shared<Node>(Node{std::move(value), {}, true}); }
inline Var constant(Tensor value) { return std::make_shared<Node>(Node{std::move(value), {}, false}); }

// Adds g to the gradient of x.  The first one to arrive is taken over as it is: nothing is copied, nothing zeroed.
inline void give_grad(const Var& x, Tensor g) {
    if (!x->grad) {
        x->grad = std::move(g);
        return;
    }
    x->grad.backend().add(x->grad.data(), x->grad.data(), g.data(), g.size(), nullptr);
}

class Tape {
  public:
    bool training = true;  // dropout is on; operations are noted

    // The result of an operation on `inputs`.  `backward` gets the node of the result, whose grad is complete by then, and gives
    // every input that wants one its share.  Nothing is noted where no input wants a gradient.
    using Backward = std::function<void(const Node& y)>;
    Var record(Tensor value, const std::vector<Var>& inputs, Backward backward) {
        bool wanted = false;
        for (const Var& x : inputs) wanted = wanted || x->wants_grad;
        Var y = std::make_shared<Node>(Node{std::move(value), {}, training && wanted});
        if (y->wants_grad) notes_.push_back({y, std::move(backward)});
        return y;
    }

    // Fills the gradients of everything that `root` was computed from.  The root is a loss: its own note knows what flows into it,
    // so it needs no gradient from outside.  A node that the root does not depend on got no gradient and is passed over.
    void backward(const Var& root) {
        for (auto note = notes_.rbegin(); note != notes_.rend(); ++note) {
            if (note->y == root || note->y->grad) note->backward(*note->y);
        }
        notes_.clear();
    }

  private:
    struct Note {
        Var y;
        Backward backward;
    };
    std::vector<Note> notes_;
};

}  // namespace lc
