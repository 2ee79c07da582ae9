// Labelings of tokens that arrive in pieces.
//
// A tag is final when the best paths into all tags of the next token agree on it. Given the tag of the next
// token, what follows it no longer matters. So the posterior of an event among the tokens so far is between its
// smallest and its largest value given each tag of the next token. Backwards from such a tag, the tags are a
// Markov chain: that of backward sampling from the forward messages.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "../../shared/precision.hh"
#include "templates.hh"

namespace bcrf {

// What features and labelings need of n tokens. hashes: of their words. values, bag_starts, bag_values: see
// TokenValues; token i is its own word.
struct StreamTokens {
    // kind: below KINDS. size, width: characters, without and with the blank behind.
    struct Mark {
        int kind, size, width;
    };

    int singles = 0, bags = 0;
    std::vector<std::uint64_t> hashes, values, bag_values;
    std::vector<std::int64_t> bag_starts = {0};
    std::vector<int> numbers;
    std::vector<Mark> marks;

    size_t size() const { return hashes.size(); }

    void add(const StreamTokens& other) {
        const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
        const std::int64_t base = bag_starts.back();
        for (size_t k = 1; k < other.bag_starts.size(); ++k) bag_starts.push_back(base + other.bag_starts[k]);
        append(hashes, other.hashes), append(values, other.values), append(bag_values, other.bag_values);
        append(marks, other.marks);
        while (numbers.size() < size()) numbers.push_back(int(numbers.size()));
    }

    // Keep the tokens [first, last) alone.
    void keep(size_t first, size_t last) {
        const auto cut = [](auto& all, size_t from, size_t to) {
            all.erase(all.begin() + to, all.end());
            all.erase(all.begin(), all.begin() + from);
        };
        const std::int64_t base = bag_starts[first * bags];
        cut(bag_values, base, bag_starts[last * bags]);
        cut(bag_starts, first * bags, last * bags + 1);
        for (std::int64_t& start : bag_starts) start -= base;
        cut(values, first * singles, last * singles);
        cut(marks, first, last);
        cut(hashes, first, last);
    }

    TokenValues view() const {
        return {values.data(), singles, numbers.data(), bag_starts.data(), bag_values.data(), bags};
    }
};

// The same of all streams of a chain. Tokens are of KINDS, by which constraints differ.
struct StreamRules {
    static constexpr int KINDS = 4;
    static constexpr double NEVER = -std::numeric_limits<double>::infinity();

    // An allowed transition from a tag. factor: of forward messages, NaN if they might underflow.
    struct Arc {
        int tag;
        double weight, factor;
    };

    int chains, tags, outside;   // outside: the tag of no span, or -1
    bool in_float, posterior;    // in_float: whether the scores of paths are rounded to float
    double scale;                // of the scores in the posterior
    std::vector<double> edges;   // (KINDS, T, T) transitions to the next token, by the kind of the first
    std::vector<char> closed;    // (3, KINDS, C, T) whether a first, middle or last token cannot have a tag
    std::vector<char> starts;    // (T) whether a tag starts a span, or is that of no span
    std::vector<char> goes_on;   // (T) whether the span of a tag may go on
    // What `prepare` sets: (KINDS, T) transitions; (KINDS, C, T) whether some labeling goes on from a tag, whatever
    // the kinds of the next tokens, and some ends.
    std::vector<std::vector<Arc>> into;
    std::vector<char> safe;

    double edge(int kind, int s, int t) const { return edges[(size_t(kind) * tags + s) * tags + t]; }
    const char* closed_tags(int place, int kind) const {
        return &closed[size_t(place * KINDS + kind) * chains * tags];
    }

    // Return whether a labeling can end after tag i of (KINDS, C, T), and go on to a safe tag, for each kind of the next
    // token.
    bool stays_safe(size_t i) const {
        const size_t T = tags, n = chains * T;
        for (int next = 0; next < KINDS; ++next) {
            bool goes_on = false, ends = false;
            for (size_t t = 0; t < T; ++t) {
                const size_t k = i % n - i % T + t;
                if (!(edge(int(i / n), int(i % T), int(t)) > NEVER) || closed_tags(1, next)[k]) continue;
                goes_on |= safe[next * n + k];
                ends |= !closed_tags(2, next)[k];
            }
            if (!goes_on || !ends) return false;
        }
        return true;
    }

    void prepare() {
        into.resize(size_t(KINDS) * tags);
        for (size_t k = 0; k < into.size(); ++k)
            for (int s = 0; s < tags; ++s)
                if (const double x = edge(int(k / tags), s, int(k % tags)); x > NEVER) {
                    const double factor = std::abs(x * scale) < StreamLimits::MOST_SCORE ? std::exp(x * scale) : std::nan("");
                    into[k].push_back({s, x, factor});
                }
        safe.assign(size_t(KINDS) * chains * tags, true);
        // A tag that is not safe may make others unsafe, so rounds go on until one changes nothing.
        for (bool changed = true; changed;) {
            changed = false;
            for (size_t i = 0; i < safe.size(); ++i)
                if (safe[i] && !stays_safe(i)) {
                    safe[i] = false;
                    changed = true;
                }
        }
    }
};

// Spans [start, end) of a chain whose first token has the tag `tag`.
struct StreamSpan {
    int chain;
    long long start, end;
    int tag;
};

class Stream {
    using Row = std::vector<double>;
    static constexpr double NEVER = StreamRules::NEVER;
    static constexpr double SAME = Precision<double>::SAME;

    struct Token {
        int kind;
        long long start, end, next;  // characters
    };

    const std::shared_ptr<const StreamRules> rules_;
    const int tags_;
    const size_t width_;  // C T
    // Of the tokens from base_ on. (C): final tags, or -1. (C, T): the scores of the best paths into each tag, those
    // into each tag of the next token, and the last tag of these.
    std::vector<Token> tokens_;
    std::vector<int> tag_, last_;
    Row best_, reach_;
    // (C, T), of the posterior: logarithms of the forward messages, and of their sums into each next tag; the
    // messages, and 1 / sum, 0 if the messages might underflow.
    Row forward_, sums_, messages_, inverse_;
    long long base_ = 0, first_ = 0, forced_ = 0;
    bool ended_ = false;
    std::vector<long long> final_, open_;  // (C) tokens with final tags; first token of an open span, or -1
    std::vector<StreamSpan> complete_;
    Row given_, weighted_;  // see `bound`

    double rounded(double x) const { return rules_->in_float ? double(float(x)) : x; }
    Token& at(long long i) { return tokens_[size_t(i - base_)]; }
    int& tag_of(int c, long long i) { return tag_[size_t(i - base_) * rules_->chains + c]; }
    // Return the place of a token in rows of (C, T).
    size_t row(int c, long long i) const { return size_t(i - base_) * width_ + size_t(c) * tags_; }
    const std::vector<StreamRules::Arc>& into(long long i, int t) const {
        return rules_->into[size_t(tokens_[size_t(i - base_)].kind) * tags_ + t];
    }

    // Let the tokens [from, to) stay.
    void cut(long long from, long long to) {
        const auto keep = [&](auto& all, size_t n) {
            all.erase(all.begin() + std::min(all.size(), size_t(to - base_) * n), all.end());
            all.erase(all.begin(), all.begin() + std::min(all.size(), size_t(from - base_) * n));
        };
        keep(tokens_, 1), keep(tag_, rules_->chains), keep(last_, width_);
        for (Row* each : {&best_, &reach_, &forward_, &sums_, &messages_, &inverse_}) keep(*each, width_);
        base_ = from;
    }

    // Find the best tags of a token before each next one, the lowest one of several.
    void look_ahead(long long i, int c) {
        const double* best = &best_[row(c, i)];
        for (int t = 0; t < tags_; ++t) {
            double most = NEVER;
            int found = 0;
            for (const auto& arc : into(i, t)) {
                const double x = rounded(best[arc.tag] + arc.weight);
                if (x > most) most = x, found = arc.tag;
            }
            reach_[row(c, i) + t] = most, last_[row(c, i) + t] = found;
        }
    }

    // Find the sums of the messages of a token into each next tag.
    void send(long long i, int c) {
        double *forward = &forward_[row(c, i)], *messages = &messages_[row(c, i)];
        const double most = *std::max_element(forward, forward + tags_);
        for (int t = 0; t < tags_; ++t) messages[t] = std::exp(forward[t] -= most);
        for (int t = 0; t < tags_; ++t) {
            double sum = 0, &log_sum = sums_[row(c, i) + t], top = NEVER;
            for (const auto& arc : into(i, t)) sum += messages[arc.tag] * arc.factor;
            if (sum > StreamLimits::LEAST_SUM) {
                log_sum = std::log(sum), inverse_[row(c, i) + t] = 1 / sum;
                continue;
            }
            for (const auto& arc : into(i, t)) top = std::max(top, forward[arc.tag] + arc.weight * rules_->scale);
            sum = 0;
            for (const auto& arc : into(i, t)) sum += std::exp(forward[arc.tag] + arc.weight * rules_->scale - top);
            log_sum = top > NEVER ? top + std::log(sum) : NEVER;
        }
    }

    // Turn the probability of an event, given each tag of token i, into that given each tag of the next one.
    void go_on(long long i, int c) {
        const double *forward = &forward_[row(c, i)], *messages = &messages_[row(c, i)];
        weighted_.resize(2 * tags_);
        double *weighted = weighted_.data(), *next = weighted + tags_;
        for (int s = 0; s < tags_; ++s) weighted[s] = messages[s] * given_[s];
        for (int t = 0; t < tags_; ++t) {
            const double inverse = inverse_[row(c, i) + t], log_sum = sums_[row(c, i) + t];
            double sum = 0;
            if (inverse > 0) {
                for (const auto& arc : into(i, t)) sum += weighted[arc.tag] * arc.factor;
                sum *= inverse;
            } else if (log_sum > NEVER) {
                for (const auto& arc : into(i, t))
                    sum += std::exp(forward[arc.tag] + arc.weight * rules_->scale - log_sum) * given_[arc.tag];
            }
            next[t] = std::min(sum, 1.0);
        }
        given_.assign(next, next + tags_);
    }

    void close_span(int c, long long end) {
        if (open_[c] >= 0) complete_.push_back({c, open_[c], end, tag_of(c, open_[c])});
        open_[c] = -1;
    }

    // Set the tags before the point where the paths from some tags of the last token meet.
    void trace(int c, std::vector<int> tags) {
        const long long known = final_[c];
        for (long long i = length() - 1; i >= known; --i) {
            std::sort(tags.begin(), tags.end());
            tags.erase(std::unique(tags.begin(), tags.end()), tags.end());
            if (tags.size() == 1) {
                tag_of(c, i) = tags[0];
                final_[c] = std::max(final_[c], i + 1);
            }
            if (i > known)
                for (int& tag : tags) tag = last_[row(c, i - 1) + tag];
        }
        for (long long i = known; i < final_[c]; ++i) {
            const int tag = tag_of(c, i);
            if (rules_->starts[tag]) {
                close_span(c, i);
                if (tag != rules_->outside) open_[c] = i;
            }
            if (!rules_->goes_on[tag]) close_span(c, i + 1);
        }
        if (ended_) close_span(c, length());
    }

    // Take a token with scores (C, T).
    void add(const float* given, const StreamTokens::Mark& mark, bool is_last) {
        const long long i = length(), start = i ? tokens_.back().next : 0;
        const size_t n = (tokens_.size() + 1) * width_;
        const char* never = rules_->closed_tags(i ? 1 : 0, mark.kind);
        const char* at_end = is_last ? rules_->closed_tags(2, mark.kind) : never;
        tokens_.push_back({mark.kind, start, start + mark.size, start + mark.width});
        tag_.resize(tag_.size() + rules_->chains, -1), last_.resize(n), best_.resize(n), reach_.resize(n);
        if (rules_->posterior)
            for (Row* each : {&forward_, &sums_, &messages_, &inverse_}) each->resize(n);
        for (size_t k = 0, to = row(0, i); k < width_; ++k, ++to) {
            if (!(given[k] < std::numeric_limits<float>::infinity()))
                throw std::invalid_argument("the scores are NaN or infinite");
            const double score = never[k] || at_end[k] ? NEVER : double(given[k]);
            best_[to] = i ? rounded(reach_[to - width_] + score) : score;
            if (rules_->posterior) forward_[to] = score * rules_->scale + (i ? sums_[to - width_] : 0);
        }
        for (int c = 0; c < rules_->chains; ++c) {
            double* best = &best_[row(c, i)];
            const double top = *std::max_element(best, best + tags_);
            if (top == NEVER) throw std::invalid_argument("no labeling is allowed");
            // The same operations as in Viterbi, so that ties and rounding agree.
            for (int t = 0; t < tags_ && i; ++t) best[t] = rounded(best[t] - top);
            look_ahead(i, c);
            if (rules_->posterior) send(i, c);
        }
    }

    // Find the tags that are final.
    void settle() {
        for (int c = 0; c < rules_->chains && length(); ++c) {
            const size_t row_ = row(c, length() - 1);
            const auto best = best_.begin() + row_;
            std::vector<int> tags;
            for (int t = 0; t < tags_ && !ended_; ++t)
                if (reach_[row_ + t] > NEVER) tags.push_back(last_[row_ + t]);
            if (tags.empty()) tags.push_back(int(std::max_element(best, best + tags_) - best));
            trace(c, tags);
        }
    }

    // Set the tags of the tokens before `late` by the best labeling so far that goes on, whatever follows.
    void force(long long late) {
        if (ended_ || late <= final()) return;
        for (int c = 0; c < rules_->chains; ++c) {
            if (late <= final_[c]) continue;
            double* best = &best_[row(c, length() - 1)];
            const char* safe = &rules_->safe[tokens_.back().kind * width_ + size_t(c) * tags_];
            std::vector<int> path(tags_);
            for (int t = 0; t < tags_; ++t) path[t] = t;
            for (long long i = length() - 1; i >= late; --i)
                for (int& tag : path) tag = last_[row(c, i - 1) + tag];
            std::vector<char> goes_on(tags_);
            for (int t = 0; t < tags_; ++t)
                if (safe[t] && best[t] > NEVER) goes_on[path[t]] = true;
            int top = -1;
            for (int t = 0; t < tags_; ++t)
                if (goes_on[path[t]] && best[t] > (top < 0 ? NEVER : best[top])) top = t;
            if (top < 0) continue;
            forced_ += late - final_[c];
            // Only the paths stay that agree with the best one.
            for (int t = 0; t < tags_; ++t)
                if (path[t] != path[top]) best[t] = NEVER;
            look_ahead(length() - 1, c);
        }
        settle();
    }

  public:
    explicit Stream(std::shared_ptr<const StreamRules> rules)
        : rules_(std::move(rules)), tags_(rules_->tags), width_(size_t(rules_->chains) * tags_), final_(rules_->chains),
          open_(rules_->chains, -1) {}

    long long length() const { return base_ + (long long)tokens_.size(); }
    long long first() const { return first_; }
    long long forced() const { return forced_; }
    // Return the number of tokens that have final tags in all chains.
    long long final() const { return *std::min_element(final_.begin(), final_.end()); }
    // Return the first token that may be in a span that is not complete.
    long long undecided() const {
        long long found = length();
        for (size_t c = 0; c < open_.size(); ++c) found = std::min(found, open_[c] >= 0 ? open_[c] : final_[c]);
        return found;
    }
    int tag(long long i) { return tag_of(0, i); }
    long long start(long long i) { return at(i).start; }
    long long end(long long i) { return at(i).end; }

    // Take the tokens [from, to) of some with scores (to, C, T), and set the tags of those older than max_lag. ended:
    // whether no token follows. Raise std::invalid_argument for wrong scores, and if no labeling is allowed. The stream
    // then stays as it was.
    void extend(const float* given, const StreamTokens& tokens, size_t from, size_t to, bool ended, long long max_lag) {
        const long long known = length();
        try {
            for (size_t i = from; i < to; ++i) add(given + i * width_, tokens.marks[i], ended && i + 1 == to);
        } catch (...) {
            cut(base_, known);
            throw;
        }
        ended_ = ended;
        settle();
        force(length() - max_lag);
    }

    std::vector<StreamSpan> take_complete() { return std::exchange(complete_, {}); }

    // Forget the tokens before `first`, whose tags are final. The last token stays.
    void drop(long long first) {
        first_ = std::max(first_, std::min(first, length() - 1));
        // To move the others costs nothing a token if they are as few.
        if (first_ - base_ > length() - first_) cut(first_, length());
    }

    // Set bounds of the probability that a chain has these tags from a token on, and that the token after them has
    // not the tag `inside`, if that is not -1. They are exact up to SAME unless it is below `least`, whatever follows.
    void bound(int c, long long start, const std::vector<int>& tags, int inside, double least, double& low,
               double& high) {
        high = 1;
        for (size_t k = 1; k < tags.size(); ++k, ++start) {
            const double *forward = &forward_[row(c, start)], log_sum = sums_[row(c, start) + tags[k]];
            const double edge = rules_->edge(at(start).kind, tags[k - 1], tags[k]);
            high *= log_sum > NEVER ? std::exp(forward[tags[k - 1]] + edge * rules_->scale - log_sum) : 0;
        }
        low = high = std::min(high, 1.0);
        const long long end = start + 1;
        given_.assign(tags_, 0.0);
        given_[tags.back()] = high;
        for (; start < length() - ended_ && high >= least; ++start) {
            go_on(start, c);
            if (inside >= 0 && start + 1 == end) given_[inside] = 0;
            double least_given = 1;
            high = 0;
            for (int t = 0; t < tags_; ++t)
                if (sums_[row(c, start) + t] > NEVER) {
                    least_given = std::min(least_given, given_[t]);
                    high = std::max(high, given_[t]);
                }
            low = high;
            if (std::abs(high - least_given) < SAME) return;  // whatever follows
        }
        const size_t last = row(c, length() - 1);
        double total = 0, mean = 0;
        low = high;
        for (int t = 0; t < tags_; ++t) {
            if (ended_) total += messages_[last + t], mean += messages_[last + t] * given_[t];
            else if (sums_[last + t] > NEVER) low = std::min(low, given_[t]);
        }
        if (ended_) low = high = std::min(1.0, mean / total);
    }
};

}  // namespace bcrf
