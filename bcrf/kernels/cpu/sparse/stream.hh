// Labelings of tokens that arrive in pieces.
//
// A tag is final when the best paths into all tags of the next token agree on it. Given the tag of the next
// token, what follows it no longer matters. So the posterior of an event among the tokens so far is between its
// smallest and its largest value given each tag of the next token. Backwards from such a tag, the tags are a
// Markov chain: that of backward sampling from the forward messages.
#pragma once

#include <cmath>
#include <deque>
#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

#include "templates.hh"

namespace bcrf {

// What features and labelings need of n tokens. hashes: of their words. values, bag_starts, bag_values: see
// TokenValues; token i is its own word. kinds: below KINDS. sizes: characters, without and with the blank behind.
struct StreamTokens {
    int singles = 0, bags = 0;
    std::vector<std::uint64_t> hashes, values, bag_values;
    std::vector<std::int64_t> bag_starts = {0};
    std::vector<int> numbers, kinds, sizes, widths;

    size_t size() const { return hashes.size(); }

    void add(const StreamTokens& other) {
        const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
        const std::int64_t base = bag_starts.back();
        for (size_t k = 1; k < other.bag_starts.size(); ++k) bag_starts.push_back(base + other.bag_starts[k]);
        append(hashes, other.hashes), append(values, other.values), append(bag_values, other.bag_values);
        append(kinds, other.kinds), append(sizes, other.sizes), append(widths, other.widths);
        while (numbers.size() < size()) numbers.push_back(int(numbers.size()));
    }

    // Keep the tokens [first, last) alone.
    void keep(size_t first, size_t last) {
        const auto cut = [](auto& all, size_t from, size_t to) {
            all.resize(to);
            all.erase(all.begin(), all.begin() + from);
        };
        const std::int64_t base = bag_starts[first * bags];
        cut(bag_values, base, bag_starts[last * bags]);
        cut(bag_starts, first * bags, last * bags + 1);
        for (std::int64_t& start : bag_starts) start -= base;
        cut(values, first * singles, last * singles);
        for (auto* each : {&kinds, &sizes, &widths}) cut(*each, first, last);
        cut(hashes, first, last);
    }

    TokenValues view() const {
        return {values.data(), singles, numbers.data(), bag_starts.data(), bag_values.data(), bags};
    }
};

// The same of all texts. Tokens are of KINDS, by which constraints differ.
struct StreamSpec {
    static constexpr int KINDS = 4;
    int chains, tags, outside;   // outside: the tag of no span, or -1
    bool in_float, posterior;    // in_float: whether the scores of paths are rounded to float
    double scale;                // of the scores in the posterior
    std::vector<double> edges;   // (KINDS, T, T) transitions to the next token, by the kind of the first
    std::vector<char> closed;    // (3, KINDS, C, T) whether a first, middle or last token cannot have a tag
    std::vector<char> starts;    // (T) whether a tag starts a span, or is that of no span
    std::vector<char> goes_on;   // (T) whether the span of a tag may go on
};

// Spans [start, end) of a chain whose first token has the tag `tag`.
struct StreamSpan {
    int chain;
    long long start, end;
    int tag;
};

class Stream {
    using Row = std::vector<double>;
    static constexpr double NEVER = -std::numeric_limits<double>::infinity();

    struct Token {
        int kind;
        long long start, end;        // characters
        Row before;                  // (C, T, T) the posterior of its tag, given the next tag, the second one
        std::vector<int> from, tag;  // (C, T) the best tag before; (C) final tags, or -1
    };

    // What later tokens need of those so far. (C, T): the scores of the best paths into the tags of the last token;
    // of the posterior, logarithms of its forward messages, and of their sums into each next tag.
    struct Frontier {
        Row best, forward, sums;
        long long n_characters = 0;
    };

    // A transition, from or to a tag.
    struct Arc {
        int tag;
        double weight;
    };

    const StreamSpec spec_;
    std::vector<std::vector<Arc>> into_, from_;  // (KINDS, T) the allowed transitions
    std::vector<char> safe_;  // (KINDS, C, T) whether some labeling goes on from a tag, whatever follows
    std::deque<Token> tokens_;  // from first_ on
    long long first_ = 0, forced_ = 0;
    bool ended_ = false;
    Frontier last_;
    std::vector<long long> final_, open_;      // (C) tokens with final tags; first token of an open span, or -1
    std::vector<StreamSpan> complete_;
    std::vector<std::vector<Row>> futures_;     // of each chain, from the last token backwards, see `future`

    size_t width() const { return size_t(spec_.chains) * spec_.tags; }
    double rounded(double x) const { return spec_.in_float ? double(float(x)) : x; }
    Token& at(long long i) { return tokens_[size_t(i - first_)]; }
    double edge(int kind, int s, int t) const { return spec_.edges[(size_t(kind) * spec_.tags + s) * spec_.tags + t]; }

    const std::vector<Arc>& into(const Token& token, int t) const { return into_[size_t(token.kind) * spec_.tags + t]; }
    const std::vector<Arc>& from(const Token& token, int s) const { return from_[size_t(token.kind) * spec_.tags + s]; }

    bool closed(int place, int kind, size_t k) const {
        return spec_.closed[(place * StreamSpec::KINDS + kind) * width() + k];
    }

    // Find the tags from which some labeling goes on and some ends, whatever the kind of the next token.
    void find_safe() {
        const size_t T = spec_.tags, n = width();
        safe_.assign(StreamSpec::KINDS * n, true);
        for (size_t i = 0, known = 0; known < safe_.size(); i = (i + 1) % safe_.size(), ++known)
            for (int next = 0; next < StreamSpec::KINDS && safe_[i]; ++next) {
                bool goes_on = false, ends = false;
                for (const Arc& arc : from_[i / n * T + i % T])
                    if (const size_t k = i % n - i % T + arc.tag; !closed(1, next, k)) {
                        goes_on |= safe_[next * n + k];
                        ends |= !closed(2, next, k);
                    }
                if (!goes_on || !ends) safe_[i] = false, known = 0;
            }
    }

    // Return the best tag before t, the lowest one of several, given scores of the tags. Set its sum.
    int best_before(const double* scores, const Token& token, int t, double& most) const {
        int found = 0;
        most = NEVER;
        for (const Arc& arc : into(token, t)) {
            const double x = rounded(scores[arc.tag] + arc.weight);
            if (x > most) most = x, found = arc.tag;
        }
        return found;
    }

    // Find the posterior of a token's tag, given the next one.
    void look_back(Token& token, Frontier& next, int c) const {
        const size_t T = spec_.tags;
        const double* forward = &next.forward[c * T];
        for (size_t t = 0; t < T; ++t) {
            double most = NEVER, sum = 0;
            for (const Arc& arc : into(token, int(t)))
                most = std::max(most, forward[arc.tag] + arc.weight * spec_.scale);
            if (most == NEVER) continue;
            for (const Arc& arc : into(token, int(t))) {
                double& p = token.before[(c * T + arc.tag) * T + t];
                sum += p = std::exp(forward[arc.tag] + arc.weight * spec_.scale - most);
            }
            for (const Arc& arc : into(token, int(t))) token.before[(c * T + arc.tag) * T + t] /= sum;
            next.sums[c * T + t] = most + std::log(sum);
        }
    }

    int futures() const { return ended_ ? 1 : spec_.tags; }

    // Return the posterior (T, F) of the tags of a token, given each tag of the first unknown one, or that none follows.
    const Row& future(int c, long long i) {
        const size_t T = spec_.tags, F = futures();
        std::vector<Row>& found = futures_[c];
        while (length() - 1 - (long long)found.size() >= i) {
            const Token& token = at(length() - 1 - (long long)found.size());
            const double* before = &token.before[c * T * T];
            Row p(T * F);
            if (!found.empty()) {
                for (size_t s = 0; s < T; ++s)
                    for (const Arc& arc : from(token, int(s))) {
                        const double w = before[s * T + arc.tag], *after = &found.back()[arc.tag * F];
                        for (size_t f = 0; f < F && w > 0; ++f) p[s * F + f] += w * after[f];
                    }
            } else if (ended_) {
                double total = 0;
                for (size_t s = 0; s < T; ++s) total += p[s] = std::exp(last_.forward[c * T + s]);
                for (double& x : p) x /= total;
            } else {
                p.assign(before, before + T * T);
            }
            found.push_back(std::move(p));
        }
        return found[size_t(length() - 1 - i)];
    }

    void close_span(int c, long long end) {
        if (open_[c] >= 0) complete_.push_back({c, open_[c], end, at(open_[c]).tag[c]});
        open_[c] = -1;
    }

    // Set the tags before the point where the paths from some tags of the last token meet.
    void trace(int c, std::vector<int> tags) {
        const size_t row = size_t(c) * spec_.tags;
        const long long known = final_[c];
        for (long long i = length() - 1; i >= known; --i) {
            std::sort(tags.begin(), tags.end());
            tags.erase(std::unique(tags.begin(), tags.end()), tags.end());
            if (tags.size() == 1) {
                at(i).tag[c] = tags[0];
                final_[c] = std::max(final_[c], i + 1);
            }
            for (int& tag : tags) tag = at(i).from[row + tag];
        }
        for (long long i = known; i < final_[c]; ++i) {
            const int tag = at(i).tag[c];
            if (spec_.starts[tag]) {
                close_span(c, i);
                if (tag != spec_.outside) open_[c] = i;
            }
            if (!spec_.goes_on[tag]) close_span(c, i + 1);
        }
        if (ended_) close_span(c, length());
    }

    // Take token i of some, with scores (C, T).
    void add(const float* given, const StreamTokens& tokens, size_t i, bool is_last) {
        const int T = spec_.tags, C = spec_.chains, kind = tokens.kinds[i];
        const bool is_first = length() == 0;
        const size_t n = spec_.posterior ? width() : 0;
        const long long start = last_.n_characters;
        Token token{kind, start, start + tokens.sizes[i], Row(n * T), std::vector<int>(width()), std::vector<int>(C, -1)};
        Frontier next{Row(width()), Row(n), Row(n, NEVER), start + tokens.widths[i]};
        for (int c = 0; c < C; ++c) {
            double top = NEVER, most_forward = NEVER;
            for (int t = 0; t < T; ++t) {
                const size_t k = size_t(c) * T + t;
                if (!(given[k] < std::numeric_limits<float>::infinity()))
                    throw std::invalid_argument("the scores are NaN or infinite");
                const bool never = closed(is_first ? 0 : 1, kind, k) || (is_last && closed(2, kind, k));
                double score = never ? NEVER : double(given[k]);
                if (n) next.forward[k] = score * spec_.scale;
                if (!is_first) {
                    double most;
                    token.from[k] = best_before(&last_.best[size_t(c) * T], tokens_.back(), t, most);
                    score = rounded(most + score);
                    if (n) next.forward[k] += last_.sums[k];
                }
                next.best[k] = score;
                top = std::max(top, score);
                if (n) most_forward = std::max(most_forward, next.forward[k]);
            }
            if (top == NEVER) throw std::invalid_argument("no labeling is allowed");
            for (int t = 0; t < T; ++t) {
                // The same operations as in Viterbi, so that ties and rounding agree.
                if (!is_first) next.best[size_t(c) * T + t] = rounded(next.best[size_t(c) * T + t] - top);
                if (n) next.forward[size_t(c) * T + t] -= most_forward;
            }
            if (n) look_back(token, next, c);
        }
        last_ = std::move(next);
        tokens_.push_back(std::move(token));
        for (auto& futures : futures_) futures.clear();
    }

    // Find the tags that are final. ended: whether no token follows, so that all tags are.
    void settle(bool ended) {
        const int T = spec_.tags;
        if (ended && !ended_)
            for (auto& futures : futures_) futures.clear();
        ended_ = ended;
        for (int c = 0; c < spec_.chains && length(); ++c) {
            const double *best = &last_.best[size_t(c) * T], *top = std::max_element(best, best + T);
            std::vector<int> tags;
            double most;
            for (int t = 0; t < T && !ended; ++t)
                if (const int s = best_before(best, tokens_.back(), t, most); most > NEVER) tags.push_back(s);
            if (tags.empty()) tags.push_back(int(top - best));
            trace(c, tags);
        }
    }

    // Set the tags of the tokens before `late` by the best labeling so far that goes on, whatever follows.
    void force(long long late) {
        const int T = spec_.tags;
        if (ended_ || late <= final()) return;
        for (int c = 0; c < spec_.chains; ++c) {
            if (late <= final_[c]) continue;
            double* best = &last_.best[size_t(c) * T];
            const char* safe = &safe_[tokens_.back().kind * width() + size_t(c) * T];
            std::vector<int> path(T);
            for (int t = 0; t < T; ++t) path[t] = t;
            for (long long i = length() - 1; i >= late; --i)
                for (int& tag : path) tag = at(i).from[size_t(c) * T + tag];
            std::vector<char> goes_on(T);
            for (int t = 0; t < T; ++t)
                if (safe[t] && best[t] > NEVER) goes_on[path[t]] = true;
            int top = -1;
            for (int t = 0; t < T; ++t)
                if (goes_on[path[t]] && best[t] > (top < 0 ? NEVER : best[top])) top = t;
            if (top < 0) continue;
            forced_ += late - final_[c];
            // Only the paths stay that agree with the best one.
            for (int t = 0; t < T; ++t)
                if (path[t] != path[top]) best[t] = NEVER;
        }
        settle(false);
    }

  public:
    explicit Stream(const StreamSpec& spec)
        : spec_(spec), final_(spec.chains), open_(spec.chains, -1), futures_(spec.chains) {
        const int T = spec.tags;
        into_.resize(size_t(StreamSpec::KINDS) * T);
        from_.resize(into_.size());
        for (int kind = 0; kind < StreamSpec::KINDS; ++kind)
            for (int s = 0; s < T; ++s)
                for (int t = 0; t < T; ++t)
                    if (const double weight = edge(kind, s, t); weight > NEVER) {
                        into_[size_t(kind) * T + t].push_back({s, weight});
                        from_[size_t(kind) * T + s].push_back({t, weight});
                    }
        find_safe();
    }

    long long length() const { return first_ + (long long)tokens_.size(); }
    long long first() const { return first_; }
    long long forced() const { return forced_; }
    // Return the number of tokens that have final tags in all chains.
    long long final() const { return *std::min_element(final_.begin(), final_.end()); }
    // Return the first token that may be in a span that is not complete.
    long long undecided() const {
        long long found = length();
        for (int c = 0; c < spec_.chains; ++c) found = std::min(found, open_[c] >= 0 ? open_[c] : final_[c]);
        return found;
    }
    int tag(long long i) { return at(i).tag[0]; }
    long long start(long long i) { return at(i).start; }
    long long end(long long i) { return at(i).end; }

    // Take the tokens [from, to) of some with scores (to, C, T), and set the tags of those older than max_lag. ended:
    // whether no token follows. Raise std::invalid_argument for wrong scores, and if no labeling is allowed. The stream
    // then stays as it was.
    void extend(const float* given, const StreamTokens& tokens, size_t from, size_t to, bool ended, long long max_lag) {
        const Frontier before = last_;
        const size_t known = tokens_.size();
        try {
            for (size_t i = from; i < to; ++i) add(given + i * width(), tokens, i, ended && i + 1 == to);
        } catch (...) {
            tokens_.erase(tokens_.begin() + known, tokens_.end());
            last_ = before;
            throw;
        }
        settle(ended);
        force(length() - max_lag);
    }

    std::vector<StreamSpan> take_complete() { return std::exchange(complete_, {}); }

    // Forget the tokens before `first`, whose tags are final. The last token stays.
    void drop(long long first) {
        while (first_ < first && tokens_.size() > 1) tokens_.pop_front(), ++first_;
    }

    // Set bounds of the probability that a chain has these tags from a token on, and that the token after them has
    // not the tag `inside`, if that is not -1.
    void bound(int c, long long start, const std::vector<int>& tags, int inside, double& low, double& high) {
        const size_t T = spec_.tags, F = futures();
        const long long end = start + (long long)tags.size();
        const auto step = [&](long long i, int s, int t) { return at(i).before[(c * T + s) * T + t]; };
        double path = 1, excluded = 0;
        for (size_t k = 1; k < tags.size(); ++k) path *= step(start + (long long)k - 1, tags[k - 1], tags[k]);
        const double *last = &future(c, end - 1)[tags.back() * F], *after = nullptr;
        if (inside >= 0 && end < length()) {
            after = &future(c, end)[inside * F];
            excluded = path * step(end - 1, tags.back(), inside);
        }
        low = 1, high = 0;
        for (size_t f = 0; f < F; ++f) {
            if (!ended_ && last_.sums[c * T + f] == NEVER) continue;
            double p = path * last[f] - (after ? excluded * after[f] : 0);
            if (int(f) == inside && end == length() && !ended_) p = 0;
            p = std::min(1.0, std::max(0.0, p));
            low = std::min(low, p), high = std::max(high, p);
        }
    }
};

}  // namespace bcrf
