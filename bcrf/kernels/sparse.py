# Python prefers the compiled module of this name.
from .not_compiled import refuse

refuse()
