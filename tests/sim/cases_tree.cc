// Hosts that are reached from hosts, and jobs that go on without whom they lose.
#include <algorithm>

#include "base/format.h"
#include "tests/sim/scene.h"

namespace collctl::sim {

using K = FaultKind;

namespace {

// Hosts 0 to 3 behind node00, 4 to 7 behind node04; of four, each head carries those behind it.
Plan tree(std::vector<Fault> faults) {
  Plan plan = working(8, std::move(faults));
  plan.tree_width = 2;
  plan.per_host = 1;
  plan.heartbeat_s = 4;
  return plan;
}

Plan shrinking(int hosts, std::vector<Fault> faults) {
  Plan plan = working(hosts, std::move(faults));
  plan.shrink = true;
  plan.works_s = 10;
  plan.op_timeout_s = 4;
  plan.heartbeat_s = 6;
  return plan;
}

// All that were lost, in any order and number of steps, and no other.
void expect_lost(Findings& findings, const Ran& ran, std::vector<int> ranks) {
  std::vector<int> lost;
  for (const cmd::Shrunk& shrunk : ran.shrunk)
    for (const cmd::LostRanks& some : shrunk.lost)
      lost.insert(lost.end(), some.ranks.begin(), some.ranks.end());
  std::sort(lost.begin(), lost.end());
  std::string text;
  for (const int rank : lost) text += format(" {}", rank);
  findings.expect(lost == ranks, "others were left out:" + text);
}

}  // namespace

SIM_CASE("a tree without faults, and its launcher interrupted and killed") {
  expect_end(findings, tree({}), seed, {.code = 0});
  expect_end(findings, tree({{K::interrupt, 5}}), seed, {.code = 130, .within_s = 2.5});
  expect_end(findings, tree({{K::kill_launcher, 5}}), seed, {.code = 137});
}

SIM_CASE("an agent that carries others is killed: it is named, not they") {
  const Ran ran = expect_end(findings, tree({{K::kill_agent, 5, 4}}), seed,
                             {.code = 5, .says = {"host node04"}, .within_s = 4});
  findings.expect(ran.outcome && ran.outcome->error && ran.outcome->error->host == "node04",
                  "it is not node04 that is named");
}

SIM_CASE("an agent that carries others is mute, then killed: it is named, not they") {
  // In a ring of several behind it most wait for those, and few for its own ranks.
  Plan plan = working(9, {{K::mute_host, 5, 3}, {K::kill_agent, 8, 3}});
  plan.tree_width = 3;
  plan.per_host = 1;
  const Ran ran = expect_end(findings, plan, seed, {.code = 5, .within_s = 1.5 + 2 + 2});
  findings.expect(ran.outcome && ran.outcome->error && ran.outcome->error->host == "node03",
                  "it is not node03 that is named");
}

// Those behind it hear from the launcher through it, and give up when they do not.
SIM_CASE("an agent that carries others stands still for most of the heartbeat: it is named") {
  Plan plan = tree({{.kind = K::stop_agent, .at_s = 5, .what = 4, .lasts_s = 1.9}});
  plan.heartbeat_s = 2;
  const Ran ran = expect_end(findings, plan, seed, {.code = 5});
  findings.expect(ran.outcome && ran.outcome->error && ran.outcome->error->host == "node04",
                  "it is not node04 that is named");
}

SIM_CASE("a leaf's agent is killed: only it is named") {
  expect_end(findings, tree({{K::kill_agent, 5, 7}}), seed,
             {.code = 5, .says = {"host node07", "its agent was killed by"}, .within_s = 4});
}

SIM_CASE("an agent that carries others is stopped; its cable is pulled") {
  for (const K what : {K::stop_agent, K::cut_host}) {
    const Ran ran =
        expect_end(findings, tree({{what, 5, 4}}), seed, {.code = 5, .within_s = 4 + 5});
    findings.expect(ran.outcome && ran.outcome->error && ran.outcome->error->host == "node04",
                    "it is not node04 that is named");
  }
}

SIM_CASE("a tree goes on without what was cut off") {
  Plan plan = tree({{K::kill_agent, 3, 4}});
  plan.shrink = true;
  plan.works_s = 10;
  expect_lost(findings, expect_end(findings, plan, seed, {.code = 0}), {4, 5, 6, 7});
}

SIM_CASE("going on without a rank that is killed, or rank 0") {
  expect_lost(findings,
              expect_end(findings, shrinking(3, {{K::kill_rank, 3, 2}}), seed, {.code = 0}), {2});
  expect_lost(findings,
              expect_end(findings, shrinking(3, {{K::kill_rank, 3, 0}, {K::kill_rank, 3, 1}}), seed,
                         {.code = 0}),
              {0, 1});
}

SIM_CASE("going on without a host whose agent is killed, or that is cut off") {
  expect_lost(findings,
              expect_end(findings, shrinking(3, {{K::kill_agent, 3, 1}}), seed, {.code = 0}),
              {2, 3});
  Plan plan = shrinking(3, {{K::cut_host, 3, 1}});
  plan.op_timeout_s = 30;  // the heartbeat finds it
  expect_lost(findings, expect_end(findings, plan, seed, {.code = 0}), {2, 3});
}

SIM_CASE("two hosts at once, and a third while the others form anew") {
  expect_lost(
      findings,
      expect_end(
          findings,
          shrinking(5, {{K::kill_agent, 3, 1}, {K::kill_agent, 3, 3}, {K::kill_agent, 3.05, 4}}),
          seed, {.code = 0}),
      {2, 3, 6, 7, 8, 9});
}

SIM_CASE("a stopped rank is lost after the operation's time, and is gone") {
  expect_lost(findings,
              expect_end(findings, shrinking(3, {{K::stop_rank, 3, 2}}), seed, {.code = 0}), {2});
}

SIM_CASE("all but one are lost: the job ends as without shrinking") {
  Plan plan = shrinking(3, {{K::kill_agent, 3, 1}, {K::kill_agent, 3, 2}});
  plan.per_host = 1;
  const Ran ran = expect_end(findings, plan, seed, {.code = 5});
  findings.expect(ran.shrunk.empty(), "it went on");
}

SIM_CASE("a way between two hosts that live is cut: whom to leave out would be a guess") {
  Plan plan = shrinking(3, {{K::cut_way, 3, 1, 2}});
  plan.per_host = 1;
  const Ran ran = expect_end(findings, plan, seed, {.code = 6, .says = {"cannot reach rank"}});
  findings.expect(ran.shrunk.empty(), "it went on");
}

SIM_CASE("Ctrl-C while the others form anew") {
  expect_end(findings, shrinking(3, {{K::kill_rank, 3, 2}, {K::interrupt, 3.03}}), seed,
             {.code = 130, .within_s = 2.5});
}

SIM_CASE("who asks is told who waits for whom") {
  const Ran ran = expect_end(findings, working(2, {{K::stop_rank, 5, 3, 0, 10}}), seed, {.code = 0},
                             {.ask_at_s = {2, 8}});
  findings.expect(ran.answers.size() == 2, format("{} answers", ran.answers.size()));
  if (ran.answers.size() != 2) return;
  findings.expect(ran.answers[0].find("\"awaited\":[]") != std::string::npos,
                  "somebody is waited for: " + ran.answers[0]);
  findings.expect(ran.answers[1].find("\"awaited\":[{\"rank\":3") != std::string::npos &&
                      ran.answers[1].find("\"T\"") != std::string::npos,
                  "rank 3 is not waited for: " + ran.answers[1]);
}

}  // namespace collctl::sim
