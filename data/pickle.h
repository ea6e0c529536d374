// pickle.h -- the part of Python's pickle format that weight files need, read without running anything.
//
// A pickle is a program for a small stack machine.  Python's own machine calls whatever function the program names, so a
// pickle from a stranger can do anything.  This one builds values and calls nothing: a call stays a value that says
// which function has which arguments, and a function that is not among `known` is refused by its name.
//
//     Pickle p = unpickle(bytes, {{"torch.FloatStorage"}}, "model.pth");
//     p.root().kind == PickleValue::Kind::dict
//
// Reads    protocols 2 to 5: None, True, False, integers, floats, texts, tuples, lists, dictionaries, persistent ids,
//          and collections.OrderedDict, which becomes a dictionary.  Its attributes (BUILD) are dropped.
// Refuses  every other opcode and every other global, by name ("os.system").
// Hostile  values refer to each other by number, in one array: no depth of nesting recurses, references that repeat or
//          run in circles take no memory, and values, stack and memo are each bounded by the pickle's length and by
//          kMaxValues.  Who walks along the references must bound the walk.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lc {

struct PickleValue {
    enum class Kind : uint8_t {
        none,
        boolean,
        integer,
        big_integer,  // beyond 64 bits
        real,
        text,
        tuple,
        list,
        dict,
        global,      // a function or class, by name
        call,        // of a global
        persistent,  // an id that the pickle's owner gives a meaning
    };
    Kind kind = Kind::none;
    int64_t integer = 0;  // 0 or 1 of a boolean
    double real = 0;
    std::string_view text;        // bytes of the pickle; of a big integer: its bytes; of globals and calls: the name
    std::vector<uint32_t> items;  // dict: key, value, key, value ...; call: its arguments; persistent: the id
};

struct Pickle {
    static constexpr size_t kMaxValues = size_t(1) << 21;  // some 100,000 tensors; 150 MB
    std::vector<PickleValue> values;
    uint32_t root_index = 0;
    size_t size = 0;  // bytes up to its end; more may follow

    const PickleValue& root() const { return values[root_index]; }
    const PickleValue& item(const PickleValue& of, size_t i) const { return values[of.items[i]]; }
};

// `bytes` and `known` must outlive the result.
Pickle unpickle(std::span<const std::byte> bytes, std::span<const std::string_view> known, const std::string& source);

const char* name_of(PickleValue::Kind kind);  // "a dictionary", for messages

}  // namespace lc
