// Undefine the include guards of the headers that targets.hh compiles once for each instruction
// set.
#undef BCRF_SIMD_HH
#undef BCRF_PRODUCTS_HH
#undef BCRF_MATRICES_HH
#undef BCRF_PAIR_SUMS_HH
#undef BCRF_CRF_HH
#undef BCRF_POSTERIOR_HH
#undef BCRF_VITERBI_HH
#undef BCRF_NBEST_HH
#undef BCRF_BEAM_HH
#undef BCRF_DIJKSTRA_HH
#undef BCRF_BREGMAN_HH
#undef BCRF_MEAN_FIELD_HH
#undef BCRF_SPARSE_ROWS_HH
#undef BCRF_SPARSE_NBEST_HH
#undef BCRF_SPARSE_ONLINE_HH
#undef BCRF_SPARSE_PREDICT_HH
