"""Prediction of a batch that fails, in parts."""

from spacy_bcrf.pipeline.predict_in_parts import predict_in_parts


def test_what_fails_is_found_by_halves():
    batches, reports = [], []

    def predict(numbers):
        batches.append(len(numbers))
        if {3, 6} & set(numbers):
            raise RuntimeError("no")
        return [n * 2 for n in numbers]

    found = predict_in_parts(predict, range(8), lambda error, size: reports.append(size))
    assert [str(one) for one in found] == ["0", "2", "4", "no", "8", "10", "no", "14"]
    assert max(reports) == 8 and len(batches) < 16
