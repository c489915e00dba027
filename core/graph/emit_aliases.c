/* SPDX-License-Identifier: MIT */
/*
** Memory that two values of a graph have in common without its saying so: tensors that were given
** to it, and results that are made where an input ends.
*/
#include "graph/emit.h"
#include "graph/seen.h"

static bool is_state(const rg_graph *g, int32_t storage)
{
  for (int32_t i = 0; i < rg_ir_n_states(g); i++) {
    if (rg_ir_value_at(g, rg_ir_state_at(g, i))->storage == storage) {
      return true;
    }
  }
  return false;
}

/* A value that no node makes: another one may lie in its memory only where neither is written to,
** as passes and liveness hold two storages of a graph for two. */
static rg_status check_alias(const rg_graph *g, int32_t value, rg_seen_storages *all)
{
  const rg_ir_value *v = rg_ir_value_at(g, value);
  rg_tensor *x = rg_ir_bound(g, value);
  rg_storage *storage = rg_emit_is_there(x) ? rg_storage_root(x->_storage) : NULL;
  stored *s = storage != NULL ? rg_seen_find(all, storage) : NULL;

  if (storage == NULL || storage->bytes == 0) {
    return RG_OK;
  }
  if (s == NULL) {
    RG_TRY(rg_seen_add(all, storage, &s));
    s->number = v->storage;
    s->first = value;
  } else if (s->number != v->storage && (is_state(g, s->number) || is_state(g, v->storage))) {
    return rg_fail(RG_EARG,
                   "graph: %%%d %s and %%%d %s are written to apart from each other, and have "
                   "tensors of one storage",
                   s->first, rg_ir_text_of(g, rg_ir_value_at(g, s->first)->name), value,
                   rg_ir_text_of(g, v->name));
  }
  return RG_OK;
}

rg_status rg_emit_check_aliases(const rg_graph *g)
{
  rg_seen_storages all = { 0 };
  rg_status status = RG_OK;

  for (int32_t i = 0; i < rg_ir_n_values(g) && status == RG_OK; i++) {
    const rg_ir_value *v = rg_ir_value_at(g, i);

    status = !v->removed && v->producer == RG_IR_NONE ? check_alias(g, i, &all) : RG_OK;
  }
  rg_seen_end(&all);
  return status;
}

/* Is all of x's memory, the plan's own, seen by x alone, and kept by no derived node? */
static bool is_alone(const rg_tensor *x)
{
  const rg_storage *s = x->_storage;

  return s->base == NULL && s->block.arena == rg_arena_current() && s->block.data == x->_data &&
         rg_is_contiguous(x) && (x->_flags & RG_TENSOR_PARAM) == 0 &&
         atomic_load_explicit(&s->strong, memory_order_relaxed) == 1;
}

rg_tensor *rg_emit_over(const rg_graph *g, const rg_ir_node *node, rg_tensor *const *at,
                        const int32_t *last)
{
  const int32_t *in = rg_ir_inputs(g, node);
  const int32_t over = node->op->over - 1;
  int32_t reads = 0;

  if (over < 0 || over >= node->n_in || node->n_results != 1 || in[over] == RG_IR_NONE) {
    return NULL;
  }
  const rg_ir_value *v = rg_ir_value_at(g, in[over]);
  const rg_ir_value *result = rg_ir_value_at(g, rg_ir_outputs(g, node)[0]);
  rg_tensor *x = at[in[over]];

  for (int32_t i = 0; i < node->n_in; i++) {
    reads += in[i] == in[over];
  }
  return reads == 1 && x != NULL && v->producer != RG_IR_NONE && last[in[over]] <= node->position &&
                 rg_meta_same(&v->meta, &result->meta) && is_alone(x)
             ? rg_tensor_retain(x)
             : NULL;
}
