// SPDX-License-Identifier: MIT
//
// Warp operations of the simulator: a rendezvous of the lanes of a mask. The last lane to arrive
// computes the results of all.
#include "sim.h"

namespace sim
{

static Thread *lane_of(const Thread &t, int lane)
{
  return &block.threads[t.number - static_cast<int>(t.seen.lane) + lane];
}

// The lanes of the operation that is being completed, in ascending order.
static struct {
  Thread *lanes[WARP];
  int numbers[WARP];
  int n;
} group;

static uint64_t reduce(int op, uint64_t x, uint64_t y)
{
  unsigned a = static_cast<unsigned>(x), b = static_cast<unsigned>(y);
  int sa = static_cast<int>(a), sb = static_cast<int>(b);
  switch (op) {
  case RGSIM_ADD:
    return a + b;
  case RGSIM_MAX_SIGNED:
    return sa < sb ? b : a;
  case RGSIM_MIN_SIGNED:
    return sb < sa ? b : a;
  case RGSIM_MAX_UNSIGNED:
    return a < b ? b : a;
  case RGSIM_MIN_UNSIGNED:
    return b < a ? b : a;
  case RGSIM_BIT_AND:
    return a & b;
  case RGSIM_BIT_OR:
    return a | b;
  default:
    return a ^ b;
  }
}

static void shuffle(void)
{
  for (int i = 0; i < group.n; i++) {
    Thread *t = group.lanes[i];
    if (t->source < 0 || t->source >= WARP || !(t->mask >> t->source & 1)) {
      fail(t->place, "the shuffle reads a lane that is not in its mask");
    }
    t->out = lane_of(*t, t->source)->in;
  }
}

static void match(bool all)
{
  for (int i = 0; i < group.n; i++) {
    Thread *t = group.lanes[i];
    unsigned equal = 0;
    for (int j = 0; j < group.n; j++) {
      if (group.lanes[j]->in == t->in) equal |= 1u << group.numbers[j];
    }
    t->out = all && equal != t->mask ? 0 : equal;
  }
}

static uint64_t combine(int op)
{
  uint64_t value = op == RGSIM_BALLOT ? 0 : group.lanes[0]->in;
  for (int i = 0; i < group.n; i++) {
    uint64_t in = group.lanes[i]->in;
    if (op == RGSIM_BALLOT) {
      value |= in << group.numbers[i];
    } else if (i > 0) {
      value = reduce(op, value, in);
    }
  }
  return value;
}

// All lanes of the mask have arrived.
static void complete(int op)
{
  for (int i = 0; i < group.n; i++) {
    if (group.lanes[i]->op != op) {
      fail(group.lanes[i]->place, "lanes of one mask are in different warp operations");
    }
  }
  switch (op) {
  case RGSIM_SYNC: {
    // The only warp operation that orders memory.
    Fiber *fibers[WARP];
    for (int i = 0; i < group.n; i++)
      fibers[i] = group.lanes[i]->fiber;
    tsan_meet(fibers, group.n, &group.lanes[0]->key);
    break;
  }
  case RGSIM_SHUFFLE:
    shuffle();
    break;
  case RGSIM_MATCH_ANY:
    match(false);
    break;
  case RGSIM_MATCH_ALL:
    match(true);
    break;
  case RGSIM_TILES:
  case RGSIM_TILES_TRANSPOSED:
  case RGSIM_MMA_BF16:
  case RGSIM_MMA_F16:
  case RGSIM_MMA_TF32:
  case RGSIM_MMA_BYTES:
    tensor(group.lanes, op);
    break;
  default: {
    uint64_t value = combine(op);
    for (int i = 0; i < group.n; i++)
      group.lanes[i]->out = value;
  }
  }
}

static void check_mask(const Thread &t, const Warp &warp)
{
  int lanes = block.n - (t.number - static_cast<int>(t.seen.lane));
  if (!(t.mask >> t.seen.lane & 1)) fail(t.place, "the calling lane is not in its own mask");
  if (lanes < WARP && t.mask >> lanes) fail(t.place, "the mask names lanes past the block's end");
  if (t.mask & warp.done) fail(t.place, "the mask names a lane that has ended");
}

// True when every lane of t's mask waits with the same mask; then they are the group.
static bool gather(const Thread &t, const Warp &warp)
{
  if ((warp.waiting & t.mask) != t.mask) return false;
  group.n = 0;
  for (unsigned rest = t.mask; rest; rest &= rest - 1) {
    int lane = __builtin_ctz(rest);
    Thread *other = lane_of(t, lane);
    if (other->mask != t.mask) return false;
    group.numbers[group.n] = lane;
    group.lanes[group.n++] = other;
  }
  return true;
}

void warp_lane_ended(const Thread &t)
{
  Warp &warp = block.warps[t.number / WARP];
  warp.done |= 1u << t.seen.lane;
  for (unsigned rest = warp.waiting; rest; rest &= rest - 1) {
    const Thread *other = lane_of(t, __builtin_ctz(rest));
    if (other->mask >> t.seen.lane & 1) {
      fail(other->place, "a lane has ended while others wait for it");
    }
  }
}

} // namespace sim

uint64_t rgsim_warp(unsigned mask, int op, int source, uint64_t bits, const char *what,
                    const char *file, int line)
{
  using namespace sim;
  Thread &t = *current;
  Warp &warp = block.warps[t.number / WARP];
  t.place = { what, file, line };
  t.mask = mask;
  t.op = op;
  t.source = source;
  t.in = bits;
  check_mask(t, warp);

  warp.waiting |= 1u << t.seen.lane;
  t.state = AT_WARP;
  if (gather(t, warp)) {
    complete(op);
    warp.waiting &= ~mask;
    for (int i = 0; i < group.n; i++)
      group.lanes[i]->state = READY;
  } else {
    park();
  }
  return t.out;
}
