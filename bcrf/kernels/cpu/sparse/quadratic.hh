// The quadratic program of MIRA, by Hildreth's algorithm.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "../features.hh"

namespace bcrf {

// Minimize |w|^2 / 2 under w . -f_k >= violation_k, for a few sparse vectors f_k.
class Quadratic {
    typedef std::vector<std::pair<std::size_t, double>> Sparse;
    std::vector<Sparse> differences_;
    std::vector<double> violations_, gram_, steps_;

    static double dot(const Sparse& a, const Sparse& b) {
        double sum = 0;
        for (auto i = a.begin(), j = b.begin(); i != a.end() && j != b.end();) {
            if (i->first < j->first)
                ++i;
            else if (j->first < i->first)
                ++j;
            else
                sum += i++->second * j++->second;
        }
        return sum;
    }

  public:
    void clear() {
        differences_.clear();
        violations_.clear();
    }

    // Start the next constraint.
    void begin(double violation) {
        differences_.emplace_back();
        violations_.push_back(violation);
    }

    // Add `by` to one component of its vector. A component may occur more than once.
    void add(std::size_t weight, double by) { differences_.back().emplace_back(weight, by); }

    // Complete the constraint: sort its components and sum duplicates.
    void end() {
        Sparse& f = differences_.back();
        std::sort(f.begin(), f.end());
        std::size_t n = 0;
        for (std::size_t i = 0; i < f.size(); ++i) {
            if (n && f[n - 1].first == f[i].first)
                f[n - 1].second += f[i].second;
            else
                f[n++] = f[i];
        }
        f.resize(n);
    }

    // Return the multipliers, each in [0, most].
    const std::vector<double>& solve(double most) {
        const std::size_t n = differences_.size();
        gram_.resize(n * n);
        for (std::size_t a = 0; a < n; ++a)
            for (std::size_t b = 0; b <= a; ++b)
                gram_[a * n + b] = gram_[b * n + a] = dot(differences_[a], differences_[b]);
        steps_.resize(n);
        hildreth(1, int(n), violations_.data(), gram_.data(), most, steps_.data());
        return steps_;
    }
};

}  // namespace bcrf
