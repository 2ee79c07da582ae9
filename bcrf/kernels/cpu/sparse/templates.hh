// Feature templates: from attribute values of tokens to feature keys.
#pragma once

#include "distinct_rows.hh"

namespace bcrf {

// An attribute of the token at a relative position. A column below `singles` has one value for each
// token; a later column, a bag, has any number.
struct Part {
    int column, offset;
};

struct Template {
    std::uint64_t seed;
    int first, last;  // its parts, [first, last)
};

// Attribute values of N tokens. `values` (N, singles) holds single values, 0 for none. Bag `column`
// of token i holds the values bag_values[bag_starts[k] : bag_starts[k + 1]] of its word, where
// k = words[i] * bags + column.
struct TokenValues {
    const std::uint64_t* values;
    int singles;
    const std::int32_t* words;
    const std::int64_t* bag_starts;
    const std::uint64_t* bag_values;
    int bags;
};

// Return the value of a position outside the sequence, which depends on side and distance.
inline std::uint64_t beyond(int position, int length) {
    return position < 0 ? 0xB05B05B000000000ull - position : 0xE05E05E000000001ull + position - length;
}

class Extractor {
  public:
    // Scratch memory of one call, so that several threads can call `extract` at once.
    struct Scratch {
        std::vector<std::uint64_t> partial, product;
    };

  private:
    std::vector<Template> templates_;
    std::vector<Part> parts_;

    // Return the value of a part with a single value, or 0 if it has none.
    static std::uint64_t single(const TokenValues& t, size_t start, int length, int i, Part part) {
        const int at = i + part.offset;
        if (at < 0 || at >= length) return beyond(at, length);
        return t.values[(start + at) * t.singles + part.column];
    }

    // Extend each partial key by each value of a part.
    static void multiply(const TokenValues& t, size_t start, int length, int i, Part part,
                         Scratch& scratch) {
        scratch.product.clear();
        const int at = i + part.offset;
        if (part.column < t.singles || at < 0 || at >= length) {
            const std::uint64_t value =
                at < 0 || at >= length ? beyond(at, length) : single(t, start, length, i, part);
            if (value)
                for (std::uint64_t key : scratch.partial)
                    scratch.product.push_back(mix(key, value));
        } else {
            const size_t k = size_t(t.words[start + at]) * t.bags + (part.column - t.singles);
            for (std::uint64_t key : scratch.partial)
                for (std::int64_t v = t.bag_starts[k]; v < t.bag_starts[k + 1]; ++v)
                    scratch.product.push_back(mix(key, t.bag_values[v]));
        }
        scratch.partial.swap(scratch.product);
    }

  public:
    // Add a template.
    void add(std::uint64_t seed, const std::vector<Part>& parts) {
        const int first = int(parts_.size());
        parts_.insert(parts_.end(), parts.begin(), parts.end());
        templates_.push_back(Template{seed, first, int(parts_.size())});
    }

    // Append the keys of token i of a sequence to `keys`. A template has no feature if one of its parts
    // has no value. i may lie outside.
    void extract_at(const TokenValues& t, size_t start, int length, int i, Scratch& scratch,
                    std::vector<std::uint64_t>& keys) const {
        for (const Template& form : templates_) {
            std::uint64_t key = form.seed;
            bool several = false, missing = false;
            for (int p = form.first; p < form.last; ++p) {
                const Part part = parts_[p];
                if (part.column >= t.singles) {
                    several = true;
                    break;
                }
                const std::uint64_t value = single(t, start, length, i, part);
                missing = missing || value == 0;
                key = mix(key, value);
            }
            if (several) {
                scratch.partial.assign(1, form.seed);
                for (int p = form.first; p < form.last; ++p)
                    multiply(t, start, length, i, parts_[p], scratch);
                for (std::uint64_t k : scratch.partial) keys.push_back(k);
            } else if (!missing) {
                keys.push_back(key);
            }
        }
    }

    // Append the keys of each token to `keys` and their end to `ends`, see `extract_at`.
    void extract(const TokenValues& t, const std::int32_t* lengths, int batch,
                 std::vector<std::uint64_t>& keys, std::vector<std::int64_t>& ends) const {
        Scratch scratch;
        size_t start = 0;
        for (int b = 0; b < batch; ++b) {
            for (int i = 0; i < lengths[b]; ++i) {
                extract_at(t, start, lengths[b], i, scratch, keys);
                ends.push_back(std::int64_t(keys.size()));
            }
            start += lengths[b];
        }
    }
};

}  // namespace bcrf
