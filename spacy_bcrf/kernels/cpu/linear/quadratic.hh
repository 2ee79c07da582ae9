// The quadratic program of MIRA, by Hildreth's algorithm.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace bcrf {

// min |w|^2 / 2 under w . -f_k >= violation_k, for a few sparse f_k: coordinate ascent in the
// multipliers, each kept within [0, most].
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

    void begin(double violation) {
        differences_.emplace_back();
        violations_.push_back(violation);
    }

    void add(std::size_t weight, double by) { differences_.back().emplace_back(weight, by); }

    // A weight may be named several times: those are summed.
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

    const std::vector<double>& solve(double most, int sweeps = 100) {
        const std::size_t n = differences_.size();
        gram_.resize(n * n);
        for (std::size_t a = 0; a < n; ++a)
            for (std::size_t b = 0; b <= a; ++b)
                gram_[a * n + b] = gram_[b * n + a] = dot(differences_[a], differences_[b]);
        steps_.assign(n, 0);
        for (int sweep = 0; sweep < sweeps; ++sweep) {
            double moved = 0;
            for (std::size_t k = 0; k < n; ++k) {
                if (gram_[k * n + k] <= 0) continue;
                double rest = violations_[k];
                for (std::size_t j = 0; j < n; ++j) rest -= gram_[k * n + j] * steps_[j];
                double step = steps_[k] + rest / gram_[k * n + k];
                step = step < 0 ? 0 : step > most ? most : step;
                const double by = step - steps_[k];
                moved = std::max(moved, by < 0 ? -by : by);
                steps_[k] = step;
            }
            if (moved < 1e-9) break;
        }
        return steps_;
    }
};

}  // namespace bcrf
