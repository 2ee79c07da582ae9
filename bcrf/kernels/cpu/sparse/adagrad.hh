// AdaGrad steps (Duchi, Hazan and Singer 2011) from the gradient of the scores of a batch.
#pragma once

#include "../target.hh"
#include "model.hh"

namespace bcrf {
namespace BCRF_TARGET {

// Take the steps of all tokens, one after the other. d_unary (N, width) and d_transitions (tags,
// tags) are the gradient under the weights before the batch. A sequence whose gradient is 0 counts
// neither for l2, nor for the rate and the average.
inline void descend(Model& m, const Sequences& data, const int* lengths, int batch,
                    const float* d_unary, const float* d_transitions) {
    const size_t T = m.tags, W = m.width();
    m.squares.resize(m.v.rows());  // a chain that has learned by other steps has none
    Buffer<float> gradient(m.stride);
    auto read = [&](const float* from, size_t n) {
        bool any = false;
        for (size_t t = 0; t < m.stride; ++t) gradient[t] = t < n ? from[t] : 0;
        for (size_t t = 0; t < n; ++t) any = any || from[t] != 0;
        return any;
    };
    for (size_t u = 0; u < T; ++u)
        if (read(d_transitions + u * T, T))
            m.adapt(u, gradient, float(-m.rate() / m.scale));
    size_t i = 0;
    for (int b = 0; b < batch; ++b) {
        const float by = float(-m.rate() / m.scale);
        bool any = false;
        for (int k = 0; k < lengths[b]; ++k, ++i) {
            if (!read(d_unary + i * W, W)) continue;
            any = true;
            m.adapt(m.bias(), gradient, by);
            if (k == 0) m.adapt(m.bias() + 1, gradient, by);
            if (k == lengths[b] - 1) m.adapt(m.bias() + 2, gradient, by);
            for (std::int64_t j = data.starts[i]; j < data.starts[i + 1]; ++j)
                m.adapt(data.rows[j] + m.first_feature(), gradient, by);
        }
        if (!any) continue;
        m.scale *= 1 - m.rate() * m.options.l2 / m.options.n_sequences;
        m.end_step();
    }
}

}  // namespace BCRF_TARGET
}  // namespace bcrf
