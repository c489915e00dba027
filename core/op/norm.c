/* SPDX-License-Identifier: MIT */
/*
** Layer normalisation and its gradients: signatures, shape rules, costs, public entries.  The
** kernels are in core/cpu/norm.c.
**
** Mean and scale of each row are hidden results: the gradient is one pass over dy and x.
*/
#include "op/list.h"
#include "op/norm.h"
#include "op/rule.h"

extern const rg_op rg_op_layer_norm;
extern const rg_op rg_op_layer_norm_back;

int64_t rg_norm_parts(int64_t rows, int32_t device)
{
  const int64_t fewest = 8; /* rows of a part */
  const int64_t most = device == 0 ? RG_NORM_PARTS : RG_NORM_PARTS_GPU;

  return rg_min_i64(most, (rows + fewest - 1) / fewest);
}

static int32_t row_dtype(int32_t dtype)
{
  return dtype == RG_F64 ? RG_F64 : RG_F32;
}

/* Type and shape of what there is one of for each row. */
static rg_meta rows_of(const rg_tensor *x)
{
  rg_meta rows = { .dtype = row_dtype(x->_dtype), .ndim = x->_ndim - 1 };

  for (int32_t i = 0; i < rows.ndim; i++) {
    rows.shape[i] = x->_shape[i];
  }
  return rows;
}

static rg_status check_x(const rg_call *call, int32_t i)
{
  const rg_tensor *x = call->in[i];
  char text[96];

  if (x->_ndim < 1 || x->_shape[x->_ndim - 1] < 1) {
    return rg_fail(RG_ESHAPE, "%s: %s has no last axis to normalise", call->op->name,
                   rg_tensor_text(x, text, sizeof(text)));
  }
  return RG_OK;
}

/* A vector with a number for each element of a row, or none. */
static rg_status check_vector(const rg_call *call, int32_t i, const char *what,
                              const rg_tensor *rows)
{
  const rg_tensor *x = call->in[i];
  int64_t n = rows->_shape[rows->_ndim - 1];
  char text[96];
  char rows_text[96];

  if (x == NULL) {
    return RG_OK;
  }
  if (x->_ndim != 1 || x->_shape[0] != n) {
    return rg_fail(RG_ESHAPE, "%s: the %s is %s, wanted [%lld] for rows of %s", call->op->name,
                   what, rg_tensor_text(x, text, sizeof(text)), (long long)n,
                   rg_tensor_text(rows, rows_text, sizeof(rows_text)));
  }
  return RG_OK;
}

static rg_status infer(rg_call *call)
{
  const rg_layer_norm_args *args = call->args;

  RG_TRY(check_x(call, 0));
  const rg_tensor *x = call->in[0];
  int64_t n = x->_shape[x->_ndim - 1];

  RG_TRY(check_vector(call, 1, "weight", x));
  RG_TRY(check_vector(call, 2, "bias", x));
  if (!(args->eps >= 0 && args->eps < 1e300)) {
    return rg_fail(RG_EARG, "%s: eps is %g; a number from 0 is wanted", call->op->name, args->eps);
  }
  call->out[0] = rg_meta_of(x);
  if (rg_autocast_for(call) >= 0) {
    call->out[0].dtype = rg_autocast_for(call); /* the kernel reads half types as they are */
  }
  call->out[1] = rows_of(x);
  call->out[2] = call->out[1];
  call->n_out = 3;
  if (call->device == RG_CPU) {
    call->scratch_bytes = 2 * n * rg_dtype_bytes(row_dtype(x->_dtype)); /* weight and bias */
  }
  return RG_OK;
}

static rg_status grad(rg_grad *g)
{
  const rg_layer_norm_args *args = g->call->args;
  rg_rule r = rg_rule_of(g);
  rg_tensor *out[3] = { NULL, NULL, NULL };
  rg_status status = r.f.status;

  if (status == RG_OK) {
    rg_rule_into(&r, 1, &rg_op_layer_norm_back, 1);
    rg_rule_into(&r, 2, &rg_op_layer_norm_back, 2);
    status = rg_layer_norm_back(r.dy, rg_rule_in(&r, 0), rg_rule_in(&r, 1), g->out[1], g->out[2],
                                args->rms, &out[0], &out[1], &out[2]);
  }
  for (int32_t i = 0; i < 3; i++) {
    rg_value d = rg_f_took(&r.f, status, out[i]);

    if (g->needs[i]) {
      rg_rule_give(&r, i, d);
    }
  }
  return rg_rule_end(&r);
}

/* Of each element: its part of the mean, less the mean, its square, its part of the variance, and
** less the mean times the scale; by the root of the mean square there is no mean.  Then the weight
** and the bias, where they are. */
static rg_cost cost(const rg_call *call)
{
  const rg_layer_norm_args *args = call->args;
  double each = args->rms != 0 ? 3 : 6;

  each += (call->in[1] != NULL) + (call->in[2] != NULL);
  return rg_cost_of(call, each * (double)call->in[0]->_count);
}

static const rg_arg layer_norm_args[] = { RG_LAYER_NORM_ARGS(RG_ARG_ROW, rg_layer_norm_args, ) };

const rg_op rg_op_layer_norm = {
  .name = "layer_norm",
  .doc = "rows of the last axis with mean 0 and variance 1",
  .id = RG_OP_LAYER_NORM,
  .amp = RG_AMP_F32,
  RG_INPUTS(RG_IN("x", NATIVE, FLOAT), RG_OPTIONAL("weight", NATIVE, FLOAT),
            RG_OPTIONAL("bias", NATIVE, FLOAT)),
  .result = { "y", "mean", "scale" },
  .save_in = 3,
  .n_hidden = 2,
  RG_ARGS(rg_layer_norm_args, layer_norm_args),
  .infer = infer,
  .grad = grad,
  .cost = cost,
};

rg_status rg_layer_norm(const rg_tensor *x, const rg_tensor *weight, const rg_tensor *bias,
                        double eps, int32_t rms, rg_tensor **out)
{
  return rg_run1(&rg_op_layer_norm, (const rg_tensor *const[]){ x, weight, bias }, 3,
                 &(rg_layer_norm_args){ .eps = eps, .rms = rms != 0 }, out);
}

/* -- Back ----------------------------------------------------------------------------------- */

static bool is_rows(const rg_tensor *x, const rg_meta *rows)
{
  return x->_dtype == rows->dtype && rg_tensor_shaped(x, rows->shape, rows->ndim);
}

static rg_status back_infer(rg_call *call)
{
  const rg_tensor *dy = call->in[RG_LNB_DY];
  const rg_tensor *x = call->in[RG_LNB_X];
  char a[96];
  char b[96];

  RG_TRY(check_x(call, RG_LNB_X));
  int64_t n = x->_shape[x->_ndim - 1];
  rg_meta rows = rows_of(x);

  if (row_dtype(dy->_dtype) != rows.dtype || !rg_tensor_shaped(dy, x->_shape, x->_ndim)) {
    return rg_fail(RG_ESHAPE, "%s: the gradient is %s, and x is %s", call->op->name,
                   rg_tensor_text(dy, a, sizeof(a)), rg_tensor_text(x, b, sizeof(b)));
  }
  if (!is_rows(call->in[RG_LNB_MEAN], &rows) || !is_rows(call->in[RG_LNB_SCALE], &rows)) {
    return rg_fail(RG_ESHAPE, "%s: mean is %s and scale %s; wanted one %s for each row",
                   call->op->name, rg_tensor_text(call->in[RG_LNB_MEAN], a, sizeof(a)),
                   rg_tensor_text(call->in[RG_LNB_SCALE], b, sizeof(b)), rg_dtype_name(rows.dtype));
  }
  RG_TRY(check_vector(call, RG_LNB_WEIGHT, "weight", x));
  call->out[0] = rg_meta_of(x);
  call->out[1] = (rg_meta){ .dtype = rows.dtype, .ndim = 1, .shape = { n } };
  call->out[2] = call->out[1];
  call->n_out = 3;
  /* the weight, and sums for dw and db of each part */
  call->scratch_bytes =
      (1 + 2 * rg_norm_parts(rg_meta_count(&rows), x->_device)) * n * rg_dtype_bytes(rows.dtype);
  return RG_OK;
}

/* Of each element: what it was made to (2, without a mean 1), the sum for db and the product and
** the sum for dw, the weight, the sums of what comes to the row (1, which a mean has) and of it
** times what it was made to (2), and dx = (dy - mean - y mean(dy y)) scale (4, or 3). */
static rg_cost back_cost(const rg_call *call)
{
  const rg_layer_norm_args *args = call->args;
  double each = args->rms != 0 ? 9 : 12;

  each += call->in[RG_LNB_WEIGHT] != NULL;
  return rg_cost_of(call, each * (double)call->in[RG_LNB_X]->_count);
}

const rg_op rg_op_layer_norm_back = {
  .name = "layer_norm_back",
  .doc = "the gradients of layer_norm",
  .id = RG_OP_LAYER_NORM_BACK,
  .amp = RG_AMP_NONE,
  RG_INPUTS(RG_IN("dy", NATIVE, FLOAT), RG_IN("x", NATIVE, FLOAT), RG_IN("mean", NATIVE, ANY),
            RG_IN("scale", NATIVE, ANY), RG_OPTIONAL("weight", NATIVE, FLOAT)),
  .result = { "dx", "dw", "db" },
  RG_ARGS(rg_layer_norm_args, layer_norm_args),
  .infer = back_infer,
  .cost = back_cost,
};

rg_status rg_layer_norm_back(const rg_tensor *dy, const rg_tensor *x, const rg_tensor *weight,
                             const rg_tensor *mean, const rg_tensor *scale, int32_t rms,
                             rg_tensor **dx, rg_tensor **dw, rg_tensor **db)
{
  rg_call call = { .op = &rg_op_layer_norm_back,
                   .in = (const rg_tensor *const[]){ dy, x, mean, scale, weight },
                   .n_in = 5,
                   .args = &(rg_layer_norm_args){ .rms = rms != 0 } };
  rg_tensor *out[3] = { NULL, NULL, NULL };

  RG_TRY(rg_run(&call, out));
  *dx = out[0];
  *dw = out[1];
  *db = out[2];
  return RG_OK;
}
