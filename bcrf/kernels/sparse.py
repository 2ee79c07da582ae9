# Python prefers the compiled module of this name.
from . import not_compiled as not_compiled
