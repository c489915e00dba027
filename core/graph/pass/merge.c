/* SPDX-License-Identifier: MIT */
/*
** One value in the place of two, and what that asks of their storages.
**
** A value of memory of its own moves into another storage with all its views.  That is not seen
** where neither is written to from there on, and where not both are handed out: who writes to one
** of two results must not change the other, nor an input.
*/
#include <string.h>

#include "graph/pass/pass.h"

static rg_status numbers(int32_t **out, size_t n, int fill)
{
  *out = rg_host_alloc(n * sizeof(**out));
  if (*out == NULL) {
    return rg_fail(RG_ENOMEM, "graph: no memory to merge values");
  }
  memset(*out, fill, n * sizeof(**out));
  return RG_OK;
}

static rg_status marks(bool **out, size_t n)
{
  *out = rg_host_zeroed(n);
  return *out != NULL ? RG_OK : rg_fail(RG_ENOMEM, "graph: no memory to merge values");
}

rg_status rg_merge_begin(rg_merge *m, rg_graph *g)
{
  size_t n = (size_t)rg_ir_n_storages(g);

  *m = (rg_merge){ .g = g };
  RG_TRY(numbers(&m->into, n, 0xff));
  RG_TRY(numbers(&m->more, n, 0));
  RG_TRY(numbers(&m->last, n, 0));
  RG_TRY(numbers(&m->n_outputs, n, 0));
  RG_TRY(marks(&m->outside, n));
  RG_TRY(marks(&m->gone, (size_t)rg_ir_n_nodes(g)));
  for (int32_t i = 0; i < rg_ir_n_values(g); i++) {
    const rg_ir_value *v = rg_ir_value_at(g, i);

    if (!v->removed) {
      m->last[v->storage] = (int32_t)rg_max_i64(m->last[v->storage], v->version);
      m->outside[v->storage] = m->outside[v->storage] || v->producer == RG_IR_NONE;
    }
  }
  for (int32_t i = 0; i < rg_ir_n_outputs(g); i++) {
    m->n_outputs[rg_ir_value_at(g, rg_ir_output_at(g, i)->value)->storage]++;
  }
  return RG_OK;
}

/* The storage that a value lies in now, and its version there. */
static int32_t storage_of(const rg_merge *m, int32_t value, int32_t *version)
{
  const rg_ir_value *v = rg_ir_value_at(m->g, value);
  int32_t storage = v->storage;

  *version = v->version;
  while (m->into[storage] != RG_IR_NONE) {
    *version += m->more[storage];
    storage = m->into[storage];
  }
  return storage;
}

bool rg_merge_is_last(const rg_merge *m, int32_t value)
{
  int32_t version;
  int32_t storage = storage_of(m, value, &version);

  return m->last[storage] == version;
}

bool rg_merge_alike(const rg_ir_value *a, const rg_ir_value *b)
{
  return a->device == b->device && rg_meta_same(&a->meta, &b->meta);
}

/* Is a value an output of the graph, or written over? */
static bool is_pinned(const rg_graph *g, int32_t value)
{
  const rg_ir_value *v = rg_ir_value_at(g, value);
  const rg_ir_use *uses = rg_ir_uses(g, v);

  for (int32_t i = 0; i < v->n_uses; i++) {
    if (uses[i].node == RG_IR_NONE) {
      return true;
    }
    const rg_ir_node *node = rg_ir_node_at(g, uses[i].node);

    if (uses[i].slot >= node->n_in && rg_ir_outputs(g, node)[uses[i].slot - node->n_in] != value) {
      return true;
    }
  }
  return false;
}

bool rg_merge_allowed(const rg_merge *m, int32_t old, int32_t by)
{
  int32_t version_old;
  int32_t version_by;
  int32_t a = storage_of(m, old, &version_old);
  int32_t b = storage_of(m, by, &version_by);

  if (!rg_merge_alike(rg_ir_value_at(m->g, old), rg_ir_value_at(m->g, by))) {
    return false;
  }
  if (a == b) { /* two views of one memory */
    return version_old == version_by && !is_pinned(m->g, old);
  }
  return m->last[a] == 0 && !m->outside[a] && m->last[b] == version_by &&
         (m->n_outputs[a] == 0 || (m->n_outputs[b] == 0 && !m->outside[b]));
}

rg_status rg_merge_values(rg_merge *m, int32_t old, int32_t by)
{
  int32_t version_old;
  int32_t version_by;
  int32_t a = storage_of(m, old, &version_old);
  int32_t b = storage_of(m, by, &version_by);

  RG_TRY(rg_ir_replace(m->g, old, by));
  if (a != b) {
    m->into[a] = b;
    m->more[a] = version_by;
    m->n_outputs[b] += m->n_outputs[a];
  }
  return RG_OK;
}

static void move_views(const rg_merge *m)
{
  for (int32_t i = 0; i < rg_ir_n_values(m->g); i++) {
    rg_ir_value *v = rg_ir_value_at(m->g, i);

    /* the one that was merged stays with its node, which goes */
    if (!v->removed && !(v->producer != RG_IR_NONE && m->gone[v->producer])) {
      v->storage = storage_of(m, i, &v->version);
    }
  }
}

void rg_merge_release(rg_merge *m)
{
  rg_host_free(m->into);
  rg_host_free(m->more);
  rg_host_free(m->last);
  rg_host_free(m->n_outputs);
  rg_host_free(m->outside);
  rg_host_free(m->gone);
}

rg_status rg_merge_end(rg_merge *m, rg_status status)
{
  if (status == RG_OK) {
    move_views(m);
    status = rg_ir_remove_all(m->g, m->gone);
  }
  rg_merge_release(m);
  return status;
}
