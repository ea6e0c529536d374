// pickle.cpp -- the stack machine of pickle.h.  Opcodes as in Python's Lib/pickletools.py, which documents them.
#include "data/pickle.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "data/file.h"

namespace lc {

namespace {

using Kind = PickleValue::Kind;

constexpr std::string_view kOrderedDict = "collections.OrderedDict";

const char* name_of_refused(uint8_t opcode) {
    static constexpr struct {
        uint8_t opcode;
        const char* name;
    } kNames[] = {// clang-format off
        {'I', "INT"}, {'L', "LONG"}, {'F', "FLOAT"}, {'S', "STRING"}, {'V', "UNICODE"}, {'B', "BINBYTES"},
        {'C', "SHORT_BINBYTES"}, {0x8e, "BINBYTES8"}, {'0', "POP"}, {'1', "POP_MARK"}, {'2', "DUP"}, {'P', "PERSID"},
        {'l', "LIST"}, {'d', "DICT"}, {'p', "PUT"}, {'g', "GET"}, {'o', "OBJ"}, {0x81, "NEWOBJ"}, {0x92, "NEWOBJ_EX"},
        {0x82, "EXT1"}, {0x83, "EXT2"}, {0x84, "EXT4"}, {0x8f, "EMPTY_SET"}, {0x90, "ADDITEMS"}, {0x91, "FROZENSET"},
        {0x96, "BYTEARRAY8"}, {0x97, "NEXT_BUFFER"}, {0x98, "READONLY_BUFFER"}};
    // clang-format on
    for (const auto& known : kNames) {
        if (known.opcode == opcode) return known.name;
    }
    return nullptr;
}

class Machine {
  public:
    Machine(std::span<const std::byte> bytes, std::span<const std::string_view> known, const std::string& source)
        : text_(reinterpret_cast<const char*>(bytes.data()), bytes.size()), known_(known), source_(source) {}

    Pickle run() {
        for (uint8_t opcode = byte(); opcode != '.'; opcode = byte()) {
            if (!constant(opcode) && !container(opcode) && !memo(opcode) && !object(opcode)) refuse_opcode(opcode);
        }
        if (stack_.size() != 1 || !marks_.empty()) {
            damaged("one value at the pickle's end, found " + std::to_string(stack_.size()));
        }
        pickle_.root_index = stack_[0];
        pickle_.size = at_;
        return std::move(pickle_);
    }

  private:
    // ---- reading ------------------------------------------------------------------------------------------------
    [[noreturn]] void damaged(const std::string& expected_and_found) const {
        refuse(source_, "expected " + expected_and_found + " (byte " + std::to_string(at_) +
                            " of the pickle); the file is damaged or no weights: copy it again");
    }
    std::string_view take(uint64_t count) {
        if (count > text_.size() - at_) {
            damaged(std::to_string(count) + " more bytes, found " + std::to_string(text_.size() - at_));
        }
        at_ += count;
        return text_.substr(at_ - count, count);
    }
    template <class T>
    T number() {  // little endian
        T value;
        std::memcpy(&value, take(sizeof value).data(), sizeof value);
        return value;
    }
    uint8_t byte() { return number<uint8_t>(); }
    std::string_view line() {
        const size_t end = text_.substr(at_, 1000).find('\n');
        if (end == std::string_view::npos) damaged("a name and a line break, found none");
        return take(end + 1).substr(0, end);
    }

    // ---- the stack ------------------------------------------------------------------------------------------------
    void push(uint32_t value) {
        if (stack_.size() >= Pickle::kMaxValues) too_many();
        stack_.push_back(value);
    }
    PickleValue& push(Kind kind) {
        if (pickle_.values.size() >= Pickle::kMaxValues) too_many();
        push(uint32_t(pickle_.values.size()));
        pickle_.values.push_back({});
        pickle_.values.back().kind = kind;
        return pickle_.values.back();
    }
    void push_integer(int64_t value) { push(Kind::integer).integer = value; }
    void push_text(uint64_t size) {
        const std::string_view text = take(size);
        push(Kind::text).text = text;
    }
    void push_long(uint64_t size) {  // two's complement, little endian
        const std::string_view bytes = take(size);
        if (size > 8) {
            push(Kind::big_integer).text = bytes;
            return;
        }
        const bool negative = size > 0 && (bytes.back() & 0x80) != 0;
        int64_t value = negative ? -1 : 0;
        std::memcpy(&value, bytes.data(), size);
        push_integer(value);
    }
    void push_real(uint64_t big_endian) {
        push(Kind::real).real = std::bit_cast<double>(__builtin_bswap64(big_endian));
    }
    void push_with(Kind kind, std::vector<uint32_t> items) { push(kind).items = std::move(items); }
    void push_mark() {
        if (marks_.size() >= Pickle::kMaxValues) too_many();
        marks_.push_back(stack_.size());
    }
    [[noreturn]] void too_many() const {
        refuse(source_, "expected a pickle of at most " + std::to_string(Pickle::kMaxValues) +
                            " values, found more; save the weights alone, torch.save(model.state_dict(), ...)");
    }
    uint32_t pop() {
        if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) damaged("a value on the stack, found none");
        const uint32_t value = stack_.back();
        stack_.pop_back();
        return value;
    }
    PickleValue& top(Kind kind) {
        const uint32_t index = pop();
        stack_.push_back(index);
        PickleValue& value = pickle_.values[index];
        if (value.kind != kind) damaged(std::string(name_of(kind)) + ", found " + name_of(value.kind));
        return value;
    }
    std::vector<uint32_t> pop_items(size_t count) {
        std::vector<uint32_t> items(count);
        while (count-- > 0) items[count] = pop();
        return items;
    }
    std::vector<uint32_t> pop_to_mark() {
        if (marks_.empty()) damaged("a mark on the stack, found none");
        std::vector<uint32_t> items = pop_items(stack_.size() - marks_.back());
        marks_.pop_back();
        return items;
    }
    void append(Kind kind, const std::vector<uint32_t>& items) {
        if (kind == Kind::dict && items.size() % 2 != 0) damaged("as many values as keys, found one less");
        std::vector<uint32_t>& all = top(kind).items;
        all.insert(all.end(), items.begin(), items.end());
    }

    // ---- opcodes: each family says whether this is one of its own -------------------------------------------------
    // clang-format off
    bool constant(uint8_t opcode) {
        switch (opcode) {
            case 'N':  return push(Kind::none), true;
            case 0x88: return push(Kind::boolean).integer = 1, true;           // NEWTRUE
            case 0x89: return push(Kind::boolean), true;                       // NEWFALSE
            case 'J':  return push_integer(number<int32_t>()), true;           // BININT
            case 'K':  return push_integer(number<uint8_t>()), true;           // BININT1
            case 'M':  return push_integer(number<uint16_t>()), true;          // BININT2
            case 0x8a: return push_long(number<uint8_t>()), true;              // LONG1
            case 0x8b: return push_long(number<uint32_t>()), true;             // LONG4
            case 'G':  return push_real(number<uint64_t>()), true;             // BINFLOAT
            case 'U':  return push_text(number<uint8_t>()), true;              // SHORT_BINSTRING: a str of Python 2
            case 'T':  return push_text(number<uint32_t>()), true;             // BINSTRING
            case 0x8c: return push_text(number<uint8_t>()), true;              // SHORT_BINUNICODE
            case 'X':  return push_text(number<uint32_t>()), true;             // BINUNICODE
            case 0x8d: return push_text(number<uint64_t>()), true;             // BINUNICODE8
        }
        return false;
    }
    bool container(uint8_t opcode) {
        switch (opcode) {
            case '(':  return push_mark(), true;
            case ')':  return push(Kind::tuple), true;
            case ']':  return push(Kind::list), true;
            case '}':  return push(Kind::dict), true;
            case 0x85: return push_with(Kind::tuple, pop_items(1)), true;      // TUPLE1
            case 0x86: return push_with(Kind::tuple, pop_items(2)), true;      // TUPLE2
            case 0x87: return push_with(Kind::tuple, pop_items(3)), true;      // TUPLE3
            case 't':  return push_with(Kind::tuple, pop_to_mark()), true;     // TUPLE
            case 'a':  return append(Kind::list, pop_items(1)), true;          // APPEND
            case 'e':  return append(Kind::list, pop_to_mark()), true;         // APPENDS
            case 's':  return append(Kind::dict, pop_items(2)), true;          // SETITEM
            case 'u':  return append(Kind::dict, pop_to_mark()), true;         // SETITEMS
        }
        return false;
    }
    bool memo(uint8_t opcode) {
        switch (opcode) {
            case 'q':  return put(number<uint8_t>()), true;                    // BINPUT
            case 'r':  return put(number<uint32_t>()), true;                   // LONG_BINPUT
            case 0x94: return put(memo_.size()), true;                         // MEMOIZE
            case 'h':  return get(number<uint8_t>()), true;                    // BINGET
            case 'j':  return get(number<uint32_t>()), true;                   // LONG_BINGET
        }
        return false;
    }
    bool object(uint8_t opcode) {
        switch (opcode) {
            case 0x80: return protocol(byte()), true;                          // PROTO
            case 0x95: return frame(number<uint64_t>()), true;                 // FRAME
            case 'c':  return global_lines(true), true;                        // GLOBAL
            case 'i':  return global_lines(false), true;                       // INST: a call of it
            case 0x93: return stack_global(), true;                            // STACK_GLOBAL
            case 'R':  return reduce(), true;                                  // REDUCE
            case 'b':  return build(), true;                                   // BUILD
            case 'Q':  return push_with(Kind::persistent, pop_items(1)), true; // BINPERSID
        }
        return false;
    }
    // clang-format on

    // ---- what the opcodes do ----------------------------------------------------------------------------------------
    static constexpr uint32_t kUnset = UINT32_MAX;
    void put(size_t key) {
        if (key > at_) damaged("memo numbers in order, found " + std::to_string(key));  // so that it cannot grow faster
        if (key >= memo_.size()) memo_.resize(key + 1, kUnset);
        memo_[key] = pop();
        stack_.push_back(memo_[key]);
    }
    void get(size_t key) {
        if (key >= memo_.size() || memo_[key] == kUnset) damaged("a known memo number, found " + std::to_string(key));
        push(memo_[key]);
    }

    void protocol(int version) {
        if (version < 2 || version > 5) damaged("pickle protocol 2 to 5, found " + std::to_string(version));
    }
    void frame(uint64_t size) {  // a hint for who reads in pieces
        if (size > text_.size() - at_) damaged("a frame within the pickle, found one of " + std::to_string(size));
    }
    void global_lines(bool may_be_known) {
        const std::string_view module = line();
        global(module, line(), may_be_known);
    }
    void global(std::string_view module, std::string_view name, bool may_be_known = true) {
        const std::string full = std::string(module.substr(0, 100)) + "." + std::string(name.substr(0, 100));
        const auto found = std::find(known_.begin(), known_.end(), full);
        if (may_be_known && (full == kOrderedDict || found != known_.end())) {
            push(Kind::global).text = full == kOrderedDict ? kOrderedDict : *found;
            return;
        }
        refuse(source_, "expected tensors, numbers, texts, lists and dictionaries only, found '" + full +
                            "', which is not run; save the weights alone, torch.save(model.state_dict(), ...)");
    }
    void stack_global() {
        const std::string_view name = top(Kind::text).text;
        pop();
        const std::string_view module = top(Kind::text).text;
        pop();
        global(module, name);
    }
    void reduce() {
        if (top(Kind::tuple).items.size() > 16) damaged("a call with a few arguments, found more than 16");
        std::vector<uint32_t> arguments = top(Kind::tuple).items;  // a copy: the tuple may be used again
        pop();
        const std::string_view name = top(Kind::global).text;
        pop();
        if (name == kOrderedDict) return ordered_dict(arguments);
        PickleValue& call = push(Kind::call);
        call.text = name;
        call.items = std::move(arguments);
    }
    // Called without arguments, and filled afterwards; or, by Python 2, with a list of [key, value].
    void ordered_dict(const std::vector<uint32_t>& arguments) {
        std::vector<uint32_t> items;
        if (arguments.size() > 1) damaged("a list for the OrderedDict, found more");
        if (!arguments.empty()) {
            if (pickle_.values[arguments[0]].kind != Kind::list) damaged("a list for the OrderedDict, found none");
            for (const uint32_t pair : pickle_.values[arguments[0]].items) {
                const std::vector<uint32_t>& both = pickle_.values[pair].items;
                if (both.size() != 2) damaged("pairs for the OrderedDict, found others");
                if (++pairs_ > text_.size()) too_many();  // the list may be used again, and again
                items.insert(items.end(), both.begin(), both.end());
            }
        }
        push(Kind::dict).items = std::move(items);
    }
    void build() {
        pop();
        top(Kind::dict);
    }

    [[noreturn]] void refuse_opcode(uint8_t opcode) const {
        const char* name = name_of_refused(opcode);
        if (name == nullptr) damaged("an opcode, found byte " + std::to_string(opcode));
        refuse(source_, "expected tensors, numbers, texts, lists and dictionaries only, found the opcode " +
                            std::string(name) + "; save the weights alone, torch.save(model.state_dict(), ...)");
    }

    std::string_view text_;
    std::span<const std::string_view> known_;
    const std::string& source_;
    size_t at_ = 0;
    Pickle pickle_;
    std::vector<uint32_t> stack_;
    std::vector<size_t> marks_;  // heights of the stack
    std::vector<uint32_t> memo_;
    size_t pairs_ = 0;  // copied from lists into dictionaries
};

}  // namespace

Pickle unpickle(std::span<const std::byte> bytes, std::span<const std::string_view> known, const std::string& source) {
    return Machine(bytes, known, source).run();
}

const char* name_of(Kind kind) {
    static constexpr const char* kNames[] = {"None",         "True or False", "an integer", "an integer beyond 64 bits",
                                             "a number",     "a text",        "a tuple",    "a list",
                                             "a dictionary", "a function",    "a call",     "a persistent id"};
    return kNames[int(kind)];
}

}  // namespace lc
