"""Independent implementations that the tests compare the package with.

enumeration            answers by listing every labeling of small problems: the ground truth
explicit_bregman       Algorithm 1 of the Bregman CRF on explicit arcs, and the chain of its arcs
reference              forward-backward, Viterbi and Bregman projections, in log space
reference_mean_field   mean-field updates and their back-propagation
reference_posterior    entropy, pair marginals and samples
reference_search       n-best, beam search, Dijkstra, and the features of labelings
semirings              the forward algorithm over any semiring: totals, counts, expectations
sparse_learner         online learning with dense weights and enumerated labelings

The modules `reference*` implement the functions of `bcrf.kernels` in plain array code. Their
first argument is the array module, NumPy or CuPy. They are exact for scores of any size, and slow.

An oracle imports types of the package, such as `Potentials` and `Result`, but never the code that
it checks. When you add a kernel, add its reference here and test that against `enumeration`.
"""
