/* SPDX-License-Identifier: MIT */
/*
** Which calls are in a backward pass.
*/
#include <stdlib.h>

#include "grad/pass.h"

static int64_t last_pass;

int64_t rg_pass_number(void)
{
  return __atomic_add_fetch(&last_pass, 1, __ATOMIC_RELAXED);
}

/* -- What is in the pass --------------------------------------------------------------- */

rg_status rg_pass_grow(void **list, int64_t n, int64_t *room, size_t size)
{
  int64_t more = *room == 0 ? 64 : 2 * *room;
  void *grown;

  if (n < *room) {
    return RG_OK;
  }
  grown = rg_alloc_injected() ? NULL : realloc(*list, (size_t)more * size);
  if (grown == NULL) {
    return rg_fail(RG_ENOMEM, "backward: no memory for a list of %lld calls", (long long)more);
  }
  *list = grown;
  *room = more;
  return RG_OK;
}

static rg_status add_node(backward_pass *pass, node *n)
{
  if (n == NULL || n->seen == pass->number) {
    return RG_OK;
  }
  RG_TRY(rg_pass_grow((void **)&pass->nodes, pass->n, &pass->room, sizeof(node *)));
  n->seen = pass->number;
  n->refs++;
  pass->moves = pass->moves || n->call.op->moves;
  pass->nodes[pass->n++] = n;
  return RG_OK;
}

static rg_status add_leaf(backward_pass *pass, track *t)
{
  if (t == NULL || !t->leaf || t->seen == pass->number) {
    return RG_OK;
  }
  RG_TRY(rg_pass_grow((void **)&pass->leaves, pass->n_leaves, &pass->leaf_room, sizeof(track *)));
  t->seen = pass->number;
  t->refs++;
  pass->leaves[pass->n_leaves++] = t;
  return RG_OK;
}

/* The list grows while it is read. */
rg_status rg_pass_collect(backward_pass *pass, track *end)
{
  RG_TRY(add_leaf(pass, end));
  RG_TRY(add_node(pass, end->writer));
  for (int64_t i = 0; i < pass->n; i++) {
    node *n = pass->nodes[i];

    for (int32_t k = 0; k < n->call.n_in; k++) {
      if (n->in[k].wanted) {
        RG_TRY(add_leaf(pass, n->in[k].track));
        RG_TRY(add_node(pass, n->in[k].writer));
      }
    }
    for (int32_t k = 0; k < n->n_visible; k++) {
      if (n->out[k].over) {
        RG_TRY(add_leaf(pass, n->out[k].track));
        RG_TRY(add_node(pass, n->out[k].writer));
      }
    }
  }
  return RG_OK;
}

static int later_first(const void *a, const void *b)
{
  int64_t x = (*(node *const *)a)->order;
  int64_t y = (*(node *const *)b)->order;

  return x < y ? 1 : x > y ? -1 : 0;
}

rg_status rg_pass_sort(backward_pass *pass)
{
  if (pass->n > 0) {
    qsort(pass->nodes, (size_t)pass->n, sizeof(node *), later_first);
  }
  return pass->moves ? rg_pass_hasten(pass) : RG_OK;
}

static rg_status put_by(backward_pass *pass, track *t)
{
  if (t == NULL || t->flow == NULL) {
    return RG_OK;
  }
  RG_TRY(rg_pass_grow((void **)&pass->others, pass->n_others, &pass->others_room,
                      sizeof(*pass->others)));
  t->refs++;
  pass->others[pass->n_others++] = (others){ .track = t, .flow = t->flow, .own = t->flow_own };
  t->flow = NULL;
  t->flow_own = false;
  return RG_OK;
}

rg_status rg_pass_put_by(backward_pass *pass)
{
  RG_TRY(put_by(pass, (track *)pass->end->_storage->tracking));
  for (int64_t i = 0; i < pass->n; i++) {
    const node *n = pass->nodes[i];

    for (int32_t k = 0; k < n->call.n_in; k++) {
      RG_TRY(put_by(pass, n->in[k].track));
    }
    for (int32_t k = 0; k < n->n_visible; k++) {
      RG_TRY(put_by(pass, n->out[k].track));
    }
  }
  return RG_OK;
}

static void put_back(backward_pass *pass)
{
  for (int64_t i = 0; i < pass->n_others; i++) {
    rg_flow_set(pass->others[i].track, pass->others[i].flow, pass->others[i].own);
    rg_track_release(pass->others[i].track);
  }
  free(pass->others);
}

void rg_pass_clear(backward_pass *pass)
{
  for (int64_t i = 0; i < pass->n; i++) {
    node *n = pass->nodes[i];

    for (int32_t k = 0; k < n->call.n_in; k++) {
      if (n->in[k].track != NULL) {
        rg_flow_set(n->in[k].track, NULL, false);
      }
    }
    for (int32_t k = 0; k < n->n_visible; k++) {
      if (n->out[k].track != NULL) {
        rg_flow_set(n->out[k].track, NULL, false);
      }
    }
  }
  for (int64_t i = 0; i < pass->n_leaves; i++) {
    rg_flow_set(pass->leaves[i], NULL, false);
    rg_track_release(pass->leaves[i]);
  }
  for (int64_t i = 0; i < pass->n; i++) {
    rg_node_release(pass->nodes[i]);
  }
  free(pass->nodes);
  free(pass->leaves);
  put_back(pass);
}

/* -- What is kept, and why -------------------------------------------------------------------- */

static void note(const node *n, const place *p, int32_t index, rg_saved *list, int64_t room,
                 int64_t *count)
{
  if (!p->saved) {
    return;
  }
  if (*count < room) {
    list[*count] = (rg_saved){ .op = n->call.op->name,
                               .line = n->line,
                               .bytes = p->at._storage->bytes,
                               .memory = (int64_t)(intptr_t)p->at._storage,
                               .index = index,
                               .param = (p->at._flags & RG_TENSOR_PARAM) != 0,
                               .module = n->module,
                               .dtype = p->at._dtype };
  }
  ++*count;
}

rg_status rg_grad_saved(const rg_tensor *y, rg_saved *list, int64_t room, int64_t *count)
{
  backward_pass pass = { 0 };
  rg_status status;

  RG_TRY(rg_tensor_check(y, "grad_saved"));
  *count = 0;
  if (y->_storage->tracking == NULL) {
    return RG_OK;
  }
  pass.number = rg_pass_number();
  status = rg_pass_collect(&pass, (track *)y->_storage->tracking);
  for (int64_t i = 0; i < pass.n && status == RG_OK; i++) {
    node *n = pass.nodes[i];

    for (int32_t k = 0; k < n->call.n_in; k++) {
      note(n, &n->in[k], k + 1, list, room, count);
    }
    for (int32_t k = 0; k < n->call.n_out; k++) {
      note(n, &n->out[k], -(k + 1), list, room, count);
    }
  }
  for (int64_t i = 0; i < pass.n_leaves; i++) {
    rg_track_release(pass.leaves[i]);
  }
  for (int64_t i = 0; i < pass.n; i++) {
    rg_node_release(pass.nodes[i]);
  }
  free(pass.nodes);
  free(pass.leaves);
  return status;
}
