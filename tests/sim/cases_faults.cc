// Jobs on hosts in which something breaks, is stopped or ended: who is named, how soon, what stays.
#include "tests/sim/scene.h"

namespace collctl::sim {

using K = FaultKind;

SIM_CASE("a job without faults") {
  const Ran ran = expect_end(findings, working(3, {}), seed, {.code = 0});
  findings.expect(ran.records > 0, "no records came");
}

SIM_CASE("a rank is killed") {
  expect_end(findings, working(2, {{K::kill_rank, 5, 2}}), seed,
             {.code = 5, .says = {"SIGKILL"}, .hosts = {1}, .rank = 2, .within_s = 2.2});
}

SIM_CASE("a rank is stopped: who waits for it says so in the operation's time") {
  for (const bool ring : {true, false}) {
    Plan plan = working(2, {{K::stop_rank, 5, 3}});
    plan.op_timeout_s = 4;
    plan.ring = ring;
    expect_end(findings, plan, seed,
               {.code = 6,
                .says = {"stopped (state T)", "kill -CONT"},
                .hosts = {1},
                .rank = 3,
                .within_s = 4 + 2.2});
  }
}

SIM_CASE("a rank that is stopped for less than an operation may take costs nothing") {
  Plan plan = working(2, {{K::stop_rank, 5, 3, 0, 3.5}});
  plan.op_timeout_s = 4;
  expect_end(findings, plan, seed, {.code = 0});
}

SIM_CASE("an agent is killed: its ranks go with it") {
  expect_end(
      findings, working(2, {{K::kill_agent, 5, 1}}), seed,
      {.code = 5, .says = {"its agent was killed by signal 9"}, .hosts = {1}, .within_s = 2.2});
}

SIM_CASE("a link is taken down during the run") {
  Plan plan = working(3, {{K::cut_host, 5, 2}});
  plan.heartbeat_s = 6;
  expect_end(findings, plan, seed,
             {.code = 5,
              .says = {"host node02 was lost", "no heartbeat"},
              .hosts = {2},
              .within_s = 6 + 4});
}

SIM_CASE("what is sent one way is lost: the host is named whichever way it is") {
  for (const K way : {K::deaf_host, K::mute_host}) {
    Plan plan = working(3, {{way, 5, 2}});
    plan.heartbeat_s = 6;
    expect_end(findings, plan, seed, {.code = 5, .hosts = {2}, .within_s = 6 + 4});
  }
}

SIM_CASE("the launcher is killed, and its hosts cut off: the guards miss its heartbeat") {
  expect_end(findings, working(2, {{K::kill_launcher, 5}}), seed, {.code = 137});
  Plan plan = working(2, {{K::cut_host, 5, 0}, {K::cut_host, 5, 1}, {K::kill_launcher, 5.1}});
  plan.heartbeat_s = 5;
  const Ran ran = expect_end(findings, plan, seed, {.code = 137});
  findings.expect(ran.gone_s < 5 + 5 + plan.grace_s + 1, "hosts wait for longer");
}

SIM_CASE("Ctrl-C: while ranks work, and while a host does not answer") {
  expect_end(findings, working(2, {{K::interrupt, 5}}), seed, {.code = 130, .within_s = 1});
  expect_end(findings, working(2, {{K::slow_host, 0, 1, 0, 60}, {K::interrupt, 2}}), seed,
             {.code = 130, .within_s = 2.5});
}

SIM_CASE("Ctrl-Z for longer than the heartbeat, an operation and the job may take") {
  Plan plan = working(2, {{K::suspend, 5, 0, 0, 90}});
  plan.heartbeat_s = 4;
  plan.timeout_s = 80;
  expect_end(findings, plan, seed, {.code = 0});
}

SIM_CASE("Ctrl-Z and fg, and then a rank that hangs: its time begins when it does") {
  Plan plan = working(2, {{K::suspend, 5, 0, 0, 90}, {K::stop_rank, 96, 2}});
  plan.works_s = 100;
  plan.timeout_s = 120;
  expect_end(findings, plan, seed, {.code = 6, .rank = 2});
}

SIM_CASE("Ctrl-Z while ranks start up: the time in which it was stopped does not count") {
  for (const double at_s : {0.08, 0.12, 0.16, 0.2}) {
    Plan plan = working(4, {{K::suspend, at_s, 0, 0, 12}});
    plan.start_timeout_s = 8;
    plan.seed = seed;
    const Ran ran = run_plan(plan);
    findings.expect(ran.outcome.has_value(), "no outcome");
    findings.expect(
        !ran.outcome || !ran.outcome->error ||
            ran.outcome->error->message.find("did not start up within") == std::string::npos,
        "the launcher counts the time in which it was stopped");
  }
}

SIM_CASE("the time of the whole job passes while hosts are awaited") {
  Plan plan = working(2, {{K::slow_host, 0, 1, 0, 60}});
  plan.timeout_s = 8;
  expect_end(findings, plan, seed,
             {.code = 6,
              .says = {"host node01: not up within 8 s (--timeout)"},
              .hosts = {1},
              .within_s = 8 + 2.5});
}

SIM_CASE("the time of the whole job passes while ranks work: where they are, who waits for whom") {
  Plan plan = working(2, {{K::stop_rank, 5, 2}});
  plan.timeout_s = 12;
  expect_end(findings, plan, seed,
             {.code = 6,
              .says = {"did not end within 12 s (--timeout)", "rank 2 (host node01) stopped",
                       "wait 1 s for rank 2"},
              .within_s = 7 + 1 + 2.5});
}

SIM_CASE("a launcher that was stopped blames nobody") {
  // While it connects.
  Plan plan = working(2, {{K::stop_launcher, 0.01, 0, 0, 8}});
  plan.start_timeout_s = 5;
  expect_end(findings, plan, seed, {.code = 0});
  // Longer than the hosts wait, at the least that they may; and just about as long.
  for (const auto& [heartbeat_s, stopped_s] : {std::pair(4.0, 9.0), {2.0, 1.9}, {2.0, 3.0}}) {
    plan = working(2, {{K::stop_launcher, 5, 0, 0, stopped_s}});
    plan.heartbeat_s = heartbeat_s;
    plan.seed = seed;
    const Ran ran = run_plan(plan);
    if (ran.outcome && ran.outcome->exit_code == 0 && stopped_s < heartbeat_s) continue;
    expect_end(findings, plan, seed,
               {.code = 5,
                .says = {"collctl itself did not run for"},
                .lacks = {"was lost during the run"}});
  }
  // The ranks came to their end meanwhile, before the hosts' patience was over.
  plan = working(2, {{K::stop_launcher, 5, 0, 0, 9}});
  plan.works_s = 6;
  plan.heartbeat_s = 4;
  expect_end(findings, plan, seed, {.code = 0});
}

SIM_CASE(
    "a way that is broken while ranks connect: both ends are named, and nobody who only waits") {
  for (const auto& [from, to] : {std::pair(2, 1), {1, 2}, {3, 0}}) {
    Plan plan = working(4, {{K::cut_way, 0, from, to}});
    plan.start_timeout_s = 16;
    expect_end(findings, plan, seed,
               {.code = 6, .says = {"cannot connect to", "collctl doctor"}, .within_s = 16 + 4});
  }
}

SIM_CASE("ranks' own deadlines come before the launcher's, however long hosts took to come up") {
  Plan plan = working(3, {{K::slow_host, 0, 1, 0, 9}, {K::cut_way, 0, 1, 2}});
  plan.start_timeout_s = 16;
  expect_end(findings, plan, seed,
             {.code = 6,
              .says = {"cannot connect to"},
              .lacks = {"did not start up"},
              .within_s = 16 + 4});
}

SIM_CASE("a way that breaks while ranks work: both ends are named") {
  for (const auto& [from, to] : {std::pair(1, 2), {2, 1}, {3, 0}}) {
    Plan plan = working(4, {{K::cut_way, 5, from, to}});
    plan.op_timeout_s = 5;
    plan.per_host = 1;
    expect_end(findings, plan, seed,
               {.code = 6,
                .says = {"cannot reach rank", "has acknowledged nothing for"},
                .within_s = 5 + 2.5});
  }
}

SIM_CASE("an end of a broken way is busy and says so late: nobody else is named") {
  Plan plan = working(4, {{K::cut_way, 5, 1, 2}});
  plan.op_timeout_s = 5;
  plan.per_host = 1;
  plan.looks_s = 2.5;
  expect_end(findings, plan, seed,
             {.code = 6,
              .says = {"cannot reach rank", "has acknowledged nothing for"},
              .within_s = 5 + 4});
}

SIM_CASE("a host is cut off while others are brought up: its agent leaves") {
  Plan plan = working(2, {{K::slow_host, 0, 1, 0, 40}, {K::cut_host, 0.5, 0}});
  plan.heartbeat_s = 4;
  expect_end(findings, plan, seed, {.code = 4, .says = {"node00"}});
}

SIM_CASE(
    "an agent that is stopped while its ranks die: its host is named, and not those who lost "
    "them") {
  Plan plan =
      working(3, {{K::stop_agent, 5, 1}, {K::kill_rank, 5.001, 2}, {K::kill_rank, 5.001, 3}});
  plan.op_timeout_s = 3;
  expect_end(findings, plan, seed, {.code = 5, .hosts = {1}, .within_s = 15 + 4});
  plan.faults = {{K::stop_agent, 5, 1}, {K::stop_rank, 5.001, 2}, {K::stop_rank, 5.001, 3}};
  expect_end(findings, plan, seed, {.code = 5, .hosts = {1}, .within_s = 15 + 4});
}

SIM_CASE("an agent that repeats itself costs its host") {
  Plan plan = working(2, {{K::repeat, 5, 1}, {K::kill_rank, 5.5, 2}});
  plan.seed = seed;
  const Ran ran = run_plan(plan);
  findings.expect(ran.outcome && ran.outcome->error && ran.outcome->error->host == "node01",
                  "its host is not named");
}

}  // namespace collctl::sim
