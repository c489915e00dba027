/* SPDX-License-Identifier: MIT */
/*
** Fixed signs made from a seed, as bits, and bits as numbers: what a gradient of fixed signs
** multiplies by.  The kernels are core/cpu/signs.c and core/cpu/expand.c.
*/
#include "op/signs.h"
#include "op/list.h"

extern const rg_op rg_op_expand_signs;
extern const rg_op rg_op_sign_bits;

/* -- From a seed ------------------------------------------------------------------------------- */

rg_status rg_check_seed(const rg_call *call, int32_t i)
{
  const rg_tensor *seed = call->in[i];
  char text[96];

  if (seed->_dtype != RG_I64) {
    return rg_fail(RG_EDTYPE, "%s: the seed is %s, wanted i64", call->op->name,
                   rg_dtype_name(seed->_dtype));
  }
  if (seed->_count != 1) {
    return rg_fail(RG_ESHAPE, "%s: the seed is one number, not %s", call->op->name,
                   rg_tensor_text(seed, text, sizeof(text)));
  }
  return RG_OK;
}

rg_status rg_check_signs(const rg_call *call, int64_t rows, int64_t cols)
{
  if (rows < 0 || cols < 0 || rows > UINT32_MAX || cols > UINT32_MAX) {
    return rg_fail(RG_EARG, "%s: there are no signs of a matrix [%lld x %lld]", call->op->name,
                   (long long)rows, (long long)cols);
  }
  return RG_OK;
}

static rg_status sign_infer(rg_call *call)
{
  const rg_sign_args *args = call->args;

  RG_TRY(rg_check_seed(call, 0));
  RG_TRY(rg_check_signs(call, args->rows, args->cols));
  if (args->matrix < 1) {
    return rg_fail(RG_EARG, "%s: matrices are counted from 1, not %d", call->op->name,
                   args->matrix);
  }
  call->out[0] =
      (rg_meta){ .dtype = RG_U8, .ndim = 2, .shape = { args->rows, (args->cols + 7) / 8 } };
  call->n_out = 1;
  return RG_OK;
}

/* A Philox block of 16 bytes takes 100 operations. */
static rg_cost sign_cost(const rg_call *call)
{
  return rg_cost_of(call, 100.0 / 16.0 * (double)rg_meta_count(&call->out[0]));
}

static const rg_arg sign_args[] = { RG_SIGN_ARGS(RG_ARG_ROW, rg_sign_args, ) };
static const rg_arg expand_args[] = { RG_EXPAND_ARGS(RG_ARG_ROW, rg_expand_args, ) };

const rg_op rg_op_sign_bits = {
  .name = "sign_bits",
  .doc = "random signs as bits, a function of seed and place",
  .id = RG_OP_SIGN_BITS,
  .amp = RG_AMP_NONE,
  RG_INPUTS(RG_IN("seed", BITS, ANY)),
  .result = { "bits" },
  RG_ARGS(rg_sign_args, sign_args),
  .infer = sign_infer,
  .cost = sign_cost,
};

rg_status rg_sign_bits(const rg_tensor *seed, int32_t matrix, int64_t rows, int64_t cols,
                       rg_tensor **out)
{
  return rg_run1(&rg_op_sign_bits, (const rg_tensor *const[]){ seed }, 1,
                 &(rg_sign_args){ .rows = rows, .cols = cols, .matrix = matrix }, out);
}

/* -- As numbers -------------------------------------------------------------------------------- */

static rg_status expand_infer(rg_call *call)
{
  const rg_expand_args *args = call->args;
  char text[96];

  const rg_tensor *bits = call->in[0];

  if (bits->_dtype != RG_U8 || bits->_ndim != 2 || bits->_shape[1] != (args->cols + 7) / 8) {
    return rg_fail(RG_ESHAPE, "%s: %s are not the bits of %lld columns", call->op->name,
                   rg_tensor_text(bits, text, sizeof(text)), (long long)args->cols);
  }
  RG_TRY(rg_check_computes(call->op, args->dtype));
  if (!rg_dtype_is_float(args->dtype)) {
    return rg_fail(RG_EDTYPE, "%s: signs are of a float type, not %s", call->op->name,
                   rg_dtype_name(args->dtype));
  }
  call->out[0] =
      (rg_meta){ .dtype = args->dtype, .ndim = 2, .shape = { bits->_shape[0], args->cols } };
  call->n_out = 1;
  return RG_OK;
}

static rg_cost expand_cost(const rg_call *call)
{
  return rg_cost_of(call, (double)rg_meta_count(&call->out[0]));
}

const rg_op rg_op_expand_signs = {
  .name = "expand_signs",
  .doc = "+sign for each bit that is set, -sign for the others",
  .id = RG_OP_EXPAND_SIGNS,
  .amp = RG_AMP_NONE,
  RG_INPUTS(RG_IN("bits", BITS, ANY)),
  .result = { "x" },
  RG_ARGS(rg_expand_args, expand_args),
  .infer = expand_infer,
  .cost = expand_cost,
};

rg_status rg_expand_signs(const rg_tensor *bits, int64_t cols, double sign, int32_t dtype,
                          rg_tensor **out)
{
  return rg_run1(&rg_op_expand_signs, (const rg_tensor *const[]){ bits }, 1,
                 &(rg_expand_args){ .cols = cols, .sign = sign, .dtype = dtype }, out);
}
