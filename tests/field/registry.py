"""The table of conditions. A row has its kind, of which a field has some (table.py says how many), and what it does to a field;
`nodes` are the hosts that it is on. What it changes in what must be seen it says in the field: which names, which interfaces
count, or the one clear error with which commands end."""
import dataclasses

# In this order they are brought about: names before what changes how they resolve, faults last.
KINDS = ("naming", "resolution", "limits", "ssh", "interfaces", "variables", "fault")


@dataclasses.dataclass
class Condition:
    name: str
    kind: str
    apply: object
    one: bool = False       # on one host, always
    all: bool = False       # on all hosts, always
    unlike: tuple = ()      # not beside these names or kinds
    commands: tuple = ()    # only these commands are about it; empty: all
    healthy: bool = False   # nothing else is a fault then
    link: str = ""          # a type of links that the kernel must have
    cgroup: str = ""        # a controller that must be there


CONDITIONS = {}


def condition(kind, name, **more):
    def add(function):
        CONDITIONS[name] = Condition(name, kind, function, **more)
        return function
    return add
