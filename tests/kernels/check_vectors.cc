// Check the compiled kernels against a file of write_vectors.py, whose numbers are all doubles.
#include <cstdio>
#include <string>
#include <vector>

#include "cpu/kernels.hh"

namespace {

typedef std::vector<double> Numbers;

bool read(std::FILE* file, Numbers& to, size_t n) {
    to.resize(n);
    return std::fread(to.data(), sizeof(double), n, file) == n;
}

template <class In> std::vector<In> narrow(const Numbers& from) {
    return std::vector<In>(from.begin(), from.end());
}

int cases = 0, errors = 0;

template <class In>
void compare(const char* what, const In* found, const Numbers& expected, double tolerance) {
    for (size_t i = 0; i < expected.size(); ++i) {
        const double x = double(found[i]), y = expected[i];
        if (x == y || std::fabs(x - y) <= tolerance * (1 + std::fabs(y))) continue;
        std::printf("case %d: %s[%zu] is %.12g, not %.12g\n", cases, what, i, x, y);
        ++errors;
        return;
    }
}

// Chain scores of a token may differ from the expected ones by a constant.
template <class In> void center(std::vector<In>& rows, size_t tags) {
    for (size_t i = 0; i < rows.size(); i += tags) {
        const In top = *std::max_element(&rows[i], &rows[i] + tags);
        if (top > -bcrf::infinity<In>)
            for (size_t t = 0; t < tags; ++t) rows[i + t] -= top;
    }
}

template <class In> void check(std::FILE* file, const Numbers& head) {
    const size_t tags = size_t(head[1]), size = size_t(head[2]), n = size_t(head[3]);
    const bool shared = head[4] != 0;
    const bcrf::BregmanOptions options{int(head[5]), head[6], head[7], head[8] != 0, int(head[9]), head[10]};
    const bool checks_mean_field = head[11] != 0;
    const double tolerance = head[12];
    const size_t edges = shared ? tags * tags : n * tags * tags;
    Numbers lengths, unary, transitions, value, node, edge, scores, entropies, gold;
    bool complete = read(file, lengths, size) && read(file, unary, n * tags) &&
                    read(file, transitions, edges) && read(file, value, size) &&
                    read(file, node, n * tags) && read(file, edge, edges) &&
                    read(file, scores, size) && read(file, entropies, size) && read(file, gold, n);
    const std::vector<int> lengths_in = narrow<int>(lengths);
    const std::vector<In> unary_in = narrow<In>(unary), transitions_in = narrow<In>(transitions);
    const auto& kernels = bcrf::Kernels<In>::get();
    for (int threads = 1; threads <= 2; ++threads) {
        const bcrf::Batch<In> batch{unary_in.data(), transitions_in.data(), lengths_in.data(),
                                    int(size), int(tags), shared, threads};
        std::vector<In> found(size), marginals(n * tags), each(shared ? 0 : edges);
        Numbers sums(shared ? edges : 0);
        std::vector<int> labels(n);
        double* sum = shared ? sums.data() : nullptr;
        In* arcs = shared ? nullptr : each.data();
        bcrf::Outputs<In> outputs{found.data(), marginals.data(), sum, arcs};
        const auto compare_all = [&](const char* what) {
            compare((std::string(what) + " value").c_str(), found.data(), value, tolerance);
            compare((std::string(what) + " unary").c_str(), marginals.data(), node, tolerance);
            if (shared) compare((std::string(what) + " edges").c_str(), sum, edge, tolerance);
            else compare((std::string(what) + " edges").c_str(), arcs, edge, tolerance);
        };
        if (threads == 2) {
            kernels.bregman(batch, options, outputs);
            if (options.unary == bcrf::projection::CHAIN) center(marginals, tags), center(node, tags);
            compare_all("BCRF");
            continue;
        }
        kernels.sum_product(batch, outputs);
        compare_all("CRF");
        kernels.max_product(batch, labels.data(), found.data());
        compare("Viterbi", found.data(), scores, tolerance);
        bcrf::Outputs<In> only_entropies;
        only_entropies.entropies = found.data();
        kernels.sum_product(batch, only_entropies);
        compare("entropy", found.data(), entropies, 10 * tolerance);
        const auto read_next = [&] {
            complete = complete && read(file, value, size) && read(file, node, n * tags) &&
                       read(file, edge, edges);
        };
        read_next();
        if (checks_mean_field) {
            std::fill(sums.begin(), sums.end(), 0.0), std::fill(each.begin(), each.end(), In(0));
            const std::vector<int> labeling = narrow<int>(gold);
            outputs.gold = labeling.data();
            kernels.mean_field(batch, 3, outputs);
            // The caller clears the gradient of forbidden transitions.
            for (size_t i = 0; i < edges; ++i)
                if (!(transitions[i] > -bcrf::infinity<double>)) shared ? sums[i] = 0 : each[i] = 0;
            compare_all("mean field");
        }
        read_next();
    }
    if (!complete) std::printf("case %d: the file ends early\n", cases), ++errors;
}

}  // namespace

int main(int argc, char** argv) {
    std::FILE* file = argc == 2 ? std::fopen(argv[1], "rb") : nullptr;
    if (!file) return std::printf("usage: check_vectors FILE\n"), 2;
    for (Numbers head; read(file, head, 13); ++cases)
        head[0] == 4 ? check<float>(file, head) : check<double>(file, head);
    std::printf("%d cases, %d errors\n", cases, errors);
    return cases == 0 || errors > 0;
}
