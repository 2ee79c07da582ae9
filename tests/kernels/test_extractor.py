"""Features of templates that combine single values and bags of values."""

import numpy as np

from bcrf.kernels.sparse import Extractor


def test_a_part_without_a_value_gives_no_feature():
    single, bag = (0, 0), (1, 0)
    extractor = Extractor([(1, [single, bag]), (2, [bag, single]), (3, [bag]), (4, [single])])
    arrays = (
        np.array([[5], [0]], "uint64"),  # the second token has no single value
        np.array([0, 1], "int32"),
        np.array([0, 2, 3], "int64"),
        np.array([7, 8, 9], "uint64"),
        1,
        np.array([2], "int32"),
    )
    keys, starts = extractor.extract(arrays)
    assert starts.tolist() == [0, 7, 8]
    assert len(set(keys.tolist())) == 8
