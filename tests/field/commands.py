"""The commands of a field, and what must hold of what each says: on healthy hosts nobody is accused and the right interfaces
are used; with a fault its culprit is named, with its direction, and nobody else."""
import json
import re

COMMANDS = {}


def command(function):
    COMMANDS[function.__name__] = function
    return function


class Wrong(Exception):
    """Something did not hold."""


def must(holds, text):
    if not holds:
        raise Wrong(text)


def report_of(done, schema):
    try:
        report = json.loads(done.out)
    except ValueError:
        raise Wrong(f"code {done.code} and no report") from None
    must(report.get("schema") == schema, f"the report is a {report.get('schema')}")
    return report


def is_code(done, *codes):
    must(done.code in codes, f"exit code {done.code}, expected {' or '.join(map(str, codes))}")


def clear_error(field, done):
    """Whether the field is one in which commands end with one error; that it is that one."""
    if field.clear is None:
        return False
    codes, pattern = field.clear
    is_code(done, *codes)
    must(re.search(pattern, done.out + done.err), f"no word of /{pattern}/")
    try:
        named = accused(json.loads(done.out))
    except (ValueError, KeyError):
        return True  # no command that accuses
    must(all(field.at_fault and name.startswith(field.at_fault) for name in named), f"named: {'; '.join(sorted(named))}")
    return True


def accused(report):
    return {f"{c['kind']} {c['name']}" for c in report["culprits"]}


def of_link(field):
    """What may stand for the way from the one to the other that the fault is on."""
    a, b = (field.given[i] for i in (field.victim, field.other))
    nics = f"link {a} {field.nics[field.victim][0]} -> {b} {field.nics[field.other][0]}"
    either = " - ".join(field.given[i] for i in sorted((field.victim, field.other)))
    return {f"link {either}", f"link {a} -> {b}", nics}


def of_way_back(field):
    """A connection takes both ways, so a test that only connects cannot tell them apart."""
    return {f"link {field.given[field.other]} -> {field.given[field.victim]}"}


def ends(field):
    return [field.given[i] for i in (field.victim, field.other) if i]


def of_victim(field):
    """What may stand for the host that the fault is on."""
    host = field.given[field.victim]
    return {f"host {host}"} | {f"nic {host} {nic}" for nic in field.nics[field.victim]}


WAYS = {"slow-out": "what it sends", "slow-in": "what it receives"}
SAYS = {"mtu": "give every port and switch on the path the same MTU", "narrow": "has MTU 1400, most hosts have MTU"}
MAY_SAY = {"loss": "what it receives"}


def names_culprit(field, report, done):
    """Of commands that judge paths: check and rails."""
    named = accused(report)
    said = f"named: {'; '.join(sorted(named)) or 'nobody'}"
    if field.fault == "none":
        is_code(done, 0)
        must(not named and report["verdict"]["ok"], f"{said}, on healthy hosts: {reasons(report)}")
    elif field.fault == "blackhole":
        is_code(done, 1)
        must(named and named <= of_link(field), f"{said}, expected the link {' -> '.join(ends(field))}")
    elif field.fault == "busy":  # whether that makes it slow is not known
        is_code(done, 0, 1, 8)
        must(named <= of_victim(field), f"{said}, expected host {field.given[field.victim]} or nobody")
    else:
        is_code(done, 1)
        must(named and named <= of_victim(field), f"{said}, expected host {field.given[field.victim]}")
        texts = " ".join(c["evidence"] for c in report["culprits"])
        if field.fault in SAYS:
            must(SAYS[field.fault] in texts + " ".join(r["remedy"] or "" for r in report["checks"]),
                 f"no word of '{SAYS[field.fault]}': {texts}")
        for fault, way in WAYS.items():
            if field.fault != fault:
                must(way not in texts or MAY_SAY.get(field.fault) == way, f"said that it is {way}: {texts}")
            else:
                must(way in texts, f"not said that it is {way}: {texts}")


def reasons(report):
    return "; ".join(r["message"] for r in report["verdict"]["reasons"])


def right_interfaces(field, report):
    """Of a measurement: what links between hosts use."""
    host_of = {rank: at for at, host in zip(field.nodes, report["hosts"]) for rank in host["ranks"]}
    between = [l for l in report["links"] if host_of[l["from"]] != host_of[l["to"]]]
    must(between, "no link between hosts")
    for l in between:
        for rank, nic in ((l["from"], l.get("from_nic")), (l["to"], l.get("to_nic"))):
            must(nic in field.nics[host_of[rank]], f"rank {rank} uses {nic}, expected {' or '.join(field.nics[host_of[rank]])}")


def measured(field, done):
    """A measurement that must have worked."""
    is_code(done, 0)
    report = report_of(done, "collctl.bench/1")
    must(report["verdict"]["ok"], f"the verdict: {reasons(report)}")
    for row in report["results"]:
        for place in ("out_of_place", "in_place"):
            must(row.get(place, {}).get("wrong", 0) == 0, f"wrong elements {place}")
    must(len(report["hosts"]) == field.count, f"{len(report['hosts'])} hosts, expected {field.count}")
    right_interfaces(field, report)
    return report


SMALL = ("allreduce", "-b", "8", "-e", "8", "--iters", "2", "--json")
LARGE = ("allreduce", "-b", "256K", "-e", "256K", "--iters", "1", "--warmup", "1", "--json", "--op-timeout", "5")


def names_an_end(field, done, also=frozenset()):
    """Of a job over a way that is broken, which the ring of a large operation need not cross."""
    is_code(done, 0, 5, 6)
    first = next((line for line in done.err.splitlines() if "error:" in line), "")
    names = {name for end in (field.victim, field.other) if end for name in (field.given[end], field.name(end), field.within[end])} | also
    must(done.code == 0 or any(name in first for name in names), f"none of {' '.join(sorted(names))} in: {first}")
    accused = re.search(r"error: (?:host|rank \d+ \(host) ([^ :)]+)", first)
    must(not accused or accused[1] in names, f"{accused and accused[1]} is accused: {first}")


@command
def run(field):
    lost = field.fault in ("blackhole", "mtu")
    done = field.collctl("run", "HOSTS", *(LARGE if lost else SMALL))
    if clear_error(field, done):
        return done
    if not lost:
        names = [host["host"] for host in measured(field, done)["hosts"]]
        must(names == list(field.given.values()), f"hosts are called {' '.join(names)}")
        return done
    is_code(done, *((0, 5, 6) if field.fault == "blackhole" else (6,)))
    names_an_end(field, done)
    return done


@command
def check(field):
    suites = {"none": "doctor,pairs", "cores": "doctor,pairs"}.get(field.fault, "pairs")
    field.even()
    done = field.collctl("check", "HOSTS", "--level", "quick", "--only", suites, "--json")
    if not clear_error(field, done):
        names_culprit(field, report_of(done, "collctl.check/1"), done)
    return done


@command
def rails(field):
    field.even()
    done = field.collctl("run", "HOSTS", "rails", "--json")
    if clear_error(field, done):
        return done
    report = report_of(done, "collctl.rails/1")
    for node, host in zip(field.nodes, report["hosts"]):
        nics = [nic["name"] for nic in host["nics"]]
        must(sorted(nics) == sorted(field.rails[node]), f"{host['host']} has {' '.join(nics)}, expected {' '.join(field.rails[node])}")
        must(host["host"] == field.given[node], f"{field.given[node]} is called {host['host']}")
    if field.fault == "cores":  # of its own processors rails says nothing; its paths may be slow for it
        is_code(done, 0, 1)
        must(accused(report) <= of_victim(field), f"named: {'; '.join(accused(report))}")
    else:
        names_culprit(field, report, done)
    return done


@command
def doctor(field):
    done = field.collctl("doctor", "HOSTS", "--json")
    if clear_error(field, done):
        return done
    report = report_of(done, "collctl.doctor/1")
    named = accused(report)
    may = of_link(field) | of_way_back(field) if field.fault == "blackhole" else of_victim(field) if field.fault in ("cores", "mtu") else set()
    if field.fault == "loss":  # a trial of one of its ways may fail
        may = {name for name in named if name.startswith("link ") and field.given[field.victim] in name.split()}
    must(named <= may, f"named: {'; '.join(sorted(named))}")
    failed = [check for check in report["checks"] if check["status"] == "fail"]
    if field.fault == "narrow":
        must(failed and all(check["name"] == "network" and check["host"] == field.given[field.victim] for check in failed),
             f"failed: {'; '.join(check['message'] for check in failed) or 'nothing'}")
    elif field.fault not in ("blackhole", "cores", "mtu"):  # what is lost may fail a trial of its own ways, and of no others
        lossy = field.given[field.victim] if field.fault == "loss" else None
        for check in failed:
            must(lossy and lossy in (check["host"], check["peer"]),
                 f"failed: {check['name']} of {check['host']}: {check['message']}")
    is_code(done, 1 if failed or field.fault in ("blackhole", "cores") else 0)
    return done


@command
def topo(field):
    done = field.collctl("topo", "HOSTS", "--json")
    if clear_error(field, done):
        return done
    is_code(done, 0)
    report = report_of(done, "collctl.topo-hosts/1")
    names = [host["host"] for host in report["hosts"]]
    must(names == list(field.given.values()), f"hosts are called {' '.join(names)}")
    return done


@command
def window(field):
    """Ranks of several hosts cannot map each other's memory; all else is tested."""
    done = field.collctl("run", "HOSTS", "window-test", "--iters", "1", "--json")
    if clear_error(field, done):
        return done
    is_code(done, 8)
    report = report_of(done, "collctl.window-test/1")
    codes = {r["code"] for r in report["verdict"]["reasons"]}
    must(codes == {"not-tested"} and "map each other's memory" in reasons(report), f"the verdict: {reasons(report)}")
    return done


def all_work(field):
    """Whether every rank is in its operations; gives the job."""
    def holds(report):
        """every rank works"""
        jobs = report["jobs"]
        ranks = jobs[0]["ranks"] if jobs else []
        return jobs[0] if len(ranks) == sum(field.slots.values()) and all(r["doing"] and r["doing"]["calls"] > 0 for r in ranks) else None
    return holds


def called_as_given(field, hosts):
    names = [field.given[i] for i in field.nodes for _ in range(field.slots[i])]
    must(hosts == names, f"hosts are called {' '.join(hosts)}")


@command
def status(field):
    with field.working("run", "HOSTS", *SMALL) as job:
        state = job.looks(all_work(field))
        done = job.end()
    if clear_error(field, done):
        return done
    must(state, "the job ended before all of its ranks worked")
    called_as_given(field, [rank["host"] for rank in state["ranks"]])
    measured(field, done)
    return done


@command
def shrink(field):
    """A rank is killed; the others go on without it."""
    lost_at = field.victim or field.count
    with field.working("run", "HOSTS", "--on-loss", "shrink", *SMALL) as job:
        state = job.looks(all_work(field))
        if state:
            lost = next(n for n, rank in enumerate(state["ranks"]) if rank["host"] == field.given[lost_at])
            field.kill(lost_at, state["ranks"][lost]["pid"])
            alone = len(state["ranks"]) == 2  # one rank is no communicator: the job ends as without shrinking
            begun = job.looks(without(lost))
            must(alone or begun and job.looks(further(lost, begun)), "the job ended when it had lost a rank")
        done = job.end()
    if clear_error(field, done):
        return done
    must(state, "the job ended before all of its ranks worked")
    if alone:
        is_code(done, 5)
        names_an_end(field, done, {field.given[lost_at]})
        return done
    is_code(done, 8)
    report = report_of(done, "collctl.bench/1")
    must([each["host"] for each in report["lost"]] == [field.given[lost_at]], f"lost: {report['lost']}, expected one of {field.given[lost_at]}")
    must(all(row.get(place, {}).get("wrong", 0) == 0 for row in report["results"] for place in ("out_of_place", "in_place")), "wrong elements")
    return done


def without(lost):
    def holds(report):
        """the rank that was killed is gone; gives how often the others were called until then"""
        ranks = report["jobs"][0]["ranks"] if report["jobs"] else []
        calls = [rank["doing"] and rank["doing"]["calls"] for n, rank in enumerate(ranks) if n != lost]
        return calls if ranks and ranks[lost]["state"] == "" and all(calls) else None
    return holds


def further(lost, before):
    def holds(report):
        """the others work again"""
        ranks = report["jobs"][0]["ranks"] if report["jobs"] else []
        now = [rank["doing"]["calls"] if rank["doing"] else 0 for n, rank in enumerate(ranks) if n != lost]
        return len(now) == len(before) and all(a > b + 10 for a, b in zip(now, before))
    return holds


def joined(field, line_of, environment_of):
    ranks = field.on_each(line_of, environment_of)
    if field.fault in ("blackhole", "mtu"):  # ranks meet over the way that is broken, where they need it
        # A rank that never reached the others is known to them by its number alone.
        numbers = {f"missing: rank {end - 1}" for end in (field.victim, field.other) if end}
        for done in ranks:
            names_an_end(field, done, numbers)
        return ranks[0]
    for done in ranks[1:] if field.clear is None else []:
        is_code(done, 0)
    if not clear_error(field, ranks[0]):
        measured(field, ranks[0])
    return ranks[0]


TOKEN = {"COLLCTL_TOKEN": "a-token-of-the-field"}


@command
def join(field):
    at = field.bracketed(field.within[1])
    return joined(field, lambda i: [field.binary, "run", "--join", f"{at}:29400", "--rank", str(i - 1), "--size", str(field.count), *SMALL],
                  lambda i: TOKEN)


@command
def torchrun(field):
    return joined(field, lambda i: [field.binary, *SMALL],
                  lambda i: TOKEN | {"RANK": str(i - 1), "WORLD_SIZE": str(field.count), "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
                                     "MASTER_ADDR": field.within[1], "MASTER_PORT": "29500"})
