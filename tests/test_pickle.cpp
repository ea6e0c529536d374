// test_pickle.cpp -- every opcode that builds a value, and every way to be refused.
#include "data/pickle.h"
#include "tests/long.h"
#include "tests/pickle_bytes.h"

namespace lc {
namespace {

using namespace pickled;
using namespace std::string_literals;  // "\0"s: with its zero bytes
using Kind = PickleValue::Kind;

constexpr std::string_view kKnown[] = {"torch.FloatStorage"};

struct Read {  // the values point into the bytes
    std::string bytes;
    Pickle pickle;
    explicit Read(const std::string& all) : bytes(all), pickle(unpickle(as_bytes(bytes), kKnown, "x.pth")) {}
};

std::string written(const Pickle& p, const PickleValue& v) {
    std::string items;
    for (size_t i = 0; i < v.items.size(); ++i) items += (i == 0 ? "" : " ") + written(p, p.item(v, i));
    const std::string text(v.text);
    if (v.kind == Kind::none) return "None";
    if (v.kind == Kind::boolean) return v.integer ? "True" : "False";
    if (v.kind == Kind::integer) return std::to_string(v.integer);
    if (v.kind == Kind::big_integer) return "big";
    if (v.kind == Kind::real) return std::to_string(v.real);
    if (v.kind == Kind::text) return "'" + text + "'";
    if (v.kind == Kind::tuple) return "(" + items + ")";
    if (v.kind == Kind::list) return "[" + items + "]";
    if (v.kind == Kind::dict) return "{" + items + "}";
    if (v.kind == Kind::persistent) return "id " + items;
    return v.kind == Kind::call ? text + "(" + items + ")" : text;
}
std::string value(const std::string& opcodes) {
    const Read r(program(opcodes));
    EXPECT_EQ(r.pickle.size, r.bytes.size());
    return written(r.pickle, r.pickle.root());
}
void refused(const std::string& opcodes, const std::string& reason) {
    const std::string found = refusal([&] { value(opcodes); });
    EXPECT_NE(found.find(reason), std::string::npos) << found << "\nand not: " << reason;
    EXPECT_EQ(found.find("x.pth: expected "), 0u) << found;
}

const std::string kOrdered = global("collections", "OrderedDict");

TEST(Pickle, Constants) {
    EXPECT_EQ(value("(N\x88\x89t"), "(None True False)");
    EXPECT_EQ(value("K\xff"), "255");
    EXPECT_EQ(value("M\xff\xff"), "65535");
    EXPECT_EQ(value("J" + little<int32_t>(-70000)), "-70000");
    EXPECT_EQ(value("\x8a\0"s), "0");
    EXPECT_EQ(value("\x8a\1\xff"), "-1");
    EXPECT_EQ(value("\x8a\2\xff\0"s), "255");
    EXPECT_EQ(value(number(INT64_MIN)), "-9223372036854775808");
    EXPECT_EQ(value("\x8b" + little<uint32_t>(3) + "\1\2\x83"), "-8191487");
    EXPECT_EQ(value("\x8a\x09" + little(UINT64_MAX) + std::string(1, '\0')), "big");
    EXPECT_EQ(value("G\x40\x56\xd0" + std::string(5, '\0')), "91.250000");
    EXPECT_EQ(value("(U\1aT" + little<uint32_t>(1) + "bX" + little<uint32_t>(1) + "c\x8c\1d\x8d" + little<uint64_t>(2) +
                    "eet"),
              "('a' 'b' 'c' 'd' 'ee')");
}

TEST(Pickle, Containers) {
    EXPECT_EQ(value("()K\1\x85K\2K\3\x86K\4K\5K\6\x87(K\7tt"), "(() (1) (2 3) (4 5 6) (7))");
    EXPECT_EQ(value("]K\1a(K\2K\3e"), "[1 2 3]");
    EXPECT_EQ(value("}K\1Ns(K\2NK\3Nu"), "{1 None 2 None 3 None}");
    EXPECT_EQ(value(kOrdered + ")R(K\1Nu}K\7Nsb"), "{1 None}");                // with attributes
    EXPECT_EQ(value(kOrdered + "](K\1N\x86]K\2aK\3ae\x85R"), "{1 None 2 3}");  // as Python 2 writes it
}

TEST(Pickle, MemoAndFrames) {
    EXPECT_EQ(value("(]q\0K\5r\1\0\0\0h\1j\1\0\0\0t"s), "([] 5 5 5)");
    EXPECT_EQ(value("(K\5\x94K\6\x94h\1h\0t"s), "(5 6 6 5)");
    EXPECT_EQ(value("K\1q\2"), "1");  // Python 2 counts from 1
    EXPECT_EQ(value("\x95" + little<uint64_t>(3) + "K\1"), "1");
}

TEST(Pickle, GlobalsThatAreKnown) {
    EXPECT_EQ(value(global("torch", "FloatStorage")), "torch.FloatStorage");
    EXPECT_EQ(value(text("torch") + text("FloatStorage") + "\x93"), "torch.FloatStorage");
    EXPECT_EQ(value(global("torch", "FloatStorage") + "(K\1K\2tR"), "torch.FloatStorage(1 2)");  // not called
    EXPECT_EQ(value(text("7") + "Q"), "id '7'");
}

TEST(Pickle, RefusesToRunAnything) {
    refused(global("os", "system") + text("true") + "\x85R", "found 'os.system', which is not run");
    refused(text("os") + text("system") + "\x93", "found 'os.system', which is not run");
    refused("(" + text("true") + "ios\nsystem\n", "found 'os.system', which is not run");
    refused("(itorch\nFloatStorage\n", "found 'torch.FloatStorage', which is not run");
    refused(global("torch", "FloatStorag"), "found 'torch.FloatStorag'");
    refused(global("torch.", "FloatStorage"), "found 'torch..FloatStorage'");
    refused(global("collections", "OrderedDict") + ")\x81", "found the opcode NEWOBJ;");
    for (const auto& [opcode, name] : std::vector<std::pair<char, std::string>>{{'o', "OBJ"},
                                                                                {'\x92', "NEWOBJ_EX"},
                                                                                {'\x82', "EXT1"},
                                                                                {'P', "PERSID"},
                                                                                {'\x8f', "EMPTY_SET"},
                                                                                {'B', "BINBYTES"}}) {
        refused(std::string("NN") + opcode, "found the opcode " + name + ";");
    }
    refused("\x03", "an opcode, found byte 3");
}

TEST(Pickle, RefusesWhatDoesNotAddUp) {
    refused("", "one value at the pickle's end, found 0");
    refused("NN", "one value at the pickle's end, found 2");
    refused("N(", "one value at the pickle's end, found 1");
    refused("K\1a", "a value on the stack, found none");
    refused("](K\1a", "a value on the stack, found none");  // the list lies below the mark
    refused("K\1e", "a mark on the stack, found none");
    refused("K\1K\2a", "a list, found an integer");
    refused("}(K\1u", "as many values as keys, found one less");
    refused("}(K\1e", "a list, found a dictionary");
    refused("K\1}b", "a dictionary, found an integer");
    refused("K\1)R", "a function, found an integer");
    refused(kOrdered + "K\1R", "a tuple, found an integer");
    refused(kOrdered + "NN\x86R", "a list for the OrderedDict, found more");
    refused(kOrdered + "N\x85R", "a list for the OrderedDict, found none");
    refused(kOrdered + "]Na\x85R", "pairs for the OrderedDict, found others");
    refused(kOrdered + "(" + std::string(17, 'N') + "tR", "found more than 16");
    refused("K\1K\2\x93", "a text, found an integer");
    refused("h\1", "a known memo number, found 1");
    refused("Nq\2h\1", "a known memo number, found 1");
    refused("Nr\xff\xff\xff\xff", "memo numbers in order, found 4294967295");
    refused("\x95" + little(UINT64_MAX), "a frame within the pickle");
    refused("X\xff\xff\xff\xff", "4294967295 more bytes, found 1");
    refused("\x8d" + little(UINT64_MAX), "18446744073709551615 more bytes");
    refused("cos" + std::string(2000, 'x') + "\nsystem\n", "a name and a line break, found none");
    expect_refusal([] { Read("\x80\1N."); }, "protocol 2 to 5, found 1");
    expect_refusal([] { Read("\x80\6N."); }, "protocol 2 to 5, found 6");
}

TEST(Pickle, RefusesEveryCutShortOne) {
    const std::string whole = program(dict({{"a", number(7)}, {"b", tuple({1, 2})}}) + "\x95" + little<uint64_t>(1));
    for (size_t size = 0; size < whole.size(); ++size) {
        EXPECT_NE(refusal([&] { Read(whole.substr(0, size)); }).find("x.pth: expected "), std::string::npos) << size;
    }
}

std::string repeat(const std::string& opcodes, size_t times) {
    std::string out;
    for (size_t i = 0; i < times; ++i) out += opcodes;
    return out;
}

TEST(Pickle, Bombs) {
    const size_t n = 200'000;
    EXPECT_EQ(Read(program(repeat("]", n) + repeat("a", n - 1))).pickle.values.size(), n);  // as deep as that
    EXPECT_EQ(Read(program("]q\0"s + repeat("h\0a"s, n))).pickle.values.size(), 1u);        // a list that holds itself
    // (x, x) of (x, x) of ...: 2^100 items for who would walk along them.
    EXPECT_EQ(Read(program("N" + repeat("q\1h\1\x86", 100))).pickle.values.size(), 101u);
    // A long list of pairs, made into a dictionary again and again.
    refused(kOrdered + "\x94](" + repeat("NN\x86", 1000) + "e\x85\x94R" + repeat("h\0h\1R"s, 10), "values, found more");
}

TEST(Pickle, RefusesMoreValuesThanItMayHold) {
    LC_LONG_TEST();
    const char* reason = "a pickle of at most 2097152 values";
    refused(repeat("N", Pickle::kMaxValues + 1), reason);
    refused("N\x94" + repeat("h\0"s, Pickle::kMaxValues), reason);
    refused(repeat("(", Pickle::kMaxValues + 1), reason);
}

}  // namespace
}  // namespace lc
