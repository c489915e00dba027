/* SPDX-License-Identifier: MIT */
/*
** The random numbers of a recording.  A part that is computed again in the backward pass needs
** those of its first run, and a replay draws new ones: the calls of its second run, node and step,
** refer to those of the first, one by one, in the order in which they drew.
**
** The second run of the recording itself drew the numbers of the first one, because its streams
** were set back.  Where a call's numbers are others, the two runs do not draw alike, and there is
** no plan of which both passes would have the same.
*/
#include <string.h>

#include "graph/plan.h"
#include "graph/record.h"

enum { FIRST_ROOM = 16 };

static _Thread_local rg_recomputed again; /* what runs */

int32_t rg_record_draws(int64_t *recording)
{
  const rg_recording *r = rg_recording_now();

  *recording = r != NULL ? r->number : 0;
  return r != NULL ? r->n_draws : 0;
}

void rg_record_recomputed(rg_recomputed *part)
{
  const rg_recomputed before = again;

  again = *part;
  *part = before;
}

bool rg_recording_repeats(void)
{
  return again.on != 0;
}

static rg_status reserve(rg_recording *r)
{
  const int32_t room = (int32_t)rg_max_i64(2 * (int64_t)r->room, FIRST_ROOM);

  if (r->n_draws < r->room) {
    return RG_OK;
  }
  rg_recorded_draw *draws = rg_host_alloc((size_t)room * sizeof(*draws));

  if (draws == NULL) {
    return rg_fail(RG_ENOMEM, "graph: no memory for %d draws", room);
  }
  if (r->draws != NULL) {
    memcpy(draws, r->draws, (size_t)r->n_draws * sizeof(*draws));
  }
  rg_host_free(r->draws);
  r->draws = draws;
  r->room = room;
  return RG_OK;
}

static bool same_args(const rg_graph *g, const rg_ir_node *a, const rg_ir_node *b)
{
  return a->op->args_size == 0 || memcmp(rg_ir_args(g, a), rg_ir_args(g, b), a->op->args_size) == 0;
}

/* The draw that a call of a second run, a node by now, repeats. */
static rg_status find_first(const rg_recording *r, const rg_call *call, int32_t node,
                            const rg_recorded_draw **out)
{
  const char *name = call->op->name;

  if (again.next >= again.end || again.next >= r->n_draws) {
    return rg_fail(RG_ECAPTURE,
                   "recompute: %s draws random numbers in the second run of a part, and its first "
                   "run drew none there",
                   name);
  }
  const rg_recorded_draw *first = &r->draws[again.next];
  const rg_ir_node *of = rg_ir_node_at(r->g, first->node);

  if (call->op != of->op || call->n_draws != first->n) {
    return rg_fail(RG_ECAPTURE,
                   "recompute: %s draws %lld random numbers in the second run of a part, where %s "
                   "drew %lld in its first",
                   name, (long long)call->n_draws, of->op->name, (long long)first->n);
  }
  if (call->draw.seed != first->draw.seed || call->draw.offset != first->draw.offset ||
      !same_args(r->g, rg_ir_node_at(r->g, node), of)) {
    return rg_fail(RG_ECAPTURE,
                   "recompute: %s draws other random numbers in the second run of a part than in "
                   "its first",
                   name);
  }
  *out = first;
  return RG_OK;
}

rg_status rg_recording_drew(rg_recording *r, const rg_call *call, int32_t node)
{
  step *s = rg_capture_drew();
  rg_recorded_draw draw = {
    .node = node, .own = node, .step = s, .draw = call->draw, .n = call->n_draws
  };
  const rg_recorded_draw *first = NULL;

  RG_TRY(reserve(r));
  if (again.on != 0) {
    RG_TRY(find_first(r, call, node, &first));
    rg_ir_node *made = rg_ir_node_at(r->g, node);

    made->repeats = first->node;
    /* one of its own, made anew in both runs, is where the other one is */
    made->generator = rg_ir_node_at(r->g, first->node)->generator;
    s->repeats = first->step;
    draw.node = first->node;
    draw.step = first->step;
    again.next++;
  }
  r->draws[r->n_draws++] = draw;
  return RG_OK;
}

void rg_recording_undrew(rg_recording *r, int32_t node)
{
  for (; r->n_draws > 0 && r->draws[r->n_draws - 1].own > node; r->n_draws--) {
    const rg_recorded_draw *last = &r->draws[r->n_draws - 1];

    again.next -= last->node != last->own;
  }
}
