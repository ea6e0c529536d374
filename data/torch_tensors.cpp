// torch_tensors.cpp -- see torch_tensors.h.
#include "data/torch_tensors.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <set>

#include "data/element.h"

namespace lc {

namespace {

using Kind = PickleValue::Kind;
using Bytes = std::span<const std::byte>;

constexpr std::string_view kStorages[] = {
    "torch.DoubleStorage", "torch.FloatStorage", "torch.HalfStorage", "torch.BFloat16Storage", "torch.LongStorage",
    "torch.IntStorage",    "torch.ShortStorage", "torch.CharStorage", "torch.ByteStorage",     "torch.BoolStorage"};
constexpr struct {
    const char* dtype;
    Element element;
} kDtypes[] = {{"F64", Element::f64}, {"F32", Element::f32},     {"F16", Element::f16}, {"BF16", Element::bf16},
               {"I64", Element::i64}, {"I32", Element::i32},     {"I16", Element::i16}, {"I8", Element::i8},
               {"U8", Element::u8},   {"BOOL", Element::boolean}};  // in the order of kStorages
constexpr std::string_view kTensor = "torch._utils._rebuild_tensor", kTensor2 = "torch._utils._rebuild_tensor_v2",
                           kParameter = "torch._utils._rebuild_parameter";

constexpr const char* kAdvice = "; save the weights alone, torch.save(model.state_dict(), ...)";

[[noreturn]] void damaged(const std::string& source, const std::string& expected_and_found) {
    refuse(source, "expected " + expected_and_found + "; the file is damaged: copy it again");
}

const PickleValue& argument(const Pickle& p, const PickleValue& of, size_t i, Kind kind, const std::string& source) {
    if (i >= of.items.size()) damaged(source, std::string(name_of(kind)) + ", found no more");
    const PickleValue& value = p.item(of, i);
    if (value.kind != kind) damaged(source, std::string(name_of(kind)) + ", found " + name_of(value.kind));
    return value;
}

// ---- dictionaries ---------------------------------------------------------------------------------------------------
bool is_tensor(const Pickle& p, const PickleValue& v) {
    if (v.kind != Kind::call) return false;
    if (v.text == kParameter && !v.items.empty()) {
        const PickleValue& inner = p.item(v, 0);
        return inner.kind == Kind::call && (inner.text == kTensor || inner.text == kTensor2);
    }
    return v.text == kTensor || v.text == kTensor2;
}

constexpr int kMaxWrappers = 4;
constexpr size_t kMaxName = 1000;

const PickleValue* wrapped(const Pickle& p, const PickleValue& dict, int depth);

bool holds_tensors(const Pickle& p, const PickleValue& v, int depth) {
    if (v.kind != Kind::dict) return false;
    for (size_t i = 1; i < v.items.size(); i += 2) {
        if (is_tensor(p, p.item(v, i))) return true;
    }
    return depth > 0 && wrapped(p, v, depth - 1) != nullptr;
}

const PickleValue* wrapped(const Pickle& p, const PickleValue& dict, int depth) {
    for (const char* name : {"state_dict", "model_state_dict", "model", "net"}) {
        for (size_t i = 0; i < dict.items.size(); i += 2) {
            const PickleValue &key = p.item(dict, i), &value = p.item(dict, i + 1);
            if (key.kind != Kind::text || key.text != name) continue;
            if (holds_tensors(p, value, depth)) return &value;
            break;  // a name that repeats would make this a long search
        }
    }
    return nullptr;
}

// As Python prints it; what is more than a number or a text is named, not shown.
std::string in_words(const Pickle& p, const PickleValue& v) {
    constexpr size_t kMaxText = 100;  // a text may be the value of any number of keys
    char digits[32];
    switch (v.kind) {
        case Kind::none:
            return "None";
        case Kind::boolean:
            return v.integer ? "True" : "False";
        case Kind::integer:
            return std::to_string(v.integer);
        case Kind::real:
            return {digits, std::to_chars(digits, digits + sizeof digits, v.real).ptr};
        case Kind::text:
            return std::string(v.text.substr(0, kMaxText)) + (v.text.size() > kMaxText ? "..." : "");
        case Kind::tuple:
        case Kind::list:
            return std::string("left out: ") + name_of(v.kind) + " of " + std::to_string(v.items.size());
        case Kind::dict:
            return std::string("left out: ") + name_of(v.kind) + " of " + std::to_string(v.items.size() / 2);
        default:
            return std::string("left out: ") + (is_tensor(p, v) ? "a tensor" : name_of(v.kind));
    }
}

void check_names(const Pickle& p, const PickleValue& dict, const std::string& path) {
    std::set<std::string_view> names;
    for (size_t i = 0; i < dict.items.size(); i += 2) {
        const PickleValue& key = p.item(dict, i);
        if (key.kind != Kind::text)
            refuse(path, std::string("expected texts as names, found ") + name_of(key.kind) + kAdvice);
        if (key.text.size() > kMaxName) damaged(path, "names of at most 1000 bytes, found a longer one");
        if (!names.insert(key.text).second)
            damaged(path, "every name once, found '" + std::string(key.text) + "' twice");
    }
}

void drop_prefix(std::vector<SafeTensor>& tensors) {
    constexpr std::string_view kPrefix = "module.";
    for (const SafeTensor& t : tensors) {
        if (!t.name.starts_with(kPrefix) || t.name.size() == kPrefix.size()) return;
    }
    for (SafeTensor& t : tensors) t.name.erase(0, kPrefix.size());
}

// ---- tensors --------------------------------------------------------------------------------------------------------
struct View {
    int64_t offset = 0;  // in elements, as are the strides
    std::vector<int64_t> sizes, strides;

    int64_t count() const { return count_of(sizes.data(), sizes.size()); }
    bool contiguous() const {
        int64_t next = 1;
        for (size_t d = sizes.size(); d-- > 0; next *= sizes[d]) {
            if (sizes[d] != 1 && strides[d] != next) return false;
        }
        return true;
    }
    bool fits(int64_t storage) const {  // of an empty view: where it would begin
        int64_t last = offset, reach = 0;
        for (size_t d = 0; d < sizes.size() && count() > 0; ++d) {
            if (__builtin_mul_overflow(sizes[d] - 1, strides[d], &reach)) return false;
            if (__builtin_add_overflow(last, reach, &last)) return false;
        }
        return last < storage || (count() == 0 && last == storage);
    }
};

std::vector<int64_t> sizes_of(const Pickle& p, const PickleValue& tuple, const std::string& source) {
    constexpr size_t kMaxRank = 64;  // PyTorch's own
    if (tuple.items.size() > kMaxRank)
        damaged(source, "at most 64 dimensions, found " + std::to_string(tuple.items.size()));
    std::vector<int64_t> sizes;
    for (size_t d = 0; d < tuple.items.size(); ++d) {
        sizes.push_back(argument(p, tuple, d, Kind::integer, source).integer);
        if (sizes.back() < 0) damaged(source, "sizes and strides from 0, found " + std::to_string(sizes.back()));
    }
    return sizes;
}

// arguments: storage, offset, sizes, strides; of _v2 also requires_grad, hooks, and a dictionary that says whether the
// values are to be negated.
View view_of(const Pickle& p, const PickleValue& call, const std::string& source) {
    View v;
    v.offset = argument(p, call, 1, Kind::integer, source).integer;
    v.sizes = sizes_of(p, argument(p, call, 2, Kind::tuple, source), source);
    v.strides = sizes_of(p, argument(p, call, 3, Kind::tuple, source), source);
    if (v.offset < 0) damaged(source, "an offset from 0, found " + std::to_string(v.offset));
    if (v.sizes.size() != v.strides.size()) {
        damaged(source, "a stride for each of " + std::to_string(v.sizes.size()) + " dimensions, found " +
                            std::to_string(v.strides.size()));
    }
    for (size_t d = 0; d < v.sizes.size(); ++d) {
        if (v.sizes[d] == 1) v.strides[d] = 0;  // never taken, and may be any number
    }
    if (v.count() < 0) damaged(source, "a shape whose product fits 64 bits, found a larger one");
    if (call.items.size() > 6 && !(p.item(call, 6).kind == Kind::dict && p.item(call, 6).items.empty())) {
        refuse(source,
               "expected a plain tensor, found one with flags (negated or conjugate); save tensor.resolve_neg()");
    }
    return v;
}

// Elements in row-major order: the last index runs fastest.
void copy_elements(const View& v, Bytes storage, size_t itemsize, std::byte* to) {
    std::vector<int64_t> index(v.sizes.size(), 0);
    int64_t at = v.offset;
    for (int64_t left = v.count(); left > 0; --left, to += itemsize) {
        std::memcpy(to, storage.data() + size_t(at) * itemsize, itemsize);
        for (size_t d = index.size(); d-- > 0;) {
            at += v.strides[d];
            if (++index[d] < v.sizes[d]) break;
            at -= v.strides[d] * v.sizes[d];
            index[d] = 0;
        }
    }
}

class Tensors {
  public:
    Tensors(const Pickle& pickle, const FindStorage& storage, size_t file_size, std::shared_ptr<const void> file)
        : pickle_(pickle), storage_(storage), copies_left_(file_size + (1 << 20)), kept_(std::make_shared<Kept>()) {
        kept_->file = std::move(file);
    }
    SafeTensor read(const PickleValue& value, std::string_view name, const std::string& path) {
        const PickleValue& call = value.text == kParameter ? pickle_.item(value, 0) : value;
        SafeTensor t;
        t.name = name;
        t.source = path + ": " + t.name;
        View view = view_of(pickle_, call, t.source);
        const StorageId id = storage_id(pickle_, argument(pickle_, call, 0, Kind::persistent, t.source), t.source);
        if (!view.fits(id.count))
            damaged(t.source,
                    "a view within its storage of " + std::to_string(id.count) + " elements, found one beyond");
        t.dtype = id.dtype;
        const Bytes bytes = storage_(id);
        const size_t size = size_t(view.count()), itemsize = size_t(id.itemsize);
        t.bytes = view.count() == 0   ? Bytes()
                  : view.contiguous() ? bytes.subspan(size_t(view.offset) * itemsize, size * itemsize)
                                      : copy(view, bytes, itemsize, t.source);
        t.shape = std::move(view.sizes);
        return t;
    }
    std::shared_ptr<const void> keeps_alive() const { return kept_; }

  private:
    Bytes copy(const View& view, Bytes storage, size_t itemsize, const std::string& source) {
        const size_t count = size_t(view.count());
        if (count > copies_left_ / itemsize) {
            refuse(source,
                   "expected views that together are no larger than the file, found more; save tensor.contiguous()");
        }
        copies_left_ -= count * itemsize;
        kept_->copies.emplace_back(new std::byte[count * itemsize]);
        copy_elements(view, storage, itemsize, kept_->copies.back().get());
        return {kept_->copies.back().get(), count * itemsize};
    }

    struct Kept {
        std::shared_ptr<const void> file;
        std::vector<std::unique_ptr<std::byte[]>> copies;
    };
    const Pickle& pickle_;
    const FindStorage& storage_;
    size_t copies_left_;
    std::shared_ptr<Kept> kept_;
};

}  // namespace

std::span<const std::string_view> torch_globals() {
    static const std::vector<std::string_view> all = [] {
        std::vector<std::string_view> names(std::begin(kStorages), std::end(kStorages));
        names.insert(names.end(), {kTensor, kTensor2, kParameter});
        return names;
    }();
    return all;
}

// ("storage", torch.FloatStorage, key, "cpu", count), and None in the older format, where a view of a storage once was.
StorageId storage_id(const Pickle& p, const PickleValue& persistent, const std::string& source) {
    const PickleValue& id = argument(p, persistent, 0, Kind::tuple, source);
    if (argument(p, id, 0, Kind::text, source).text != "storage") damaged(source, "a storage, found another id");
    const std::string_view type = argument(p, id, 1, Kind::global, source).text;
    const auto found = std::find(std::begin(kStorages), std::end(kStorages), type);
    if (found == std::end(kStorages)) damaged(source, "the type of a storage, found " + std::string(type));
    const auto& dtype = kDtypes[found - std::begin(kStorages)];
    StorageId result = {argument(p, id, 2, Kind::text, source).text, dtype.dtype, size_of(dtype.element),
                        argument(p, id, 4, Kind::integer, source).integer};
    if (id.items.size() > 5 && p.item(id, 5).kind != Kind::none) {
        refuse(source,
               "expected a storage, found a view of one, as PyTorch wrote before 2017; load and save it with a PyTorch "
               "of today");
    }
    if (result.key.size() > kMaxName) damaged(source, "a storage's key of at most 1000 bytes, found a longer one");
    if (result.count < 0 || result.count > INT64_MAX / result.itemsize) {
        damaged(source, "a storage's size, found " + std::to_string(result.count));
    }
    return result;
}

Weights torch_weights(const Pickle& p, const FindStorage& storage, size_t file_size, const std::string& path,
                      std::shared_ptr<const void> keeps_alive) {
    Weights result = {path, "", {}, {}, {}};
    Tensors tensors(p, storage, file_size, std::move(keeps_alive));
    const PickleValue* dict = &p.root();
    for (int depth = kMaxWrappers; dict != nullptr; --depth) {
        if (dict->kind != Kind::dict)
            refuse(path, std::string("expected a dictionary of tensors, found ") + name_of(dict->kind) + kAdvice);
        check_names(p, *dict, path);
        const PickleValue* inner = depth > 0 ? wrapped(p, *dict, depth - 1) : nullptr;
        for (size_t i = 0; i < dict->items.size(); i += 2) {
            const PickleValue& value = p.item(*dict, i + 1);
            const std::string_view name = p.item(*dict, i).text;
            if (inner == nullptr && is_tensor(p, value))
                result.tensors.push_back(tensors.read(value, name, path));
            else if (&value != inner)
                result.metadata.emplace(name, in_words(p, value));
        }
        dict = inner;
    }
    if (result.tensors.empty())
        refuse(path, "expected a dictionary of tensors, by itself or under 'state_dict', 'model' or 'net', found none" +
                         std::string(kAdvice));
    drop_prefix(result.tensors);
    result.keeps_alive = tensors.keeps_alive();
    return result;
}

}  // namespace lc
