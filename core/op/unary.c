/* SPDX-License-Identifier: MIT */
/*
** Unary elementwise functions: signatures, type rule, cost and public entries of RG_UNARY_LIST.
** The functions are in core/cpu/vec_unary.h, the kernels in core/cpu/unary.c.
*/
#include "op/list.h"
#include "op/op.h"
#include "op/unary.h"

/* -- Facts ------------------------------------------------------------------------- */

/* clang-format off */
/*
** name, operations an element, mixed-precision class, what the gradient reads (input, result).
** One operation is an addition, multiplication, comparison, division or root; a function evaluated
** by a polynomial counts 10 on every machine, which is near what the polynomials here take.
*/
#define FACTS_LIST(F)              \
  F(NEG,         1, NONE, 0, 0)    \
  F(ABS,         1, NONE, 1, 0)    \
  F(SIGN,        1, NONE, 0, 0)    \
  F(SQUARE,      1, NONE, 1, 0)    \
  F(RELU,        1, NONE, 0, 1)    \
  F(FLOOR,       1, NONE, 0, 0)    \
  F(CEIL,        1, NONE, 0, 0)    \
  F(ROUND,       1, NONE, 0, 0)    \
  F(SQRT,        1, NONE, 0, 1)    \
  F(RSQRT,       2, F32,  0, 1)    \
  F(RECIPROCAL,  1, F32,  0, 1)    \
  F(EXP,        10, F32,  0, 1)    \
  F(LOG,        10, F32,  1, 0)    \
  F(LOG1P,      10, F32,  1, 0)    \
  F(SIN,        10, NONE, 1, 0)    \
  F(COS,        10, NONE, 1, 0)    \
  F(TANH,       10, NONE, 0, 1)    \
  F(ERF,        10, NONE, 1, 0)    \
  F(SIGMOID,    12, NONE, 0, 1)    \
  F(GELU,       14, NONE, 1, 0)    \
  F(SILU,       12, NONE, 1, 0)    \
  F(SOFTPLUS,   22, F32,  1, 0)    \
  F(TRUNC,       1, NONE, 0, 0)    \
  F(EXP2,       10, NONE, 0, 1)    \
  F(EXPM1,      10, F32,  0, 1)    \
  F(LOG2,       10, F32,  1, 0)    \
  F(TAN,        10, F32,  0, 1)    \
  F(ASIN,       10, F32,  1, 0)    \
  F(ACOS,       10, F32,  1, 0)    \
  F(ATAN,       10, NONE, 1, 0)    \
  F(SINH,       10, F32,  1, 0)    \
  F(COSH,       10, F32,  1, 0)    \
  F(ASINH,      10, NONE, 1, 0)    \
  F(ACOSH,      10, NONE, 1, 0)    \
  F(ATANH,      10, NONE, 1, 0)    \
  F(SELU,       15, NONE, 0, 1)    \
  F(MISH,       20, NONE, 1, 0)    \
  F(SOFTSIGN,    3, NONE, 1, 0)    \
  F(HARDSIGMOID, 4, NONE, 1, 0)    \
  F(HARDSWISH,   5, NONE, 1, 0)    \
  F(RELU6,       2, NONE, 0, 1)    \
  F(LOGICAL_NOT, 1, NONE, 0, 0)    \
  F(ISNAN,       1, NONE, 0, 0)    \
  F(ISINF,       1, NONE, 0, 0)    \
  F(ISPOSINF,    1, NONE, 0, 0)    \
  F(ISNEGINF,    1, NONE, 0, 0)    \
  F(ISFINITE,    1, NONE, 0, 0)    \
  F(BITWISE_NOT, 1, NONE, 0, 0)
/* clang-format on */

#define CONSTANTS(NAME, flops, amp, in, out) \
  AMP_##NAME = RG_AMP_##amp, SAVE_IN_##NAME = in, SAVE_OUT_##NAME = out,
enum { FACTS_LIST(CONSTANTS) };

double rg_unary_flops(int32_t id)
{
#define ROW(NAME, flops, amp, in, out) [RG_OP_##NAME - RG_OP_NEG] = flops,
  static const int8_t table[] = { FACTS_LIST(ROW) };
#undef ROW

  return table[id - RG_OP_NEG];
}

/* -- Type --------------------------------------------------------------------------- */

/* EXACT: the type stays; bool has no arithmetic. */
static rg_status infer_exact(rg_call *call)
{
  char text[96];

  if (call->in[0]->_dtype == RG_BOOL) {
    return rg_fail(RG_EDTYPE, "%s: not defined for %s", call->op->name,
                   rg_tensor_text(call->in[0], text, sizeof(text)));
  }
  call->out[0] = rg_meta_of(call->in[0]);
  call->n_out = 1;
  return RG_OK;
}

/* INTEGER: the type stays; floats have no bits to speak of. */
static rg_status infer_integer(rg_call *call)
{
  char text[96];

  if (rg_dtype_is_float(call->in[0]->_dtype)) {
    return rg_fail(RG_EDTYPE, "%s: integers or bool are expected, got %s", call->op->name,
                   rg_tensor_text(call->in[0], text, sizeof(text)));
  }
  call->out[0] = rg_meta_of(call->in[0]);
  call->n_out = 1;
  return RG_OK;
}

/* FLOAT: integers become f32; half types give f32 where autocast says so. */
static rg_status infer_float(rg_call *call)
{
  call->out[0] = rg_meta_of(call->in[0]);
  call->n_out = 1;
  if (!rg_dtype_is_float(call->out[0].dtype)) {
    call->compute = RG_F32;
    call->out[0].dtype = RG_F32;
  } else if (rg_autocast_for(call) >= 0) {
    call->out[0].dtype = rg_autocast_for(call); /* the kernel reads the half type as it is */
  }
  return RG_OK;
}

/* TRUTH: of any type, bool. */
static rg_status infer_truth(rg_call *call)
{
  call->out[0] = rg_meta_of(call->in[0]);
  call->out[0].dtype = RG_BOOL;
  call->n_out = 1;
  return RG_OK;
}

/* -- Cost ----------------------------------------------------------------------------- */

static rg_cost cost(const rg_call *call)
{
  return rg_cost_of(call, rg_unary_flops(call->op->id) * (double)call->in[0]->_count);
}

/* -- Records and entries ---------------------------------------------------------------- */

#define INFER_EXACT   infer_exact
#define INFER_FLOAT   infer_float
#define INFER_TRUTH   infer_truth
#define INFER_INTEGER infer_integer
#define GRAD_EXACT    rg_unary_grad
#define GRAD_FLOAT    rg_unary_grad
#define GRAD_TRUTH    NULL /* results are no numbers */
#define GRAD_INTEGER  NULL
#define RECORD(NAME, lower, help, class)                                             \
  extern const rg_op rg_op_##lower;                                                  \
  const rg_op rg_op_##lower = {                                                      \
    .name = #lower,                                                                  \
    .doc = help,                                                                     \
    .id = RG_OP_##NAME,                                                              \
    .amp = AMP_##NAME,                                                               \
    RG_INPUTS(RG_IN("x", INPUT, ANY)),                                               \
    .result = { "y" },                                                               \
    .method = true,                                                                  \
    .save_in = SAVE_IN_##NAME,                                                       \
    .save_out = SAVE_OUT_##NAME,                                                     \
    .infer = INFER_##class,                                                          \
    .grad = GRAD_##class,                                                            \
    .cost = cost,                                                                    \
  };                                                                                 \
  rg_status rg_##lower(const rg_tensor *x, rg_tensor **out)                          \
  {                                                                                  \
    return rg_run1(&rg_op_##lower, (const rg_tensor *const[]){ x }, 1, NULL, out);   \
  }                                                                                  \
  rg_status rg_##lower##_(rg_tensor *x)                                              \
  {                                                                                  \
    return rg_run_into(&rg_op_##lower, (const rg_tensor *const[]){ x }, 1, NULL, x); \
  }
RG_UNARY_LIST(RECORD)
