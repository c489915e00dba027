/* SPDX-License-Identifier: MIT */
/*
** Common subexpression elimination: a node that does what an earlier one did goes, and its readers
** read that one's results.
**
** Two nodes do the same where operation, arguments, modes and inputs are the same; inputs are
** values, so that a write between the two makes them others.  Both are in the same body: bodies
** read nothing but what their compounds are given.  What draws, writes, is recomputed or has a
** body stays.
*/
#include <string.h>

#include "graph/pass/pass.h"

typedef struct sharing {
  rg_merge m;
  int32_t *bucket; /* a hash table of nodes, one larger; 0 is free */
  uint32_t mask;
} sharing;

static bool may_share(const rg_graph *g, const rg_ir_node *node)
{
  if (node->op->id < 0 || node->op->draws || node->op->writes || node->compound ||
      node->recomputed || node->n_out == 0 || node->n_out > node->n_results) {
    return false;
  }
  for (int32_t i = 0; i < node->n_out; i++) {
    int32_t value = rg_ir_outputs(g, node)[i];

    if (value != RG_IR_NONE && rg_ir_value_at(g, value)->was != RG_IR_NONE) {
      return false;
    }
  }
  return true;
}

static uint32_t add_bytes(uint32_t h, const void *bytes, size_t n)
{
  for (size_t i = 0; i < n; i++) {
    h = (h ^ ((const uint8_t *)bytes)[i]) * 16777619u; /* FNV-1a */
  }
  return h;
}

static uint32_t hash_of(const rg_graph *g, const rg_ir_node *node)
{
  const int32_t head[] = { node->op->id, node->parent, node->modes, node->n_in };
  uint32_t h = add_bytes(2166136261u, head, sizeof(head));

  h = add_bytes(h, rg_ir_inputs(g, node), (size_t)node->n_in * sizeof(int32_t));
  return add_bytes(h, rg_ir_args(g, node), node->op->args_size);
}

static bool is_same(const rg_graph *g, const rg_ir_node *a, const rg_ir_node *b)
{
  return a->unwritten == b->unwritten && a->op == b->op && a->parent == b->parent &&
         a->modes == b->modes && a->n_in == b->n_in &&
         memcmp(rg_ir_inputs(g, a), rg_ir_inputs(g, b), (size_t)a->n_in * sizeof(int32_t)) == 0 &&
         (a->op->args_size == 0 ||
          memcmp(rg_ir_args(g, a), rg_ir_args(g, b), a->op->args_size) == 0);
}

/* May all that `old` makes and somebody needs come from `by`?  A hidden result was perhaps made by
** one of the two only. */
static bool may_replace(const rg_merge *m, const rg_ir_node *old, const rg_ir_node *by)
{
  for (int32_t i = 0; i < old->n_out; i++) {
    int32_t a = rg_ir_outputs(m->g, old)[i];
    int32_t b = i < by->n_out ? rg_ir_outputs(m->g, by)[i] : RG_IR_NONE;

    if (a != RG_IR_NONE && rg_ir_value_at(m->g, a)->n_uses > 0 &&
        (b == RG_IR_NONE || !rg_merge_allowed(m, a, b))) {
      return false;
    }
  }
  return true;
}

static rg_status replace(rg_merge *m, int32_t old, int32_t by)
{
  for (int32_t i = 0; i < rg_ir_node_at(m->g, old)->n_out; i++) {
    int32_t a = rg_ir_outputs(m->g, rg_ir_node_at(m->g, old))[i];

    if (a != RG_IR_NONE && rg_ir_value_at(m->g, a)->n_uses > 0) {
      RG_TRY(rg_merge_values(m, a, rg_ir_outputs(m->g, rg_ir_node_at(m->g, by))[i]));
    }
  }
  m->gone[old] = true;
  return RG_OK;
}

static rg_status visit(sharing *s, int32_t number)
{
  const rg_graph *g = s->m.g;
  const rg_ir_node *node = rg_ir_node_at(g, number);

  if (!may_share(g, node)) {
    return RG_OK;
  }
  uint32_t at = hash_of(g, node) & s->mask;

  for (; s->bucket[at] != 0; at = (at + 1) & s->mask) {
    int32_t by = s->bucket[at] - 1;

    if (is_same(g, node, rg_ir_node_at(g, by)) && may_replace(&s->m, node, rg_ir_node_at(g, by))) {
      return replace(&s->m, number, by);
    }
  }
  s->bucket[at] = number + 1;
  return RG_OK;
}

static rg_status visit_all(sharing *s)
{
  const int32_t *order;
  size_t room = 64;
  int32_t n;

  RG_TRY(rg_ir_order(s->m.g, &order, NULL, &n));
  while (room < 2 * (size_t)n) {
    room *= 2;
  }
  s->mask = (uint32_t)room - 1;
  s->bucket = rg_host_zeroed(room * sizeof(*s->bucket));
  if (s->bucket == NULL) {
    return rg_fail(RG_ENOMEM, "graph: no memory to look for common subexpressions");
  }
  for (int32_t i = 0; i < n; i++) {
    RG_TRY(visit(s, order[i]));
  }
  return RG_OK;
}

rg_status rg_pass_common(rg_graph *g)
{
  sharing s = { .bucket = NULL };
  rg_status status = rg_merge_begin(&s.m, g);

  status = rg_merge_end(&s.m, status == RG_OK ? visit_all(&s) : status);
  rg_host_free(s.bucket);
  return status;
}
