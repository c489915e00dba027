/* SPDX-License-Identifier: MIT */
/*
** Attention out of its pieces:
**
**   softmax(c q k') v        attention(q, k, v, scale = c)
**
** c is a product of what stands between: the scores, q or k' may be multiplied or divided by
** numbers (PyTorch's exporter multiplies both q and k' by the root of the scale).  All of this has
** to hold:
**   * both products are plain ones, f32 or f64, over q, k', v of as many axes and the same leading
**     ones: a product that broadcasts is no attention;
**   * the softmax is over the last axis;
**   * c is a number above 0;
**   * nobody else reads the scores, their softmax, or what is scaled of them: who wants the weights
**     has them computed, and attention beside would compute them twice;
**   * nothing is written to q, k' or v behind the call.
** A mask that is added or chosen by leaves them as they are.
*/
#include <math.h>

#include "graph/pass/recover.h"
#include "op/attention.h"
#include "op/list.h"
#include "op/product.h"
#include "op/softmax.h"
#include "op/view.h"

extern const rg_op rg_op_transpose;

/* A matrix product of types that attention sums in, too. */
static bool is_product(const rg_recover *f, const rg_ir_node *node)
{
  if (node == NULL || node->op->id != RG_OP_MATMUL || node->n_out != 1 || node->n_in != 2) {
    return false;
  }
  const rg_matmul_args *args = rg_ir_args(f->g, node);
  const rg_meta *x = &rg_ir_value_at(f->g, rg_recover_in(f, node, 0))->meta;
  const rg_meta *y = &rg_ir_value_at(f->g, rg_recover_in(f, node, 1))->meta;
  const rg_meta *out = &rg_ir_value_at(f->g, rg_ir_outputs(f->g, node)[0])->meta;
  bool same = x->ndim >= 2 && x->ndim == y->ndim && x->dtype == y->dtype && x->dtype == out->dtype;

  for (int32_t i = 0; same && i < x->ndim - 2; i++) {
    same = x->shape[i] == y->shape[i];
  }
  return same && args->compute < 0 && (x->dtype == RG_F32 || x->dtype == RG_F64);
}

/* Is a value read once, and no output? */
static bool is_read_once(const rg_recover *f, int32_t value)
{
  const rg_ir_value *v = rg_ir_value_at(f->g, value);

  return v->n_uses == 1 && rg_ir_uses(f->g, v)[0].node != RG_IR_NONE;
}

/* The value of which this one is a multiple; scale is multiplied by the numbers between.  once:
** only through values that nobody else reads. */
static int32_t unscaled(const rg_recover *f, int32_t value, bool once, double *scale)
{
  for (;;) {
    const rg_ir_node *node = rg_recover_maker(f, value);
    double number = 1;
    int32_t x = rg_recover_number(f, node, RG_OP_MUL, &number);
    const bool times = x >= 0;

    x = times ? x : rg_recover_number(f, node, RG_OP_DIV, &number);
    if (x < 0 || (once && !is_read_once(f, value)) ||
        !rg_meta_same(&rg_ir_value_at(f->g, x)->meta, &rg_ir_value_at(f->g, value)->meta)) {
      return value;
    }
    *scale *= times ? number : 1 / number;
    value = x;
  }
}

/* q, k' and v of an attention whose last product is the end. */
static bool find(const rg_recover *f, int32_t in[3], double *scale)
{
  const rg_ir_node *softmax;
  const rg_ir_node *scores;
  int32_t weights;
  int32_t product;

  *scale = 1;
  if (!is_product(f, f->end)) {
    return false;
  }
  weights = rg_recover_in(f, f->end, 0);
  softmax = rg_recover_maker(f, weights);
  if (softmax == NULL || softmax->op->id != RG_OP_SOFTMAX || !is_read_once(f, weights)) {
    return false;
  }
  const rg_softmax_args *args = rg_ir_args(f->g, softmax);
  const int32_t ndim = rg_ir_value_at(f->g, weights)->meta.ndim;

  if (args->axis != ndim - 1 && args->axis != -1) {
    return false;
  }
  if (!is_read_once(f, rg_recover_in(f, softmax, 0))) {
    return false;
  }
  product = unscaled(f, rg_recover_in(f, softmax, 0), true, scale);
  scores = rg_recover_maker(f, product);
  if (!is_product(f, scores) || !is_read_once(f, product)) {
    return false;
  }
  in[0] = unscaled(f, rg_recover_in(f, scores, 0), false, scale);
  in[1] = unscaled(f, rg_recover_in(f, scores, 1), false, scale);
  in[2] = rg_recover_in(f, f->end, 1);
  for (int32_t i = 0; i < 3; i++) {
    if (!rg_merge_is_last(f->m, in[i])) {
      return false;
    }
  }
  return isfinite(*scale) && *scale > 0;
}

rg_status rg_recover_attention(const rg_recover *f, int32_t number, bool *found)
{
  int32_t in[4] = { RG_IR_NONE, RG_IR_NONE, RG_IR_NONE, RG_IR_NONE };
  double scale;

  *found = find(f, in, &scale);
  if (!*found) {
    return RG_OK;
  }
  rg_meta meta = rg_ir_value_at(f->g, in[1])->meta; /* k' is read the other way */
  const int32_t last = meta.ndim - 1;
  const int64_t rows = meta.shape[last - 1];

  meta.shape[last - 1] = meta.shape[last];
  meta.shape[last] = rows;
  RG_TRY(rg_ir_insert_view(f->g, number, &rg_op_transpose,
                           &(rg_transpose_args){ .a = last - 1, .b = last }, &meta, &in[1]));
  return rg_recover_put(f, number, RG_OP_ATTENTION, in, 4,
                        &(rg_attention_args){ .scale = scale, .block = 64 });
}
