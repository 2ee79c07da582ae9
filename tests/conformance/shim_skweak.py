"""Our sources and chain in the place of skweak's hidden Markov model.

Its labeling functions, votes, and documents stay skweak's. Without en_core_web_md, a blank pipeline
makes the documents.
"""

import numpy as np
import pandas
import spacy
from shim_calls import pytest_runtest_call  # noqa: F401
from skweak import generative

from bcrf.chain import CRF
from bcrf.chain.votes import Votes, fit_votes
from bcrf.schemes import get_scheme, read_spans

load = spacy.load


def load_or_blank(name, **options):
    return load(name, **options) if spacy.util.is_package(name) else spacy.blank("en")


def find_means(model):
    """Return which of the labels each observed label means, by its name."""
    labels = model.out_labels_no_prefixes
    groups = {name.partition("-")[2]: fine for name, fine in model.label_groups.items()}
    if "" in groups:
        raise NotImplementedError("labels of several chains that exclude each other")
    names = {name.partition("-")[2]: None for name in model.observed_labels[1:]}
    means = {
        name: [
            label in {name, *(x.partition("-")[2] for x in groups.get(name, ()))}
            for label in labels
        ]
        for name in names
    }
    return {name: row for name, row in means.items() if any(row)}


def read_votes(model, obs, means):
    names, looked, found = list(means), np.ones(len(obs), dtype=bool), []
    for source in model.sources:
        column = obs[source] if source in obs else np.zeros(len(obs), dtype=int)
        spans = read_spans([model.observed_labels[max(x, 0)] for x in column])
        rows = [(start, end, names.index(label)) for start, end, label in spans if label in means]
        found.append(Votes.of(rows, looked, list(means.values())))
    return found


def fit(model, all_obs, **options):
    all_obs = [obs for obs in all_obs if len(obs.columns)]
    model.sources = sorted({source for obs in all_obs for source in obs.columns})
    means, labels = find_means(model), model.out_labels_no_prefixes
    votes = [read_votes(model, obs, means) for obs in all_obs]
    joined = [Votes.join(of_source) for of_source in zip(*votes, strict=True)]
    # One of several chains may have a label without votes. Ours learns nothing from nothing.
    model.votes = None
    if any(len(of_source.starts) for of_source in joined):
        scheme = get_scheme(model.prefixes)
        allowed = scheme.constraints(labels)
        lengths = np.array([len(obs) for obs in all_obs], dtype="int32")
        model.votes = fit_votes(joined, lengths, scheme.span_tags(labels), allowed)


def aggregate(model, obs):
    if model.votes is None:
        unary = np.eye(1, len(model.out_labels)).repeat(len(obs), axis=0)
    else:
        votes = read_votes(model, obs, find_means(model))
        chain = model.votes.posterior(votes, np.array([len(obs)], dtype="int32"))
        unary = CRF().marginals(chain).unary
    return pandas.DataFrame(unary, obs.index, model.out_labels)


spacy.load = load_or_blank
generative.HMM._fit, generative.HMM.aggregate = fit, aggregate
