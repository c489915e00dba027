/* SPDX-License-Identifier: MIT */
/*
** Moves between devices in a backward pass of calls that are made up: each as early as it can be,
** and not before what it has to wait for.
*/
#include "grad/pass.h"
#include "tap.h"

enum { MOST = 14, TRACKS = 6, TRIALS = 4000, PASS = 71 };

static uint32_t state = 1;

static int32_t below(int32_t n)
{
  state = state * 1103515245 + 12345;
  return (int32_t)(state >> 16) % n;
}

static const rg_op op_move = { .name = "move", .moves = true };
static const rg_op op_other = { .name = "other" };

typedef struct made {
  node node;
  place place[4]; /* inputs, then results */
} made;

static made calls[MOST];
static track tracks[TRACKS];

static void make(made *m, int64_t number)
{
  *m = (made){ .node = { .order = number } };
  m->node.call.op = below(3) == 0 ? &op_move : &op_other;
  m->node.call.n_in = m->node.call.op->moves ? 1 : 1 + below(2);
  m->node.call.n_out = m->node.call.op->moves ? 1 : 1 + below(2);
  m->node.n_visible = m->node.call.n_out;
  m->node.goes_back = !m->node.call.op->moves && below(8) == 0;
  m->node.in = m->place;
  m->node.out = m->place + m->node.call.n_in;
  for (int i = 0; i < 4; i++) {
    m->place[i].track = below(5) == 0 ? NULL : &tracks[below(TRACKS)];
  }
}

/* Does b, which is behind a, have to stay there? */
static bool waits(const node *b, const node *a)
{
  if (a->goes_back) {
    return true;
  }
  for (int32_t i = 0; i < b->call.n_in + b->n_visible; i++) {
    for (int32_t k = 0; k < a->call.n_in + a->n_visible; k++) {
      if (b->in[i].track != NULL && b->in[i].track == a->in[k].track) {
        return true;
      }
    }
  }
  return false;
}

static bool is_right(node *const *was, node *const *now, int64_t n)
{
  int64_t stands[MOST]; /* each call now */
  int64_t last_other = -1;

  for (int64_t i = 0; i < n; i++) {
    stands[i] = -1;
    for (int64_t k = 0; k < n; k++) {
      stands[i] = now[k] == was[i] ? k : stands[i];
    }
    if (stands[i] < 0) {
      return false; /* it is lost */
    }
  }
  for (int64_t i = 0; i < n; i++) {
    int64_t after = -1; /* the place that it has to be behind */

    if (!was[i]->call.op->moves) {
      if (stands[i] < last_other) {
        return false; /* what is no move stays in its order */
      }
      last_other = stands[i];
      continue;
    }
    for (int64_t k = 0; k < i; k++) {
      after = waits(was[i], was[k]) && stands[k] > after ? stands[k] : after;
    }
    if (stands[i] <= after) {
      return false; /* too early */
    }
    for (int64_t at = after + 1; at < stands[i]; at++) {
      if (!now[at]->call.op->moves) {
        return false; /* too late */
      }
    }
    for (int64_t at = stands[i] - 1; at >= 0 && now[at]->call.op->moves; at--) {
      if (now[at]->order > was[i]->order) {
        return false; /* moves behind one call keep their order */
      }
    }
  }
  return true;
}

int main(void)
{
  int32_t n_right = 0;
  int32_t n_moved = 0;

  for (int32_t trial = 0; trial < TRIALS; trial++) {
    node *was[MOST];
    node *now[MOST];
    int64_t n = 1 + below(MOST);
    backward_pass pass = { .number = PASS, .nodes = now, .n = n };
    bool right;

    for (int i = 0; i < TRACKS; i++) {
      tracks[i] = (track){ .met = below(2) != 0 ? PASS - 1 : 0 }; /* of an earlier pass, or none */
      tracks[i].last = below(MOST);
    }
    for (int64_t i = 0; i < n; i++) {
      make(&calls[i], i);
      was[i] = now[i] = &calls[i].node;
    }
    right = rg_pass_hasten(&pass) == RG_OK && is_right(was, now, n);
    n_right += right;
    for (int64_t i = 0; i < n; i++) {
      n_moved += now[i] != was[i];
    }
  }
  is_int(n_right, TRIALS, "each move is behind what it waits for, and no later");
  ok(n_moved > TRIALS, "and many are earlier than they were");
  {
    node *list[1] = { &calls[0].node };
    backward_pass pass = { .number = PASS, .nodes = list, .n = 1 };

    for (int64_t at = 1; at <= 2; at++) {
      rg_alloc_fail_at(at);
      is_status(rg_pass_hasten(&pass), RG_ENOMEM, "no memory for the order");
      rg_alloc_fail_at(0);
      ok(list[0] == &calls[0].node, "leaves it as it was");
    }
  }
  return done();
}
