// What an inference writes of each token and edge. A visitor gets the probabilities, and each output
// is written once, here.
#ifndef BCRF_CUDA_OUTPUTS_CUH
#define BCRF_CUDA_OUTPUTS_CUH
#include "block.cuh"

// Pointers may be null. An edge belongs to its earlier token.
struct Outputs {
    int tags;
    Score *marginals, *each;  // (N, tags) and (N, tags, tags)
    double* sums;             // (tags, tags): the sum of the edge marginals
    Score* pairs;             // (N, n_pairs): marginals of tag heads[m] at a token and tails[m] at the next
    const int *heads, *tails;
    int n_pairs;
    bool entropies;
    bool subtract = false;  // subtract the marginals from what is there, those of the potentials

    __device__ bool has_edges() const { return each || sums || entropies || n_pairs > 0; }

    __device__ void put(Score& x, Score p) const { x = subtract ? x - p : p; }

    // Write the probability of a tag.
    __device__ void tag(long long i, int t, Score p) const {
        if (marginals) put(marginals[i * tags + t], p);
    }

    // Write the probabilities q(u, v) of an edge, and call visit(u, v, q) for those above 0 if the
    // entropies need them. All threads call it.
    template <class Q, class Visit>
    __device__ void edge(long long i, Q q, Visit visit) const {
        const bool all = each || sums || entropies;
        for (int v = threadIdx.x; v < tags && all; v += blockDim.x) {
            for (int u = 0; u < tags; ++u) {
                const auto p = q(u, v);
                const long long cell = (long long)u * tags + v;
                if (each) put(each[i * tags * tags + cell], Score(p));
                if (!(p > 0)) continue;
                if (sums) atomicAdd(&sums[cell], subtract ? -double(p) : double(p));
                if (entropies) visit(u, v, p);
            }
        }
        for (int m = threadIdx.x; m < n_pairs; m += blockDim.x)
            pairs[i * n_pairs + m] = Score(q(heads[m], tails[m]));
    }

    // Write the zeros of a sequence's last token, which has no edge.
    __device__ void last(long long i) const {
        const long long cells = (long long)tags * tags;
        for (long long c = threadIdx.x; c < cells && each && !subtract; c += blockDim.x)
            each[i * cells + c] = 0;
        for (int m = threadIdx.x; m < n_pairs; m += blockDim.x) pairs[i * n_pairs + m] = 0;
    }
};

#endif
