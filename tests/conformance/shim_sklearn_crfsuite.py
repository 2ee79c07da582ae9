"""`spacy_bcrf.sklearn.CRF` in the place of sklearn_crfsuite's."""

import sklearn_crfsuite

import spacy_bcrf.sklearn

sklearn_crfsuite.CRF = spacy_bcrf.sklearn.CRF
