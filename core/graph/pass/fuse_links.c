/* SPDX-License-Identifier: MIT */
/*
** Links of a fused chain, and the node that has them: what each loads, reads besides and stores.
*/
#include <string.h>

#include "graph/pass/fuse.h"
#include "op/act.h"
#include "op/binary.h"

/* A chain as the record has it. */
typedef struct making {
  rg_fused_args args;
  int32_t in[RG_FUSED_INPUTS];
  int32_t n_in;
  int32_t out[RG_MAX_OUT]; /* values of the links that are stored */
  int32_t n_out;
  bool stored[RG_FUSED_LINKS];
  bool apart[RG_MAX_OUT]; /* in memory of its own, because a later link writes over it */
} making;

/* -- Links ----------------------------------------------------------------------------------- */

/* An operand of link k: the value at hand, a result of a link before, or an input.  The chain has
** room for two more where it is asked. */
static int32_t operand_of(const rg_fusing *f, making *m, int32_t k, int32_t value)
{
  int32_t from = rg_chain_link(f, value, k);

  if (from == k - 1 && from >= 0) {
    return RG_FUSED_VALUE;
  }
  if (from >= 0) {
    m->stored[from] = true;
    return RG_FUSED_INPUTS + from; /* a result: numbered when all are known */
  }
  for (int32_t i = 0; i < m->n_in; i++) {
    if (m->in[i] == value) {
      return i;
    }
  }
  m->in[m->n_in] = value;
  return m->n_in++;
}

/* Is a value one element for many of the chain's? */
static bool is_still(const rg_fusing *f, int32_t value, const rg_ir_value *y)
{
  rg_tensor x;
  int64_t div;
  int64_t mod;

  rg_layout_stand_in(&f->layout, value, &x);
  return x._count != rg_meta_count(&y->meta) &&
         rg_fused_place(&x, y->meta.shape, y->meta.ndim, &div, &mod) && (div > 1 || mod == 1);
}

static bool describe_link(const rg_fusing *f, making *m, int32_t k)
{
  const rg_ir_node *node = rg_ir_node_at(f->g, f->c.node[k]);
  const rg_ir_value *y = rg_chain_value(f, rg_ir_outputs(f->g, node)[0]);
  const int32_t *in = rg_ir_inputs(f->g, node);
  int32_t id = node->op->id;
  const rg_binary_args *binary =
      rg_fused_kind(id) == RG_LINK_BINARY && id != RG_OP_ACT_BACK ? rg_ir_args(f->g, node) : NULL;
  bool number = binary != NULL && binary->scalar != 0;
  rg_link *l = &m->args.links.at[k];
  int32_t a;
  int32_t b = RG_FUSED_NONE;

  if (m->n_in + 2 > RG_FUSED_INPUTS) {
    return false;
  }
  *l = (rg_link){ .id = (int16_t)(rg_chain_is_cast(id) ? RG_FUSED_CAST : id),
                  .dtype = (int8_t)y->meta.dtype,
                  .store = RG_FUSED_NONE,
                  .reversed = (int8_t)(number && binary->reversed != 0),
                  .number = number ? binary->value : 0 };
  if (id == RG_OP_ACT_BACK) {
    l->act = (int8_t)((const rg_act_args *)rg_ir_args(f->g, node))->act;
  }
  a = operand_of(f, m, k, in[0]);
  if (number) {
    b = RG_FUSED_NUMBER;
  } else if (rg_chain_inputs(f->g, node) > 1) {
    b = in[1] == in[0] ? RG_FUSED_VALUE : operand_of(f, m, k, in[1]);
    /* the second operand is the one that is not at hand, or that stands still */
    if (a != RG_FUSED_VALUE && in[1] != in[0] &&
        (b == RG_FUSED_VALUE || (is_still(f, in[0], y) && !is_still(f, in[1], y)))) {
      int32_t c = a;

      a = b;
      b = c;
      l->reversed = 1;
    }
  }
  l->load = (int8_t)(a == RG_FUSED_VALUE ? RG_FUSED_NONE : a);
  l->with = (int8_t)b;
  return true;
}

/* Does anybody but the first n links read what link k made, or is it seen outside? */
static bool is_needed(const rg_fusing *f, int32_t k, int32_t n)
{
  const rg_ir_value *y = rg_chain_value(f, rg_chain_result(f, f->c.node[k]));
  const rg_ir_use *uses = rg_ir_uses(f->g, y);
  bool written_over = false;

  for (int32_t i = 0; i < y->n_uses; i++) {
    const rg_ir_node *node = uses[i].node >= 0 ? rg_ir_node_at(f->g, uses[i].node) : NULL;

    if (node == NULL || node->compound || rg_ir_outputs(f->g, node)[0] == RG_IR_NONE ||
        rg_chain_link(f, rg_ir_outputs(f->g, node)[0], n) == RG_IR_NONE) {
      return true;
    }
    written_over = written_over || uses[i].slot >= node->n_in;
  }
  return y->was != RG_IR_NONE && !written_over;
}

/* Is what link k made written over by one of the first n? */
static bool is_written_over(const rg_fusing *f, int32_t k, int32_t n)
{
  for (int32_t i = k + 1; i < n; i++) {
    if (rg_chain_value(f, rg_chain_result(f, f->c.node[i]))->was ==
        rg_chain_result(f, f->c.node[k])) {
      return true;
    }
  }
  return false;
}

/* Do the inputs have the chain's shape together? */
static bool has_shape(const rg_fusing *f, const making *m)
{
  const rg_meta *y = &rg_chain_value(f, rg_chain_result(f, f->c.node[0]))->meta;

  for (int32_t axis = 0; axis < y->ndim; axis++) {
    bool has = y->shape[axis] == 1;

    for (int32_t i = 0; i < m->n_in && !has; i++) {
      const rg_meta *x = &rg_chain_value(f, m->in[i])->meta;
      int32_t at = axis - (y->ndim - x->ndim);

      has = at >= 0 && x->shape[at] == y->shape[axis];
    }
    if (!has) {
      return false;
    }
  }
  for (int32_t i = 0; i < m->n_in; i++) {
    if (rg_chain_value(f, m->in[i])->meta.ndim == y->ndim) {
      return true;
    }
  }
  return false;
}

/* Results are numbered, and who loads one finds it behind the inputs. */
static bool number_results(const rg_fusing *f, making *m, int32_t n)
{
  int8_t number[RG_FUSED_LINKS] = { 0 };

  for (int32_t k = 0; k < n; k++) {
    rg_link *l = &m->args.links.at[k];

    l->load = l->load >= RG_FUSED_INPUTS ? number[l->load - RG_FUSED_INPUTS] : l->load;
    l->with = l->with >= RG_FUSED_INPUTS ? number[l->with - RG_FUSED_INPUTS] : l->with;
    if (!m->stored[k]) {
      continue;
    }
    if (m->n_out == RG_MAX_OUT) {
      return false;
    }
    m->apart[m->n_out] = is_written_over(f, k, n);
    number[k] = (int8_t)(m->n_in + m->n_out);
    l->store = (int8_t)m->n_out;
    m->out[m->n_out++] = rg_chain_result(f, f->c.node[k]);
  }
  return m->n_in + m->n_out <= RG_FUSED_INPUTS;
}

/* The first n links as a fused node; false where they are none, or it has no room for them. */
static bool describe(const rg_fusing *f, making *m, int32_t n)
{
  memset(m, 0, sizeof(*m));
  m->args.links.n = n;
  for (int32_t k = 0; k < n; k++) {
    if (!describe_link(f, m, k)) {
      return false;
    }
    if (is_needed(f, k, n)) {
      m->stored[k] = true;
      if (is_written_over(f, k, n)) {
        return false;
      }
    }
  }
  /* nobody reads the last one: it is dead code, which another pass removes */
  return m->stored[n - 1] && number_results(f, m, n) && has_shape(f, m);
}

/* -- Making ---------------------------------------------------------------------------------- */

/* A result that only the chain itself reads. */
static rg_status put_apart(rg_fusing *f, int32_t node, int32_t y)
{
  const rg_ir_value v = *rg_chain_value(f, y);
  int32_t storage;
  int32_t made;

  RG_TRY(rg_ir_storage_new(f->g, &storage));
  RG_TRY(rg_ir_output_add(f->g, node, &v.meta, v.device, storage, 0, RG_IR_NONE, &made));
  f->first[made] = made;
  return RG_OK;
}

/* A result in the memory of value y, which it takes the place of. */
static rg_status put_result(rg_fusing *f, int32_t node, int32_t y, int32_t n)
{
  const rg_ir_value v = *rg_chain_value(f, y);
  int32_t first = y;
  int32_t made;

  while (rg_chain_value(f, first)->was != RG_IR_NONE &&
         rg_chain_link(f, rg_chain_value(f, first)->was, n) != RG_IR_NONE) {
    first = rg_chain_value(f, first)->was;
  }
  const rg_ir_value begun = *rg_chain_value(f, first);

  RG_TRY(
      rg_ir_output_add(f->g, node, &v.meta, v.device, v.storage, begun.version, begun.was, &made));
  rg_ir_name(f->g, made, v.name);
  f->first[made] = f->first[y];
  return rg_ir_replace(f->g, y, made);
}

static rg_status put(rg_fusing *f, const making *m, int32_t n)
{
  const rg_ir_node last = *rg_ir_node_at(f->g, f->c.node[n - 1]);
  const rg_ir_node first = *rg_ir_node_at(f->g, f->c.node[0]);
  rg_graph_modes modes = *rg_ir_modes_of(f->g, last.modes);
  double flops = 0;
  double bytes = 0;
  int32_t mode;
  int32_t node;

  modes.compute = -1; /* inputs are read as they are */
  modes.weight_cast = -1;
  RG_TRY(rg_ir_modes_add(f->g, &modes, &mode));
  RG_TRY(rg_ir_insert(f->g, f->c.node[n - 1], false, rg_ops[RG_OP_FUSED], m->in, m->n_in, &m->args,
                      &node));
  for (int32_t i = 0; i < m->n_out; i++) {
    bytes += (double)rg_meta_bytes(&rg_chain_value(f, m->out[i])->meta);
    RG_TRY(m->apart[i] ? put_apart(f, node, m->out[i]) : put_result(f, node, m->out[i], n));
  }
  rg_ir_results_end(f->g, node);
  for (int32_t i = 0; i < m->n_in; i++) {
    bytes += (double)rg_meta_bytes(&rg_chain_value(f, m->in[i])->meta);
  }
  for (int32_t k = 0; k < n; k++) {
    flops += rg_ir_node_at(f->g, f->c.node[k])->flops;
    f->gone[f->c.node[k]] = true;
  }
  rg_ir_node *made = rg_ir_node_at(f->g, node);

  made->modes = mode;
  made->derived = first.derived;
  made->module = first.module;
  made->line = last.line;
  made->flops = flops;
  made->bytes = bytes;
  return RG_OK;
}

rg_status rg_chain_put(rg_fusing *f, int32_t *n)
{
  making m;

  *n = f->c.n;
  while (*n > 1 && !describe(f, &m, *n)) {
    --*n;
  }
  return *n > 1 ? put(f, &m, *n) : RG_OK;
}
