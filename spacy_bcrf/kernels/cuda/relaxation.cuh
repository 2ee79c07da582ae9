// How far projections go beyond the plain ones.

// Tag marginals below this are projected plainly, never over-relaxed.
constexpr double SMALL = 1e-6;

// The best over-relaxation by Young's theorem, from the rate at which `omega` converges.
__device__ inline double estimate_relaxation(double violation, double last, double omega) {
    if (!(violation > 0 && violation < last && last < infinity())) return omega;
    const double rate = violation / last, root = rate + omega - 1;
    const double jacobi = root * root / (rate * omega * omega);
    return 2 / (1 + sqrt(1 - (jacobi < 0.99 ? jacobi : 0.99)));
}
