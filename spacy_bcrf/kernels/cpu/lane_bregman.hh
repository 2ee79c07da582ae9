// Iterative Bregman projections with tokens of one parity in the lanes of vectors.
#pragma once

#include "../shared/projection.hh"
#include "bregman_options.hh"
#include "scaled.hh"

namespace bcrf {
namespace BCRF_TARGET {

// The Markov chain of the arcs, which the lower bound needs.
template <class In> struct ArcChain {
    In* scores;               // (N, tags), see projection::CHAIN
    In* log_flow;             // (N, tags): the logarithm of the flow out of each tag. The last token has none.
    std::vector<char> found;  // (size): whether a sequence has its chain
};

#if defined(__GNUC__)

// A set of tags, one bit for each.
#if defined(__SIZEOF_INT128__)
__extension__ typedef unsigned __int128 TagSet;
#else
typedef std::uint64_t TagSet;
#endif

// Return the lowest tag of a set.
inline int lowest(TagSet tags) {
    const std::uint64_t low = std::uint64_t(tags);
    return low ? lowest_bit(low) : 64 + lowest_bit(std::uint64_t(tags >> (sizeof(TagSet) * 4)));
}

// Consecutive tokens of a sequence: all of them, or a part of a long sequence and its neighbourhood.
struct Piece {
    int index;      // of the results
    size_t first;   // flat index of the first token
    int length;
    int from, to;   // the tokens whose results are exact
    const TagSet* alive = nullptr;  // see LiveTags; null to find them
};

// Pieces [first, last) of a list, projected together.
struct Cluster {
    size_t first, last, slots, tokens;
};

// A sequence of length L has L / 2 + 1 slots. Slot j has its tokens 2 j and 2 j + 1.
inline size_t slots_of(int length) { return size_t(length) / 2 + 1; }

// Tags on an allowed labeling.
class LiveTags {
    int tags_;
    bool has_forbidden_ = false;
    std::vector<TagSet> after_, before_;

    // Return the union of masks[t] over the tags of a set.
    static TagSet join(TagSet tags, const std::vector<TagSet>& masks) {
        TagSet found = 0;
        for (; tags; tags &= tags - 1) found |= masks[lowest(tags)];
        return found;
    }

  public:
    template <class In>
    explicit LiveTags(const Batch<In>& batch) : tags_(batch.tags), after_(tags_), before_(tags_) {
        const In* w = batch.transitions;
        for (int u = 0; u < tags_; ++u)
            for (int v = 0; v < tags_; ++v)
                if (*w++ > -infinity<In>) {
                    after_[u] |= TagSet(1) << v;
                    before_[v] |= TagSet(1) << u;
                } else {
                    has_forbidden_ = true;
                }
    }

    // Return whether a transition is forbidden.
    bool has_forbidden() const { return has_forbidden_; }

    // Find the tags of each of n tokens. Return false if a token has none.
    template <class In> bool find(const In* unary, int n, TagSet* alive) const {
        const TagSet all = (TagSet(1) << tags_) - 1;
        TagSet last = 0, reached = 0;
        for (int i = 0; i < n; ++i) {
            const In* scores = unary + size_t(i) * tags_;
            TagSet here = all;
            if (!(smallest(scores, tags_) > -infinity<In>)) {
                here = 0;
                for (int t = 0; t < tags_; ++t) here |= TagSet(scores[t] > -infinity<In>) << t;
            }
            if (i > 0) {
                if (i == 1 || alive[i - 1] != last) reached = join(last = alive[i - 1], after_);
                here &= reached;
            }
            alive[i] = here;
        }
        for (int i = n - 1; i >= 0; --i) {
            if (i + 1 < n) {
                if (i + 2 == n || alive[i + 1] != last) reached = join(last = alive[i + 1], before_);
                alive[i] &= reached;
            }
            if (!alive[i]) return false;
        }
        return true;
    }
};

// Cut a sequence of n tokens into pieces that stay in the cache, through all iterations. An iteration
// moves information to the next token, so the tokens in the middle of a piece have exact results.
// alive: of the sequence, see Piece.
inline std::vector<Piece> cut(Place place, int n, int n_iter, const TagSet* alive) {
    constexpr int LEAST = 512;
    const int border = std::min(n_iter, n) + 2;
    const int size = std::max(LEAST, border < n / 16 ? 16 * border : n);
    std::vector<Piece> pieces;
    for (int from = 0, to; from < n; from = to) {
        to = n - from < 2 * size ? n : from + size;
        // An even start keeps the parities.
        const int start = std::max(from - border, 0) / 2 * 2, stop = std::min(to + border, n);
        pieces.push_back({int(pieces.size()), place.first + start, stop - start, from - start, to - start,
                          alive ? alive + start : nullptr});
    }
    return pieces;
}

// Return whether lanes may be faster than rows. Plain numbers in rows fill their vectors well with many tags,
// but have no blocks of transitions.
template <class N, class In> bool are_lanes_faster(const Batch<In>& batch) {
    if (lanes<typename N::R> < 2 || batch.tags >= int(sizeof(TagSet) * 8)) return false;
    if (N::PARTS == 2 || are_blocks_faster(batch)) return true;
    return lanes<typename N::R> >= 4 && batch.tags < 64;
}

// Move sequences of at least three tokens from `which` to clusters that fill at least a share of
// their slots.
template <class N, class In>
std::vector<Cluster> cluster(const Batch<In>& batch, double share, std::vector<Place>& which,
                             std::vector<Piece>& moved) {
    using R = typename N::R;
    constexpr size_t ENOUGH = 4 * lanes<R>;  // slots; the factors of so many fit the first cache
    std::vector<Cluster> found;
    if (!are_lanes_faster<N>(batch)) return found;
    const bool any_tokens = share == 0 || are_blocks_faster(batch);
    std::vector<Place> rest;
    Cluster next{0, 0, 0, 0};
    const auto close = [&] {
        const size_t filled = (next.slots + lanes<R> - 1) / lanes<R> * lanes<R>;
        // The sums of all pairs take a time of their own, which few tokens do not pay back.
        const bool enough = any_tokens || next.tokens * 24 >= size_t(batch.tags) * batch.tags;
        if (next.tokens && enough && double(next.tokens) >= 2 * share * double(filled)) {
            found.push_back(next);
        } else {
            for (size_t i = next.first; i < moved.size(); ++i) rest.push_back({moved[i].index, moved[i].first});
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
        moved.push_back({place.index, place.first, length, 0, length});
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
// N: the arithmetic.
template <class N, class In> class LaneProjections {
    using R = typename N::R;
    using Value = typename N::Value;
    static constexpr int W = lanes<R>, STEPS = 8;
    const Batch<In>& batch_;
    const BregmanOptions& options_;
    const int tags_;
    const size_t longest_;  // slots
    const In* const end_;   // of the scores
    typename N::template Kernel<In> matrices_;
    const size_t part_, row_part_, copy_part_;  // sizes of the parts of large arrays, rows, copies
    size_t slots_ = 0, stride_ = 0;
    Buffer<R> root_, f_, g_;              // (2, tags, stride): sqrt(e) and the factors, by parity
    Buffer<R> in_, out_;                  // (tags, W)
    Buffer<R> scratch_;                   // of two N::Total
    Buffer<R> scores_, log_flow_;         // (tags, W), see ArcChain
    Buffer<R> inner_, first_, last_;      // (2, slots): 1 for such tokens
    Buffer<R> arc_;                       // (2, slots): 1 for tokens with a successor
    Buffer<R> excess_, bad_;              // (2, slots)
    Buffer<R> ratio_, exponent_;          // (2, slots): e / (f g), the scale that the factors leave out
    Buffer<R> from_, to_;                 // (STEPS, tags, W)
    Buffer<In> nothing_;                  // the scores of a slot without a token
    std::vector<size_t> token_[2];        // flat index of a slot's token
    std::vector<int> owner_[2];           // the piece of a slot in the cluster, or -1
    std::vector<char> exact_[2];          // whether the piece has the token's result
    std::vector<size_t> slot_;            // the first slot of each piece
    std::vector<char> busy_[2];           // whether W slots have inner tokens
    const LiveTags live_tags_;
    std::vector<TagSet> alive_;
    PairSumsOf<N> pairs_;

    R* at(Buffer<R>& array, int parity, size_t slot) {
        return array + parity * tags_ * stride_ + W + slot;
    }
    R* flag(Buffer<R>& array, int parity, size_t slot = 0) { return array + parity * longest_ + slot; }

    // Assign slots to the tokens of n pieces.
    void place(const Piece* pieces, size_t n) {
        slots_ = 0;
        slot_.resize(n);
        for (size_t q = 0; q < n; ++q) {
            slot_[q] = slots_;
            slots_ += slots_of(pieces[q].length);
        }
        slots_ = (slots_ + W - 1) / W * W;
        stride_ = slots_ + 2 * W;
        for (int p = 0; p < 2; ++p) {
            token_[p].assign(slots_, 0);
            owner_[p].assign(slots_, -1);
            exact_[p].assign(slots_, 0);
            for (Buffer<R>* array : {&inner_, &first_, &last_, &arc_, &bad_, &excess_})
                std::fill_n(flag(*array, p), slots_, R(0));
        }
        for (size_t q = 0; q < n; ++q) {
            const int length = pieces[q].length;
            for (int i = 0; i < length; ++i) {
                const size_t slot = slot_[q] + i / 2;
                const bool exact = pieces[q].from <= i && i < pieces[q].to;
                token_[i % 2][slot] = pieces[q].first + i;
                owner_[i % 2][slot] = int(q);
                exact_[i % 2][slot] = exact;
                flag(inner_, i % 2)[slot] = R(i > 0 && i + 1 < length);
                flag(arc_, i % 2)[slot] = R(exact && i + 1 < length);
            }
            flag(first_, 0)[slot_[q]] = 1;
            flag(last_, (length - 1) % 2)[slot_[q] + (length - 1) / 2] = 1;
        }
        find_busy();
    }

    void find_busy() {
        for (int p = 0; p < 2; ++p) {
            busy_[p].resize(slots_ / W);
            for (size_t j = 0; j < slots_; j += W)
                busy_[p][j / W] = maximum<R>(BCRF_TARGET::load(flag(inner_, p, j))) > 0;
        }
    }

    bool is_any_bad() {
        Vec<R> most{};
        for (int p = 0; p < 2; ++p)
            for (size_t j = 0; j < slots_; j += W)
                most = max<R>(most, BCRF_TARGET::load(flag(bad_, p, j)));
        return maximum<R>(most) > 0;
    }

    bool is_bad(size_t slot, const Piece& piece) {
        bool found = false;
        for (int i = piece.from; i < piece.to; ++i) found |= flag(bad_, i % 2)[slot + i / 2] > 0;
        return found;
    }

    // Set sqrt(e) and the first factors. Add the maximum of each token of the results to its shift.
    void load(std::vector<double>& shift) {
        const R inf = infinity<R>;
        for (int p = 0; p < 2; ++p)
            for (size_t j = 0; j < slots_; j += W) {
                const In* scores[W];
                for (int k = 0; k < W; ++k)
                    scores[k] = owner_[p][j + k] < 0 ? nothing_.data() : batch_.unary + token_[p][j + k] * tags_;
                R *root = at(root_, p, j), *f = at(f_, p, j), *g = at(g_, p, j);
                pack(root, stride_, scores, end_, tags_);
                Vec<R> top = broadcast<R>(std::numeric_limits<R>::lowest()), low = broadcast<R>(inf);
                for (int t = 0; t < tags_; ++t) {
                    const Vec<R> x = BCRF_TARGET::load(root + t * stride_);
                    top = max<R>(top, x);
                    low = x > -inf ? min<R>(low, x) : low;
                    // NaN is not a forbidden tag.
                    low = x < inf ? low : broadcast(-inf);
                }
                R tops[W];
                store(tops, top);
                for (int k = 0; k < W; ++k)
                    if (exact_[p][j + k]) shift[owner_[p][j + k]] += double(tops[k]) * options_.scale;
                const Vec<R> range = R(matrices_.range()) + (top - low) * R(options_.scale);
                // A token without an allowed tag has no range.
                const Vec<R> one = broadcast<R>(1);
                const Vec<R> none = top > broadcast<R>(std::numeric_limits<R>::lowest()) ? Vec<R>{} : one;
                store(flag(bad_, p, j), range <= R(N::MAX_RANGE) ? none : one);
                const Vec<R> first = BCRF_TARGET::load(flag(first_, p, j));
                const Vec<R> last = BCRF_TARGET::load(flag(last_, p, j));
                for (int t = 0; t < tags_; ++t) {
                    const size_t at = t * stride_;
                    const Value x = N::exponential(BCRF_TARGET::load(root + at), top, options_.scale / 2);
                    const Value square = N::times(x, x);
                    N::store(root + at, part_, x);
                    N::store(f + at, part_, N::select(last, square, x));
                    N::store(g + at, part_, N::select(first, square, x));
                }
            }
    }

    // Clear the tags that no allowed labeling of the sequence uses. Return false if a token has none left.
    bool prune(const Piece& piece, size_t slot) {
        const TagSet* alive = piece.alive;
        if (!alive) {
            alive_.resize(piece.length);
            if (!live_tags_.find(batch_.unary + piece.first * tags_, piece.length, alive_.data())) return false;
            alive = alive_.data();
        }
        const TagSet all = (TagSet(1) << tags_) - 1;
        for (int i = 0; i < piece.length; ++i) {
            const size_t j = slot + i / 2;
            R *root = at(root_, i % 2, j), *f = at(f_, i % 2, j), *g = at(g_, i % 2, j);
            for (TagSet dead = all & ~alive[i]; dead; dead &= dead - 1) {
                const size_t t = lowest(dead) * stride_;
                N::clear(root + t, part_), N::clear(f + t, part_), N::clear(g + t, part_);
            }
        }
        return true;
    }

    // Set in and out of W slots, like Projections::sums.
    void sums(int p, size_t j) {
        const R *before = at(g_, 1 - p, j) - (p == 0), *after = at(f_, 1 - p, j) + (p == 1);
        N::product(in_.data(), W, row_part_, before, stride_, part_, matrices_, false);
        N::product(out_.data(), W, row_part_, after, stride_, part_, matrices_, true);
    }

    // Project the inner tokens among W slots. Return the violations, if WATCHED.
    template <bool RELAXED, bool WATCHED> Vec<R> project(int p, size_t j, Vec<R> excess) {
        sums(p, j);
        const R zero = 0;
        const Vec<R> inner = BCRF_TARGET::load(flag(inner_, p, j)), one = broadcast<R>(1);
        const Vec<R> more = one + excess, less = one - excess;
        R *f = at(f_, p, j), *g = at(g_, p, j);
        const R* root = at(root_, p, j);
        typename N::Total sum_in(scratch_), sum_out(scratch_ + 2 * row_part_);
        Vec<R> violation{};
        for (int t = 0; t < tags_; ++t) {
            const Value iv = N::load(in_ + t * W, row_part_), ov = N::load(out_ + t * W, row_part_);
            const Value e = N::load(root + t * stride_, part_);
            Value fv = ov, gv = iv;
            if (RELAXED || WATCHED) {
                const Vec<R> m = N::plain(N::times(N::load(f + t * stride_, part_), iv));
                const Vec<R> n = N::plain(N::times(N::load(g + t * stride_, part_), ov));
                if (RELAXED) {
                    fv = N::times(fv, more * n + less * m + R(projection::SMALL_MASS));
                    gv = N::times(gv, less * n + more * m + R(projection::SMALL_MASS));
                }
                if (WATCHED) violation += m > n ? m - n : n - m;
            }
            // A forbidden tag may have sums of 0.
            const Value square = N::select(N::mantissa(e), N::times(fv, gv), N::one());
            const Value h = N::times(e, N::inverse_root(square));
            fv = N::times(fv, h);
            gv = N::times(gv, h);
            sum_in.add(N::times(fv, iv));
            if (RELAXED) sum_out.add(N::times(gv, ov));
            N::store(in_ + t * W, row_part_, fv);
            N::store(out_ + t * W, row_part_, gv);
        }
        // Without relaxation, a tag has as many arcs in as out.
        const Value to_f = N::inverse(sum_in.get()), to_g = RELAXED ? N::inverse(sum_out.get()) : to_f;
        for (int t = 0; t < tags_; ++t) {
            R *ft = f + t * stride_, *gt = g + t * stride_;
            const Value fv = N::times(N::load(in_ + t * W, row_part_), to_f);
            const Value gv = N::times(N::load(out_ + t * W, row_part_), to_g);
            N::store(ft, part_, N::select(inner, fv, N::load(ft, part_)));
            N::store(gt, part_, N::select(inner, gv, N::load(gt, part_)));
        }
        return inner > zero ? violation : Vec<R>{};
    }

    template <bool RELAXED, bool WATCHED> void project_all(int p, R excess) {
        for (size_t j = 0; j < slots_; j += W) {
            if (!busy_[p][j / W]) continue;
            const Vec<R> by = WATCHED ? BCRF_TARGET::load(flag(excess_, p, j)) : broadcast(excess);
            const Vec<R> violation = project<RELAXED, WATCHED>(p, j, by);
            if (WATCHED) store(flag(ratio_, p, j), violation);
        }
    }

    void iterate(const Piece* pieces, size_t n) {
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
            const size_t before = running;
            check_signals();
            const int p = projection::first_position(k) % 2;
            if (k > 1) project_all<true, true>(p, 0);
            else project_all<false, false>(p, 0);
            for (size_t q = 0; q < n; ++q) {
                if (stopped[q]) continue;
                const size_t from = slot_[q], size = slots_of(pieces[q].length);
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
            if (running < before) find_busy();
        }
    }

    // Set the scores of W tokens in the chain of the arcs, and the log of their flow out. Return 1 for tokens of
    // which R has lost a tag.
    Vec<R> chain_scores(int p, size_t j, Vec<R> first, Vec<R> last) {
        const Vec<R> none{}, one = broadcast<R>(1), shift = broadcast(R(matrices_.shift(0)));
        const R *root = at(root_, p, j), *f = at(f_, p, j), *g = at(g_, p, j);
        Vec<R> lost{};
        for (int t = 0; t < tags_; ++t) {
            const Vec<R> live = N::mantissa(N::load(root + t * stride_, part_)) > none ? one : none;
            const Value fv = N::select(live, N::load(f + t * stride_, part_), N::one());
            const Value gv = N::select(live, N::load(g + t * stride_, part_), N::one());
            const Value out = N::load(out_ + t * W, row_part_);
            // The last token has no arcs out.
            const Vec<R> held = N::valid(out) + last, used = held > none ? live - last : none;
            const Value ov = N::select(used, out, N::one());
            lost += held > none ? none : live;
            // g / flow out is 1 / out.
            const Value x = N::select(first, gv, fv), y = N::select(first, N::one(), ov);
            const Vec<R> score = N::log_ratio(x, y) - (last > none ? none : shift);
            store(scores_ + t * W, live > none ? score : broadcast(-infinity<R>));
            store(log_flow_ + t * W, used > none ? N::log_product(gv, ov) : none);
        }
        return lost;
    }

    // Write the tag marginals or the scores of the chain. Set the ratio of f g to e, and bad for tokens that R
    // has lost. chain: may be null.
    void finish(In* node, ArcChain<In>* chain) {
        const R zero = 0;
        const Vec<R> one = broadcast<R>(1);
        const R mean = options_.unary == projection::MEAN ? R(0.5) : R(0);
        const bool is_chain = options_.unary == projection::CHAIN;
        for (int p = 0; p < 2; ++p)
            for (size_t j = 0; j < slots_; j += W) {
                sums(p, j);
                const Vec<R> first = BCRF_TARGET::load(flag(first_, p, j));
                const Vec<R> last = BCRF_TARGET::load(flag(last_, p, j));
                const R *root = at(root_, p, j), *f = at(f_, p, j), *g = at(g_, p, j);
                typename N::Ratio ratio(scratch_, scratch_ + 2 * row_part_);  // of scores and factors
                // The factors of the ends are scores, whose range `load` has checked.
                const Vec<R> inner = first + last > zero ? Vec<R>{} : one;
                Vec<R> bad = BCRF_TARGET::load(flag(bad_, p, j));
                if (is_chain || chain) bad += chain_scores(p, j, first, last);
                for (int t = 0; t < tags_; ++t) {
                    const Value fv = N::load(f + t * stride_, part_), gv = N::load(g + t * stride_, part_);
                    const Value x = N::load(root + t * stride_, part_);
                    const Vec<R> m = N::plain(N::times(fv, N::load(in_ + t * W, row_part_)));
                    const Vec<R> n = N::plain(N::times(gv, N::load(out_ + t * W, row_part_)));
                    const Vec<R> flow = last > zero ? m : n, other = first > zero ? n : m;
                    ratio.add(N::times(x, x), fv, gv, m + n);
                    bad += N::mantissa(x) > zero ? inner - inner * N::held(fv, gv) : Vec<R>{};
                    BCRF_TARGET::store(out_ + t * W, flow + (other - flow) * mean);
                }
                const Scaled<R> scale = ratio.get();
                store(flag(ratio_, p, j), scale.m);
                store(flag(exponent_, p, j), scale.e);
                store(flag(bad_, p, j), bad);
                write(p, j, is_chain ? scores_ : out_, node);
                if (chain) write(p, j, scores_, chain->scores), write(p, j, log_flow_, chain->log_flow);
            }
    }

    // Write the numbers (tags, W) of W tokens to an array (N, tags).
    void write(int p, size_t j, const R* numbers, In* array) {
        In* rows[W];
        for (int k = 0; k < W; ++k) rows[k] = exact_[p][j + k] ? array + token_[p][j + k] * tags_ : nullptr;
        unpack(rows, numbers, W, tags_);
    }

    // Add the arcs of all pieces that R has held.
    void add_arcs(double* sum) {
        int filled = 0;
        const size_t row = size_t(tags_) * W;
        const auto add = [&] {
            pairs_.add(from_.data(), to_.data(), copy_part_, filled, row, matrices_, sum);
            filled = 0;
        };
        for (int p = 0; p < 2; ++p)
            for (size_t j = 0; j < slots_; j += W) {
                const R *g = at(g_, p, j), *f = at(f_, 1 - p, j) + (p == 1);
                const Vec<R> used = BCRF_TARGET::load(flag(arc_, p, j));
                R *from = from_ + filled * row, *to = to_ + filled * row;
                for (int t = 0; t < tags_; ++t) {
                    const Value gv = N::load(g + t * stride_, part_), fv = N::load(f + t * stride_, part_);
                    N::store(from + t * W, copy_part_, N::select(used, gv, N::zero()));
                    N::store(to + t * W, copy_part_, N::select(used, fv, N::zero()));
                }
                if (++filled == STEPS) add();
            }
        add();
    }

  public:
    LaneProjections(const Batch<In>& batch, const BregmanOptions& options, const In* end, size_t slots)
        : batch_(batch), options_(options), tags_(batch.tags),
          longest_((slots + W - 1) / W * W), end_(end), matrices_(batch, 1, options.scale),
          part_(2 * (longest_ + 2 * W) * tags_), row_part_(size_t(tags_) * W),
          copy_part_(STEPS * row_part_), root_(N::PARTS * part_), f_(N::PARTS * part_),
          g_(N::PARTS * part_), in_(N::PARTS * row_part_), out_(N::PARTS * row_part_), scratch_(4 * row_part_),
          scores_(row_part_), log_flow_(row_part_),
          inner_(2 * longest_), first_(2 * longest_), last_(2 * longest_), arc_(2 * longest_),
          excess_(2 * longest_),
          bad_(2 * longest_), ratio_(2 * longest_), exponent_(2 * longest_),
          from_(N::PARTS * copy_part_), to_(N::PARTS * copy_part_), nothing_(tags_),
          live_tags_(batch), pairs_(matrices_) {}

    // Set failed[k] for the results k that need more range than R has. V: double or In. chain: may be null.
    template <class V>
    void run(const Piece* pieces, size_t n, V* value, In* node, ArcChain<In>* chain, double* sum, char* failed) {
        place(pieces, n);
        std::vector<double> shift(n);
        load(shift);
        size_t left = 0;
        bool any_bad = is_any_bad();
        for (size_t q = 0; q < n; ++q) {
            char& lost = failed[pieces[q].index];
            lost = any_bad && is_bad(slot_[q], pieces[q]);
            if (!lost && matrices_.zeros()) lost = !prune(pieces[q], slot_[q]);
            left += !lost;
        }
        if (left == 0) return;
        iterate(pieces, n);
        finish(node, chain);
        any_bad = is_any_bad();
        for (size_t q = 0; q < n; ++q) {
            const Piece& piece = pieces[q];
            LogProduct total;
            total.add(shift[q] + matrices_.shift(0) * (std::min(piece.to, piece.length - 1) - piece.from));
            for (int i = std::max(piece.from, 1); i < std::min(piece.to, piece.length - 1); ++i) {
                const size_t j = slot_[q] + i / 2;
                total.multiply(double(flag(ratio_, i % 2)[j]));
                total.add(double(flag(exponent_, i % 2)[j]) * LOG_2);
            }
            value[piece.index] = V(total.log());
            char& lost = failed[piece.index];
            lost |= any_bad && is_bad(slot_[q], piece);
            if (lost)
                for (int p = 0; p < 2; ++p) std::fill_n(flag(arc_, p, slot_[q]), slots_of(piece.length), R(0));
        }
        if (sum) add_arcs(sum);
    }

    void flush(double* sum) { pairs_.flush(matrices_, sum); }
};

#endif

}  // namespace BCRF_TARGET
}  // namespace bcrf
