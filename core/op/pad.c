/* SPDX-License-Identifier: MIT */
/*
** Padding with a constant, or with the elements of the tensor itself; negative amounts cut.  Shape
** rules, gradients, costs; the kernels are in core/cpu/pad.c.
*/
#include <string.h>

#include "op/list.h"
#include "op/pad.h"
#include "op/rule.h"

extern const rg_op rg_op_pad;
extern const rg_op rg_op_pad_back;

enum { MOST = 1 << 30 };

/* The size of each axis behind padding, checked; size: those before. */
static rg_status padded(const rg_call *call, const rg_sizes *low, const rg_sizes *high,
                        int32_t mode, const int64_t *size, int32_t ndim, int64_t *out)
{
  if (low->n != ndim || high->n != ndim) {
    return rg_fail(RG_EARG, "%s: amounts for %lld and %lld axes; there are %d", call->op->name,
                   (long long)low->n, (long long)high->n, ndim);
  }
  if (mode < 0 || mode >= RG_PAD_COUNT) {
    return rg_fail(RG_EARG, "%s: mode is %d; 0 to %d are known", call->op->name, mode,
                   RG_PAD_COUNT - 1);
  }
  for (int32_t i = 0; i < ndim; i++) {
    int64_t lo = low->at[i];
    int64_t hi = high->at[i];

    if (lo > MOST || lo < -MOST || hi > MOST || hi < -MOST) {
      return rg_fail(RG_EARG, "%s: amounts of axis %d are %lld and %lld; at most %d are possible",
                     call->op->name, i + 1, (long long)lo, (long long)hi, MOST);
    }
    out[i] = size[i] + lo + hi;
    if (out[i] < 0 || (size[i] == 0 && out[i] > 0 && mode != RG_PAD_CONSTANT)) {
      return rg_fail(RG_EARG, "%s: axis %d of size %lld does not become one of %lld",
                     call->op->name, i + 1, (long long)size[i], (long long)out[i]);
    }
  }
  return RG_OK;
}

/* A table of where each element of an axis comes from. */
static int64_t tables(const rg_meta *out)
{
  int64_t n = 0;

  for (int32_t i = 0; i < out->ndim; i++) {
    n += out->shape[i];
  }
  return rg_round_up(n * (int64_t)sizeof(int64_t), 64);
}

static rg_status infer(rg_call *call)
{
  const rg_pad_args *args = call->args;
  const rg_tensor *x = call->in[0];

  call->out[0] = rg_meta_of(x);
  RG_TRY(
      padded(call, &args->low, &args->high, args->mode, x->_shape, x->_ndim, call->out[0].shape));
  call->n_out = 1;
  if (call->device == RG_CPU) {
    call->scratch_bytes = tables(&call->out[0]);
  }
  return RG_OK;
}

static rg_status grad(rg_grad *g)
{
  const rg_pad_args *args = g->call->args;
  const rg_meta *x = &g->in[0];
  rg_rule r = rg_rule_of(g);
  rg_tensor *out = NULL;
  rg_status status = r.f.status;

  if (status == RG_OK && args->mode == RG_PAD_CONSTANT) {
    rg_pad_args cut;

    memset(&cut, 0, sizeof(cut));
    cut.low.n = cut.high.n = x->ndim;
    for (int32_t i = 0; i < x->ndim; i++) {
      cut.low.at[i] = -args->low.at[i];
      cut.high.at[i] = -args->high.at[i];
    }
    status = rg_run1(&rg_op_pad, (const rg_tensor *const[]){ r.dy }, 1, &cut, &out);
  } else if (status == RG_OK) {
    rg_pad_back_args back;

    memset(&back, 0, sizeof(back));
    back.low = args->low;
    back.high = args->high;
    back.mode = args->mode;
    back.shape.n = x->ndim;
    memcpy(back.shape.at, x->shape, sizeof(back.shape.at));
    status = rg_run1(&rg_op_pad_back, (const rg_tensor *const[]){ r.dy }, 1, &back, &out);
  }
  rg_rule_give(&r, 0, rg_f_took(&r.f, status, out));
  return rg_rule_end(&r);
}

static rg_cost cost(const rg_call *call)
{
  return (rg_cost){ .bytes = (double)rg_tensor_bytes(call->in[0]) +
                             (double)rg_meta_bytes(&call->out[0]) };
}

static const rg_arg pad_args[] = { RG_PAD_ARGS(RG_ARG_ROW, rg_pad_args, ) };

const rg_op rg_op_pad = {
  .name = "pad",
  .doc = "x with more elements, or fewer, before and behind those of each axis",
  .id = RG_OP_PAD,
  .amp = RG_AMP_NONE,
  RG_INPUTS(RG_IN("x", NATIVE, STORED)),
  .result = { "y" },
  .stored = true,
  RG_ARGS(rg_pad_args, pad_args),
  .infer = infer,
  .grad = grad,
  .cost = cost,
};

/* -- Back ------------------------------------------------------------------------------------ */

static rg_status back_infer(rg_call *call)
{
  const rg_pad_back_args *args = call->args;
  const rg_tensor *dy = call->in[0];
  int64_t sizes[RG_MAX_DIMS];
  char text[96];

  if (args->shape.n != dy->_ndim) {
    return rg_fail(RG_EARG, "%s: %lld sizes for %s", call->op->name, (long long)args->shape.n,
                   rg_tensor_text(dy, text, sizeof(text)));
  }
  call->out[0] = rg_meta_of(dy);
  for (int32_t i = 0; i < dy->_ndim; i++) {
    if (args->shape.at[i] < 0 || args->shape.at[i] > MOST) {
      return rg_fail(RG_EARG, "%s: axis %d of size %lld", call->op->name, i + 1,
                     (long long)args->shape.at[i]);
    }
    call->out[0].shape[i] = args->shape.at[i];
  }
  RG_TRY(padded(call, &args->low, &args->high, args->mode, args->shape.at, dy->_ndim, sizes));
  if (memcmp(sizes, dy->_shape, (size_t)dy->_ndim * sizeof(int64_t)) != 0) {
    return rg_fail(RG_ESHAPE, "%s: %s is not of the size that padding gives", call->op->name,
                   rg_tensor_text(dy, text, sizeof(text)));
  }
  call->n_out = 1;
  if (call->device == RG_CPU) {
    rg_meta from = rg_meta_of(dy);

    call->scratch_bytes = tables(&from);
    if (dy->_dtype == RG_F16 || dy->_dtype == RG_BF16) {
      call->scratch_bytes += (int64_t)sizeof(float) * rg_meta_count(&call->out[0]);
    }
  }
  return RG_OK;
}

static rg_status back_grad(rg_grad *g)
{
  const rg_pad_back_args *args = g->call->args;
  rg_rule r = rg_rule_of(g);
  rg_tensor *out = NULL;
  rg_status status = r.f.status;

  if (status == RG_OK) {
    rg_pad_args again;

    memset(&again, 0, sizeof(again));
    again.low = args->low;
    again.high = args->high;
    again.mode = args->mode;
    status = rg_run1(&rg_op_pad, (const rg_tensor *const[]){ r.dy }, 1, &again, &out);
  }
  rg_rule_give(&r, 0, rg_f_took(&r.f, status, out));
  return rg_rule_end(&r);
}

static rg_cost back_cost(const rg_call *call)
{
  return rg_cost_of(call, (double)call->in[0]->_count);
}

static const rg_arg pad_back_args[] = { RG_PAD_BACK_ARGS(RG_ARG_ROW, rg_pad_back_args, ) };

const rg_op rg_op_pad_back = {
  .name = "pad_back",
  .doc = "the gradient of pad: added up where each element came from",
  .id = RG_OP_PAD_BACK,
  .amp = RG_AMP_NONE,
  RG_INPUTS(RG_IN("dy", NATIVE, FLOAT)),
  .result = { "dx" },
  RG_ARGS(rg_pad_back_args, pad_back_args),
  .infer = back_infer,
  .grad = back_grad,
  .cost = back_cost,
};
