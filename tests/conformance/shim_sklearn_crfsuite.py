"""`bcrf.sklearn.CRF` in the place of sklearn_crfsuite's."""

import sklearn_crfsuite

import bcrf.sklearn

sklearn_crfsuite.CRF = bcrf.sklearn.CRF
