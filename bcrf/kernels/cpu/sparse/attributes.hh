// The attributes of tokens by name, as CRFsuite's users give them.
#pragma once

#include <cstring>

#include "dictionary.hh"

namespace bcrf {

// Keys and values of attributes, token by token. A key is the hash of a name in UTF-8, whose parts
// come one by one.
class AttributeReader {
    std::vector<char> name_;

  public:
    std::vector<std::uint64_t> keys;
    std::vector<std::int32_t> rows;
    std::vector<double> values;
    std::vector<std::int64_t> starts = {0};
    bool has_values = false;  // other than 1

    const char* name() const { return name_.data(); }
    size_t length() const { return name_.size(); }
    void cut(size_t length) { name_.resize(length); }
    void append(const char* text, size_t n) { name_.insert(name_.end(), text, text + n); }

    // Return the key of the name. It is another one in each process.
    std::uint64_t key() const {
        std::uint64_t key = mix(hash_seed(), length());
        for (size_t at = 0; at < length(); at += 8) {
            std::uint64_t word = 0;
            std::memcpy(&word, name() + at, std::min<size_t>(8, length() - at));
            key = mix(key, word);
        }
        return key;
    }

    // Add the attribute of the name.
    void add(double value) {
        keys.push_back(key());
        values.push_back(value);
        has_values = has_values || value != 1;
    }

    void end_token() { starts.push_back(std::int64_t(keys.size())); }

    // Set `rows`. An attribute without a row is left out.
    void find(Dictionary& dictionary) {
        rows.resize(keys.size());
        dictionary.find(keys.data(), keys.size(), false, rows.data());
        size_t n = 0, at = 0;
        for (size_t i = 1; i < starts.size(); ++i) {
            for (; at < size_t(starts[i]); ++at)
                if (rows[at] >= 0) {
                    rows[n] = rows[at];
                    values[n++] = values[at];
                }
            starts[i] = std::int64_t(n);
        }
        rows.resize(n);
    }
};

}  // namespace bcrf
