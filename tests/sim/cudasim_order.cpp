// SPDX-License-Identifier: MIT
//
// The order in which the simulator does what may happen in any order. What is right in one order
// only is wrong on a device.
#include "sim.h"

#include <cstdio>
#include <cstdlib>
#include <string>

namespace sim
{

static auto &setting = *new std::string;
static uint64_t state = 1;

Order order(void)
{
  const char *s = getenv("RG_SIM_ORDER");
  if (!s || !*s || !strcmp(s, "fwd") || !strcmp(s, "now")) return FORWARD;
  if (!strcmp(s, "rev")) return REVERSE;
  if (!strcmp(s, "ahead")) return FORWARD;
  if (!strcmp(s, "ahead:rev")) return REVERSE;
  if (strncmp(s, "rand", 4)) {
    fprintf(stderr,
            "cudasim: RG_SIM_ORDER is fwd, now, rev, ahead, ahead:rev or rand:SEED, not '%s'\n", s);
    abort();
  }
  // A new seed starts a new sequence; the same one goes on, and does not repeat itself.
  if (setting != s) {
    setting = s;
    state = (s[4] == ':' ? strtoull(s + 5, nullptr, 10) : 0) * 0x9e3779b97f4a7c15u + 1;
  }
  return RANDOM;
}

bool order_is_ahead(void)
{
  const char *s = getenv("RG_SIM_ORDER");
  return s && !strncmp(s, "ahead", 5);
}

bool order_now(void)
{
  const char *s = getenv("RG_SIM_ORDER");
  return s && !strcmp(s, "now");
}

// splitmix64
uint64_t order_random(uint64_t below)
{
  uint64_t z = state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return (z ^ (z >> 31)) % below;
}

} // namespace sim
