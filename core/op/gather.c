/* SPDX-License-Identifier: MIT */
/*
** Elements by their positions along one axis, one position for each element: gathering them, and
** scattering others over a tensor.  Shape rules, gradients, costs; the kernels are in
** core/cpu/gather.c.
*/
#include "op/gather.h"
#include "op/list.h"
#include "op/rule.h"

extern const rg_op rg_op_gather;
extern const rg_op rg_op_scatter;

/* Has the index as many axes as x, and no other axis longer? */
static rg_status check_index(const rg_call *call, int32_t axis)
{
  const rg_tensor *x = call->in[0];
  const rg_tensor *index = call->in[1];
  bool fits = x->_ndim == index->_ndim;
  char a[96];
  char b[96];

  for (int32_t i = 0; fits && i < x->_ndim; i++) {
    fits = i == axis || index->_shape[i] <= x->_shape[i];
  }
  if (!fits) {
    return rg_fail(RG_ESHAPE, "%s: an index %s does not fit into %s: only axis %d may be longer",
                   call->op->name, rg_tensor_text(index, b, sizeof(b)),
                   rg_tensor_text(x, a, sizeof(a)), axis + 1);
  }
  return RG_OK;
}

/* Each element is read and written once, and so is each position. */
static rg_cost gather_cost(const rg_call *call)
{
  rg_cost cost = { .bytes = 2.0 * (double)rg_meta_bytes(&call->out[0]) };

  cost.bytes += (double)rg_tensor_bytes(call->in[1]);
  return cost;
}

/* -- Steps of gradients ------------------------------------------------------------------- */

rg_status rg_gather_along(const rg_tensor *x, int32_t axis, const rg_tensor *index, rg_tensor **out)
{
  return rg_run1(&rg_op_gather, (const rg_tensor *const[]){ x, index }, 2,
                 &(rg_gather_args){ .axis = axis }, out);
}

rg_status rg_scatter_along(const rg_tensor *x, int32_t axis, const rg_tensor *index,
                           const rg_tensor *src, int32_t reduce, rg_tensor **out)
{
  return rg_run1(&rg_op_scatter, (const rg_tensor *const[]){ x, index, src }, 3,
                 &(rg_scatter_args){ .axis = axis, .reduce = reduce }, out);
}

static rg_value gathered(rg_compose *f, rg_value x, int32_t axis, rg_value index)
{
  RG_F_STEP(rg_gather_along(x, axis, index, &out));
}

static rg_value scattered(rg_compose *f, rg_value x, int32_t axis, rg_value index, rg_value src,
                          int32_t reduce)
{
  RG_F_STEP(rg_scatter_along(x, axis, index, src, reduce, &out));
}

/* A tensor of one number. */
static rg_value full(rg_compose *f, int32_t dtype, int32_t device, const int64_t *shape,
                     int32_t ndim, double value)
{
  rg_tensor *x = rg_f_empty(f, dtype, device, shape, ndim);

  if (x != NULL) {
    rg_f_note(f, rg_fill_(x, value));
  }
  return x;
}

rg_value rg_f_scattered(rg_compose *f, const rg_meta *like, int32_t axis, rg_value index,
                        rg_value dy)
{
  if (f->status != RG_OK) {
    return NULL;
  }
  rg_value zeros = full(f, dy->_dtype, dy->_device, like->shape, like->ndim, 0);

  return scattered(f, zeros, axis, index, dy, RG_SCATTER_ADD);
}

/* Where x == y, as 1 or 0 of x's type. */
static rg_value same(rg_compose *f, rg_value x, rg_value y)
{
  return f->status == RG_OK ? rg_f_cast(f, rg_f_binary(f, rg_eq, x, y), x->_dtype) : NULL;
}

static rg_value same_number(rg_compose *f, rg_value x, double value)
{
  return f->status == RG_OK ? rg_f_cast(f, rg_f_number(f, rg_eq_scalar, x, value), x->_dtype)
                            : NULL;
}

/* -- Gathering ---------------------------------------------------------------------------- */

static rg_status gather_infer(rg_call *call)
{
  const rg_gather_args *args = call->args;

  RG_TRY(check_index(call, args->axis));
  call->out[0] = rg_meta_of(call->in[1]);
  call->out[0].dtype = call->in[0]->_dtype;
  call->n_out = 1;
  return RG_OK;
}

static rg_status gather_grad(rg_grad *g)
{
  const rg_gather_args *args = g->call->args;
  rg_rule r = rg_rule_of(g);

  rg_rule_give(&r, 0, rg_f_scattered(&r.f, &g->in[0], args->axis, rg_rule_in(&r, 1), r.dy));
  return rg_rule_end(&r);
}

static const rg_arg gather_args[] = { RG_GATHER_ARGS(RG_ARG_ROW, rg_gather_args, ) };

const rg_op rg_op_gather = {
  .name = "gather",
  .doc = "an element of x for each position along an axis, from 0",
  .id = RG_OP_GATHER,
  .amp = RG_AMP_NONE,
  RG_INPUTS(RG_IN("x", NATIVE, STORED), RG_IN("index", INDEX, WHOLE)),
  .result = { "y" },
  .stored = true,
  .save_in = 2,
  RG_ARGS(rg_gather_args, gather_args),
  .infer = gather_infer,
  .grad = gather_grad,
  .cost = gather_cost,
};

/* -- Scattering --------------------------------------------------------------------------- */

static rg_status scatter_infer(rg_call *call)
{
  const rg_scatter_args *args = call->args;
  const rg_tensor *x = call->in[0];
  const rg_tensor *index = call->in[1];
  const rg_tensor *src = call->in[2];
  char a[96];
  char b[96];
  bool fits = src->_ndim == index->_ndim;

  RG_TRY(check_index(call, args->axis));
  for (int32_t i = 0; fits && i < src->_ndim; i++) {
    fits = src->_shape[i] == index->_shape[i];
  }
  if (!fits) {
    return rg_fail(RG_ESHAPE, "%s: src %s has not the shape of the index, %s", call->op->name,
                   rg_tensor_text(src, a, sizeof(a)), rg_tensor_text(index, b, sizeof(b)));
  }
  if (src->_dtype != x->_dtype) {
    return rg_fail(RG_EDTYPE, "%s: src %s and x %s are of different types", call->op->name,
                   rg_tensor_text(src, a, sizeof(a)), rg_tensor_text(x, b, sizeof(b)));
  }
  if (args->reduce < 0 || args->reduce >= RG_SCATTER_COUNT) {
    return rg_fail(RG_EARG, "%s: reduce is %d; 0 to %d are known", call->op->name, args->reduce,
                   RG_SCATTER_COUNT - 1);
  }
  if (args->reduce != RG_SCATTER_SET) {
    RG_TRY(rg_check_computes(call->op, x->_dtype));
  }
  call->out[0] = rg_meta_of(x);
  call->n_out = 1;
  if (call->device == RG_CPU && args->reduce != RG_SCATTER_SET &&
      (x->_dtype == RG_F16 || x->_dtype == RG_BF16)) {
    call->scratch_bytes = (int64_t)sizeof(float) * x->_count; /* computed in f32 */
  }
  return RG_OK;
}

/*
** Which elements of src stayed where several come to one place: the last.  Their numbers are
** scattered alike, and found again in their own places by those that stayed.
*/
static rg_value stayed(rg_rule *r, int32_t axis, rg_value index, int32_t dtype)
{
  const rg_meta *x = &r->g->in[0];
  rg_compose *f = &r->f;
  rg_tensor *number = rg_f_empty(f, RG_I64, index->_device, index->_shape, index->_ndim);
  rg_value zeros = full(f, RG_I64, index->_device, x->shape, x->ndim, 0);

  if (number != NULL && zeros != NULL) {
    rg_f_note(f, rg_arange_(number, 0, 1));
  }
  rg_value found =
      gathered(f, scattered(f, zeros, axis, index, number, RG_SCATTER_SET), axis, index);

  return f->status == RG_OK ? rg_f_cast(f, rg_f_binary(f, rg_eq, found, number), dtype) : NULL;
}

static void set_grad(rg_rule *r, int32_t axis, rg_value index)
{
  rg_compose *f = &r->f;

  if (rg_rule_needs(r, 0)) {
    rg_value zeros = full(f, r->dy->_dtype, index->_device, index->_shape, index->_ndim, 0);

    rg_rule_give(r, 0, scattered(f, r->dy, axis, index, zeros, RG_SCATTER_SET));
  }
  if (rg_rule_needs(r, 2)) {
    rg_value mine = stayed(r, axis, index, r->dy->_dtype);

    rg_rule_give(r, 2, rg_f_mul(f, gathered(f, r->dy, axis, index), mine));
  }
}

/*
** y = x s1 s2 ...: dx = dy s1 s2 ..., and of each factor dy times all others, which is the product
** over it.  A factor 0 counts as 1 in that; where another one is 0 nothing flows.
*/
static void mul_grad(rg_rule *r, int32_t axis, rg_value index)
{
  rg_compose *f = &r->f;
  rg_value x = rg_rule_in(r, 0);
  rg_value src = rg_rule_in(r, 2);

  if (rg_rule_needs(r, 0)) {
    rg_rule_give(r, 0, scattered(f, r->dy, axis, index, src, RG_SCATTER_MUL));
  }
  if (rg_rule_needs(r, 2)) {
    rg_value zero = same_number(f, src, 0);
    rg_value factor = rg_f_add(f, src, zero);
    rg_value product = scattered(f, x, axis, index, factor, RG_SCATTER_MUL);
    rg_value zeros = rg_f_scattered(f, &r->g->in[0], axis, index, zero);
    rg_value others = rg_f_sub(f, gathered(f, zeros, axis, index), zero);
    rg_value flows = gathered(f, rg_f_mul(f, r->dy, product), axis, index);

    rg_rule_give(r, 2, rg_f_mul(f, rg_f_div(f, flows, factor), same_number(f, others, 0)));
  }
}

/* The largest (smallest) of all that came and what was there: equal ones share. */
static void most_grad(rg_rule *r, int32_t axis, rg_value index)
{
  rg_compose *f = &r->f;
  rg_value mine = same(f, rg_rule_in(r, 0), r->y);
  rg_value theirs = same(f, rg_rule_in(r, 2), gathered(f, r->y, axis, index));
  rg_value share = rg_f_div(f, r->dy, scattered(f, mine, axis, index, theirs, RG_SCATTER_ADD));

  if (rg_rule_needs(r, 0)) {
    rg_rule_give(r, 0, rg_f_mul(f, share, mine));
  }
  if (rg_rule_needs(r, 2)) {
    rg_rule_give(r, 2, rg_f_mul(f, gathered(f, share, axis, index), theirs));
  }
}

static rg_status scatter_grad(rg_grad *g)
{
  const rg_scatter_args *args = g->call->args;
  rg_rule r = rg_rule_of(g);
  rg_value index = rg_rule_in(&r, 1);

  switch (r.f.status == RG_OK ? args->reduce : -1) {
  case RG_SCATTER_SET:
    set_grad(&r, args->axis, index);
    break;
  case RG_SCATTER_ADD:
    rg_rule_give(&r, 0, r.dy);
    if (rg_rule_needs(&r, 2)) {
      rg_rule_give(&r, 2, gathered(&r.f, r.dy, args->axis, index));
    }
    break;
  case RG_SCATTER_MUL:
    mul_grad(&r, args->axis, index);
    break;
  case RG_SCATTER_MAX:
  case RG_SCATTER_MIN:
    most_grad(&r, args->axis, index);
    break;
  default:
    break;
  }
  return rg_rule_end(&r);
}

static void scatter_save(const rg_call *call, int32_t *in, int32_t *out)
{
  const rg_scatter_args *args = call->args;
  bool most = args->reduce == RG_SCATTER_MAX || args->reduce == RG_SCATTER_MIN;

  if (!most && args->reduce != RG_SCATTER_MUL) {
    *in = 2;
  }
  *out = most ? 1 : 0;
}

static rg_cost scatter_cost(const rg_call *call)
{
  const rg_scatter_args *args = call->args;

  return rg_cost_of(call, args->reduce == 0 ? 0 : (double)call->in[2]->_count);
}

static const rg_arg scatter_args[] = { RG_SCATTER_ARGS(RG_ARG_ROW, rg_scatter_args, ) };

const rg_op rg_op_scatter = {
  .name = "scatter",
  .doc = "x with the elements of src at their positions along an axis, from 0",
  .id = RG_OP_SCATTER,
  .amp = RG_AMP_NONE,
  RG_INPUTS(RG_IN("x", NATIVE, STORED), RG_IN("index", INDEX, WHOLE), RG_IN("src", NATIVE, STORED)),
  .result = { "y" },
  .stored = true,
  .save_in = 7,
  .save_out = 1,
  .save = scatter_save,
  RG_ARGS(rg_scatter_args, scatter_args),
  .infer = scatter_infer,
  .grad = scatter_grad,
  .cost = scatter_cost,
};
