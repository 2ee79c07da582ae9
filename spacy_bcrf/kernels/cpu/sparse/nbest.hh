// The n-best list of one sequence.
#pragma once

#include "../beam.hh"

namespace bcrf {
namespace BCRF_TARGET {

struct BestList {
    int found = 0;
    std::vector<int> tags;       // (n, length)
    std::vector<double> scores;  // (n), in descending order
};

inline double score_labeling(const Sequence<float>& s, const int* tags) {
    double score = 0;
    for (int i = 0; i < s.length; ++i) {
        score += s.unary[size_t(i) * s.tags + tags[i]];
        if (i) score += s.transitions[size_t(tags[i - 1]) * s.tags + tags[i]];
    }
    return score;
}

// Fill the list with the results of a search, NBest or Beam.
template <class Search>
void search_list(Search search, const Sequence<float>& s, int n, BestList& out) {
    out.found = std::min(n, search.run(s));
    out.tags.resize(size_t(n) * s.length);
    out.scores.resize(n);
    for (int k = 0; k < out.found; ++k) {
        out.scores[k] = search.score(k);
        std::copy_n(search.tags(k), s.length, out.tags.data() + size_t(k) * s.length);
    }
}

}  // namespace BCRF_TARGET
}  // namespace bcrf
