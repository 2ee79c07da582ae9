"""`bcrf.sklearn` against python-crfsuite, with the model and the nested features of usaddress.

    python -m benchmarks.crfsuite_models --corpora DIR [--rounds N]

3,000 addresses of usaddress's own data, in turn again if there are fewer. Needs the extra `bench`.
Processor seconds of one process, features made before. The last column is the largest difference of
a marginal.
"""

import argparse
import lzma
from itertools import cycle, islice
from pathlib import Path
from time import process_time
from xml.etree import ElementTree

from bcrf.sklearn import CRF
from benchmarks.timing import interleave
from lab.machine import describe_machine
from lab.options import add_options, need
from lab.tables import print_table

N = 3000


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add_options(parser, needs_corpora=True)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    pycrfsuite, usaddress = need("pycrfsuite"), need("usaddress")
    texts = []
    for path in sorted((args.corpora / "usaddress").glob("*.xml.xz")):
        with lzma.open(path) as file:
            root = ElementTree.parse(file).getroot()
        texts += ["".join(address.itertext()).strip() for address in root]
    found = [usaddress.tokens2features(usaddress.tokenize(text)) for text in texts]
    X = list(islice(cycle([tokens for tokens in found if tokens]), N))
    model = str(Path(usaddress.__file__).with_name(usaddress.MODEL_FILE))
    tagger = pycrfsuite.Tagger()
    tagger.open(model)
    crf = CRF(model_filename=model)
    contenders = {
        "python-crfsuite": lambda: [tagger.tag(tokens) for tokens in X],
        "predict": lambda: crf.predict(X).tolist(),
        "predict_single": lambda: [crf.predict_single(tokens) for tokens in X],
    }
    seconds = interleave(contenders, args.rounds, process_time)
    worst = 0.0
    for tokens, marginals in zip(X, crf.predict_marginals(X), strict=True):
        tagger.set(tokens)
        pairs = [
            (tagger.marginal(label, i), p)
            for i, of_token in enumerate(marginals)
            for label, p in of_token.items()
        ]
        worst = max(worst, *(abs(a - b) for a, b in pairs))
    labels = contenders["python-crfsuite"]()
    rows = [
        {
            "call": name,
            "us/address": f"{seconds[name] / N * 1e6:.1f}",
            "as fast": f"{seconds['python-crfsuite'] / seconds[name]:.1f}",
            "equal labelings": sum(map(list.__eq__, run(), labels)),
            "marginals": "" if name == "python-crfsuite" else f"{worst:.0e}",
        }
        for name, run in contenders.items()
    ]
    notes = f"{describe_machine(['usaddress', 'python-crfsuite'])}\nMedian of {args.rounds} rounds"
    print_table(f"usaddress's model, {N:,} addresses", rows, notes, args.csv)


if __name__ == "__main__":
    main()
