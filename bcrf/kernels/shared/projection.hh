// Iterative Bregman projections (Corro et al. 2025, Algorithm 1) at one inner token: the formulas
// that the CPU and the CUDA kernels share.
//
// A projection at a token multiplies all arcs into a tag by one number, and all arcs out of the tag
// by another. The iterate is therefore q[i, u, v] = K[u, v] g[i, u] f[i+1, v], with K = exp(w), and
// the kernels store only the factors f and g. Let in[v] = sum_u K[u, v] g[i-1, u] and
// out[v] = sum_x K[v, x] f[i+1, x], and let e = exp(unary). The projected factors are
// f ~ sqrt(e out / in) and g ~ sqrt(e in / out), so f g = e up to a scale.
//
// Over-relaxation. f in and g out are the masses m and n of the arcs into and out of a tag. The plain
// projection makes both sqrt(m n). Multiplying f by A and g by B, where
// A / B = ((1 + excess) n + (1 - excess) m) / ((1 - excess) n + (1 + excess) m), goes beyond it by a
// bounded factor.
#ifndef BCRF_SHARED_PROJECTION_HH
#define BCRF_SHARED_PROJECTION_HH

#include "precision.hh"

namespace bcrf {
namespace projection {

#ifndef __CUDACC__
using std::sqrt;
#endif

// Multiply x by one side of A / B. V is R or a vector of R, in all functions.
template <class V, class R>
BCRF_SHARED void over_relax(V& x, const V& to, const V& from, R excess) {
    x *= (1 + excess) * to + (1 - excess) * from + R(ProjectionLimits::SMALL_MASS);
}

// Project the factors of one tag, up to the scales of the token and up to sqrt(square), by which the
// caller multiplies f and g. gap: |m - n|, the violation of the marginalization constraint before.
template <class V, class R>
BCRF_SHARED void project(const V& e, const V& in, const V& out, R excess, bool relaxed, V& f, V& g,
                         V& square, V& gap) {
    const R zero = 0;
    const V mass_in = f * in, mass_out = g * out, difference = mass_out - mass_in;
    gap = difference < zero ? -difference : difference;
    f = out;
    g = in;
    if (relaxed) {
        over_relax(f, mass_out, mass_in, excess);
        over_relax(g, mass_in, mass_out, excess);
    }
    // e is 0 for a forbidden tag, whose sums may be 0.
    const V forbidden = e > zero ? V{} : V{} + R(1);
    square = e / (f * g + forbidden);
}

// What the result has for each token and tag.
enum Unary {
    MEAN,      // the mean of the flows into and out of the tag: the gradient of B(w)
    OUTGOING,  // the flow out of the tag; at the last token, the flow in
    CHAIN,     // the tag's score in the Markov chain of the arcs
};

// Return the position of the first inner token that iteration k = 0, 1, ... projects. It projects
// every second token from there on: 2, 4, .. first, the odd clusters of the paper, which counts
// from 1.
BCRF_SHARED int first_position(int k) { return k % 2 ? 1 : 2; }

// Return a score of the Markov chain of the arcs, from the log of the tag's mass. A tag without mass has a huge score if
// transitions have scores such as -1e30. It would round the scores of the other tags.
BCRF_SHARED double chain_score(double score, double log_mass) {
    return log_mass > ProjectionLimits::LEAST_LOG_MASS || score < ProjectionLimits::HUGE_SCORE ? score : 0;
}

// The over-relaxation of one sequence, from iteration to iteration. Two iterations, one of each
// parity, are a sweep.
struct Relaxation {
    double omega = 1;    // of the next iteration; 1 is the plain projection
    double sweep = 0;    // the largest violation of the last sweep; 0 before the second sweep
    double latest = -1;  // the violation of the last iteration; negative before the third one

    // Update after iteration k = 0, 1, ..., whose largest violation is `found`. Return whether to
    // stop. relaxation: omega, or 0 to estimate it; tolerance: negative to run all iterations.
    BCRF_SHARED bool update(int k, double found, double relaxation, double tolerance) {
        if (k < 2) {
            // The first sweep is plain, because over-relaxation needs normalized arcs.
            if (k == 1 && relaxation != 0) omega = relaxation;
            return false;
        }
        const double largest = latest > found ? latest : found;
        if (latest >= 0 && largest <= tolerance) return true;
        if (k % 2) {
            if (relaxation == 0) estimate(largest / sweep);
            sweep = largest;
        }
        latest = found;
        return false;
    }

    // Set the best omega by Young's theorem, from the rate of convergence under the present one.
    BCRF_SHARED void estimate(double rate) {
        using Limits = ProjectionLimits;
        if (!(rate > 0 && rate < Limits::MOST_RATE)) return;
        const double root = rate + omega - 1, jacobi = root * root / (rate * omega * omega);
        omega = 2 / (1 + sqrt(1 - (jacobi < Limits::MOST_JACOBI ? jacobi : Limits::MOST_JACOBI)));
    }
};

}  // namespace projection
}  // namespace bcrf

#endif
