// Iterative Bregman projections with tokens of one parity in the lanes of vectors.
#pragma once

#include "../shared/projection.hh"
#include "bregman_options.hh"
#include "lanes.hh"
#include "matrices.hh"

namespace bcrf {
namespace BCRF_TARGET {

#if defined(__GNUC__)

// Sequences [first, last) of a list, projected together.
struct Cluster {
    size_t first, last, slots, tokens;
};

// More tags than bits of a mask, and rows fill their vectors well.
constexpr int MOST_LANE_TAGS = 63;

// A sequence of length L has L / 2 + 1 slots. Slot j has its tokens 2 j and 2 j + 1.
inline size_t slots_of(int length) { return size_t(length) / 2 + 1; }

// Move sequences of at least three tokens from `which` to clusters, where lanes are faster.
template <class R, class In>
std::vector<Cluster> cluster(const Batch<In>& batch, std::vector<Place>& which,
                             std::vector<Place>& moved) {
    constexpr size_t ENOUGH = 4 * lanes<R>;  // slots; the factors of so many fit the first cache
    constexpr double SHARE = 0.4;            // of the slots that a cluster must fill
    std::vector<Cluster> found;
    if (lanes<R> < 4 || batch.tags > MOST_LANE_TAGS) return found;
    std::vector<Place> rest;
    Cluster next{0, 0, 0, 0};
    const auto close = [&] {
        const size_t filled = (next.slots + lanes<R> - 1) / lanes<R> * lanes<R>;
        if (double(next.tokens) >= 2 * SHARE * double(filled)) {
            found.push_back(next);
        } else {
            rest.insert(rest.end(), moved.begin() + next.first, moved.end());
            moved.resize(next.first);
        }
        next = {moved.size(), moved.size(), 0, 0};
    };
    for (Place place : which) {
        const int length = batch.lengths[place.index];
        if (length < 3) {
            rest.push_back(place);
            continue;
        }
        moved.push_back(place);
        next.last = moved.size();
        next.slots += slots_of(length);
        next.tokens += length;
        if (next.slots + slots_of(length) > ENOUGH) close();
    }
    close();
    which = std::move(rest);
    return found;
}

// See Projections for the algorithm. Arrays are (tags, stride): a number for each slot and parity,
// between W numbers that no sequence has.
template <class R, class In> class LaneProjections {
    static constexpr int W = lanes<R>, STEPS = 8;
    using Limits = Precision<R>;
    const Batch<In>& batch_;
    const BregmanOptions& options_;
    const int tags_;
    const size_t longest_;  // slots
    const In* const end_;   // of the scores
    Matrices<R, In> matrices_;
    size_t slots_ = 0, stride_ = 0;
    Buffer<R> root_, f_, g_;              // (2, tags, stride): sqrt(e) and the factors, by parity
    Buffer<R> in_, out_;                  // (tags, W)
    Buffer<R> inner_, first_, last_;      // (2, slots): 1 for such tokens
    Buffer<R> excess_, bad_, ratio_;      // (2, slots)
    Buffer<R> from_, to_;                 // (STEPS, tags, W)
    Buffer<In> nothing_;                  // the scores of a slot without a token
    std::vector<size_t> token_[2];        // flat index of a slot's token
    std::vector<int> owner_[2];           // the sequence of a slot in the cluster, or -1
    std::vector<size_t> slot_;            // the first slot of each sequence
    std::vector<std::uint64_t> allowed_;  // tags after each tag, then tags before each tag
    std::vector<std::uint64_t> alive_;
    LanePairSums<R> pairs_;

    R* at(Buffer<R>& array, int parity, size_t slot) {
        return array + parity * tags_ * stride_ + W + slot;
    }
    R* flag(Buffer<R>& array, int parity, size_t slot = 0) { return array + parity * longest_ + slot; }

    // Assign slots to the tokens of n sequences.
    void place(const Place* places, size_t n) {
        slots_ = 0;
        slot_.resize(n);
        for (size_t q = 0; q < n; ++q) {
            slot_[q] = slots_;
            slots_ += slots_of(batch_.lengths[places[q].index]);
        }
        slots_ = (slots_ + W - 1) / W * W;
        stride_ = slots_ + 2 * W;
        for (int p = 0; p < 2; ++p) {
            token_[p].assign(slots_, 0);
            owner_[p].assign(slots_, -1);
            for (Buffer<R>* array : {&inner_, &first_, &last_, &bad_, &excess_})
                std::fill_n(flag(*array, p), slots_, R(0));
        }
        for (size_t q = 0; q < n; ++q) {
            const int length = batch_.lengths[places[q].index];
            for (int i = 0; i < length; ++i) {
                const size_t slot = slot_[q] + i / 2;
                token_[i % 2][slot] = places[q].first + i;
                owner_[i % 2][slot] = int(q);
                flag(inner_, i % 2)[slot] = R(i > 0 && i + 1 < length);
            }
            flag(first_, 0)[slot_[q]] = 1;
            flag(last_, (length - 1) % 2)[slot_[q] + (length - 1) / 2] = 1;
        }
    }

    // Set the rows of W slots in an array (N, tags).
    template <class X> void rows(X** out, X* array, int parity, size_t slot, X* none) {
        for (int k = 0; k < W; ++k)
            out[k] = owner_[parity][slot + k] < 0 ? none : array + token_[parity][slot + k] * tags_;
    }

    // Set sqrt(e) and the first factors. Add each token's maximum to its sequence's shift.
    void load(std::vector<double>& shift) {
        const R half = R(options_.scale / 2), inf = infinity<R>;
        for (int p = 0; p < 2; ++p)
            for (size_t j = 0; j < slots_; j += W) {
                const In* scores[W];
                rows<const In>(scores, batch_.unary, p, j, nothing_.data());
                R *root = at(root_, p, j), *f = at(f_, p, j), *g = at(g_, p, j);
                pack(root, stride_, scores, end_, tags_);
                Vec<R> top = broadcast<R>(std::numeric_limits<R>::lowest()), low = broadcast<R>(inf);
                for (int t = 0; t < tags_; ++t) {
                    const Vec<R> x = BCRF_TARGET::load(root + t * stride_);
                    top = max<R>(top, x);
                    low = x > -inf ? min<R>(low, x) : low;
                }
                R tops[W];
                store(tops, top);
                for (int k = 0; k < W; ++k)
                    if (owner_[p][j + k] >= 0) shift[owner_[p][j + k]] += double(tops[k]) * options_.scale;
                const Vec<R> range = R(matrices_.range()) + (top - low) * R(options_.scale);
                store(flag(bad_, p, j),
                      range <= R(Limits::MAX_RANGE) ? Vec<R>{} : broadcast<R>(1));
                const Vec<R> first = BCRF_TARGET::load(flag(first_, p, j));
                const Vec<R> last = BCRF_TARGET::load(flag(last_, p, j));
                for (int t = 0; t < tags_; ++t) {
                    const size_t at = t * stride_;
                    const Vec<R> x = exponential((BCRF_TARGET::load(root + at) - top) * half);
                    store(root + at, x);
                    store(f + at, last > R(0) ? x * x : x);
                    store(g + at, first > R(0) ? x * x : x);
                }
            }
    }

    // Return the union of masks[t] over the tags of a set.
    static std::uint64_t join(std::uint64_t tags, const std::uint64_t* masks) {
        std::uint64_t found = 0;
        for (; tags; tags &= tags - 1) found |= masks[__builtin_ctzll(tags)];
        return found;
    }

    // Clear the tags that no allowed labeling of a sequence uses. Return false if a token has none
    // left.
    bool prune(Place place, size_t slot) {
        const int n = batch_.lengths[place.index];
        const In* unary = batch_.unary + place.first * tags_;
        const std::uint64_t *after = allowed_.data(), *before = after + tags_;
        alive_.resize(n);
        std::uint64_t last = 0, reached = 0;
        for (int i = 0; i < n; ++i) {
            std::uint64_t here = 0;
            for (int t = 0; t < tags_; ++t)
                here |= std::uint64_t(unary[size_t(i) * tags_ + t] > -infinity<In>) << t;
            if (i > 0) {
                if (i == 1 || alive_[i - 1] != last) reached = join(last = alive_[i - 1], after);
                here &= reached;
            }
            alive_[i] = here;
        }
        for (int i = n - 1; i >= 0; --i) {
            if (i + 1 < n) {
                if (i + 2 == n || alive_[i + 1] != last) reached = join(last = alive_[i + 1], before);
                alive_[i] &= reached;
            }
            if (!alive_[i]) return false;
            const size_t j = slot + i / 2;
            R *root = at(root_, i % 2, j), *f = at(f_, i % 2, j), *g = at(g_, i % 2, j);
            const std::uint64_t all = (std::uint64_t(1) << tags_) - 1;
            for (std::uint64_t dead = all & ~alive_[i]; dead; dead &= dead - 1) {
                const size_t t = __builtin_ctzll(dead) * stride_;
                root[t] = f[t] = g[t] = 0;
            }
        }
        return true;
    }

    // Set in and out of W slots, like Projections::sums.
    void sums(int p, size_t j) {
        const R *before = at(g_, 1 - p, j) - (p == 0), *after = at(f_, 1 - p, j) + (p == 1);
        const int width = matrices_.width();
        lane_product<SumProduct>(in_.data(), W, before, stride_, matrices_.rows(0), tags_, width);
        lane_product<SumProduct>(out_.data(), W, after, stride_, matrices_.columns(0), tags_, width);
    }

    // Project the inner tokens among W slots. Return the violations, if WATCHED.
    template <bool RELAXED, bool WATCHED> Vec<R> project(int p, size_t j, Vec<R> excess) {
        sums(p, j);
        const R zero = 0;
        const Vec<R> inner = BCRF_TARGET::load(flag(inner_, p, j)), one = broadcast<R>(1);
        const Vec<R> more = one + excess, less = one - excess;
        R *f = at(f_, p, j), *g = at(g_, p, j);
        const R* root = at(root_, p, j);
        Vec<R> sum_in{}, sum_out{}, violation{};
        for (int t = 0; t < tags_; ++t) {
            const Vec<R> iv = BCRF_TARGET::load(in_ + t * W), ov = BCRF_TARGET::load(out_ + t * W);
            const Vec<R> e = BCRF_TARGET::load(root + t * stride_);
            Vec<R> fv = ov, gv = iv;
            if (RELAXED || WATCHED) {
                const Vec<R> m = BCRF_TARGET::load(f + t * stride_) * iv;
                const Vec<R> n = BCRF_TARGET::load(g + t * stride_) * ov;
                if (RELAXED) {
                    fv *= more * n + less * m + R(projection::SMALL_MASS);
                    gv *= less * n + more * m + R(projection::SMALL_MASS);
                }
                if (WATCHED) violation += m > n ? m - n : n - m;
            }
            // A forbidden tag may have sums of 0.
            const Vec<R> forbidden = e > zero ? Vec<R>{} : one;
            const Vec<R> h = e * inverse_square_root(fv * gv + forbidden);
            fv *= h, gv *= h;
            sum_in += fv * iv;
            sum_out += gv * ov;
            store(in_ + t * W, fv);
            store(out_ + t * W, gv);
        }
        const Vec<R> to_f = one / sum_in, to_g = one / sum_out;
        for (int t = 0; t < tags_; ++t) {
            const size_t at = t * stride_;
            const Vec<R> fv = BCRF_TARGET::load(in_ + t * W) * to_f;
            const Vec<R> gv = BCRF_TARGET::load(out_ + t * W) * to_g;
            store(f + at, inner > zero ? fv : BCRF_TARGET::load(f + at));
            store(g + at, inner > zero ? gv : BCRF_TARGET::load(g + at));
        }
        return inner > zero ? violation : Vec<R>{};
    }

    template <bool RELAXED, bool WATCHED> void project_all(int p, R excess) {
        for (size_t j = 0; j < slots_; j += W) {
            if (maximum<R>(BCRF_TARGET::load(flag(inner_, p, j))) == 0) continue;
            const Vec<R> by = WATCHED ? BCRF_TARGET::load(flag(excess_, p, j)) : broadcast(excess);
            const Vec<R> violation = project<RELAXED, WATCHED>(p, j, by);
            if (WATCHED) store(flag(ratio_, p, j), violation);
        }
    }

    void iterate(const Place* places, size_t n) {
        if (!options_.needs_violation()) {
            const R excess = R(options_.relaxation - 1);
            for (int k = 0; k < options_.n_iter; ++k) {
                check_signals();
                const int p = projection::first_position(k) % 2;
                if (k > 1 && excess != 0) project_all<true, false>(p, excess);
                else project_all<false, false>(p, 0);
            }
            return;
        }
        std::vector<projection::Relaxation> relaxation(n);
        size_t running = n;
        std::vector<char> stopped(n);
        for (int k = 0; k < options_.n_iter && running; ++k) {
            check_signals();
            const int p = projection::first_position(k) % 2;
            if (k > 1) project_all<true, true>(p, 0);
            else project_all<false, false>(p, 0);
            for (size_t q = 0; q < n; ++q) {
                if (stopped[q]) continue;
                const size_t from = slot_[q], size = slots_of(batch_.lengths[places[q].index]);
                R violation = 0;
                for (size_t j = from; j < from + size; ++j)
                    if (flag(inner_, p)[j] > 0) violation = std::max(violation, flag(ratio_, p)[j]);
                if (relaxation[q].update(k, k > 1 ? violation : R(0), options_.relaxation, options_.tolerance)) {
                    stopped[q] = 1;
                    --running;
                }
                for (int parity = 0; parity < 2; ++parity) {
                    std::fill_n(flag(excess_, parity, from), size, R(relaxation[q].omega - 1));
                    if (stopped[q]) std::fill_n(flag(inner_, parity, from), size, R(0));
                }
            }
        }
    }

    // Write the tag marginals. Set the ratio of f g to e, and bad for tokens that R has lost.
    void finish(In* node) {
        const R zero = 0, low = 1 / Limits::MAX_FACTOR, high = Limits::MAX_FACTOR;
        const Vec<R> one = broadcast<R>(1);
        const R mean = options_.unary == projection::MEAN ? R(0.5) : R(0);
        for (int p = 0; p < 2; ++p)
            for (size_t j = 0; j < slots_; j += W) {
                sums(p, j);
                const Vec<R> first = BCRF_TARGET::load(flag(first_, p, j));
                const Vec<R> last = BCRF_TARGET::load(flag(last_, p, j));
                const R *root = at(root_, p, j), *f = at(f_, p, j), *g = at(g_, p, j);
                Vec<R> of_factors{}, of_scores{}, bad = BCRF_TARGET::load(flag(bad_, p, j));
                for (int t = 0; t < tags_; ++t) {
                    const Vec<R> fv = BCRF_TARGET::load(f + t * stride_);
                    const Vec<R> gv = BCRF_TARGET::load(g + t * stride_);
                    const Vec<R> x = BCRF_TARGET::load(root + t * stride_);
                    const Vec<R> m = fv * BCRF_TARGET::load(in_ + t * W);
                    const Vec<R> n = gv * BCRF_TARGET::load(out_ + t * W);
                    const Vec<R> flow = last > zero ? m : n, other = first > zero ? n : m;
                    store(out_ + t * W, flow + (other - flow) * mean);
                    of_factors += fv * gv;
                    of_scores += x * x;
                    const Vec<R> least = min<R>(fv, gv), most = max<R>(fv, gv);
                    const Vec<R> held = least > low ? (most < high ? one : Vec<R>{}) : Vec<R>{};
                    bad += x > zero ? one - held : Vec<R>{};
                }
                const Vec<R> edge = first + last;
                store(flag(ratio_, p, j), of_factors / of_scores);
                // The factors of the ends are scores, whose range `load` has checked.
                store(flag(bad_, p, j), edge > zero ? BCRF_TARGET::load(flag(bad_, p, j)) : bad);
                In* marginals[W];
                rows<In>(marginals, node, p, j, nullptr);
                unpack(marginals, out_.data(), W, tags_);
            }
    }

    // Add the arcs out of all tokens that have a successor and are not bad.
    void add_arcs(double* sum) {
        const R zero = 0;
        int filled = 0;
        const size_t row = size_t(tags_) * W;
        const auto add = [&] {
            pairs_.add(from_.data(), to_.data(), filled, row, matrices_.rows(0), sum);
            filled = 0;
        };
        for (int p = 0; p < 2; ++p)
            for (size_t j = 0; j < slots_; j += W) {
                const R *g = at(g_, p, j), *f = at(f_, 1 - p, j) + (p == 1);
                const Vec<R> used = BCRF_TARGET::load(flag(excess_, p, j));
                R *from = from_ + filled * row, *to = to_ + filled * row;
                for (int t = 0; t < tags_; ++t) {
                    const Vec<R> gv = BCRF_TARGET::load(g + t * stride_);
                    const Vec<R> fv = BCRF_TARGET::load(f + t * stride_);
                    store(from + t * W, used > zero ? gv : Vec<R>{});
                    store(to + t * W, used > zero ? fv : Vec<R>{});
                }
                if (++filled == STEPS) add();
            }
        add();
    }

  public:
    LaneProjections(const Batch<In>& batch, const BregmanOptions& options, const In* end, size_t slots)
        : batch_(batch), options_(options), tags_(batch.tags),
          longest_((slots + W - 1) / W * W), end_(end), matrices_(batch, 1, options.scale),
          root_(2 * (longest_ + 2 * W) * tags_), f_(2 * (longest_ + 2 * W) * tags_),
          g_(2 * (longest_ + 2 * W) * tags_), in_(size_t(tags_) * W), out_(size_t(tags_) * W),
          inner_(2 * longest_), first_(2 * longest_), last_(2 * longest_), excess_(2 * longest_),
          bad_(2 * longest_), ratio_(2 * longest_), from_(size_t(STEPS) * tags_ * W),
          to_(size_t(STEPS) * tags_ * W), nothing_(tags_), allowed_(2 * size_t(tags_)),
          pairs_(tags_, matrices_.width()) {
        for (int u = 0; u < tags_; ++u)
            for (int v = 0; v < tags_; ++v)
                if (matrices_.rows(0)[size_t(u) * matrices_.width() + v] > 0) {
                    allowed_[u] |= std::uint64_t(1) << v;
                    allowed_[tags_ + v] |= std::uint64_t(1) << u;
                }
    }

    // Set failed[b] for the sequences that need more range than R has.
    void run(const Place* places, size_t n, In* value, In* node, double* sum, char* failed) {
        place(places, n);
        std::vector<double> shift(n);
        load(shift);
        size_t left = 0;
        for (size_t q = 0; q < n; ++q) {
            char& lost = failed[places[q].index];
            const int length = batch_.lengths[places[q].index];
            for (int i = 0; i < length; ++i) lost |= flag(bad_, i % 2)[slot_[q] + i / 2] > 0;
            if (!lost && matrices_.zeros()) lost = !prune(places[q], slot_[q]);
            left += !lost;
        }
        if (left == 0) return;
        iterate(places, n);
        finish(node);
        for (size_t q = 0; q < n; ++q) {
            const int b = places[q].index, length = batch_.lengths[b];
            LogProduct total;
            total.add(shift[q] + matrices_.shift(0) * (length - 1));
            for (int i = 0; i < length; ++i) {
                const size_t j = slot_[q] + i / 2;
                failed[b] |= flag(bad_, i % 2)[j] > 0;
                if (i > 0 && i + 1 < length) total.multiply(1 / double(flag(ratio_, i % 2)[j]));
            }
            value[b] = In(total.log());
            for (int i = 0; i < length; ++i)
                flag(excess_, i % 2)[slot_[q] + i / 2] = R(i + 1 < length && !failed[b]);
        }
        if (sum) {
            for (int p = 0; p < 2; ++p)
                for (size_t j = 0; j < slots_; ++j)
                    if (owner_[p][j] < 0) flag(excess_, p)[j] = 0;
            add_arcs(sum);
        }
    }

    void flush(double* sum) { pairs_.flush(matrices_.rows(0), sum); }
};

#endif

}  // namespace BCRF_TARGET
}  // namespace bcrf
