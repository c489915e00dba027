/* SPDX-License-Identifier: MIT */
/*
** When in a backward pass the gradient of a leaf is complete, so that its watcher can be told while
** the rest of the pass is still to run.
**
** The order of a pass is settled before it begins.  So the consumers that are pending need no
** counter that every call would have to lower: a leaf is complete behind the last call of the pass
** that may add to it.  A call whose gradient runs passes of its own, which are part of this one
** (recomputation), may add to any leaf, and only then is it known to which.
*/
#include <stdlib.h>
#include <string.h>

#include "grad/pass.h"

/* -- Whose ------------------------------------------------------------------------------------- */

rg_status rg_grad_watch(rg_tensor *x, int64_t id)
{
  char text[96];
  track *t;

  RG_TRY(rg_tensor_check(x, "grad_watch"));
  t = (track *)x->_storage->tracking;
  if (!rg_tensor_tracked(x) || !t->leaf) {
    return rg_fail(RG_EARG, "grad_watch: %s %s", rg_tensor_text(x, text, sizeof(text)),
                   rg_requires_grad(x) ? "was computed: no gradient is accumulated there"
                                       : "requires no gradient");
  }
  if (id < 0) {
    return rg_fail(RG_EARG, "grad_watch: its number is %lld; 1 is the least", (long long)id);
  }
  t->watch = id;
  return RG_OK;
}

int64_t rg_grad_watched(const rg_tensor *x)
{
  return x != NULL && rg_tensor_tracked(x) ? ((const track *)x->_storage->tracking)->watch : 0;
}

/* -- When -------------------------------------------------------------------------------------- */

/* The last calls come first here, so the first time a leaf is met is its last consumer. */
static rg_status meet(backward_pass *pass, track *leaf, int64_t at)
{
  if (leaf == NULL || leaf->watch == 0 || leaf->seen != pass->number) {
    return RG_OK;
  }
  RG_TRY(rg_pass_grow((void **)&pass->told, pass->n_told, &pass->told_room, sizeof(told)));
  leaf->seen = -pass->number;
  leaf->refs++;
  pass->told[pass->n_told++] =
      (told){ .leaf = leaf, .done = at > pass->last_inner ? at : pass->last_inner };
  return RG_OK;
}

static rg_status meet_all(backward_pass *pass, int64_t at)
{
  const node *n = pass->nodes[at];

  for (int32_t k = n->call.n_in - 1; k >= 0; k--) {
    if (n->in[k].wanted) {
      RG_TRY(meet(pass, n->in[k].track, at));
    }
  }
  return RG_OK;
}

rg_status rg_watch_plan(backward_pass *pass)
{
  bool any = false;

  pass->last_inner = -1;
  for (int64_t i = 0; i < pass->n; i++) {
    pass->last_inner = pass->nodes[i]->goes_back ? i : pass->last_inner;
  }
  for (int64_t i = 0; i < pass->n_leaves; i++) {
    any = any || pass->leaves[i]->watch != 0;
  }
  for (int64_t i = pass->n - 1; i >= 0 && any; i--) {
    RG_TRY(meet_all(pass, i));
  }
  RG_TRY(meet(pass, (track *)pass->end->_storage->tracking, -1));
  for (int64_t i = 0; i < pass->n_told / 2; i++) {
    told first = pass->told[i];

    pass->told[i] = pass->told[pass->n_told - 1 - i];
    pass->told[pass->n_told - 1 - i] = first;
  }
  return RG_OK;
}

told *rg_watch_next(backward_pass *pass)
{
  if (pass->told_at == pass->n_told || pass->told[pass->told_at].done >= pass->at) {
    return NULL;
  }
  return &pass->told[pass->told_at++];
}

rg_status rg_watch_added(backward_pass *pass, track *leaf)
{
  int64_t at = pass->told_at;

  for (int64_t i = pass->told_at; i < pass->n_told; i++) {
    if (pass->told[i].leaf == leaf) {
      pass->told[i].added = true;
      return RG_OK;
    }
    at += pass->told[i].done <= pass->last_inner;
  }
  RG_TRY(rg_pass_grow((void **)&pass->told, pass->n_told, &pass->told_room, sizeof(told)));
  memmove(&pass->told[at + 1], &pass->told[at], (size_t)(pass->n_told - at) * sizeof(told));
  leaf->refs++;
  pass->n_told++;
  pass->told[at] = (told){ .leaf = leaf, .done = pass->last_inner, .added = true };
  return RG_OK;
}

void rg_watch_clear(backward_pass *pass)
{
  for (int64_t i = 0; i < pass->n_told; i++) {
    rg_track_release(pass->told[i].leaf);
  }
  free(pass->told);
  pass->told = NULL;
  pass->n_told = pass->told_room = 0;
}
